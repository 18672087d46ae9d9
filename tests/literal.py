"""Stores of literal rows, which fill in what the rows omit: a trace of three events needs three short lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stepscope.formats import vocabulary
from stepscope.schema.declare import SchemaTable
from stepscope.schema.tables import TABLES
from stepscope.store.open import Store

Row = dict[str, Any]
Rows = dict[str, list[Row]]

_PLAIN = {"BIGINT": 0, "BOOLEAN": True, "DOUBLE": 0.0, "INTEGER": 0, "SMALLINT": 0, "VARCHAR": ""}
_DEFAULTS: dict[str, Row] = {
    "data_check": {"severity": "warning", "count": 1},
    "device": {"kind": "cuda"},
    "inline_timing": {"kind": "event", "averaged": False, "weight": 1},
    "module": {"calls": 1, "rule": "python"},
    "phase": {"steps": 1},
    "phase_step": {"phase": "step", "weight": 1},
    "rank": {"resolution_ns": 1, "rank_rule": "single"},
    "source": {"path": "trace.json", "format": "kineto", "truncated": False},
    "step": {"rule": "ProfilerStep"},
    "thread": {"kind": "thread"},
}
"""Values for omitted columns whose usual default would mislead."""


def literal_store(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Store:
    """A store in memory of literal rows.

    Values that a row omits and the schema requires are filled in: rank and span 0, ids in order, the kind that goes
    with the category, and the rows of `rank`, `source`, `device`, `stream` and `thread` that the events refer to.

    >>> with literal_store({"host_event": [{"name": "aten::mm", "start_ns": 0, "dur_ns": 5}]}) as store:
    ...     store.sql("SELECT name, self_ns FROM host_event").to_pylist()
    [{'name': 'aten::mm', 'self_ns': 5}]
    """
    return Store.from_tables(complete_rows(rows))


def complete_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """The tables that have rows, with the given rows completed and the rows that they refer to added.

    Raises:
        ValueError: a table or a column that the schema does not have.
    """
    for name in rows:
        if name not in TABLES:
            raise ValueError(f"no table {name!r}; the schema has {', '.join(TABLES)}")
    filled: Rows = {name: [dict(row) for row in rows.get(name, ())] for name in TABLES}
    for name, table in TABLES.items():
        for row in filled[name]:
            unknown = set(row) - set(table.column_names)
            if unknown:
                raise ValueError(f"table {name} has no column {', '.join(sorted(unknown))}")
            row.setdefault("rank", 0)
    for fill in _FILLS:
        fill(filled)
    for name, listed in filled.items():
        for row in listed:
            _fill_plainly(name, row)
    _add_surroundings(filled)
    return {
        name: pa.Table.from_pylist(listed, schema=_nullable(TABLES[name])) for name, listed in filled.items() if listed
    }


def _nullable(table: SchemaTable) -> pa.Schema:
    """The columns without NOT NULL, which DuckDB enforces: its message names the column."""
    return pa.schema([field.with_nullable(True) for field in table.arrow()])


def _fill_events(rows: Rows) -> None:
    used: dict[int, set[int]] = {}
    for row in rows["host_event"] + rows["device_event"]:
        if "id" in row:
            used.setdefault(row["rank"], set()).add(row["id"])
    next_id: dict[int, int] = {}
    for table in ("host_event", "device_event"):
        for row in rows[table]:
            if "id" not in row:
                taken = used.setdefault(row["rank"], set())
                number = next_id.get(row["rank"], 0)
                while number in taken:
                    number += 1
                row["id"] = number
                taken.add(number)
                next_id[row["rank"]] = number + 1
            row.setdefault("category", _category(table, row.get("kind")))
            known = vocabulary.category(row["category"])
            row.setdefault("kind", known.kind if known else "other")
            row.setdefault("name", row["category"])
            row.setdefault("start_ns", 0)
            row.setdefault("dur_ns", 0)


def _category(table: str, kind: str | None) -> str:
    """The first category of a kind of events, or the most common of all."""
    side, otherwise = table.removesuffix("_event"), {"host_event": "cpu_op"}.get(table, "kernel")
    of_kind = (one.name for one in vocabulary.CATEGORIES.values() if (one.side, one.kind) == (side, kind))
    return next(of_kind, otherwise)


def _fill_links(rows: Rows) -> None:
    """Fills in what follows from `parent_id`, `launch_id` and `operator_id` if a row does not state it."""
    by_id = {(row["rank"], row["id"]): row for row in rows["host_event"]}

    def above(row: Row) -> Iterator[Row]:
        while found := by_id.get((row["rank"], row.get("parent_id"))):
            yield (row := found)

    inner: dict[tuple[int, int], int] = {}
    for row in rows["host_event"]:
        if row.get("parent_id") is not None:
            key = row["rank"], row["parent_id"]
            inner[key] = inner.get(key, 0) + row["dur_ns"]
    for key, row in by_id.items():
        alike = [(one["kind"], one["name"]) == (row["kind"], row["name"]) for one in above(row)]
        row.setdefault("self_ns", row["dur_ns"] - inner.get(key, 0))
        row.setdefault("depth", len(alike))
        row.setdefault("recursive", any(alike) and row["kind"] in ("operator", "annotation"))
    by_id |= {(row["rank"], row["id"]): row for row in rows["device_event"]}
    for row in rows["collective"]:
        described = row.get("host_id") if row.get("id") is None else row["id"]
        event = by_id.get((row["rank"], described), row)
        row.setdefault("start_ns", event.get("start_ns", 0))
        row.setdefault("end_ns", row["start_ns"] + event.get("dur_ns", 0))
    for row in rows["device_event"]:
        launch = by_id.get((row["rank"], row.get("launch_id")))
        operator = by_id.get((row["rank"], row.get("operator_id")))
        row.setdefault("launch_ns", launch and launch["start_ns"])
        row.setdefault("launch_end_ns", launch and launch["start_ns"] + launch["dur_ns"])
        row.setdefault("operator_name", operator and operator["name"])


def _fill_steps(rows: Rows) -> None:
    from stepscope.link.steps import is_warmup

    for row in rows["step"]:
        row.setdefault("step", 0)
        row.setdefault("name", f"ProfilerStep#{row['step']}")
        row.setdefault("start_ns", row.get("host_start_ns", 0))
        row.setdefault("end_ns", row.get("host_end_ns", row["start_ns"]))
        row.setdefault("host_start_ns", row["start_ns"])
        row.setdefault("host_end_ns", row["end_ns"])
        if "device_events" not in row:
            row["device_events"] = sum(
                event["rank"] == row["rank"]
                and event.get("span", 0) == row.get("span", 0)
                and event.get("step") == row["step"]
                and event["kind"] in ("computation", "communication", "copy", "fill")
                for event in rows["device_event"]
            )
    for key in {(row["rank"], row.get("span", 0)) for row in rows["step"]}:
        own = [row for row in rows["step"] if (row["rank"], row.get("span", 0)) == key]
        own.sort(key=lambda row: (row["start_ns"], row["step"]))
        lengths = [row["end_ns"] - row["start_ns"] for row in own]
        first = is_warmup(lengths, [row.get("complete", True) for row in own])
        for place, row in enumerate(own):
            row.setdefault("is_warmup", place == first)


def _fill_modules(rows: Rows) -> None:
    for row in rows["module"]:
        row.setdefault("path", row.get("name", ""))
        row.setdefault("compiled", False)
        row.setdefault("name", row["path"].rpartition(".")[2])


_FILLS: tuple[Callable[[Rows], None], ...] = (_fill_events, _fill_links, _fill_steps, _fill_modules)


def _fill_plainly(name: str, row: Row) -> None:
    for column, value in _DEFAULTS.get(name, {}).items():
        row.setdefault(column, value)
    for declared in TABLES[name].columns:
        if not declared.nullable:
            row.setdefault(declared.name, _PLAIN[declared.sql_type])


def _add_surroundings(rows: Rows) -> None:
    """Adds the ranks, sources, threads, devices and streams that the rows refer to."""
    ranks = {row["rank"] for table in rows.values() for row in table} or {0}
    host, device = rows["host_event"], rows["device_event"]
    known = {row["rank"] for row in rows["rank"]}
    rows["rank"] += [_row("rank", rank=rank) for rank in sorted(ranks - known)]
    rows["source"] = rows["source"] or [_row("source", rank=rank) for rank in sorted(ranks)]
    rows["thread"] = rows["thread"] or [
        _row("thread", rank=a, span=b, thread=c, pid="1", tid=str(c))
        for a, b, c in sorted({(r["rank"], r["span"], r["thread"]) for r in host})
    ]
    rows["device"] = rows["device"] or [
        _row("device", rank=a, device=b) for a, b in sorted({(r["rank"], r["device"]) for r in device})
    ]
    rows["stream"] = rows["stream"] or [
        _row("stream", rank=a, device=b, stream=c)
        for a, b, c in sorted({(r["rank"], r["device"], r["stream"]) for r in device})
    ]


def _row(table: str, **given: Any) -> Row:
    _fill_plainly(table, given)
    return given
