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

_TENSOR_CLASS = re.compile(r"(?:Row|Column|QKV\w{0,40})Parallel|VocabParallel|ParallelLMHead")
_EXPERT_CLASS = re.compile(r"MoE|Moe|Expert|TokenDispatcher")

WITHIN = {
    "gradients": "AccumulateGrad$",
    "FSDP": r"^(?:FSDP::|FullyShardedDataParallel\.)",
    "DDP": r"^DistributedDataParallel\.",
}
"""What encloses a collective's launch and shows its purpose: gradient accumulation (DDP's and DeepSpeed's hooks),
FSDP's ranges, DDP's forward, which broadcasts buffers."""
_DOES = {
    "gradients": ("all_reduce", "reduce_scatter", "reduce"),
    "FSDP": ("all_gather", "reduce_scatter", "all_reduce"),
    "DDP": ("broadcast",),
}
"""The operations for which that holds: in DDP's forward any of the model's may run."""


class Parallelism(NamedTuple):
    """Kind of parallelism (data, tensor, pipeline, expert, context, or several joined by +) and the rule that found it:
    description, gradients, FSDP, DDP, module class or neighbours. Both None if unknown."""

    kind: str | None
    rule: str | None


@lru_cache(maxsize=4096)
def described(description: str) -> str | None:
    """The parallelism that a process group's description names: Megatron's, DeviceMesh's and torchtitan's names, and
    the plain words; None for none.

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
        chain: whether its group sends and receives like pipeline stages (`pipeline.chains`).
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
