"""Collectives: the bytes in a rank's memory and on its link.

Message sizes S follow nccl-tests: a rank's buffer for all-reduce, broadcast, reduce and send or
receive, the entire output for all-gather, the entire input for reduce-scatter, the entire send buffer for
all-to-all. Over n ranks the busiest link carries S·2(n - 1)/n for an all-reduce, S·(n - 1)/n for
all-gather, reduce-scatter and all-to-all, and S for the rest (nccl-tests, PERFORMANCE.md). Sums are
counted as the share of each rank: (n - 1)/n of the elements of an all-reduce or reduce-scatter.
"""

from __future__ import annotations

from fractions import Fraction

from stepscope.costs.call import Call
from stepscope.costs.dtype import is_float, size_of
from stepscope.costs.work import Conventions, Models, Work

MODELS = Models()

_SPELLINGS = {
    "all_reduce": "allreduce allreducecoalesced multimemallreduce",
    "all_gather": "allgather allgatherbase allgatherintotensor allgatherintotensorcoalesced",
    "reduce_scatter": "reducescatter reducescatterbase reducescattertensor reducescattertensorcoalesced",
    "all_to_all": "alltoall alltoallv alltoallbase alltoallsingle",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "send_recv": "send recv sendrecv",
    "gather": "gather",
    "scatter": "scatter",
}
_OPERATIONS = {word: name for name, words in _SPELLINGS.items() for word in words.split()}


def collective_name(name: str) -> str | None:
    """Name the collective for an operator or a recorded collective name, or None.

    >>> collective_name("c10d::_allgather_base_"), collective_name("nccl:all_to_all")
    ('all_gather', 'all_to_all')
    """
    word = name.rsplit(":", 1)[-1].lower().replace("_", "").replace("-", "")
    return _OPERATIONS.get(word)


def bus_factor(operation: str | None, ranks: int | None) -> Fraction | None:
    """Share of a message that its busiest link carries (nccl-tests: bus over algorithm bandwidth); None if undefined or
    unknown.

    >>> bus_factor("all_reduce", 4), bus_factor("broadcast", None), bus_factor("barrier", 2)
    (Fraction(3, 2), Fraction(1, 1), None)
    """
    if operation in ("broadcast", "reduce", "send_recv", "send", "recv"):
        return Fraction(1)
    times = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
    if operation not in times or not ranks:
        return None
    return Fraction(times[operation] * (ranks - 1), ranks)


def collective(
    operation: str, dtype: str | None, elements_in: int, elements_out: int, group_size: int | None
) -> Work | None:
    """Work of one collective on one rank, by nccl-tests' bus factors; None for an unknown operation."""
    name = operation if operation in _SPELLINGS else collective_name(operation)
    if name is None or elements_in < 0 or elements_out < 0:
        return None
    size = size_of(dtype)
    n = group_size if group_size is not None and group_size > 0 else None
    message = elements_in
    if name == "all_gather":
        message = elements_out
    elif name in ("broadcast", "send_recv"):
        message = max(elements_in, elements_out)
    factor = bus_factor(name, n)
    link = None if size is None or factor is None else int(message * size * factor)
    flops = 0
    if name in ("all_reduce", "reduce_scatter", "reduce") and n is not None and is_float(dtype):
        flops = message * (n - 1) // n
    read, written = (None if size is None else elements * size for elements in (elements_in, elements_out))
    notes = () if n is not None else ("size of the group not recorded",)
    return Work(f"communication.{name}", flops, read, written, dtype, link_bytes=link, notes=notes)


@MODELS.add(
    "communication.from_operator",
    "c10d::allreduce_ c10d::allreduce_coalesced_ c10d::allgather_ c10d::_allgather_base_ "
    "c10d::allgather_into_tensor_coalesced_ c10d::reduce_scatter_ "
    "c10d::_reduce_scatter_base_ c10d::reduce_scatter_tensor_coalesced_ c10d::alltoall_ "
    "c10d::alltoall_base_ c10d::broadcast_ c10d::reduce_ c10d::send c10d::recv_ "
    "symm_mem::multimem_all_reduce_",
)
def from_operator(call: Call, _: Conventions) -> Work | None:
    """A collective called as an operator, `c10d::allreduce_(tensors, ...)`: bytes of its tensors. Recorders omit the
    group's size here, so the link's bytes and the sums are unknown; `collective` counts them from the arguments of the
    collective itself. If the operator has an output besides its input, the output comes first."""
    message = collective_name(call.name)
    if message is None:
        return None
    first, second = _elements(call, 0), _elements(call, 1)
    if first is None:
        return None
    given, got = (second, first) if second is not None else (first, first)
    return collective(message, _dtype(call, 0), given, got, None)


def _elements(call: Call, position: int) -> int | None:
    tensor = call.tensor(position)
    if tensor is not None:
        return tensor.elements
    tensors = call.tensors(position)
    return None if tensors is None else sum(item.elements for item in tensors)


def _dtype(call: Call, position: int) -> str | None:
    tensor = call.tensor(position)
    if tensor is not None:
        return tensor.dtype
    tensors = call.tensors(position)
    return tensors[0].dtype if tensors else None
