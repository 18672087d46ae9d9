"""Takes the rows of the canonical tables out of slices of events.

Repeated texts become dictionaries at once and sets of inputs are identified by a 64-bit hash, so that an event takes a
few dozen bytes, whatever the file says about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.quoting import sql_name
from stepscope.formats import vocabulary
from stepscope.formats.kineto import fields
from stepscope.formats.kineto.columns import Gathering, distinct, small
from stepscope.formats.kineto.conform import integer
from stepscope.formats.tables import ReadReport

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Sets = dict[str, dict[int, tuple[Any, ...]]]

_FLOWS = frozenset("stf")
_INSTANTS = frozenset("iIRnbeNDOP")
_TIMED = _FLOWS | _INSTANTS | {"X", "B", "E", "C"}
GROUPS = ("host", "device", "start_end", "flow", "memory")
"""Groups of events with columns; `start_end` are the halves of host events."""
_ENCODED = ("ph", "cat", "name", "pid", "tid", *fields.SETS)
"""Columns whose values are numbered before rows are sorted by kind."""

_WHO = ("cat", "name", "pid", "tid")
_HOST = {name: name for name in (*_WHO, "ts_ns", "dur_ns", *fields.SETS, "other_args")}
_DEVICE = {name: name for name in (*_WHO, "ts_ns", "dur_ns", "occupancy_limit", "collective_id", "other_args")} | {
    f"a_{name}": name for name in fields.SIZES
}
_START_END = {name: name for name in (*_WHO, "ph", "ts_ns", *fields.SETS, "other_args")}
_MEMORY = {"ts_ns": "time_ns", "pid": "pid", "tid": "tid", "a_Device Type": "device_type"}
_FLOW = {
    "cat": "category", "ph": "phase", "id": "flow_id", "ts_ns": "time_ns", "pid": "pid", "tid": "tid",
}  # fmt: skip
_NUMBER = re.compile(r"-?[0-9]+")


_UNSIGNED_NO_STREAM = (1 << 32) - 1
"""CUPTI's number for no stream, -1, which was written without its sign for some time."""


def columns(sql: Mapping[str, str]) -> list[str]:
    """SQL for the columns that are taken from an event's arguments: `a_` and the argument, and those of `fields.SETS`.

    Args:
        sql: SQL of each known argument that the file has.
    """
    # Values are worked out later, for the few rows that need it: a query that DuckDB must plan costs as much as
    # reading hundreds of events.
    taken = [f"{value} AS {sql_name('a_' + name)}" for name, value in sql.items() if name in fields.ARGS]
    for column, shared in fields.SETS.items():
        values = [sql[name] for name in shared.arguments if name in sql]
        needed = [sql[name] for name in shared.needed or shared.arguments if name in sql]
        if needed:
            absent = " AND ".join(f"{value} IS NULL" for value in needed)
            taken.append(f"CASE WHEN {absent} THEN NULL ELSE hash({', '.join(values)}) END AS {column}")
    queues = [f"TRY_CAST({sql[name]} AS BIGINT)" for name in fields.QUEUES if name in sql]
    if queues:
        taken.append(f"coalesce({', '.join(queues)}) AS queue")
    if "occupancy" in sql:
        estimate = f"TRY_CAST({sql['occupancy']} AS JSON)"
        taken.append(f"json_extract_string({estimate}, '$.limitingFactors') AS occupancy_limit")
    return taken


@dataclass(slots=True)
class Taken:
    """The rows of some events.

    Args:
        columns: for each of `GROUPS`; empty without rows.
        names: rows of `M` events: (name, pid, tid, a_name).
        instants: (ts_ns, cat, name, pid, tid, args).
        counters: (ts_ns, name, pid, args).
        sets: for each of `fields.SETS`, hash → the arguments that it stands for, if they may be new.
        integer_us: whether every time was in whole microseconds.
        report: what was dropped, and unknown categories.
    """

    columns: dict[str, dict[str, pa.Array]] = field(default_factory=dict)
    names: list[tuple[Any, ...]] = field(default_factory=list)
    instants: list[tuple[Any, ...]] = field(default_factory=list)
    counters: list[tuple[Any, ...]] = field(default_factory=list)
    sets: Sets = field(default_factory=dict)
    integer_us: bool = True
    report: ReadReport = field(default_factory=ReadReport)


def take(table: pa.Table, stored: Sets, *, python_stack: bool = True) -> Taken:
    """Takes the rows of some events, in any thread; sets of arguments in `stored` are not taken again."""
    return _Slice(table, stored, python_stack=python_stack).taken


@dataclass(frozen=True, slots=True)
class _Kind:
    """Events of one phase and category: how many there are, and how many have what."""

    phase: str | None
    category: str | None
    pid: str | None
    count: int
    timed: int
    streamed: int
    with_id: int
    impossible: int


class _Slice:
    """The events of one slice, and the rows taken from them."""

    def __init__(self, table: pa.Table, stored: Sets, *, python_stack: bool) -> None:
        self.taken = Taken()
        self._set(table)
        self._numbered: dict[str, tuple[np.ndarray[Any, np.dtype[np.int32]], pa.Array]] = {}
        exported = self._is("cat", {vocabulary.EXPORTED_TRACKS})
        if exported.any():
            self._set(table.filter(pa.array(~exported)))
            self._numbered.clear()
        if not self._count:
            return
        kinds, of_row = self._kinds()
        self._count_lost(kinds)
        on_device, left_out = self._sides(kinds)
        timed = self._valid("ts_ns")
        complete = timed & self._is("ph", {"X"})
        if any(kind.impossible for kind in kinds):
            complete &= ~self._impossible()
        host, device = complete & ~on_device[of_row], complete & on_device[of_row]
        if not python_stack:
            host &= ~left_out[of_row]
        paired = timed & self._is("ph", {"B", "E"})
        flows = timed & self._is("ph", _FLOWS) & self._valid("id")
        taken = self.taken
        taken.columns = {
            "host": self._columns(host, _HOST, "host_event"),
            "device": self._device(device),
            "start_end": self._columns(paired, _START_END, "host_event"),
            "flow": self._columns(flows, _FLOW),
        }
        self._take_sets(host | device | paired, stored)
        self._take_instants(timed)
        counters = timed & self._is("ph", {"C"})
        taken.counters = self._rows(counters, ("ts_ns", "name", "pid", "other_args"))
        taken.names = self._rows(self._is("ph", {"M"}), ("name", "pid", "tid", "a_name"))
        taken.integer_us = pc.all(self._read["integer"], min_count=0).as_py() is not False

    def _set(self, table: pa.Table) -> None:
        self._count = table.num_rows
        columns = table.combine_chunks().columns
        self._read: dict[str, pa.Array] = {
            name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
            for name, column in zip(table.column_names, columns, strict=True)
        }

    # -- columns -------------------------------------------------------------------------------------

    def _codes(self, column: str) -> tuple[np.ndarray[Any, np.dtype[np.int32]], pa.Array]:
        """A column of texts or hashes as numbers, -1 for NULL, and the values they stand for."""
        numbered = self._numbered.get(column)
        if numbered is None:
            encoded = self._read[column].dictionary_encode()
            indices = encoded.indices
            if indices.null_count:
                indices = indices.fill_null(-1)
            numbered = indices.to_numpy(zero_copy_only=False), encoded.dictionary
            self._numbered[column] = numbered
        return numbered

    def _is(self, column: str, values: Container[str]) -> Mask:
        numbers, distinct_values = self._codes(column)
        flags: Mask = np.array([*(value in values for value in distinct_values.to_pylist()), False])
        return flags[numbers]

    def _valid(self, column: str) -> Mask:
        values = self._read.get(column)
        if values is None:
            return np.zeros(self._count, dtype=bool)
        return values.is_valid().to_numpy(zero_copy_only=False)

    def _columns(self, which: Mask, names: Mapping[str, str], table: str = "") -> dict[str, pa.Array]:
        """Columns of some rows in little memory: those of `names`, which has their new names, and a table's fields."""
        if not which.any():
            return {}
        place = np.flatnonzero(which)
        rows = pa.array(place.astype(np.int32))
        taken = {}
        for name, column_name in names.items():
            column = self._read.get(name)
            if column is not None and name in _ENCODED:
                numbers, values = self._codes(name)
                taken[column_name] = _of_numbers(numbers if len(place) == len(which) else numbers[place], values)
            elif column is not None:
                taken[column_name] = _taken(column, rows)
        for argument in fields.FIELDS.get(table, ()):
            column = self._read.get(f"a_{argument.argument}")
            if column is not None:
                taken[argument.column.name] = _converted(_taken(column, rows), argument)
        return taken

    def _rows(self, which: Mask, names: Sequence[str]) -> list[tuple[Any, ...]]:
        if not which.any():
            return []
        rows = pa.array(np.flatnonzero(which))
        values = (
            self._read[name].take(rows).to_pylist() if name in self._read else [None] * len(rows) for name in names
        )
        return list(zip(*values, strict=True))

    # -- host or device ----------------------------------------------------------------------------

    def _kinds(self) -> tuple[list[_Kind], np.ndarray[Any, np.dtype[np.intp]]]:
        """The kinds of events, and the kind of each row."""
        phase, phases = self._codes("ph")
        category, categories = self._codes("cat")
        spelled = [*categories.to_pylist(), None]
        blank = np.array([not name for name in spelled])[category]
        key = (phase + 1).astype(np.int64) * len(spelled) + (category + 1)
        pid, pids = self._codes("pid") if blank.any() else (np.full(len(key), -1), ())
        width = len(pids) + 1
        key = key * width + np.where(blank, pid + 1, 0)
        distinct_keys, of_row = distinct(key, (len(phases) + 1) * len(spelled) * width)

        def counted(which: Mask) -> list[int]:
            return np.bincount(of_row[which], minlength=len(distinct_keys)).tolist()

        counts = (
            counted(np.ones(len(key), dtype=bool)),
            counted(self._valid("ts_ns")),
            counted(self._valid("a_stream")),
            counted(self._valid("id")),
            counted(self._impossible()),
        )
        kinds = []
        for at, number in enumerate(distinct_keys.tolist()):
            phase_category, of_pid = divmod(number, width)
            of_phase, of_category = divmod(phase_category, len(spelled))
            kinds.append(
                _Kind(
                    phases[of_phase - 1].as_py() if of_phase else None,
                    spelled[of_category - 1],
                    pids[of_pid - 1].as_py() if of_pid else None,
                    *(count[at] for count in counts),
                )
            )
        return kinds, of_row

    def _impossible(self) -> Mask:
        impossible = pc.equal(self._read["dur_ns"], fields.IMPOSSIBLE_NS).fill_null(False)
        return impossible.to_numpy(zero_copy_only=False)

    def _sides(self, kinds: list[_Kind]) -> tuple[Mask, Mask]:
        """Which kinds ran on a device, and which are Python frames."""
        device: set[tuple[str, str | None]] = set()
        frames: set[str] = set()
        for kind in kinds:
            if kind.phase not in ("X", "B", "E"):
                continue
            raw = kind.category
            meaning = vocabulary.category(raw, kind.pid)
            if meaning is None and raw:
                seen = self.taken.report.unknown_categories
                seen[raw] = seen.get(raw, 0) + kind.count
            # Events of an unknown category ran where most of its rows say they did.
            if kind.streamed * 2 > kind.count if meaning is None else meaning.side == "device":
                device.add((raw or "", None if raw else kind.pid or ""))
            if meaning is not None and meaning.kind == "python" and raw:
                frames.add(raw)
        sides = [(kind.category or "", None if kind.category else kind.pid or "") in device for kind in kinds]
        return np.array(sides), np.array([kind.category in frames for kind in kinds])

    def _count_lost(self, kinds: list[_Kind]) -> None:
        """Counts events of unknown phases, without a time or an id that they need, or of an impossible duration."""
        lost: dict[str, int] = {}
        for kind in kinds:
            if kind.phase in _TIMED:
                damages = {"no_time": kind.count - kind.timed}
                if kind.phase == "X":
                    damages["impossible_duration"] = kind.impossible
                elif kind.phase in _FLOWS:
                    damages["no_id"] = max(0, kind.timed - kind.with_id)
            else:
                damages = (
                    {} if kind.phase == "M" else {"no_phase" if kind.phase is None else "unknown_phase": kind.count}
                )
            for damage, count in damages.items():
                lost[damage] = lost.get(damage, 0) + count
        # Some writers end their list with `{}`, which is not a loss.
        if "no_phase" in lost and (empty := self._count_empty()):
            self.taken.report.note("empty_event", count=empty)
            lost["no_phase"] -= empty
        for damage, count in lost.items():
            if count:
                self.taken.report.drop(damage, count)

    def _count_empty(self) -> int:
        names = ("ph", "cat", "name", "pid", "tid", "ts_ns")
        return int((~np.any([self._valid(name) for name in names], axis=0)).sum())

    # -- what is taken -------------------------------------------------------------------------------

    def _device(self, which: Mask) -> dict[str, pa.Array]:
        columns = self._columns(which, _DEVICE, "device_event")
        if not columns:
            return columns
        # Few rows have sizes, with few distinct texts; DuckDB would convert a column of mostly nothing.
        for name in fields.SIZES:
            listed = columns.pop(name, None)
            if listed is not None and not pa.types.is_null(listed.type):
                sizes = [_sizes(text) for text in listed.dictionary.to_pylist()]
                for axis, of_axis in zip("xyz", zip(*sizes, strict=True), strict=True):
                    columns[f"{name}_{axis}"] = small(pa.array(of_axis, pa.int32()).take(listed.indices))
        device = columns.get("device", pa.nulls(int(which.sum())))
        columns["device"] = small(self._or_of("pid", which, device, integer, 0, 1 << 31))
        stream = columns.pop("stream", pa.nulls(int(which.sum()))).cast(pa.int64())
        stream = pc.if_else(pc.equal(stream, _UNSIGNED_NO_STREAM), -1, stream)
        if "queue" in self._read:
            stream = pc.coalesce(stream, self._read["queue"].filter(pa.array(which)))
        columns["stream"] = small(self._or_of("tid", which, stream, _stream_of, -1, 1 << 63))
        return columns

    def _or_of(
        self,
        column: str,
        which: Mask,
        stated: pa.Array,
        number_in: Callable[[str], int | None],
        otherwise: int,
        limit: int,
    ) -> pa.Array:
        """The value that rows state, or else the number in a text if its magnitude is at most `limit`."""
        stated = stated.cast(pa.int64())
        if not stated.null_count:
            return stated
        codes, texts = self._codes(column)
        numbers = [number_in(text) for text in texts.to_pylist()]
        values = [n if n is not None and -limit <= n < limit else otherwise for n in numbers]
        return pc.coalesce(stated, pa.array(np.array([*values, otherwise], dtype=np.int64)[codes[which]]))

    def _take_sets(self, which: Mask, stored: Sets) -> None:
        """Keeps the arguments of each new hash of inputs, stacks or collectives."""
        for column, seen in stored.items():
            if column not in self._read:
                continue
            numbers, hashes = self._codes(column)
            taken = np.flatnonzero(which & (numbers >= 0))
            if not len(taken):
                continue
            first = np.full(len(hashes), -1, dtype=np.int64)
            first[numbers[taken[::-1]]] = taken[::-1]  # the last one written stays
            new = [
                (row, value) for row, value in zip(first.tolist(), hashes.to_pylist(), strict=True)
                if row >= 0 and value not in seen
            ]  # fmt: skip
            if not new:
                continue  # a step repeats: an earlier slice mostly had what a later one has
            new.sort()
            rows = pa.array([row for row, _ in new])
            values = (
                self._read[f"a_{name}"].take(rows).to_pylist() if f"a_{name}" in self._read else [None] * len(rows)
                for name in fields.SETS[column].arguments
            )
            hashed = (value for _, value in new)
            self.taken.sets[column] = dict(zip(hashed, zip(*values, strict=True), strict=True))

    def _take_instants(self, timed: Mask) -> None:
        instants = timed & self._is("ph", _INSTANTS)
        if not instants.any():
            return
        if "a_bytes" in self._read:
            memory = self._is("ph", {"i"}) & self._is("name", {vocabulary.MEMORY_INSTANT})
            memory &= self._valid("a_bytes")
            self.taken.columns["memory"] = self._columns(memory & timed, _MEMORY, "memory_event")
            instants &= ~memory
        columns = ("ts_ns", *_WHO, "other_args", *(f"a_{name}" for name in fields.OUT_OF_MEMORY))
        for at, cat, name, pid, tid, other_args, *values in self._rows(instants, columns):
            args = other_args
            if name == vocabulary.OUT_OF_MEMORY_INSTANT:
                # All arguments of this event are known from others, so they are columns and not in `other_args`.
                stated = dict(zip(fields.OUT_OF_MEMORY, values, strict=True))
                args = json.dumps(stated, separators=(",", ":"))
            self.taken.instants.append((at, cat, name or "", pid or "", tid or "", args))


def _sizes(listed: str) -> list[int | None]:
    """The sizes of a grid or block along three axes; in Inductor's operator rows the text is another one."""
    try:
        values = json.loads(listed)
    except (ValueError, RecursionError):
        values = None
    sizes = map(integer, values) if isinstance(values, list) else ()
    narrow = [size if size is None or -(1 << 31) <= size < 1 << 31 else None for size in sizes]
    return [*narrow, None, None, None][:3]


def _stream_of(tid: str) -> int | None:
    """The number in a thread's name, which is the stream's if nothing else states it."""
    match = _NUMBER.search(tid)
    return int(match.group()) if match and len(match.group()) < 20 else None


def _taken(column: pa.Array, rows: pa.Array) -> pa.Array:
    return pa.nulls(len(rows)) if column.null_count == len(column) else small(column.take(rows))


def _converted(column: pa.Array, field: fields.Field) -> pa.Array:
    """A column of an argument as the schema declares it; a value that does not fit becomes null."""
    kind = field.column.sql_type
    if kind == "INTEGER" and pa.types.is_int64(column.type):
        return _in_32_bits(column)
    if kind == "DOUBLE" and pa.types.is_floating(column.type):
        column = pc.divide(column, 100.0) if field.percent else column
        return pc.if_else(pc.is_finite(column), column, None)
    if kind == "BOOLEAN" and pa.types.is_dictionary(column.type):
        return pa.array([truth(text) for text in column.dictionary.to_pylist()], pa.bool_()).take(column.indices)
    return column


def _in_32_bits(column: pa.Array) -> pa.Array:
    """A column with null for values that do not fit into 32 bits."""
    fits = pc.and_(pc.greater_equal(column, -(1 << 31)), pc.less(column, 1 << 31))
    return small(pc.if_else(fits, column, None))


def truth(text: Any) -> bool | None:
    """A flag in any of its spellings; None if it is none."""
    return {"true": True, "1": True, "false": False, "0": False}.get(str(text).lower())


def _of_numbers(numbers: np.ndarray[Any, np.dtype[np.int32]], values: pa.Array) -> pa.Array:
    """A dictionary column of the values that occur, in rising order of their numbers."""
    missing = numbers < 0
    if missing.all():
        return pa.nulls(len(numbers))
    used = np.zeros(len(values) + 1, dtype=bool)
    used[numbers] = True
    if not used[:-1].all():
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        values = values.take(pa.array(np.flatnonzero(used[:-1])))
        numbers = place[numbers]
    mask = missing if missing.any() else None
    return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=mask), values)


class EventRows:
    """Gathers the rows of a file's events, slice by slice; its attributes are as in `Taken`."""

    def __init__(self) -> None:
        self.gathered = {name: Gathering() for name in GROUPS}
        self.names: list[tuple[Any, ...]] = []
        self.instants: list[tuple[Any, ...]] = []
        self.counters: list[tuple[Any, ...]] = []
        self.sets: Sets = {column: {} for column in fields.SETS}
        self.integer_us = True
        self.report = ReadReport()

    def add(self, taken: Taken) -> None:
        """Adds the rows of the next slice."""
        for name, columns in taken.columns.items():
            self.gathered[name].add(columns)
        self.names += taken.names
        self.instants += taken.instants
        self.counters += taken.counters
        for column, sets in taken.sets.items():
            for hashed, values in sets.items():
                self.sets[column].setdefault(hashed, values)
        self.integer_us = self.integer_us and taken.integer_us
        self.report.add(taken.report)

    @property
    def empty(self) -> bool:
        """Whether no row was taken so far."""
        columns = any(rows.num_rows for rows in self.gathered.values())
        return not (columns or self.names or self.instants or self.counters)
