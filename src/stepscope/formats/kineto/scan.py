"""Gives slices of a trace to DuckDB's JSON reader and takes columns back.

DuckDB reads JSON at several hundred MB/s per core, but refuses a text with any damage, silently
leaves out keys that it was not told of, and reads numbers as doubles. This module closes the three
gaps: a slice that is refused is halved until the damaged piece is small and that piece is mended;
keys that were not declared are noticed in the text (see `keys`) and looked up; and times too large
for a double are quoted in the text, so that DuckDB hands over their digits.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from stepscope.floor.quoting import sql_literal, sql_name
from stepscope.formats.kineto import fields
from stepscope.formats.kineto.conform import conform
from stepscope.formats.kineto.mend import Mended, mend
from stepscope.formats.kineto.slices import Slice, split_at_event
from stepscope.formats.tables import ReadReport

INSERTED_EVENTS = 8192
DAMAGED_PIECES = 6
"""After so many damaged pieces without an intact one between them, slices are mended whole."""

MEND_BYTES = 64 << 10
"""A damaged slice is halved down to this before the slow way reads it event by event."""

LONGEST_OBJECT_BYTES = 16 << 20
"""DuckDB keeps buffers of a few times this size; a longer event is read the slow way."""

EXACT_US = 2.0**43
"""Times from here on (µs) do not survive a double to the nanosecond: below, the doubles around a
time of three decimals lie less than a nanosecond apart. It is 101 days, and the base that Kineto
counts from is the quarter's beginning."""

MOST_US = 4_500_000_000_000_000
"""Times from here on (µs; the year 2112) are none: differences of two of them would have more ns than
64 bits hold."""

LONGEST_US = 366 * 86_400_000_000
"""Durations from here on (µs) are none: nothing is recorded for more than a year."""

_UNSIGNED_US = 2**64 / 1000
"""What an end of 0 less a begin is with unsigned numbers of ns (µs), or a little less."""

MOST_EXTRAS = 256
"""Unknown fields that are kept; a file with more has garbage for keys."""

_KEY = re.compile(rb'"([A-Za-z][A-Za-z0-9 _.%()/-]{0,63})"\s*:')
_WRONG_TYPE = re.compile(r"transform error.*(?:Failed to cast|Expected ARRAY)", re.DOTALL)
_LONG_TIME = re.compile(rb'("ts"\s*:\s*)(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)')
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class _SliceFile(io.RawIOBase):
    """A slice between brackets, as DuckDB reads it: copied once, into what DuckDB is given."""

    def __init__(self, text: bytes | memoryview) -> None:
        self._text = memoryview(text)
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes from here on; all that are left when it is negative."""
        size_of_all = len(self._text) + 2
        begin = self._at
        end = size_of_all if size < 0 else min(begin + size, size_of_all)
        self._at = max(begin, end)
        inside = self._text[max(0, begin - 1) : max(0, end - 1)]
        opening = b"[" if begin == 0 and end > 0 else b""
        closing = b"]" if begin < size_of_all <= end else b""
        return b"".join((opening, inside, closing))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a byte."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._text) + 2}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The byte that is read next."""
        return self._at

    def seekable(self) -> bool:
        """It can be read from anywhere."""
        return True

    def readable(self) -> bool:
        """It can be read."""
        return True


class _SliceFiles(AbstractFileSystem):  # type: ignore[misc]
    """Slices as files that DuckDB can open."""

    protocol = "stepscope-slice"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, bytes | memoryview] = {}

    def _name(self, path: str) -> str:
        return path.rsplit("/", 1)[-1]

    def _open(self, path: str, *_: Any, **__: Any) -> _SliceFile:
        return _SliceFile(self.texts[self._name(path)])

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._name(path)
        return {"name": name, "size": len(self.texts[name]) + 2, "type": "file"}

    def glob(self, path: str, *_: Any, **__: Any) -> list[str]:
        return [self._name(path)]

    def exists(self, path: str, **_: Any) -> bool:
        return self._name(path) in self.texts

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's signature
        return _EPOCH

    def created(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's signature
        return _EPOCH


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """The table that holds a group's events, and the arguments that are its columns."""

    table: str
    keys: frozenset[str]


class EventScanner:
    """Loads slices into tables of a database in memory, one group at a time.

    Args:
        report: where damage and unknown fields are counted.
        threads: how many slices are parsed at a time; None for as many as there are processors.
    """

    def __init__(self, report: ReadReport, threads: int | None = None) -> None:
        self._report = report
        self._files = _SliceFiles()
        self.connection = duckdb.connect(":memory:")
        self.connection.register_filesystem(self._files)
        self.connection.execute("SET python_enable_replacements = false")
        self.connection.execute("SET preserve_insertion_order = true")
        self.connection.execute("SET memory_limit = '2GB'")
        # One statement with two threads is a third faster than with one; two statements with one
        # each are twice as fast: a table takes rows from one thread at a time.
        self.connection.execute("SET threads = 1")
        self._cursors = [self.connection.cursor() for _ in range(threads or default_threads())]
        self._workers = ThreadPoolExecutor(len(self._cursors), "stepscope-insert")
        self.keys: dict[str, None] = {}
        """Known arguments that this file has, as `fields.ARGS` spells them, in order of appearance."""
        self.extras: dict[str, None] = {}
        """Arguments that `fields` does not know, as the file spells them."""
        self._event_extras: dict[str, None] = {}
        """Keys of an event that `fields` does not know, as the file spells them."""
        self._respell: dict[bytes, bytes] = {}
        self._exact = False
        self._loose = False
        self._again = False
        self._damaged_pieces = 0
        self.mended_bytes = 0
        """Text that was read the slow way so far."""
        self.ended = False
        """Whether the trace's own end was seen before the file's."""
        self._plan = ("", "")
        self._table = ""
        self._side = "b"
        self._pending = Mended()
        self.boundary: re.Pattern[bytes] = re.compile(rb'\}\s*,\s*(\{\s*")')

    def close(self) -> None:
        """Ends DuckDB's use of the slices; without it DuckDB complains at exit."""
        self._workers.shutdown()
        self._files.texts.clear()
        for cursor in self._cursors:
            cursor.close()
        with contextlib.suppress(duckdb.Error):
            self.connection.unregister_filesystem(self._files.protocol)
        self.connection.close()

    # -- loading ---------------------------------------------------------------------------------

    def load(self, group: list[Slice]) -> list[LoadedGroup]:
        """Loads the events of some slices into tables, which stay until the load after the next.

        Returns:
            Tables with the events in their order: one each thread where all slices are intact.
        """
        self._side = "b" if self._side == "a" else "a"
        self._exact = self._exact or _has_long_decimals(group[0].text)
        self._loose = self._loose or any(piece.booleans for piece in group)
        self._look_up_keys([piece for piece in group if piece.new_keys])
        loaded = self._load_intact(group) or [self._load_whole(group)]
        self._files.texts.clear()
        return loaded

    def _load_intact(self, group: list[Slice]) -> list[LoadedGroup]:
        """Loads slices side by side; nothing where any of them needs more than plain reading."""
        if self._loose or self.ended:
            return []
        per_thread = -(-len(group) // len(self._cursors))
        parts = [group[at : at + per_thread] for at in range(0, len(group), per_thread)]
        tables = [f"event_{self._side}{number}" for number in range(len(parts))]
        plan = (self._select(), self._read_columns())
        columns = self._table_columns()
        texts = [[self._inside(piece.text) for piece in part] for part in parts]
        names = [
            [f"{table}-{n}.json" for n in range(len(part))]
            for table, part in zip(tables, parts, strict=True)
        ]
        self._files.texts = {
            name: text
            for of_names, of_texts in zip(names, texts, strict=True)
            for name, text in zip(of_names, of_texts, strict=True)
        }

        def insert(number: int) -> None:
            cursor = self._cursors[number]
            cursor.execute(f"CREATE OR REPLACE TABLE {tables[number]} ({columns})")
            cursor.execute(self._insert_statement(tables[number], names[number], plan))

        tasks = [self._workers.submit(insert, number) for number in range(len(parts))]
        wait(tasks)
        if any(isinstance(task.exception(), duckdb.Error) for task in tasks):
            return []
        for task in tasks:
            task.result()
        extents = [self._extent(table) for table in tables]
        if not self._exact and max(longest for longest, _ in extents) >= EXACT_US * 1000:
            return []
        self._pending = Mended()
        self._damaged_pieces = 0
        loaded = []
        for table, part, (_, with_extras) in zip(tables, parts, extents, strict=True):
            self._table = table
            self._settle(part, with_extras=with_extras)
            loaded.append(LoadedGroup(table, frozenset(self.keys)))
        return loaded

    def _load_whole(self, group: list[Slice]) -> LoadedGroup:
        """Loads slices into one table, mending what is damaged."""
        self._table = f"event_{self._side}0"
        self._fill(group)
        longest, with_extras = self._extent(self._table)
        if not self._exact and longest >= EXACT_US * 1000:
            self._exact = True
            self._fill(group)
        self._settle(group, with_extras=with_extras)
        return LoadedGroup(self._table, frozenset(self.keys))

    def _insert_statement(self, table: str, names: list[str], plan: tuple[str, str]) -> str:
        select, columns = plan
        files = ", ".join(f"'{self._files.protocol}://{name}'" for name in names)
        return (
            f"INSERT INTO {table} SELECT {select} FROM read_json([{files}], "
            f"columns = {columns}, format = 'array', maximum_object_size = {LONGEST_OBJECT_BYTES})"
        )

    def _fill(self, group: list[Slice]) -> None:
        self._again = True
        while self._again:
            # What a pass finds out, other keys or other types, is for the next pass.
            self._again, self.ended = False, False
            self._pending = Mended()
            self._plan = (self._select(), self._read_columns())
            self.connection.execute(
                f"CREATE OR REPLACE TABLE {self._table} ({self._table_columns()})"
            )
            self._insert(group)

    def _settle(self, group: list[Slice], *, with_extras: bool) -> None:
        """Counts what the group's last reading mended and what it did not know."""
        pending, report = self._pending, self._report
        report.add(pending)
        if self._loose:
            (wrong,) = self._column(f"SELECT coalesce(sum(wrong), 0)::BIGINT FROM {self._table}")
            if wrong:
                report.note("wrong_type", count=wrong)
        for piece in group:
            if piece.last and piece.text.rstrip(b" \t\r\n").endswith(b"\x00"):
                report.note("trailing_nuls", piece.offset + len(piece.text.rstrip(b"\x00 \t\r\n")))
        if not with_extras:
            return
        for key, count in self.connection.execute(
            f"SELECT key, count(*) FROM (SELECT unnest(json_keys(extras)) AS key FROM {self._table} "
            "WHERE extras IS NOT NULL) GROUP BY key"
        ).fetchall():
            report.unknown_fields[key] = report.unknown_fields.get(key, 0) + count

    def _insert(self, group: list[Slice]) -> None:
        if self.ended:
            return
        try:
            self._insert_texts([self._inside(piece.text) for piece in group])
            self._damaged_pieces = 0
        except duckdb.Error as error:
            if not self._loose and _WRONG_TYPE.search(str(error)):
                # A value of a type that its field does not have elsewhere: from here on every
                # field is read as text and converted one by one.
                self._loose = self._again = True
                return
            if len(group) > 1:
                middle = len(group) // 2
                self._insert(group[:middle])
                self._insert(group[middle:])
                return
            self._insert_damaged(group[0])

    def _insert_damaged(self, piece: Slice) -> None:
        # Where every piece is damaged (paths of Windows in each call stack), halving finds no intact
        # one and costs more than mending at once.
        rare = self._damaged_pieces < DAMAGED_PIECES
        halves = (
            split_at_event(piece, self.boundary) if rare and len(piece.text) > MEND_BYTES else None
        )
        if halves is not None:
            self._insert(list(halves))
            return
        self.mended_bytes += len(piece.text)
        events = mend(piece.text, piece.offset, self._pending, last=piece.last)
        while some := list(islice(events, INSERTED_EVENTS)):
            conformed = [conform(event, self._pending) for event in some]
            if self._add_keys(
                {key for event in conformed for key in event.get("args") or {}},
                {key for event in conformed for key in event},
            ):
                self._again = True
            if not self._again:
                self._insert_conformed(conformed, piece.offset)
        # The trace's own end: what follows is left over from a longer file before it.
        self.ended |= self._pending.end is not None
        self._damaged_pieces += 1

    def _insert_conformed(self, events: list[dict[str, Any]], offset: int) -> None:
        text = json.dumps(events).encode()[1:-1]
        try:
            self._insert_texts([self._spelled(text)])
        except duckdb.Error:
            if len(events) == 1:
                self._pending.dropped += 1
                self._pending.note("unreadable", offset)
                return
            middle = len(events) // 2
            self._insert_conformed(events[:middle], offset)
            self._insert_conformed(events[middle:], offset)

    def _insert_texts(self, texts: list[bytes | memoryview]) -> None:
        self._files.texts = {f"{number}.json": text for number, text in enumerate(texts)}
        self.connection.execute(
            self._insert_statement(self._table, list(self._files.texts), self._plan)
        )

    def _inside(self, text: bytes) -> bytes | memoryview:
        inside = _without_edges(text)
        return self._spelled(bytes(inside)) if self._respell or self._exact else inside

    def _spelled(self, text: bytes) -> bytes:
        for raw, ours in self._respell.items():
            text = text.replace(raw, ours)
        if self._exact:
            text = _LONG_TIME.sub(rb'\1"\2"', text)
        return text

    # -- what DuckDB is told -----------------------------------------------------------------------

    def _declared(self) -> dict[str, str]:
        return {key: fields.ARGS[key] for key in self.keys} | dict.fromkeys(self.extras, "JSON")

    def _read_columns(self) -> str:
        top = {**fields.EVENT, **dict.fromkeys(self._event_extras, "JSON")}
        declared = self._declared() or {"External id": "BIGINT"}
        if self._exact:
            top["ts"] = "VARCHAR"
        if self._loose:
            top = {key: kind if kind == "JSON" else "VARCHAR" for key, kind in top.items()}
            declared = {
                key: kind if kind == "JSON" else "VARCHAR" for key, kind in declared.items()
            }
        struct = ", ".join(f"{sql_name(key)} {kind}" for key, kind in declared.items())
        top["args"] = f"STRUCT({struct})"
        return (
            "{"
            + ", ".join(f"{sql_literal(key)}: {sql_literal(kind)}" for key, kind in top.items())
            + "}"
        )

    def _table_columns(self) -> str:
        columns = ["ph VARCHAR", "cat VARCHAR", "name VARCHAR", "pid VARCHAR", "tid VARCHAR"]
        columns += ["ts_ns BIGINT", "dur_ns BIGINT", "id BIGINT", "whole BOOLEAN", "wrong UTINYINT"]
        columns += [f"{sql_name(_column(key))} {kind}" for key, kind in self._kept().items()]
        return ", ".join(columns)

    def _kept(self) -> dict[str, str]:
        kept = {key: kind for key, kind in self._declared().items() if key in fields.ARGS}
        kept["extras"] = "VARCHAR"
        return kept

    def _select(self) -> str:
        ts, ts_whole = _nanoseconds("ts", as_text=self._exact or self._loose)
        dur, dur_whole = _nanoseconds("dur", as_text=self._loose)
        converted: dict[str, str] = {}
        if self._loose:
            converted = {
                f"args.{sql_name(key)}": kind
                for key, kind in self._kept().items()
                if kind not in ("VARCHAR", "JSON") and key != "extras"
            }
        wrong = [
            f"({value} IS NOT NULL AND TRY_CAST({value} AS {kind}) IS NULL)"
            for value, kind in converted.items()
        ]
        if self._loose:
            wrong += ["(ts IS NOT NULL AND ts_ns IS NULL)", "(dur IS NOT NULL AND dur_ns IS NULL)"]
        columns = ["ph", "cat", "name", "pid", "tid", f"{ts} AS ts_ns", f"{dur} AS dur_ns"]
        columns += ["TRY_CAST(id AS BIGINT)" if self._loose else "id"]
        columns += [f"({ts_whole} AND (dur IS NULL OR {dur_whole})) AS whole"]
        columns += [" + ".join(f"{found}::UTINYINT" for found in wrong) or "0::UTINYINT"]
        for key in self._kept():
            if key != "extras":
                value = f"args.{sql_name(key)}"
                kind = converted.get(value)
                columns.append(f"TRY_CAST({value} AS {kind})" if kind else value)
        columns.append(self._extras_text())
        return ", ".join(columns)

    def _extras_text(self) -> str:
        """SQL for the arguments that have no column, as the text of a JSON object."""
        values = {key: f"args.{sql_name(key)}" for key in self.extras}
        values.update({key: sql_name(key) for key in self._event_extras})
        if not values:
            return "NULL"
        absent = " AND ".join(f"{value} IS NULL" for value in values.values())
        parts = ", ".join(
            f"{sql_literal(json.dumps(key) + ':')} || CAST({value} AS VARCHAR)"
            for key, value in values.items()
        )
        return f"CASE WHEN {absent} THEN NULL ELSE '{{' || concat_ws(',', {parts}) || '}}' END"

    # -- keys that DuckDB was not told of ------------------------------------------------------------

    def _look_up_keys(self, group: list[Slice]) -> None:
        """Declares every key of some slices."""
        events: set[str] = set()
        args: set[str] = set()
        self._files.texts = {f"{n}.json": self._inside(piece.text) for n, piece in enumerate(group)}
        for name in list(self._files.texts):
            source = (
                f"read_json('{self._files.protocol}://{name}', columns = {{'event': 'JSON'}}, "
                f"records = false, format = 'array', maximum_object_size = {LONGEST_OBJECT_BYTES})"
            )
            try:
                events.update(
                    self._column(f"SELECT DISTINCT unnest(json_keys(event)) FROM {source}")
                )
                args.update(
                    self._column(
                        "SELECT DISTINCT unnest(json_keys(event, '$.args')) FROM "
                        f"{source} WHERE json_type(event, '$.args') = 'OBJECT'"
                    )
                )
            except duckdb.Error:
                # Damaged: what looks like a key is taken for one, lest its next appearance in an
                # intact slice pass for known.
                args.update(key.decode() for key in set(_KEY.findall(self._files.texts[name])))
        self._add_keys(args, events)

    def _add_keys(self, args: set[str], events: set[str]) -> bool:
        before = self._known_keys()
        for raw in sorted(args):
            known = fields.KNOWN_ARGS.get(raw.lower())
            if known in fields.ARGS_DERIVABLE:
                continue
            if known is not None:
                self.keys[known] = None
            self._respell_as(raw, known or _kept_as(raw, self.extras))
        for raw in sorted(events):
            known = fields.KNOWN_EVENT.get(raw.lower())
            self._respell_as(raw, known or _kept_as(raw, self._event_extras))
        return before != self._known_keys()

    def _known_keys(self) -> tuple[int, ...]:
        return len(self.keys), len(self.extras), len(self._event_extras), len(self._respell)

    def _respell_as(self, raw: str, ours: str) -> None:
        # An event's own keys are never respelled: an argument whose name differs only in case, or a
        # damaged key, would take its time or duration from every event of the file.
        if raw != ours and fields.KNOWN_EVENT.get(raw.lower()) != raw:
            self._respell[json.dumps(raw).encode() + b":"] = json.dumps(ours).encode() + b":"

    def _extent(self, table: str) -> tuple[int, bool]:
        """The longest time with decimals (ns), and whether any event has unknown fields."""
        found = self.connection.execute(
            "SELECT coalesce(max(abs(ts_ns)) FILTER (WHERE NOT whole), 0), count(extras) > 0 "
            f"FROM {table}"
        ).fetchall()[0]
        return int(found[0]), bool(found[1])

    def _column(self, query: str) -> list[Any]:
        return [row[0] for row in self.connection.execute(query).fetchall()]


def default_threads() -> int:
    """How many slices are parsed at a time: one a processor, within reason."""
    return max(1, min(8, os.cpu_count() or 1))


def _has_long_decimals(text: bytes) -> bool:
    """Whether the first times of a text have more digits than a double can hold."""
    for found in _LONG_TIME.finditer(text[: 1 << 16]):
        digits = found.group(2)
        if b"." in digits and abs(float(digits.split(b".")[0] or 0)) >= EXACT_US:
            return True
    return False


def _nanoseconds(column: str, *, as_text: bool) -> tuple[str, str]:
    """SQL for a time in µs as integer ns, and for whether it is in whole µs.

    A time that cannot be one becomes NULL. A duration like that becomes -2 where it is an end of 0
    less a begin, as unsigned numbers have it, and else `fields.IMPOSSIBLE_NS`.
    """
    most, beyond = MOST_US, "NULL"
    if column == "dur":
        number = f"TRY_CAST({column} AS DOUBLE)" if as_text else column
        most = LONGEST_US
        beyond = (
            f"CASE WHEN {number} BETWEEN {_UNSIGNED_US - MOST_US} AND {_UNSIGNED_US} THEN -2 "
            f"ELSE {fields.IMPOSSIBLE_NS} END"
        )
    if as_text:
        exact = f"TRY_CAST({column} AS DECIMAL(32, 6))"
        large = f"isfinite(TRY_CAST({column} AS DOUBLE))"
        ns = f"CASE WHEN abs({exact}) < {most} THEN CAST({exact} * 1000 AS BIGINT) WHEN {large} THEN {beyond} END"
        return ns, f"{exact} = floor({exact})"
    # The fraction alone is multiplied: the whole would lose its last digit to rounding.
    whole = f"CAST(floor({column}) AS BIGINT) * 1000"
    rest = f"CAST(round(({column} - floor({column})) * 1000) AS BIGINT)"
    ns = f"CASE WHEN abs({column}) < {most} THEN {whole} + {rest} WHEN isfinite({column}) THEN {beyond} END"
    return ns, f"{column} = floor({column})"


def _kept_as(raw: str, extras: dict[str, None]) -> str:
    """How an unknown key is spelled among the others, to which it is added while there is room."""
    twin = next((key for key in extras if key.lower() == raw.lower()), raw)
    if len(extras) < MOST_EXTRAS:
        extras[twin] = None
    return twin


def _without_edges(text: bytes) -> memoryview:
    """The text without the commas and blanks around its events."""
    # To strip copies what stays: only the end is stripped, unless nothing of it stays.
    near = text[-_NEAR:].rstrip(_EDGE)
    end = max(0, len(text) - _NEAR) + len(near) if near else len(text.rstrip(_EDGE))
    begin = _NO_EDGE.search(text)
    return memoryview(text)[begin.start() if begin else end : end]


_EDGE = b" \t\r\n,\x00"
_NO_EDGE = re.compile(rb"[^ \t\r\n,\x00]")
_NEAR = 64


def _column(key: str) -> str:
    return key if key == "extras" else f"a_{key}"
