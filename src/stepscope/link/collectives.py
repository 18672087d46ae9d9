"""Communication kernels with their arguments.

Newer recordings repeat the arguments on the kernel itself. Where they do not, they are those of the
host events that enclose its launch (`record_param_comms`, `nccl:all_reduce`, `c10d::allreduce_`);
where these state none either, the operation is told from names.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.link.columns import assembled, integers, small_numbers, words
from stepscope.link.device import COMMUNICATION as COMMUNICATES
from stepscope.link.device import Device
from stepscope.link.host import COMMUNICATION, Host
from stepscope.schema.tables import TABLES

Int32s = NDArray[np.int32]

_OPERATIONS = (
    # what the name holds once all but letters is gone, in order of trial; the operation
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("barrier", "barrier"),
    ("crossdevicereduce", "all_reduce"),
    ("reduce", "reduce"),
    ("coalesced", "coalesced"),
    ("irecv", "recv"),
    ("recv", "recv"),
    ("isend", "send"),
    ("send", "send"),
)
_MEANING = [*dict.fromkeys(operation for _, operation in _OPERATIONS)]
_ELEMENT_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4,
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8, "complexfloat": 8,
    "complexdouble": 16, "complexhalf": 4,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2, "uint16": 2,
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1,
    "float8e4m3fn": 1, "float8e5m2": 1, "float8e4m3fnuz": 1, "float8e5m2fnuz": 1,
    "float8e8m0fnu": 1,
}  # fmt: skip
_FULL_OUTPUT = ("all_gather", "gather")
_FULL_INPUT = ("reduce_scatter", "all_to_all", "scatter")


def operation_of(name: str) -> str | None:
    """The operation that a name speaks of: `ncclDevKernel_AllReduce_Sum_f32_RING_LL` → all_reduce.

    None where the name says nothing of it (`record_param_comms`, `wait`).
    """
    letters = re.sub(r"[^a-z]", "", name.split("(")[0].lower())
    for part, operation in _OPERATIONS:
        if part in letters:
            return operation
    return None


_MOST_ELEMENTS = 1 << 56
"""More in one message is damage."""


def message_bytes(
    operation: str | None, dtype: str | None, elements_in: int | None, elements_out: int | None
) -> int | None:
    """The size of a collective as nccl-tests counts it (bytes), None where it is not known.

    That is the whole output of an all-gather, the whole input of a reduce-scatter or all-to-all, and
    the buffer of a rank for everything else.
    """
    size = _ELEMENT_BYTES.get(re.sub(r"[^a-z0-9]", "", (dtype or "").lower()))
    if size is None:
        return None
    if operation in _FULL_OUTPUT:
        elements = elements_out
    elif operation in _FULL_INPUT:
        elements = elements_in
    else:
        elements = max((n for n in (elements_in, elements_out) if n is not None), default=None)
    return size * elements if elements is not None and 0 <= elements < _MOST_ELEMENTS else None


def find_collectives(host: Host, device: Device, launch: Int32s, arguments: pa.Table) -> pa.Table:
    """One row for each communication kernel; `id` and `host_id` are ids of events. What only all ranks
    together tell is NULL.
    """
    rows = np.flatnonzero(device.kind == COMMUNICATES)
    call = launch[rows]
    name, names = words(device.table, "name")
    by_kernel = [operation_of(text) for text in names]
    stated = [operation_of(text or "") for text in arguments.column("operation").to_pylist()]
    index = small_numbers(device.table, "collective_id")[rows]
    asked_by, by_host, of_host = _of_host(host, call)
    index = np.where(index < 0, of_host, index)
    index[index >= arguments.num_rows] = -1
    operation = _codes(stated)[index]
    operation = np.where(operation < 0, by_host, operation)
    operation = np.where(operation < 0, _codes(by_kernel)[name[rows]], operation)
    taken = arguments.take(integers(index, type=pa.int64()))
    operations = [_MEANING[code] if code >= 0 else None for code in operation.tolist()]
    size = [
        message_bytes(*values)
        for values in zip(
            operations,
            taken.column("dtype").to_pylist(),
            taken.column("elements_in").to_pylist(),
            taken.column("elements_out").to_pylist(),
            strict=True,
        )
    ]
    added = {
        "id": pa.array(rows + len(host), pa.int64()),
        "host_id": integers(host.rows(asked_by), type=pa.int64()),
        "start_ns": pa.array(device.start[rows]),
        "end_ns": pa.array(device.start[rows] + device.dur[rows]),
        "operation": pa.array(operations, pa.string()),
        "bytes": pa.array(size, pa.int64()),
    }
    unknown = {
        column.name: pa.nulls(len(rows), column.arrow_type())
        for column in TABLES["collective"].columns
        if column.name not in (*added, *taken.column_names)
    }
    return assembled("collective", taken, unknown | added)


def _codes(operations: list[str | None]) -> NDArray[np.int8]:
    """Numbers of operations, -1 for None, and at the end -1 for what has no entry."""
    return np.array([*(-1 if o is None else _MEANING.index(o) for o in operations), -1], np.int8)


def _of_host(host: Host, call: Int32s) -> tuple[Int32s, NDArray[np.int8], Int32s]:
    """Who around each call asked for a collective, for which operation, with which arguments.

    -1 for each of the three that is not known.
    """
    asks = host.role == COMMUNICATION
    stated = small_numbers(host.table, "collective_id")[host.nesting.row]
    operation = np.full(len(host), -1, dtype=np.int8)
    place = np.flatnonzero(asks)
    if len(place):
        name, names = words(host.table, "name")
        name = name[host.nesting.row[place]]
        known = np.full(len(names), -1, dtype=np.int8)
        for which in np.unique(name).tolist():
            known[which] = _codes([operation_of(names[which])])[0]
        operation[place] = known[name]
    asked_by = host.climb(call, asks | (stated >= 0))
    return (
        asked_by,
        np.append(operation, np.int8(-1))[host.climb(call, operation >= 0)],
        np.append(stated, np.int32(-1))[host.climb(call, stated >= 0)],
    )
