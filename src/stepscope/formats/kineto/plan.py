"""What DuckDB is told about a file's events: their keys and types, and the columns that are made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.base.quoting import sql_literal, sql_name
from stepscope.formats.kineto import fields
from stepscope.formats.kineto.rows import columns as taken_columns

MAX_OBJECT_BYTES = 16 << 20  # DuckDB keeps buffers of a few times this size; a longer event is read the slow way
MAX_EXTRAS = 256  # unknown keys that have a column each; if there are more, `split` keeps them
EXACT_US = 2.0**43
"""Times from here on (µs; 101 days) do not survive a double to the nanosecond: below, the doubles around a time of
three decimals are less than a nanosecond apart. Kineto counts from the start of the quarter."""

MAX_US = 4_500_000_000_000_000
"""Times from here on (µs; the year 2112) are invalid: differences of two of them could exceed 64 bits in ns."""

MAX_DURATION_US = 366 * 86_400_000_000  # durations from here on (µs) are invalid: no recording is longer than a year
SEEN_BITS = 60  # unknown fields whose presence one integer column states, a bit each
_UNSIGNED_US = 2**64 / 1000  # an end of 0 less a start in unsigned ns (as µs), or a little more
_HALF = np.nextafter(0.5, 0)  # makes a fraction of 0.5 round up, and no smaller one
_BLOCK = 1 << 20  # bytes that are searched at a time: intermediate arrays fit into the processor's caches
_LONG_TIME = re.compile(rb'("ts"\s*:\s*)(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)')

Text = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Plan:
    """How the events of a text are read.

    Args:
        extras: unknown fields, in the order of the bits of the columns `seen_0`, ....
        select: SQL of the columns that are taken from an event.
        source: arguments of `read_json` besides the file.
        respell: keys in the text that DuckDB gets in another spelling.
        exact: whether times are quoted, so that they keep their digits.
        loose: whether every field is read as text and converted one by one.
        rare: whether there are so many unknown keys that `split` takes events apart.
    """

    extras: tuple[str, ...]
    select: str
    source: str
    respell: tuple[tuple[bytes, bytes], ...]
    exact: bool
    loose: bool
    rare: bool

    def spelled(self, text: Text) -> list[Text]:
        """A text of events as DuckDB gets it, in pieces."""
        if self.exact:
            text = _LONG_TIME.sub(rb'\1"\2"', bytes(text))
        places = ((place, raw, ours) for raw, ours in self.respell for place in _places(text, raw))
        pieces: list[Text] = []
        at, text = 0, memoryview(text)
        for place, raw, ours in sorted(places):
            pieces += [text[at:place], ours]
            at = place + len(raw)
        return [*pieces, text[at:]]

    def events(self, file: str) -> str:
        """SQL for the events of a file, one row each."""
        return f"SELECT {self.select} FROM read_json('{file}', {self.source})"


@dataclass(slots=True)
class Declared:
    """The keys of a file that are known so far, and how its values are read."""

    exact: bool = False
    loose: bool = False
    rare: bool = False
    _args: dict[str, str] = field(default_factory=dict)
    """The file's spelling of each known argument; others are respelled."""
    _respell: dict[bytes, bytes] = field(default_factory=dict)
    _unknown_args: set[str] = field(default_factory=set)
    _unknown_events: set[str] = field(default_factory=set)

    def add(self, args: set[str], events: set[str]) -> bool:
        """Declares keys of arguments and events, as the file spells them; returns whether that changes anything."""
        before = self._size()
        for raw in sorted(args):
            spelling = fields.KNOWN_ARGS.get(raw.lower())
            if spelling is None:
                self._unknown_args.add(raw)
            elif spelling in fields.ARGS:
                # An argument called like a key of events is not respelled: it would take theirs along.
                ours = self._args.setdefault(spelling, spelling if spelling in fields.EVENT else raw)
                if raw != ours:
                    self._respell[_key_text(raw)] = _key_text(ours)
        self._unknown_events |= {raw for raw in events if raw.lower() not in fields.KNOWN_EVENT}
        if self.rare or self._is_varied():
            self.rare, self._args, self._respell = True, self.few()._args, {}
            self._unknown_args, self._unknown_events = set(), set()
        return before != self._size()

    def _size(self) -> tuple[int, ...]:
        unknown = len(self._unknown_args), len(self._unknown_events)
        return self.rare, len(self._args), len(self._respell), *unknown

    def _is_varied(self) -> bool:
        """Whether there are too many unknown keys or spellings, or keys that DuckDB, which ignores case, cannot tell
        from another one or does not accept as a column.
        """
        unknown = self._unknown_args | self._unknown_events
        if len(unknown) + len(self._respell) > MAX_EXTRAS:
            return True
        return len({raw.lower() for raw in unknown}) < len(unknown) or any(not raw or "\0" in raw for raw in unknown)

    def few(self) -> Declared:
        """Known arguments in our spelling, and no other key: what `split` makes of an event."""
        return Declared(self.exact, self.loose, rare=True, _args={name: name for name in fields.ARGS})

    def plan(self) -> Plan:
        """How a text is read, given what is known so far."""
        top, args = self._types()
        extras = {f"args.{sql_name(raw)}": raw for raw in sorted(self._unknown_args)}
        extras |= {sql_name(raw): raw for raw in sorted(self._unknown_events)}
        struct = ", ".join(f"{sql_name(key)} {kind}" for key, kind in args.items())
        columns = {**top, "args": f"STRUCT({struct})"}
        declared = ", ".join(f"{sql_literal(k)}: {sql_literal(kind)}" for k, kind in columns.items())
        return Plan(
            extras=tuple(extras.values()),
            select=self._select(extras),
            source=f"columns = {{{declared}}}, format = 'array', maximum_object_size = {MAX_OBJECT_BYTES}",
            respell=tuple(self._respell.items()),
            exact=self.exact,
            loose=self.loose,
            rare=self.rare,
        )

    def _types(self) -> tuple[dict[str, str], dict[str, str]]:
        """The types that the keys of events and of arguments are read as."""
        top = {key: kind for key, kind in fields.EVENT.items() if key != "args"}
        top |= dict.fromkeys(sorted(self._unknown_events), "JSON")
        args = {raw: fields.ARGS[spelling] for spelling, raw in self._args.items()}
        args |= dict.fromkeys(sorted(self._unknown_args), "JSON")
        if self.exact:
            top["ts"] = "VARCHAR"
        if self.loose:
            top, args = (
                {key: kind if kind == "JSON" else "VARCHAR" for key, kind in types.items()} for types in (top, args)
            )
        return top, args or {"External id": "VARCHAR"}

    def _select(self, extras: dict[str, str]) -> str:
        ts, ts_integer = _nanoseconds("ts", as_text=self.exact or self.loose)
        dur, dur_integer = _nanoseconds("dur", as_text=self.loose)
        arguments = {spelling: f"args.{sql_name(raw)}" for spelling, raw in self._args.items()}
        converted = {
            value: fields.ARGS[key] for key, value in arguments.items() if self.loose and fields.ARGS[key] != "VARCHAR"
        }
        wrong = [f"({value} IS NOT NULL AND TRY_CAST({value} AS {kind}) IS NULL)" for value, kind in converted.items()]
        if self.loose:
            wrong += ["(ts IS NOT NULL AND ts_ns IS NULL)", "(dur IS NOT NULL AND dur_ns IS NULL)"]
        columns = ["ph", "cat", "name", "pid", "tid", f"{ts} AS ts_ns", f"{dur} AS dur_ns"]
        columns += ["TRY_CAST(id AS BIGINT) AS id" if self.loose else "id"]
        columns += [f"({ts_integer} AND {dur_integer}) AS integer"]
        if wrong:
            columns += [f"{' + '.join(f'{test}::UTINYINT' for test in wrong)} AS wrong"]
        columns += taken_columns(
            {
                key: f"TRY_CAST({value} AS {converted[value]})" if value in converted else value
                for key, value in arguments.items()
            }
        )
        if extras:
            columns.append(f"{_as_object(extras)} AS other_args")
        values = list(extras)
        for low in range(0, len(values), SEEN_BITS):
            bits = (
                f"(({value} IS NOT NULL)::BIGINT << {bit})" for bit, value in enumerate(values[low : low + SEEN_BITS])
            )
            columns.append(f"{' | '.join(bits)} AS seen_{low // SEEN_BITS}")
        return ", ".join(columns)


def split(event: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """An event with its declared keys in our spelling, and its unknown keys and arguments as the text of a JSON object."""
    declared = {key: event[key] for key in fields.EVENT if key in event}
    args, unknown = declared.get("args"), {}
    if isinstance(args, dict):
        declared["args"] = known_args = {}
        for raw, value in args.items():
            key = raw if raw in fields.ARGS else fields.KNOWN_ARGS.get(raw.lower())
            if key in fields.ARGS:
                known_args[key] = value
            elif key is None and value is not None:
                unknown[raw] = value
    for raw in event.keys() - fields.EVENT.keys():
        if event[raw] is not None and fields.KNOWN_EVENT.get(raw.lower()) not in fields.EVENT_IGNORED:
            unknown[raw] = event[raw]
    return declared, json.dumps(
        dict(sorted(unknown.items())), separators=(",", ":"), ensure_ascii=False
    ) if unknown else None


def _key_text(key: str) -> bytes:
    return json.dumps(key, ensure_ascii=False).encode() + b":"


def _as_object(values: dict[str, str]) -> str:
    """SQL for some values as the text of a JSON object, NULL if all are."""
    absent = " AND ".join(f"{value} IS NULL" for value in values)
    parts = ", ".join(
        f"{sql_literal(json.dumps(key) + ':')} || CAST({value} AS VARCHAR)" for value, key in values.items()
    )
    return f"CASE WHEN {absent} THEN NULL ELSE '{{' || concat_ws(',', {parts}) || '}}' END"


def _nanoseconds(column: str, *, as_text: bool) -> tuple[str, str]:
    """SQL for a time in µs as integer ns, and for whether it is in whole µs; `in_ns` does the rest."""
    if not as_text:
        return column, "true"
    exact = f"TRY_CAST({column} AS DECIMAL(32, 6))"
    number = f"TRY_CAST({column} AS DOUBLE)"
    maximum, beyond = MAX_US, "NULL"
    if column == "dur":
        maximum = MAX_DURATION_US
        beyond = (
            f"CASE WHEN {number} BETWEEN {_UNSIGNED_US - MAX_US} AND {_UNSIGNED_US} "
            f"THEN {fields.UNSIGNED_NS} ELSE {fields.IMPOSSIBLE_NS} END"
        )
    ns = f"CASE WHEN abs({exact}) < {maximum} THEN CAST({exact} * 1000 AS BIGINT) WHEN isfinite({number}) THEN {beyond} END"
    return ns, f"coalesce({exact} = floor({exact}), true)"


def in_ns(table: pa.Table) -> pa.Table:
    """The table with times that are doubles (µs) as integer ns.

    An invalid time becomes NULL, an invalid duration `fields.UNSIGNED_NS` (an end of 0 less a start in unsigned
    numbers) or `fields.IMPOSSIBLE_NS`.
    """
    integer = table["integer"].to_numpy()
    for name, maximum in (("ts_ns", MAX_US), ("dur_ns", MAX_DURATION_US)):
        place = table.schema.get_field_index(name)
        if not pa.types.is_floating(table.schema.field(place).type):
            continue
        us = table[name].to_numpy()
        valid = np.abs(us) < maximum
        us = np.where(valid, us, 0.0)
        floor = np.floor(us)
        # Only the fraction is multiplied: multiplying the entire time would round off its last digit.
        ns = floor.astype(np.int64) * 1000
        ns += ((us - floor) * 1000 + _HALF).astype(np.int64)
        integer = integer & (us == floor)
        if name == "dur_ns" and not valid.all():
            us = table[name].to_numpy()
            unsigned = (us >= _UNSIGNED_US - MAX_US) & (us <= _UNSIGNED_US)
            ns = np.where(valid, ns, np.where(unsigned, fields.UNSIGNED_NS, fields.IMPOSSIBLE_NS))
            valid |= np.isfinite(us)
        mask = None if valid.all() else ~valid
        table = table.set_column(place, name, pa.array(ns, mask=mask))
    return table.set_column(table.schema.get_field_index("integer"), "integer", pa.array(integer))


def _places(text: Text, key: bytes) -> Iterator[int]:
    """Where a key occurs in a text. Compares three of its bytes, which is several times as fast as `bytes.find` of all
    of them."""
    letters, length = np.frombuffer(text, dtype=np.uint8), len(key)
    for low in range(0, len(text) - length + 1, _BLOCK):
        block = letters[low : low + _BLOCK + length - 1]
        same = block[1 : len(block) - length + 2] == key[1]
        for at in (2, length - 3):
            same &= block[at : len(block) - length + 1 + at] == key[at]
        for place in (np.flatnonzero(same) + low).tolist():
            # After a backslash, the quote is part of a key that ends like this one.
            if text[place : place + length] == key and text[place - 1 : place] != b"\\":
                yield place


def has_long_decimals(text: bytes) -> bool:
    """Whether the first times of a text have more digits than a double can hold."""
    for match in _LONG_TIME.finditer(text[: 1 << 16]):
        digits = match.group(2)
        if b"." in digits and abs(float(digits.split(b".")[0] or 0)) >= EXACT_US:
            return True
    return False
