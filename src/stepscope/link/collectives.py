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

from stepscope.link.columns import integers, small_numbers, words
from stepscope.link.device import COMMUNICATION as COMMUNICATES
from stepscope.link.device import Device
from stepscope.link.host import COMMUNICATION, NOWHERE, Host

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
    return None if elements is None else size * elements


def find_collectives(host: Host, device: Device, launch: Int32s, arguments: pa.Table) -> pa.Table:
    """One row for each communication kernel; `id` is its row, `host_id` the position that asked."""
    rows = np.flatnonzero(device.kind == COMMUNICATES)
    asked_by, operation_at, arguments_at = _of_host(host, arguments)
    call = launch[rows]
    linked = call >= 0
    origin = np.where(linked, asked_by[call], NOWHERE) if len(host) else call
    index = small_numbers(device.table, "collective_id")[rows]
    if len(host):
        index = np.where((index < 0) & linked, arguments_at[call], index)
    index[index >= arguments.num_rows] = -1
    name, names = words(device.table, "name")
    by_kernel = [operation_of(text) for text in names]
    stated = [operation_of(text or "") for text in arguments.column("operation").to_pylist()]
    meaning = [*dict.fromkeys(text for _, text in _OPERATIONS)]
    code_of: dict[str | None, int] = {text: code for code, text in enumerate(meaning)}
    code_of[None] = -1
    operation = np.array([*(code_of[text] for text in stated), -1], np.int8)[index]
    if len(host):
        by_host = np.where(linked, operation_at[call], -1)
        operation = np.where(operation < 0, by_host, operation)
    kernel_codes = np.array([*(code_of[text] for text in by_kernel), -1], np.int8)[name[rows]]
    operation = np.where(operation < 0, kernel_codes, operation)
    taken = arguments.take(integers(index, type=pa.int64()))
    operations = [meaning[code] if code >= 0 else None for code in operation.tolist()]
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
    unknown = pa.nulls(len(rows), pa.int64())
    return pa.table(
        {
            "id": pa.array(rows + len(host), pa.int64()),
            "host_id": integers(host.rows(origin), type=pa.int64()),
            "operation": pa.array(operations, pa.string()),
            **{name: taken.column(name) for name in ("group_name", "group_description")},
            **{name: taken.column(name) for name in ("group_ranks", "group_size", "sequence")},
            **{name: taken.column(name) for name in ("dtype", "elements_in", "elements_out")},
            "bytes": pa.array(size, pa.int64()),
            **{name: taken.column(name) for name in ("source_rank", "destination_rank")},
            "wait_ns": unknown,
            "transfer_ns": unknown,
        }
    )


def _of_host(host: Host, arguments: pa.Table) -> tuple[Int32s, NDArray[np.int8], Int32s]:
    """For each position: who of its ancestors asked, for which operation, with which arguments."""
    asked_by = np.full(len(host), NOWHERE, dtype=np.int32)
    operation = np.full(len(host), -1, dtype=np.int8)
    stated = small_numbers(host.table, "collective_id")[host.nesting.row]
    place = np.flatnonzero((host.role == COMMUNICATION) | (stated >= 0)).astype(np.int32)
    if not len(place):
        return asked_by, operation, stated
    asked_by[place] = place
    name, names = words(host.table, "name")
    meaning = [*dict.fromkeys(text for _, text in _OPERATIONS)]
    codes = np.full(len(names) + 1, -1, dtype=np.int8)
    name = name[host.nesting.row[place]]
    for which in np.unique(name).tolist():
        found = operation_of(names[which])
        codes[which] = -1 if found is None else meaning.index(found)
    operation[place] = codes[name]
    stated[stated >= arguments.num_rows] = -1
    for values in (asked_by, operation, stated):
        host.nesting.inherit(values)
    return asked_by, operation, stated
