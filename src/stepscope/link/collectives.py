"""Collectives and point-to-point transfers of a rank, with their arguments.

One is a communication kernel, or the range of a library that communicates on the host (gloo). Newer
recordings repeat the arguments on the kernel itself. Where they do not, they are those of the host
events that enclose its launch (`record_param_comms`, `nccl:all_reduce`, `c10d::allreduce_`); where
these state none either, sizes and types are told from the tensors they were given, and the operation
from names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.communication import communicating, host_library
from stepscope.formats.messages import (
    MEANING,
    Message,
    completed,
    message_bytes,
    message_of_inputs,
    operation_of,
    whole_bytes,
)
from stepscope.link.columns import assembled, integers, small_numbers, words
from stepscope.link.device import COMMUNICATION as COMMUNICATES
from stepscope.link.device import COMPUTATION, FILL, Device
from stepscope.link.exposure import exposed
from stepscope.link.host import COMMUNICATION, Host
from stepscope.schema.tables import TABLES

if TYPE_CHECKING:
    from stepscope.formats.tables import RankTables

Int32s = NDArray[np.int32]
Row = dict[str, Any]


def find_collectives(host: Host, device: Device, launch: Int32s, tables: RankTables) -> pa.Table:
    """One row for each collective; `id` and `host_id` are ids of events. What only all ranks together
    tell is NULL.
    """
    rows = np.flatnonzero(device.kind == COMMUNICATES)
    name, names = words(host.table, "name")
    name = name[host.nesting.row]
    ranges = _on_host(host, name, names)
    told = _Told(host, name, names, tables)
    kernel, kernels = words(device.table, "name")
    asking = np.concatenate([launch[rows], ranges])
    labels = [*kernels, *names]
    label = np.concatenate([kernel[rows], name[ranges] + len(kernels)])
    own = small_numbers(device.table, "collective_id")[rows]
    own = np.concatenate([own, np.full(len(ranges), -1, np.int32)])
    described = told.described(asking, own, label, labels, len(rows))
    start = np.concatenate([device.start[rows], host.start[ranges]])
    end = np.concatenate([(device.start + device.dur)[rows], host.end[ranges]])
    unknown = pa.nulls(len(ranges), pa.int64())
    asked_by = np.concatenate([told.asked_by(launch[rows]), ranges.astype(np.int32)])
    added = described | {
        "id": pa.concat_arrays([pa.array(rows + len(host), pa.int64()), unknown]),
        "host_id": integers(host.rows(asked_by), type=pa.int64()),
        "start_ns": pa.array(start),
        "end_ns": pa.array(end),
        "exposed_ns": _exposed(device, rows, start, end),
    }
    rest = {
        column.name: pa.nulls(len(start), column.arrow_type())
        for column in TABLES["collective"].columns
        if column.name not in added
    }
    return assembled("collective", pa.table({}), rest | added)


def _on_host(host: Host, name: Int32s, names: list[str]) -> Int32s:
    """Positions of the ranges in which the host itself communicates, and that lie in no other of them."""
    asks = np.flatnonzero(host.role == COMMUNICATION)
    by_name = np.zeros(len(names) + 1, bool)
    for which in np.unique(name[asks]).tolist():
        by_name[which] = host_library(names[which]) is not None
    ranges = asks[by_name[name[asks]]].astype(np.int32)
    communicates = np.zeros(len(host), bool)
    communicates[ranges] = True
    return ranges[host.climb(host.nesting.parent[ranges], communicates) < 0]


def _exposed(
    device: Device, rows: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
) -> pa.Array:
    """Of kernels by their device; of the host's by all devices of the rank, NULL where it has none."""
    busy = np.flatnonzero((device.kind == COMPUTATION) | (device.kind == FILL))
    computing = device.start[busy], (device.start + device.dur)[busy]
    kernels = len(rows)
    of_kernels = exposed(
        start[:kernels], end[:kernels], device.device[rows], *computing, device.device[busy]
    )
    anywhere = np.zeros(len(busy), np.int8)
    of_host = exposed(
        start[kernels:],
        end[kernels:],
        np.zeros(len(start) - kernels, np.int8),
        *computing,
        anywhere,
    )
    measured = np.ones(len(start), bool)
    measured[kernels:] = device.work.any()
    return pa.array(np.concatenate([of_kernels, of_host]), mask=~measured)


class _Told:
    """What host events and arguments tell of the collectives that they ask for."""

    def __init__(self, host: Host, name: Int32s, names: list[str], tables: RankTables) -> None:
        self.host, self.facts, self.arguments = host, tables.facts, tables.collective_args
        self.kinds = set(tables.device.column("kind").to_pylist())
        self.asks = host.role == COMMUNICATION
        self.stated = small_numbers(host.table, "collective_id")[host.nesting.row]
        self.operation = np.full(len(host), -1, np.int8)
        self.message = np.full(len(host), -1, np.int32)
        self.messages: list[Message] = []
        place = np.flatnonzero(self.asks)
        if not len(place):
            return
        known = np.full(len(names), -1, np.int8)
        for which in np.unique(name[place]).tolist():
            known[which] = _code(operation_of(names[which]))
        self.operation[place] = known[name[place]]
        inputs = small_numbers(host.table, "input_id")[host.nesting.row[place]]
        listed = tables.operator_input
        numbered = dict(
            zip(listed.column("input_id").to_pylist(), range(listed.num_rows), strict=True)
        )
        pairs, which_pair = np.unique(np.stack([name[place], inputs]), axis=1, return_inverse=True)
        for one, number in pairs.T.tolist():
            row = numbered.get(number)
            texts = (listed.column(c)[row].as_py() if row is not None else None
                     for c in ("dims", "types", "values"))  # fmt: skip
            self.messages.append(message_of_inputs(names[one], *texts))
        self.message[place] = which_pair.reshape(-1)

    def asked_by(self, call: Int32s) -> Int32s:
        """Who around each call asked for a collective."""
        return self.host.climb(call, self.asks | (self.stated >= 0))

    def described(
        self, asking: Int32s, own: NDArray[Any], label: Int32s, labels: list[str], kernels: int
    ) -> dict[str, pa.Array]:
        """The columns that tell what each collective is.

        Args:
            asking: the host event from which it was launched, or that it is.
            own: the arguments that it states itself, -1 for none.
            label: its own name, a place in `labels`.
            kernels: how many of them are kernels; they come first.
        """
        above = self.host.climb(asking, self.stated >= 0)
        index = np.where(own >= 0, own, np.append(self.stated, np.int32(-1))[above])
        index[index >= self.arguments.num_rows] = -1
        above = self.host.climb(asking, self.operation >= 0)
        operation = np.append(self.operation, np.int8(-1))[above]
        typed = np.array([m.dtype is not None for m in self.messages] + [False])
        sized = np.array([m.elements_out is not None for m in self.messages] + [False])
        on_host = np.arange(len(label)) >= kernels
        keys = np.stack(
            [
                index,
                operation,
                self._message(asking, sized),
                self._message(asking, typed),
                label,
                on_host,
            ]
        )
        distinct, which = np.unique(keys, axis=1, return_inverse=True)
        known = self.arguments.to_pylist()
        rows = [self._row(known, labels, *one) for one in distinct.T.tolist()]
        columns = {c.name: c for c in TABLES["collective"].columns if c.name in _DESCRIBED}
        which = which.reshape(-1)
        return {
            name: _each([row.get(name) for row in rows], which, column.arrow_type())
            for name, column in columns.items()
        }

    def _message(self, asking: Int32s, wanted: NDArray[np.bool_]) -> Int32s:
        """The innermost message of a kind around each; -1 where several were launched from there, whose
        shares of it nobody tells.
        """
        at = self.host.climb(asking, wanted[self.message])
        launched = np.bincount(at[at >= 0], minlength=1)
        result = np.append(self.message, np.int32(-1))[at]
        several = (at >= 0) & (launched[at] > 1)
        return np.where(several, np.int32(-1), result)

    def _row(
        self, known: list[Row], labels: list[str], index: int, operation: int, sized: int, typed: int,
        label: int, on_host: int,
    ) -> Row:  # fmt: skip
        row = dict(known[index]) if index >= 0 else {}
        name = labels[label] if label >= 0 else ""
        told = operation_of(row.get("operation") or "")
        told = told or (MEANING[operation] if operation >= 0 else operation_of(name))
        exchange = None if on_host else communicating(name)
        library = host_library(name) if on_host else exchange and exchange.library
        if library == "nccl" and self.kinds == {"rocm"}:
            library = "rccl"  # whose kernels have NCCL's names
        row |= self._group(row, library)
        inputs = self._of_inputs(sized, typed, told, row.get("group_size"))
        row |= {key: value for key, value in inputs.items() if row.get(key) is None}
        size = message_bytes(
            told, row.get("dtype"), row.get("elements_in"), row.get("elements_out")
        )
        if size is None:
            size = whole_bytes(told, row.get("message_bytes"), row.get("group_size"))
        return row | {"operation": told, "library": library, "bytes": size}

    def _of_inputs(self, sized: int, typed: int, operation: str | None, ranks: int | None) -> Row:
        outer = self.messages[sized] if sized >= 0 else Message()
        inner = self.messages[typed] if typed >= 0 else Message()
        given = inner.elements_in if outer.elements_in is None else outer.elements_in
        message = Message(inner.dtype, given, outer.elements_out, outer.sent, outer.received)
        return completed(message, operation, ranks)._asdict()

    def _group(self, row: Row, library: str | None) -> Row:
        """What is known of its group beside what the arguments state."""
        listed = self.facts.groups
        named = [group for group in listed if group.name == row.get("group_name")]
        if row.get("group_name") is None:
            # Where a job has one group that it can be of, it is of that.
            named = [
                group
                for group in listed
                if group.size != 1 and (library != "gloo" or "gloo" in (group.backend or "gloo"))
            ]
        found: Row = {}
        if len(named) == 1:
            (group,) = named
            stated = {
                "group_name": group.name,
                "group_description": group.description,
                "group_ranks": group.ranks,
                "group_size": group.size,
            }
            found = {key: value for key, value in stated.items() if row.get(key) is None}
        if row.get("group_size") is None and found.get("group_size") is None:
            found["group_size"] = 2 if self.facts.world_size == 2 else None
        return found


_DESCRIBED = (
    "operation", "group_name", "group_description", "group_ranks", "group_size", "sequence",
    "communicator", "asynchronous", "dtype", "elements_in", "elements_out", "sent", "received", "bytes",
    "source_rank", "destination_rank", "library",
)  # fmt: skip


def _each(values: list[Any], which: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Values by their places. Each text is there once: the list of a large group's ranks has megabytes, and each of its
    collectives has it."""
    if not pa.types.is_string(kind):
        return pa.array(values, kind).take(pa.array(which))
    texts = dict.fromkeys(value for value in values if value is not None)
    listed = {text: place for place, text in enumerate(texts)}
    code = np.array([-1 if value is None else listed[value] for value in values] or [-1], np.int32)[
        which
    ]
    indices = pa.array(code, mask=code < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(listed), kind))


def _code(operation: str | None) -> int:
    return -1 if operation is None else MEANING.index(operation)
