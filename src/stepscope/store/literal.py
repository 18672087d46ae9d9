"""Fills in what literal rows leave out, so that a trace of three events needs three short lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.schema.declare import SchemaTable
from stepscope.schema.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Rows = dict[str, list[Row]]

_KIND_OF_CATEGORY = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "python_function": "python",
    "overhead": "overhead",
    "kernel": "computation",
    "gpu_memcpy": "copy",
    "gpu_memset": "fill",
    "gpu_user_annotation": "annotation",
    "cuda_sync": "sync",
}
_CATEGORY_OF_HOST_KIND = {
    "operator": "cpu_op",
    "annotation": "user_annotation",
    "runtime": "cuda_runtime",
    "python": "python_function",
}
_CATEGORY_OF_DEVICE_KIND = {
    "computation": "kernel",
    "communication": "kernel",
    "copy": "gpu_memcpy",
    "fill": "gpu_memset",
    "annotation": "gpu_user_annotation",
    "sync": "cuda_sync",
}
_PLAIN = {
    "BIGINT": 0,
    "BOOLEAN": True,
    "DOUBLE": 0.0,
    "INTEGER": 0,
    "SMALLINT": 0,
    "VARCHAR": "",
}


def complete_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """Every table of the schema, with the given rows made whole.

    Raises:
        ValueError: a table or a column that the schema does not have.
    """
    import pyarrow as pa

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
    for name, table in TABLES.items():
        for row in filled[name]:
            _fill_plainly(table, row)
    _add_surroundings(filled)
    return {
        name: pa.Table.from_pylist(filled[name], schema=_nullable(table))
        for name, table in TABLES.items()
    }


def _nullable(table: SchemaTable) -> pa.Schema:
    """NOT NULL is DuckDB's to enforce: its message names the column."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in table.arrow()])


def _fill_events(rows: Rows) -> None:
    used: dict[int, set[int]] = {}
    for row in rows["host_event"] + rows["device_event"]:
        if "id" in row:
            used.setdefault(row["rank"], set()).add(row["id"])
    next_id: dict[int, int] = {}
    for table, category, categories in (
        ("host_event", "cpu_op", _CATEGORY_OF_HOST_KIND),
        ("device_event", "kernel", _CATEGORY_OF_DEVICE_KIND),
    ):
        for row in rows[table]:
            if "id" not in row:
                taken = used.setdefault(row["rank"], set())
                number = next_id.get(row["rank"], 0)
                while number in taken:
                    number += 1
                row["id"] = number
                taken.add(number)
                next_id[row["rank"]] = number + 1
            if "category" not in row:
                row["category"] = categories.get(row.get("kind", ""), category)
            row.setdefault("kind", _KIND_OF_CATEGORY.get(row["category"], "other"))
            row.setdefault("name", row["category"])
            row.setdefault("start_ns", 0)
            row.setdefault("dur_ns", 0)


def _fill_nesting(rows: Rows) -> None:
    """Self time and depth follow from `parent_id` where a row does not state them."""
    by_id = {(row["rank"], row["id"]): row for row in rows["host_event"]}
    inner: dict[tuple[int, int], int] = {}
    for row in rows["host_event"]:
        if row.get("parent_id") is not None:
            key = row["rank"], row["parent_id"]
            inner[key] = inner.get(key, 0) + row["dur_ns"]
    for key, row in by_id.items():
        row.setdefault("self_ns", row["dur_ns"] - inner.get(key, 0))
        if "depth" not in row:
            depth, above = 0, row.get("parent_id")
            while above is not None and (key[0], above) in by_id:
                depth, above = depth + 1, by_id[key[0], above].get("parent_id")
            row["depth"] = depth


def _fill_recursion(rows: Rows) -> None:
    """What lies inside its like follows from `parent_id`."""
    by_id = {(row["rank"], row["id"]): row for row in rows["host_event"]}
    for row in by_id.values():
        above, what = row.get("parent_id"), (row["kind"], row["name"])
        inside = False
        while (event := by_id.get((row["rank"], above))) and not inside:
            inside, above = (event["kind"], event["name"]) == what, event.get("parent_id")
        row.setdefault("recursive", inside and row["kind"] in ("operator", "annotation"))


def _fill_links(rows: Rows) -> None:
    """When work was launched, and by which operator, follows from `launch_id` and `operator_id`."""
    by_id = {(row["rank"], row["id"]): row for row in rows["host_event"]}
    for row in rows["device_event"]:
        launch = by_id.get((row["rank"], row.get("launch_id")))
        operator = by_id.get((row["rank"], row.get("operator_id")))
        row.setdefault("launch_ns", launch and launch["start_ns"])
        row.setdefault("operator_name", operator and operator["name"])


def _fill_steps(rows: Rows) -> None:
    for row in rows["step"]:
        row.setdefault("step", 0)
        row.setdefault("name", f"ProfilerStep#{row['step']}")
        row.setdefault("start_ns", row.get("host_start_ns", 0))
        row.setdefault("end_ns", row.get("host_end_ns", row["start_ns"]))
        row.setdefault("host_start_ns", row["start_ns"])
        row.setdefault("host_end_ns", row["end_ns"])
        row.setdefault("rule", "ProfilerStep")
        if "device_events" not in row:
            row["device_events"] = sum(
                event["rank"] == row["rank"]
                and event.get("span", 0) == row.get("span", 0)
                and event.get("step") == row["step"]
                and event["kind"] in ("computation", "communication", "copy", "fill")
                for event in rows["device_event"]
            )


def _fill_the_rest(rows: Rows) -> None:
    for row in rows["data_check"]:
        row.setdefault("severity", "warning")
        row.setdefault("count", 1)
    for row in rows["module"]:
        row.setdefault("path", row.get("name", ""))
        row.setdefault("name", row["path"].rpartition(".")[2])
        row.setdefault("depth", 0)
        row.setdefault("calls", 1)
        row.setdefault("rule", "python")
    for row in rows["device"]:
        row.setdefault("kind", "cuda")
    for row in rows["thread"]:
        row.setdefault("kind", "thread")
    for row in rows["rank"]:
        row.setdefault("resolution_ns", 1)
        row.setdefault("rank_rule", "single")
    for row in rows["source"]:
        _fill_source(row)
    for row in rows["inline_timing"]:
        row.setdefault("kind", "event")
        row.setdefault("averaged", False)
    for row in rows["phase_step"]:
        row.setdefault("phase", "step")
    for row in rows["phase"]:
        row.setdefault("steps", 1)


_FILLS: tuple[Callable[[Rows], None], ...] = (
    _fill_events,
    _fill_nesting,
    _fill_recursion,
    _fill_links,
    _fill_steps,
    _fill_the_rest,
)


def _fill_plainly(table: SchemaTable, row: Row) -> None:
    for column in table.columns:
        if not column.nullable:
            row.setdefault(column.name, _PLAIN[column.sql_type])


def _fill_source(row: Row) -> None:
    row.setdefault("path", "trace.json")
    row.setdefault("format", "kineto")
    row.setdefault("truncated", False)


def _add_surroundings(rows: Rows) -> None:
    """Adds the ranks, sources, threads, devices and streams that the rows speak of."""
    ranks = {row["rank"] for table in rows.values() for row in table} or {0}
    known = {row["rank"] for row in rows["rank"]}
    for rank in sorted(ranks - known):
        rows["rank"].append({"rank": rank, "resolution_ns": 1, "rank_rule": "single"})
    if not rows["source"]:
        for rank in sorted(ranks):
            row: Row = {"rank": rank}
            _fill_source(row)
            _fill_plainly(TABLES["source"], row)
            rows["source"].append(row)
    if not rows["thread"]:
        threads = {(r["rank"], r["span"], r["thread"]) for r in rows["host_event"]}
        rows["thread"] = [
            {"rank": a, "span": b, "thread": c, "pid": "1", "tid": str(c), "kind": "thread"}
            for a, b, c in sorted(threads)
        ]
    if not rows["device"]:
        devices = {(r["rank"], r["device"]) for r in rows["device_event"]}
        rows["device"] = [
            {"rank": a, "device": b, "kind": "cuda", "used": True} for a, b in sorted(devices)
        ]
    if not rows["stream"]:
        streams = {(r["rank"], r["device"], r["stream"]) for r in rows["device_event"]}
        rows["stream"] = [{"rank": a, "device": b, "stream": c} for a, b, c in sorted(streams)]
