"""Which kernels and ranges communicate, by their names: through which library, and whether a kernel multiplies too.

This is the only place that distinguishes kernels that communicate from those that compute; the kind of a device event,
the class of its work and the library of a collective all come from here.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

from stepscope.base.patterns import lazily


class Communicating(NamedTuple):
    """A kernel that exchanges data with other ranks.

    Args:
        library: nccl, rccl, xccl, hccl, nvshmem, msccl, symmetric_memory (over memory that ranks map
            into each other: `multimem`, torch's one- and two-shot kernels) or custom (a framework's own:
            vLLM's and SGLang's `cross_device_reduce`, TensorRT-LLM's, DeepEP's, ...).
        fused: whether it multiplies matrices and meanwhile exchanges the operands or the result. Such a kernel
            computes; which part of its time is communication is not recorded.
    """

    library: str
    fused: bool


_LONGEST_NAME = 8192
_READS_RESULTS = lazily(r"triton_(?:poi|per|red|for|tem|unk|mm)_?fused")
"""Inductor names a kernel after the operators whose work it does or whose results it reads, waits for a
collective among them (`triton_poi_fused_add_all_reduce_wait_tensor_0`). It communicates in none."""
_BRACKETS = lazily(r"([<>])")
_EXCHANGE = (
    r"(?<![A-Za-z])(?:[Aa]ll_?[Rr]educe|[Aa]ll_?[Gg]ather|[Rr]educe_?[Ss]catter|[Aa]ll_?[Tt]o_?[Aa]ll|a2a)|"
    r"(?<=[a-z0-9])(?:All[Rr]educe|All[Gg]ather|Reduce[Ss]catter|All[Tt]o[Aa]ll|A2A)"
)
_WITHIN_A_DEVICE = lazily(r"(?i)(?:warp|block|thread|wave|lane)_?all_?reduce")
"""Names of reductions over the threads of one device."""
_PRODUCT = r"(?i:gemm|matmul|(?<![a-z])mm(?![a-z]))"
_FUSED = lazily(
    rf"^(?=.*?{_PRODUCT}).*?(?:{_EXCHANGE})|"
    r"(?i:gemm_?(?:rs|ar)(?![a-z])|(?<![a-z])ag_?gemm|mega_?moe)|bytedance::flux"
)
"""A product and an exchange in one name; Flux; DeepGEMM's mixture of experts in one kernel."""
_WAITS_FOR_PARTS = "PersistentAsyncInputScheduler"
"""CUTLASS's products in torch's native fused all-gather and product; parts of their operand arrive meanwhile."""

_LIBRARIES = tuple(
    (library, lazily(pattern))
    for library, pattern in (
        ("rccl", r"(?i)^rccl|rcclDev"),
        ("nccl", r"^(?:void )?(?:nccl|NCCL)|ncclDev|ncclKernel|ncclSym|"
                 r"^(?:void )?(?:AllReduce|ReduceScatter|AllGather)Kernel(?:TwoMove)?<"),
        ("hccl", r"(?i)^hccl|^hcom_|hccl::"),
        ("xccl", r"(?i)^xccl|oneccl"),
        ("nvshmem", r"(?i)nvshmem"),
        ("msccl", r"(?i)msccl"),
        (
            "symmetric_memory",
            r"multimem|symmetric_memory::|(?<![a-z_])(?:one|two)_shot_all_reduce_kernel|"
            r"(?<![a-z_])(?:one|two)_shot_reduce_scatter|allToAllV|exchangeSplitAndOffset",
        ),
        (
            "custom",
            r"(?i)cross_device_(?:reduce|store|load)|quick_?reduce::|quick_?all_?reduce|lamport|"
            r"userbuffers_|deep_ep::|pplx|allreduce_prototype|(?:one|two)_?shot_?all_?reduce|"
            r"moe_?a2a|MoeDistribute",
        ),
    )
)  # fmt: skip
_EXCHANGES = lazily(_EXCHANGE)


@lru_cache(maxsize=16_384)
def communicating(kernel: str) -> Communicating | None:
    """The communication that a kernel's name shows; None for one that exchanges nothing.

    >>> communicating("void vllm::cross_device_reduce_2stage<__half, 8>(RankData*)")
    Communicating(library='custom', fused=False)
    """
    name = kernel[:_LONGEST_NAME]
    if _READS_RESULTS.match(name):
        return None
    bare_name = _without_templates(name)
    fused = _FUSED.search(bare_name) is not None or _WAITS_FOR_PARTS in name
    for library, pattern in _LIBRARIES:
        if pattern.search(name if library == "nccl" else bare_name):
            return Communicating(library, fused)
    if fused or (_EXCHANGES.search(bare_name) and not _WITHIN_A_DEVICE.search(bare_name)):
        return Communicating("custom", fused)
    return None


def _without_templates(kernel: str) -> str:
    """A kernel's name without its template arguments, which may name anything."""
    name = kernel.replace("(anonymous namespace)::", "")
    pieces: list[str] = []
    opened: list[int] = []
    for piece in _BRACKETS.split(name):
        if piece == ">" and opened:
            del pieces[opened.pop() :]
            continue
        if piece == "<":
            opened.append(len(pieces))
        pieces.append(piece)
    return "".join(pieces).partition("(")[0]


_HOST_LIBRARIES = lazily(r"(gloo|mpi|ucc):|(MPI)_")
ON_HOST = r"^(?:(?:gloo|mpi|ucc):|MPI_)"
"""Ranges of libraries whose collectives run on the host; other libraries' calls only enqueue a kernel."""


def host_library(name: str) -> str | None:
    """The library of a collective that runs on the host, by the name of its range; None for others.

    >>> host_library("gloo:all_reduce"), host_library("MPI_Bcast"), host_library("nccl:all_reduce")
    ('gloo', 'mpi', None)
    """
    match = _HOST_LIBRARIES.match(name)
    return (match[1] or match[2]).lower() if match else None


def listed_numbers(value: object) -> str | None:
    """A list of integers as JSON, from a list or a text; None for anything else: recorders cut long lists short.

    >>> listed_numbers("[0, 1]"), listed_numbers([3]), listed_numbers("[0, 1, ..., 511]")
    ('[0, 1]', '[3]', None)
    """
    is_short = isinstance(value, str) and len(value) < _SHORT
    return _of_short(value) if is_short else _listed(value)


_SHORT = 1 << 16
"""Texts up to this many letters are cached: all collectives of a group state the same."""


def _listed(value: object) -> str | None:
    for _ in range(2):  # some write the text of a text
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
    if not isinstance(value, list) or not {int}.issuperset(map(type, value)):
        return None
    return json.dumps(value)


_of_short = lru_cache(64)(_listed)
