"""Reads slices of a trace with DuckDB's JSON reader.

One thread reads a slice, from its text to the rows of our tables, as soon as the keys of all earlier slices are
declared. A slice that needs more is read again when its turn comes, so that no answer depends on which thread was
faster: times too large for a double are quoted, so that DuckDB returns their digits; a value of an unexpected type
switches the file to reading everything as text; and a slice that DuckDB refuses is halved until the damaged piece is
small, which is then repaired.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import json
import os
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from fsspec.spec import AbstractFileSystem

from stepscope.base.cpu_quota import workers
from stepscope.formats.kineto.conform import conform
from stepscope.formats.kineto.plan import (
    EXACT_US,
    MAX_OBJECT_BYTES,
    SEEN_BITS,
    Declared,
    Plan,
    has_long_decimals,
    in_ns,
    split,
)
from stepscope.formats.kineto.repair import Repairer, RepairReport
from stepscope.formats.kineto.rows import EventRows, Taken, take
from stepscope.formats.kineto.slices import Slice, split_at_event
from stepscope.formats.tables import ReadReport

INSERTED_EVENTS = 8192
DAMAGED_PIECES = 6
"""After so many damaged pieces without an intact one between them, entire slices are repaired event by event."""

REPAIR_BYTES = 64 << 10  # a damaged slice is halved down to this before the slow way reads it event by event
_CACHED_SAMPLE_BYTES = 1 << 20
AHEAD = 1  # slices that may wait to be read or taken, besides one for each thread
_KEY = re.compile(rb'"([A-Za-z][A-Za-z0-9 _.%()/-]{0,63})"\s*:')
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def _is_wrong_type(message: str) -> bool:
    _, _, why = message.partition("transform error")
    return "Failed to cast" in why or "Expected ARRAY" in why


class _LongTimesError(Exception):
    """A text has times with more digits than a double holds."""


class _WrongTypesError(Exception):
    """A text has values of another type than their field has elsewhere."""


class _SliceFiles(AbstractFileSystem):  # type: ignore[misc]
    """Slices as files that DuckDB can open."""

    protocol = "stepscope-slice"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, bytes] = {}

    @contextlib.contextmanager
    def holding(self, *pieces: bytes | memoryview) -> Iterator[str]:
        """The calling thread's file, which meanwhile contains the list of a text's events, given in pieces."""
        name = f"{threading.get_ident()}.json"
        self._texts[name] = b"".join((b"[", *pieces, b"]"))
        try:
            yield f"{self.protocol}://{name}"
        finally:
            del self._texts[name]

    def _name(self, path: str) -> str:
        return path.rsplit("/", 1)[-1]

    def _open(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        # Neither this nor reading all of it copies the text.
        return io.BytesIO(self._texts[self._name(path)])

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self._texts[self._name(path)]), "type": "file"}

    def glob(self, path: str, *_: Any, **__: Any) -> list[str]:
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        return self._name(path) in self._texts

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's signature
        return _EPOCH

    def created(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's signature
        return _EPOCH


class _Database:
    """DuckDB with slices as files, and the threads that use it, each with its own connection."""

    def __init__(self, threads: int) -> None:
        self.workers = ThreadPoolExecutor(threads, "stepscope-slice")
        self.files = _SliceFiles()
        self._connection = duckdb.connect(":memory:")
        self._connection.register_filesystem(self.files)
        # Each statement runs in its caller's thread: two threads on one statement save a third of its time,
        # two statements at once save half.
        self._connection.execute(
            "SET python_enable_replacements = false; SET preserve_insertion_order = true; "
            "SET memory_limit = '2GB'; SET threads = 1"
        )
        self._of_thread = threading.local()
        self._parsing = threading.Lock()  # parsed events take up to thirty times their text
        self._keys_of: dict[bytes, tuple[set[str], set[str]]] = {}
        self._cursors: list[duckdb.DuckDBPyConnection] = []

    def close(self) -> None:
        """Ends the threads and DuckDB's use of the slices; otherwise DuckDB complains at exit."""
        self.workers.shutdown(cancel_futures=True)
        for cursor in self._cursors:
            cursor.close()
        with contextlib.suppress(duckdb.Error):
            self._connection.unregister_filesystem(self.files.protocol)
        self._connection.close()

    @property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The calling thread's connection."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._of_thread, "cursor", None)
        if cursor is None:
            cursor = self._of_thread.cursor = self._connection.cursor()
            self._cursors.append(cursor)
        return cursor

    def read(self, text: bytes, plan: Plan) -> pa.Table:
        """The events of a text, one row each; `duckdb.Error` if DuckDB cannot read it."""
        pieces = plan.spelled(_without_edges(text))
        if not plan.rare:
            return self.read_spelled(pieces, plan)
        with self._parsing:
            try:
                events = json.loads(b"".join((b"[", *pieces, b"]")), object_pairs_hook=_without_repeats)
                return self.read_split(events, plan)
            except (ValueError, RecursionError) as error:
                raise duckdb.InvalidInputException(str(error)) from None

    def read_split(self, events: list[Any], plan: Plan) -> pa.Table:
        """The same for parsed events of a text with too many unknown keys for a column each."""
        if not all(isinstance(event, dict) for event in events):
            raise ValueError("an entry is not an event")
        parts = [split(event) for event in events]
        text = json.dumps([declared for declared, _ in parts]).encode()[1:-1]
        table = self.read_spelled([text], plan)
        return table.append_column("other_args", pa.array([unknown for _, unknown in parts], pa.string()))

    def read_spelled(self, pieces: Sequence[bytes | memoryview], plan: Plan) -> pa.Table:
        """The events of a text whose keys are those of the plan, one row each."""
        with self.files.holding(*pieces) as file:
            return in_ns(self._prepared(file, plan).to_arrow_table())

    def _prepared(self, file: str, plan: Plan) -> duckdb.DuckDBPyRelation:
        """A plan's prepared query: planning it takes DuckDB as long as reading a thousand events."""
        prepared = self._of_thread.__dict__.setdefault("prepared", {})
        if plan not in prepared:
            if len(prepared) > 1:
                prepared.clear()
            prepared[plan] = self.cursor.sql(plan.events(file))
        return prepared[plan]

    def keys(self, *texts: bytes) -> tuple[set[str], set[str]]:
        """All keys of the arguments in the first text that can be read, and all keys of events."""
        if texts[0] in self._keys_of:
            return self._keys_of[texts[0]]
        for text in texts:
            file_of_text = self.files.holding(_without_edges(text))
            with file_of_text as file, contextlib.suppress(duckdb.Error):
                # Many events share few combinations of keys.
                rows = self.cursor.execute(
                    "SELECT DISTINCT json_keys(event), CASE WHEN json_type(event, '$.args') = 'OBJECT' "
                    f"THEN json_keys(event, '$.args') END FROM read_json('{file}', "
                    "columns = {'event': 'JSON'}, records = false, format = 'array', "
                    f"maximum_object_size = {MAX_OBJECT_BYTES})"
                ).fetchall()
                events, args = ({key for row in rows for key in row[of] or ()} for of in (0, 1))
                if text is texts[0] and len(text) <= _CACHED_SAMPLE_BYTES:
                    self._keys_of = {text: (args, events)}
                return args, events
        # Damaged: whatever looks like a key counts as one. Otherwise its next appearance, in an intact
        # slice, would pass as known.
        return {key.decode() for key in set(_KEY.findall(texts[-1]))}, set()


_IDLE: dict[int, _Database] = {}
"""Databases for the next file, by number of threads: making one takes as long as reading a megabyte."""


@atexit.register
def _close_idle() -> None:
    for threads in list(_IDLE):
        if idle := _IDLE.pop(threads, None):
            idle.close()


# A forked child has none of DuckDB's threads, and crashes when it frees a database that waits for them.
os.register_at_fork(before=_close_idle)


@dataclass(slots=True)
class _Reading:
    piece: Slice
    plan: Plan
    taken: Future[Taken]


class EventScanner:
    """Reads slices and takes their rows, `threads` at a time or one for each processor."""

    def __init__(self, report: ReadReport, threads: int | None = None, *, python_stack: bool = True) -> None:
        self.rows = EventRows()
        self._report = report
        self._python_stack = python_stack
        self._threads = threads or workers(8)
        idle: _Database | None = _IDLE.pop(self._threads, None)
        self._database = idle or _Database(self._threads)
        self._workers = self._database.workers
        self._finished = False
        self._declared = Declared()
        self._plan = self._declared.plan()
        self._reading: deque[_Reading] = deque()
        self._damaged_pieces = 0
        self.repaired_bytes = 0
        """Text that was read event by event so far."""
        self.ended = False
        """Whether the trace's own end was seen before the file's."""
        self.boundary: re.Pattern[bytes] = re.compile(rb'\}\s*,\s*(\{\s*")')
        # What reading one slice event by event finds.
        self._pending = RepairReport()
        self._again = False
        self._tables: list[tuple[pa.Table, Plan]] = []

    def close(self) -> None:
        """Leaves DuckDB to the next file, unless some of this one may still be read."""
        if not self._finished or self.ended or self._threads in _IDLE:
            self._database.close()
        else:
            _IDLE[self._threads] = self._database

    # -- in parallel -------------------------------------------------------------------------------

    def add(self, piece: Slice) -> None:
        """Starts reading a slice, and takes the rows of earlier ones while too many are waiting."""
        if piece.new_keys and not self._declared.rare:
            keys = self._workers.submit(self._database.keys, piece.new_keys, piece.text)
            if self._declared.add(*keys.result()):
                self._plan = self._declared.plan()
        plan = self._plan
        self._reading.append(_Reading(piece, plan, self._workers.submit(self._read, piece, plan)))
        while len(self._reading) >= self._threads + AHEAD:
            self._take_first()

    def finish(self) -> None:
        """Takes the rows of all slices that are still being read."""
        while self._reading:
            self._take_first()
        self._finished = True

    def _read(self, piece: Slice, plan: Plan) -> Taken:
        if not plan.exact and has_long_decimals(piece.text):
            raise _LongTimesError
        if not plan.loose and piece.booleans:
            raise _WrongTypesError
        table = self._database.read(piece.text, plan)
        if not plan.exact and _max_time(table) >= EXACT_US * 1000:
            raise _LongTimesError
        return self._taken(table, plan)

    def _taken(self, table: pa.Table, plan: Plan) -> Taken:
        taken = take(table, self.rows.sets, python_stack=self._python_stack)
        report = taken.report
        if plan.loose and (wrong := pc.sum(table["wrong"]).as_py()):
            report.note("wrong_type", count=wrong)
        unknown = report.unknown_fields
        if plan.rare:
            unknown |= Counter(key for text in table["other_args"].to_pylist() if text for key in json.loads(text))
        for low in range(0, len(plan.extras), SEEN_BITS):
            for seen in table[f"seen_{low // SEEN_BITS}"].value_counts().to_pylist():
                for bit, key in enumerate(plan.extras[low : low + SEEN_BITS]):
                    if seen["values"] >> bit & 1:
                        unknown[key] = unknown.get(key, 0) + seen["counts"]
        return taken

    # -- one after the other -----------------------------------------------------------------------

    def _take_first(self) -> None:
        """Takes the rows of the first slice that is still waiting."""
        reading = self._reading.popleft()
        if self.ended:
            reading.taken.cancel()
            return
        piece, text = reading.piece, reading.piece.text
        try:
            self.rows.add(reading.taken.result())
            self._damaged_pieces = 0
        except (duckdb.Error, _LongTimesError, _WrongTypesError) as error:
            # Not in this thread: Ctrl-C would arrive inside DuckDB, which would report an unreadable file.
            again = self._workers.submit(self._read_again, reading, error)
            for taken in again.result():
                self.rows.add(taken)
        if piece.last and text.rstrip(b" \t\r\n").endswith(b"\x00"):
            end = len(text.rstrip(b"\x00 \t\r\n"))
            self._report.note("trailing_nuls", piece.offset + end)

    def _read_again(self, reading: _Reading, error: Exception) -> list[Taken]:
        """Reads a slice again that needs more than plain reading, or more than was known before."""
        piece = reading.piece
        if reading.plan is self._plan and not self._learn(error):
            return self._read_damaged(piece)
        while True:
            self._plan = self._declared.plan()
            try:
                return [self._read(piece, self._plan)]
            except (duckdb.Error, _LongTimesError, _WrongTypesError) as another:
                if not self._learn(another):
                    return self._read_damaged(piece)

    def _learn(self, error: Exception) -> bool:
        """Declares what an error shows about a text; returns whether another try may succeed."""
        declared = self._declared
        if isinstance(error, _LongTimesError):
            declared.exact = True
        elif isinstance(error, _WrongTypesError) or _is_wrong_type(str(error)):
            # From here on every field is read as text and converted one by one.
            if declared.loose:
                return False
            declared.loose = True
        else:
            return False
        return True

    def _read_damaged(self, piece: Slice) -> list[Taken]:
        """The rows of a slice's intact and repairable events."""
        self._again = True
        while self._again:
            # Other types that a pass finds apply to the next pass.
            self._again, self.ended = False, False
            self._pending, self._tables = RepairReport(), []
            self._plan = self._declared.plan()
            self._read_piece(piece)
            if not self._plan.exact and any(_max_time(table) >= EXACT_US * 1000 for table, _ in self._tables):
                self._declared.exact = self._again = True
        self._report.add(self._pending)
        taken = [self._taken(table, plan) for table, plan in self._tables]
        self._tables = []
        return taken

    def _read_piece(self, piece: Slice) -> None:
        if self.ended:
            return
        try:
            self._tables.append((self._database.read(piece.text, self._plan), self._plan))
            self._damaged_pieces = 0
        except duckdb.Error as error:
            if self._learn(error):
                self._again = True
                self._plan = self._declared.plan()
                self._read_piece(piece)
            else:
                self._read_damaged_piece(piece)

    def _read_damaged_piece(self, piece: Slice) -> None:
        # If every piece is damaged (Windows paths in each call stack), halving finds no intact one and
        # costs more than repairing at once.
        rare = self._damaged_pieces < DAMAGED_PIECES
        large = rare and len(piece.text) > REPAIR_BYTES
        halves = split_at_event(piece, self.boundary) if large or piece.end else None
        if halves is not None:
            for half in halves:
                self._read_piece(half)
            return
        self.repaired_bytes += len(piece.text)
        events = Repairer(piece.text, piece.offset, self._pending, last=piece.last).events()
        while some := list(itertools.islice(events, INSERTED_EVENTS)):
            self._read_conformed([conform(event, self._pending) for event in some], piece.offset)
        # The trace's own end: the rest is left over from a longer file.
        self.ended |= self._pending.end is not None
        self._damaged_pieces += 1

    def _read_conformed(self, events: list[dict[str, Any]], offset: int) -> None:
        try:
            plan = self._declared.few().plan()
            self._tables.append((self._database.read_split(events, plan), plan))
        except duckdb.Error:
            if len(events) == 1:
                self._pending.dropped += 1
                self._pending.note("unreadable", offset)
                return
            middle = len(events) // 2
            self._read_conformed(events[:middle], offset)
            self._read_conformed(events[middle:], offset)


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(members)
    if len(parsed) < len(members):
        raise ValueError("a key is repeated")
    return parsed


def _max_time(table: pa.Table) -> int:
    """The longest time with decimals (ns); 0 if no time is too long for a double."""
    extent = pc.min_max(table["ts_ns"]).as_py()
    if max(abs(extent["min"] or 0), abs(extent["max"] or 0)) < EXACT_US * 1000:
        return 0
    decimal = table["ts_ns"].filter(pc.invert(table["integer"]))
    return int(pc.max(pc.abs(decimal)).as_py() or 0)


def _without_edges(text: bytes) -> memoryview:
    """The text without the commas and blanks around its events."""
    # To strip copies what stays: only the end is stripped, unless nothing of it stays.
    near = text[-_NEAR:].rstrip(_EDGE)
    end = max(0, len(text) - _NEAR) + len(near) if near else len(text.rstrip(_EDGE))
    start = _NO_EDGE.search(text)
    return memoryview(text)[start.start() if start else end : end]


_EDGE = b" \t\r\n,\x00"
_NO_EDGE = re.compile(rb"[^ \t\r\n,]")  # zeros before an event are a hole
_NEAR = 64
