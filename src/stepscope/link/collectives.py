"""Collectives and point-to-point transfers of a rank, with their arguments.

A collective is a communication kernel, or the range of a library that communicates on the host (gloo). Newer
recordings repeat the arguments on the kernel itself. Otherwise they come from the host events that enclose its launch
(`record_param_comms`, `nccl:all_reduce`, `c10d::allreduce_`); if these state none either, sizes and types come from
their input tensors, and the operation from names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.communication import communicating, host_library
from stepscope.formats.messages import (
    MEANING,
    Message,
    completed,
    full_bytes,
    message_bytes,
    message_of_inputs,
    operation_of,
)
from stepscope.formats.tables import READ
from stepscope.link.columns import assembled, integers, numbers, small_numbers, words
from stepscope.link.device import COMMUNICATION as COMMUNICATES
from stepscope.link.device import COMPUTATION, FILL, Device
from stepscope.link.host import COMMUNICATION, Host
from stepscope.link.intervals import covered, union
from stepscope.schema.arrays import Int32s, Int64s
from stepscope.schema.tables import TABLES

if TYPE_CHECKING:
    from stepscope.formats.tables import Facts, RankTables

Row = dict[str, Any]
_NONE = -(1 << 63)


def find_collectives(
    host: Host,
    device: Device,
    launch: Int32s,
    tables: RankTables,
    replayed: Sequence[tuple[CollectiveCalls, Int32s]] = (),
) -> pa.Table:
    """One row for each collective; `id` and `host_id` are ids of events. What only all ranks together show is NULL.

    Args:
        launch: position of each device event's launch.
        replayed: what captures of graphs show, and for each device event its index there, -1 for none.
    """
    rows = np.flatnonzero(device.kind == COMMUNICATES)
    name, names = words(host.table, "name")
    name = name[host.nesting.row]
    ranges = _on_host(host, name, names)
    asking = np.concatenate([launch[rows], ranges])
    calls = read_collective_calls(host, asking, tables)
    kernel, kernels = words(device.table, "name")
    label = np.concatenate([kernel[rows], name[ranges] + len(kernels)])
    kernel_arguments = small_numbers(device.table, "collective_id")[rows]
    of_launch = np.arange(len(asking), dtype=np.int32)
    sources = [(calls, of_launch)]
    for captured, place in replayed:
        through = np.where(kernel_arguments < 0, place[rows], np.int32(-1))
        through = np.append(through, np.full(len(ranges), -1, np.int32))
        of_launch[through >= 0] = -1
        sources.append((captured, through))
    described = _CollectiveTable([*kernels, *names], len(rows), len(asking), rccl=calls.rccl)
    for source, place in sources:
        described.add(source, place, kernel_arguments, label, replayed=source is not calls)
    start = np.concatenate([device.start[rows], host.start[ranges]])
    end = np.concatenate([(device.start + device.dur)[rows], host.end[ranges]])
    unknown = pa.nulls(len(ranges), pa.int64())
    asked_by = np.concatenate([calls.asked_by[: len(rows)], ranges.astype(np.int32)])
    added = described.columns() | {
        "id": pa.concat_arrays([pa.array(rows + len(host), pa.int64()), unknown]),
        "host_id": integers(host.rows(asked_by), type=pa.int64()),
        "start_ns": pa.array(start),
        "end_ns": pa.array(end),
        "exposed_ns": _exposed(device, rows, start, end),
    }
    missing = {
        column.name: pa.nulls(len(start), column.arrow_type())
        for column in TABLES["collective"].columns
        if column.name not in added
    }
    return assembled("collective", pa.table({}), missing | added)


def _on_host(host: Host, name: Int32s, names: list[str]) -> Int32s:
    """Positions of the outermost ranges in which the host itself communicates."""
    asks = np.flatnonzero(host.role == COMMUNICATION)
    by_name = np.zeros(len(names) + 1, bool)
    for which in np.unique(name[asks]).tolist():
        by_name[which] = host_library(names[which]) is not None
    ranges = asks[by_name[name[asks]]].astype(np.int32)
    communicates = np.zeros(len(host), bool)
    communicates[ranges] = True
    return ranges[host.climb(host.nesting.parent[ranges], communicates) < 0]


def _exposed(device: Device, rows: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> pa.Array:
    """Exposed time: of kernels by their device, of the host's by all devices of the rank, NULL if it has none."""
    busy = np.flatnonzero((device.kind == COMPUTATION) | (device.kind == FILL))
    computing = device.start[busy], (device.start + device.dur)[busy]
    kernels = len(rows)
    of_kernels = exposed(start[:kernels], end[:kernels], device.device[rows], *computing, device.device[busy])
    anywhere = np.zeros(len(busy), np.int8)
    of_host = exposed(start[kernels:], end[kernels:], np.zeros(len(start) - kernels, np.int8), *computing, anywhere)
    measured = np.ones(len(start), bool)
    measured[kernels:] = device.work.any()
    return pa.array(np.concatenate([of_kernels, of_host]), mask=~measured)


@dataclass(frozen=True, slots=True)
class CollectiveCalls:
    """What host events say about the collectives that were called at some positions.

    Args:
        asked_by: for each position the event around it that called a collective; -1 for none.
        stated: its row in what the events stated, -1 for none.
        operation: its operation by names around it, an index in `MEANING`, -1 for none.
        sized_at, typed_at: the innermost event around it whose inputs show the size and the type; -1 for none.
        sized, typed: the index in `messages` of what they show.
        arguments: distinct arguments, without the number of each collective in its group.
        argument_row: for each row that events stated the index of its arguments.
        sequence: and that number, `_NONE` for none.
        messages: what distinct inputs show.
        facts: what the recording says about its groups.
        rccl: whether kernels named like NCCL's are RCCL's, which have the same names.
    """

    asked_by: Int32s
    stated: Int32s
    operation: NDArray[np.int8]
    sized_at: Int32s
    sized: Int32s
    typed_at: Int32s
    typed: Int32s
    arguments: list[Row]
    argument_row: Int32s
    sequence: NDArray[np.int64]
    messages: list[Message]
    facts: Facts
    rccl: bool

    def row(self, arguments: int, operation: int, sized: int, typed: int, name: str, library: str | None) -> Row:  # fmt: skip
        """The known columns of a collective with these arguments, names and inputs."""
        row = dict(self.arguments[arguments]) if arguments >= 0 else {}
        meaning = operation_of(row.get("operation") or "")
        meaning = meaning or (MEANING[operation] if operation >= 0 else operation_of(name))
        row |= self._group(row, library)
        inputs = self._of_inputs(sized, typed, meaning, row.get("group_size"))
        row |= {key: value for key, value in inputs.items() if row.get(key) is None}
        size = message_bytes(meaning, row.get("dtype"), row.get("elements_in"), row.get("elements_out"))
        if size is None:
            size = full_bytes(meaning, row.get("message_bytes"), row.get("group_size"))
        return row | {"operation": meaning, "library": library, "bytes": size}

    def _of_inputs(self, sized: int, typed: int, operation: str | None, ranks: int | None) -> Row:
        outer = self.messages[sized] if sized >= 0 else Message()
        inner = self.messages[typed] if typed >= 0 else Message()
        given = inner.elements_in if outer.elements_in is None else outer.elements_in
        message = Message(inner.dtype, given, outer.elements_out, outer.sent, outer.received)
        return completed(message, operation, ranks)._asdict()

    def _group(self, row: Row, library: str | None) -> Row:
        """What is known of its group besides what the arguments state."""
        listed = self.facts.groups
        named = [group for group in listed if group.name == row.get("group_name")]
        if row.get("group_name") is None:
            # If the job has only one possible group, it is that one.
            named = [
                group
                for group in listed
                if group.size != 1 and (library != "gloo" or "gloo" in (group.backend or "gloo"))
            ]
        group_facts: Row = {}
        if len(named) == 1:
            (group,) = named
            stated = {
                "group_name": group.name,
                "group_description": group.description,
                "group_ranks": group.ranks,
                "group_size": group.size,
            }
            group_facts = {key: value for key, value in stated.items() if row.get(key) is None}
        if row.get("group_size") is None and group_facts.get("group_size") is None:
            group_facts["group_size"] = 2 if self.facts.world_size == 2 else None
        return group_facts


def read_collective_calls(host: Host, asking: Int32s, tables: RankTables) -> CollectiveCalls:
    """What host events and arguments say about the collectives that were called at some positions."""
    name, names = words(host.table, "name")
    name = name[host.nesting.row]
    asks = host.role == COMMUNICATION
    stated = small_numbers(host.table, "collective_id")[host.nesting.row]
    stated[stated >= tables.collective_args.num_rows] = -1
    operation = np.full(len(host), -1, np.int8)
    message = np.full(len(host), -1, np.int32)
    messages: list[Message] = []
    place = np.flatnonzero(asks)
    if len(place):
        codes = np.full(len(names), -1, np.int8)
        for which in np.unique(name[place]).tolist():
            if (moved := operation_of(names[which])) is not None:
                codes[which] = MEANING.index(moved)
        operation[place] = codes[name[place]]
        inputs = small_numbers(host.table, "input_id")[host.nesting.row[place]]
        listed = tables.operator_input
        numbered = dict(zip(listed.column("input_id").to_pylist(), range(listed.num_rows), strict=True))
        pairs, which_pair = np.unique(np.stack([name[place], inputs]), axis=1, return_inverse=True)
        for values, number in pairs.T.tolist():
            row = numbered.get(number)
            texts = (listed.column(c)[row].as_py() if row is not None else None
                     for c in ("dims", "types", "values"))  # fmt: skip
            messages.append(message_of_inputs(names[values], *texts))
        message[place] = which_pair.reshape(-1)
    typed = np.array([m.dtype is not None for m in messages] + [False])
    sized = np.array([m.elements_out is not None for m in messages] + [False])

    def around(chosen: NDArray[np.bool_], values: NDArray[Any]) -> tuple[Int32s, NDArray[Any]]:
        at = host.climb(asking, chosen)
        return at, np.append(values, values.dtype.type(-1))[at]

    sized_at, of_size = around(sized[message], message)
    typed_at, of_type = around(typed[message], message)
    described = tables.collective_args.drop_columns(["sequence"])
    stating = [*zip(*(column.to_pylist() for column in described.columns), strict=True)]
    distinct = {values: place for place, values in enumerate(dict.fromkeys(stating))}
    return CollectiveCalls(
        asked_by=host.climb(asking, asks | (stated >= 0)),
        stated=around(stated >= 0, stated)[1],
        operation=around(operation >= 0, operation)[1],
        sized_at=sized_at,
        sized=of_size,
        typed_at=typed_at,
        typed=of_type,
        arguments=[dict(zip(described.column_names, values, strict=True)) for values in distinct],
        argument_row=np.array([*map(distinct.__getitem__, stating), -1], np.int32),
        sequence=np.append(numbers(tables.collective_args, "sequence", missing=_NONE), _NONE),
        messages=messages,
        facts=tables.facts,
        rccl=set(tables.device.column("kind").to_pylist()) == {"rocm"},
    )


class _CollectiveTable:
    """What each collective is: rows of distinct ones, and the index of each collective's row."""

    def __init__(self, labels: list[str], kernels: int, count: int, *, rccl: bool) -> None:
        self.labels, self.kernels, self.rccl = labels, kernels, rccl
        self.rows: list[Row] = []
        self.which = np.zeros(count, np.int64)
        self.sequence = np.full(count, _NONE, np.int64)

    def add(
        self, source: CollectiveCalls, place: Int32s, kernel_arguments: Int32s, label: Int32s, *, replayed: bool
    ) -> None:
        """Adds what is known of some collectives.

        Args:
            place: for each collective its index in the source, -1 if the source says nothing about it.
            kernel_arguments: the arguments that each kernel states itself, -1 for none.
            label: the name of each, an index in `labels`.
            replayed: whether graphs replay them: the sequence numbers of the captured calls are then not those of the
                replays.
        """
        some = np.flatnonzero(place >= 0)
        at = place[some]
        stated = source.stated[at]
        if not replayed:
            itself = np.append(kernel_arguments, np.full(len(place) - len(kernel_arguments), -1, np.int32))[some]
            itself[itself >= len(source.sequence) - 1] = -1
            stated = np.where(itself >= 0, itself, stated)
            self.sequence[some] = source.sequence[stated]
        keys = np.stack(
            [
                source.argument_row[stated],
                source.operation[at],
                _unless_several(source.sized_at, source.sized, at),
                _unless_several(source.typed_at, source.typed, at),
                label[some],
                some >= self.kernels,
            ]
        )
        distinct, which = np.unique(keys, axis=1, return_inverse=True)
        self.which[some] = len(self.rows) + which.reshape(-1)
        for arguments, operation, sized, typed, text, on_host in distinct.T.tolist():
            name = self.labels[text] if text >= 0 else ""
            library = self._library(name, on_host=bool(on_host))
            self.rows.append(source.row(arguments, operation, sized, typed, name, library))

    def _library(self, name: str, *, on_host: bool) -> str | None:
        exchange = None if on_host else communicating(name)
        library = host_library(name) if on_host else exchange and exchange.library
        return "rccl" if library == "nccl" and self.rccl else library

    def columns(self) -> dict[str, pa.Array]:
        """The columns that describe each collective."""
        sequence = integers(self.sequence, missing=_NONE, type=pa.int64())
        return {"sequence": sequence} | {
            column.name: _each([row.get(column.name) for row in self.rows], self.which, column.arrow_type())
            for column in TABLES["collective"].columns
            if column.name in _DESCRIBED
        }


def _unless_several(event: Int32s, message: Int32s, at: Int32s) -> Int32s:
    """The message around each of some positions; -1 if its event launched several collectives, whose shares are
    unknown."""
    distinct = np.unique(at)
    launched = np.bincount(event[distinct][event[distinct] >= 0], minlength=1)
    several = (event[at] >= 0) & (launched[event[at]] > 1)
    return np.where(several, np.int32(-1), message[at])


_DESCRIBED = {*READ["collective_args"].names, "bytes", "library"} - {"sequence"}


def _each(values: list[Any], which: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Values by index. Each text is stored once: the list of a large group's ranks takes megabytes, and each of its
    collectives has it."""
    if not pa.types.is_string(kind):
        return pa.array(values, kind).take(pa.array(which))
    texts = dict.fromkeys(value for value in values if value is not None)
    listed = {text: place for place, text in enumerate(texts)}
    code = np.array([-1 if value is None else listed[value] for value in values] or [-1], np.int32)[which]
    indices = pa.array(code, mask=code < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(listed), kind))


def exposed(
    start: Int64s,
    end: Int64s,
    device: NDArray[np.integer],
    busy_start: Int64s,
    busy_end: Int64s,
    busy_device: NDArray[np.integer],
) -> Int64s:
    """How long each collective ran while its device computed nothing (ns).

    If several run at once on a device, the time goes to the one that started first, so that the sum over a device's
    collectives is the time in which any of them ran and nothing computed.
    """
    result = np.zeros(len(start), np.int64)
    for index in np.unique(device).tolist():
        rows = np.flatnonzero(device == index)
        rows = rows[np.argsort(start[rows], kind="stable")]
        before = np.concatenate([start[rows][:1], np.maximum.accumulate(end[rows])[:-1]])
        device_start = np.maximum(start[rows], before)
        device_end = np.maximum(end[rows], device_start)
        device_rows = busy_device == index
        hidden = covered(union(busy_start[device_rows], busy_end[device_rows]), device_start, device_end)
        result[rows] = device_end - device_start - hidden
    return result
