"""What a collective moves: its operation by names, its size by the arguments or else the caller's inputs."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import NamedTuple

from stepscope.formats.communication import listed_numbers

_OPERATIONS = (
    # letters in the name, without its other characters, in the order in which they are tried; the operation
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("barrier", "barrier"),
    ("crossdevicereduce", "all_reduce"),
    ("deepepdispatch", "all_to_all"),
    ("deepepcombine", "all_to_all"),
    ("reduce", "reduce"),
    ("coalesced", "coalesced"),
    ("irecv", "recv"),
    ("recv", "recv"),
    ("isend", "send"),
    ("send", "send"),
)
MEANING = [*dict.fromkeys(operation for _, operation in _OPERATIONS)]
_ELEMENT_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4,
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8, "complexfloat": 8,
    "complexdouble": 16, "complexhalf": 4,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2, "uint16": 2,
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1,
    "float8e4m3fn": 1, "float8e5m2": 1, "float8e4m3fnuz": 1, "float8e5m2fnuz": 1,
    "float8e8m0fnu": 1,
}  # fmt: skip
_OF_CPP = {
    "float": "Float", "double": "Double", "int": "Int", "long": "Long", "long int": "Long",
    "long long": "Long", "short": "Short", "short int": "Short", "signed char": "Char", "char": "Char",
    "unsigned char": "Byte", "bool": "Bool", "c10::Half": "Half", "c10::BFloat16": "BFloat16",
    "c10::Float8_e4m3fn": "Float8_e4m3fn", "c10::Float8_e5m2": "Float8_e5m2",
    "c10::Float8_e4m3fnuz": "Float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "Float8_e5m2fnuz",
    "c10::complex<float>": "ComplexFloat", "c10::complex<double>": "ComplexDouble",
}  # fmt: skip
"""Types of recorded inputs, and their spellings in arguments of collectives."""
_FULL_OUTPUT = ("all_gather", "gather")
_FULL_INPUT = ("reduce_scatter", "all_to_all", "scatter")
_IN_PLACE = ("all_reduce", "broadcast", "reduce")
_OUTPUT_FIRST = re.compile(r"^c10d::_?(?:allgather|all_gather|reduce_scatter|alltoall|gather_|scatter_)")
"""Operators whose first argument is the output and whose second is the input."""


@lru_cache(1 << 12)
def operation_of(name: str) -> str | None:
    """The operation that a name states: `ncclDevKernel_AllReduce_Sum_f32_RING_LL` → all_reduce.

    None if the name states none (`record_param_comms`, `wait`).
    """
    base_name = name.replace("(anonymous namespace)::", "").split("(")[0].lower()
    letters = re.sub(r"[^a-z]", "", base_name)
    for part, operation in _OPERATIONS:
        if part in letters:
            return operation
    return None


_MAX_ELEMENTS = 1 << 56
"""More elements in one message are damage."""


def message_bytes(
    operation: str | None, dtype: str | None, elements_in: int | None, elements_out: int | None
) -> int | None:
    """The size of a collective as nccl-tests counts it (bytes), None if unknown.

    That is the entire output of an all-gather, the entire input of a reduce-scatter or all-to-all, and the buffer of
    a rank for everything else.
    """
    size = _element_bytes(dtype or "")
    if size is None:
        return None
    if operation in _FULL_OUTPUT:
        elements = elements_out
    elif operation in _FULL_INPUT:
        elements = elements_in
    else:
        elements = max((n for n in (elements_in, elements_out) if n is not None), default=None)
    return size * elements if elements is not None and 0 <= elements < _MAX_ELEMENTS else None


@lru_cache(1 << 8)
def _element_bytes(dtype: str) -> int | None:
    return _ELEMENT_BYTES.get(re.sub(r"[^a-z0-9]", "", dtype.lower()))


def full_bytes(operation: str | None, part: int | None, ranks: int | None) -> int | None:
    """The size of a collective as nccl-tests counts it (bytes), from NCCL's `count` in bytes.

    `count` is one rank's part for an all-gather, a reduce-scatter and others with full inputs or outputs.
    """
    if part is None or operation not in (*_FULL_OUTPUT, *_FULL_INPUT):
        return part
    return part * ranks if ranks else None


class Message(NamedTuple):
    """Element type, the elements that a rank sends and receives, and, as JSON lists, how many of them go to and come
    from each rank of the group; None for each that is unknown.
    """

    dtype: str | None = None
    elements_in: int | None = None
    elements_out: int | None = None
    sent: str | None = None
    received: str | None = None


def message_of_inputs(name: str, dims: str | None, types: str | None, values: str | None = None) -> Message:
    """What the recorded inputs of an operator or range say about its message.

    Args:
        name: its name. A range (`nccl:all_reduce`) lists the tensors that the rank sends, an operator
            (`c10d::allreduce_`) its arguments.
        dims, types, values: its inputs, as in `operator_input`.

    >>> message_of_inputs("c10d::_allgather_base_", "[[8, 10], [1, 10], []]", '["float", "float", ""]')
    Message(dtype='Float', elements_in=10, elements_out=80, sent=None, received=None)
    """
    shapes, words = _listed(dims), _listed(types)
    counts = [_elements(shape, word) for shape, word in zip(shapes, words, strict=False)]
    dtypes = {_OF_CPP[word] for word in words if isinstance(word, str) and word in _OF_CPP}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if not counts or not any(counts):
        return Message()
    if "::" not in name and name != "record_param_comms":
        return Message(dtype, sum(count for count in counts if count))
    if _OUTPUT_FIRST.match(name):
        given = counts[1] if len(counts) > 1 else None
        received, sent = None, None
        if name == "c10d::alltoall_base_":
            received, sent = ([*_listed(values), *[None] * 5])[3:5]
        return Message(dtype, given, counts[0], listed_numbers(sent), listed_numbers(received))
    return Message(dtype, next(count for count in counts if count))


def completed(message: Message, operation: str | None, group_size: int | None) -> Message:
    """The message with what follows from the operation and the number of ranks."""
    dtype, given, got, *splits = message
    if operation in _IN_PLACE:
        elements = given if given is not None else got
        return Message(dtype, elements, elements, *splits)
    if group_size and operation == "all_gather" and given is not None and got is None:
        got = given * group_size
    if group_size and operation == "reduce_scatter" and given is not None and got is None:
        got = given // group_size
    return Message(dtype, given, got, *splits)


def _listed(text: str | None) -> list[object]:
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _elements(shape: object, word: object) -> int | None:
    """Elements of an argument: a tensor, or all tensors of a list; None for others."""
    if not isinstance(shape, list):
        return None
    if shape and all(isinstance(part, list) for part in shape):
        several = [_elements(part, "float") for part in shape]
        return sum(part for part in several if part is not None) if None not in several else None
    if not all(isinstance(part, int) and 0 <= part < _MAX_ELEMENTS for part in shape):
        return None
    if not shape and word not in _OF_CPP:
        return None  # a number, a text, or a list whose tensors the recorder omitted
    return math.prod(shape)
