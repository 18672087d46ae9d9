"""Finds which kind of parallelism a collective serves, as far as the recording shows it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_WORDS = {
    "data": "dp data ddp fsdp hsdp efsdp edp replicate dp_replicate dp_shard zero distributed optimizer",
    "tensor": "tp tensor etp",
    "pipeline": "pp pipeline pipe embedding",
    "expert": "ep expert moe",
    "context": "cp context sequence ulysses",
}
_MEANING = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_SHARDED = "dp_shard_(?:mod|in)_ep"
"""torchtitan: the ranks over which parameters are sharded, divided by expert parallelism."""
_ORDER = tuple(_WORDS)

_TENSOR_CLASS = re.compile(r"(?:Row|Column|QKV\w*)Parallel|VocabParallel|ParallelLMHead")
_EXPERT_CLASS = re.compile(r"MoE|Moe|Expert|TokenDispatcher")

WITHIN = {
    "gradients": "AccumulateGrad$",
    "FSDP": r"^(?:FSDP::|FullyShardedDataParallel\.)",
    "DDP": r"^DistributedDataParallel\.",
}
"""What encloses a collective's launch and shows its purpose, with the names of the ranges and operators:
the accumulation of a gradient, whose hooks reduce it (DDP's, DeepSpeed's), FSDP's own ranges, and DDP's
forward, which broadcasts buffers."""
_DOES = {
    "gradients": ("all_reduce", "reduce_scatter", "reduce"),
    "FSDP": ("all_gather", "reduce_scatter", "all_reduce"),
    "DDP": ("broadcast",),
}
"""The operations for which that holds: in DDP's forward any of the model's may run."""


class Parallelism(NamedTuple):
    """A kind of parallelism and the rule that found it; both None if unknown.

    `kind` is data, tensor, pipeline, expert or context, or several joined by +. `rule` is description
    (of the process group), gradients, FSDP, DDP, module class or neighbours.
    """

    kind: str | None
    rule: str | None


@lru_cache(maxsize=4096)
def described(description: str) -> str | None:
    """The parallelism that the description of a process group names; None if it names none.

    It knows the names of Megatron (`TENSOR_MODEL_PARALLEL_GROUP`), of DeviceMesh and of torchtitan's
    meshes (`mesh_dp_shard_cp`), and the plain words for the kinds. Data or tensor parallelism of experts
    counts as data or tensor.

    >>> described("EXPERT_DATA_PARALLEL_GROUP"), described("mesh_dp_shard_cp"), described("default_pg")
    ('data', 'data+context', None)
    """
    text = re.sub(r"([a-z])([A-Z])", r"\1_\2", description[:256]).lower()
    if re.search(_SHARDED, text):
        return "data"
    words = re.findall("[a-z]+", text)
    kinds = {_MEANING[word] for word in words if word in _MEANING}
    if not kinds and "model" in words and "parallel" in words:
        kinds = {"tensor", "pipeline"}  # the ranks that together hold the model, in Megatron
    if "expert" in words and len(kinds) > 1 and "model" not in words:
        kinds.discard("expert")
    return "+".join(kind for kind in _ORDER if kind in kinds) or None


def parallelism(
    description: str | None, within: str | None, operation: str | None, module_class: str | None, *, chain: bool = False
) -> Parallelism:
    """Finds what a collective serves, by its group's description, else by where it was launched.

    Args:
        within: a name of `WITHIN`.
        module_class: class of the module that it was launched in.
        chain: whether ranks of its group send and receive like pipeline stages (`pipeline.chains`).
    """
    named = described(description) if description else None
    if named is not None:
        return Parallelism(named, "description")
    if chain and operation in ("send", "recv"):
        return Parallelism("pipeline", "neighbours")
    if within is not None and operation in _DOES[within]:
        return Parallelism("data", within)
    if module_class and operation == "all_to_all" and _EXPERT_CLASS.search(module_class):
        return Parallelism("expert", "module class")
    if module_class and _TENSOR_CLASS.search(module_class):
        return Parallelism("tensor", "module class")
    return Parallelism(None, None)
