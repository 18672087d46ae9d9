"""Finds rows of a store that the schema does not allow.

Files that another program wrote have valid checksums. Comparing every row each time would cost more than the questions
do, so this runs after a query has failed, to distinguish such a store from a defect of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepscope.base.quoting import sql_literal
from stepscope.formats.accepted import LARGEST
from stepscope.schema.declare import Role, SchemaColumn, SchemaTable
from stepscope.schema.tables import TABLES

_BOUNDED = {Role.MOMENT: LARGEST, Role.DURATION: LARGEST, Role.BYTES: LARGEST, Role.EPOCH: 2 * LARGEST}

Query = Callable[[str], list[tuple[Any, ...]]]


def schema_violation(files: Mapping[str, Iterable[str]], query: Query) -> str | None:
    """What the schema does not allow in the files of a store's tables, in words; None if there is nothing."""
    for name, paths in files.items():
        for path in paths if name in TABLES else ():
            if violation := _in_file(TABLES[name], path, query):
                return f"{name}: {violation}"
    return None


def _in_file(table: SchemaTable, path: str, query: Query) -> str | None:
    source = f"read_parquet({sql_literal(path)}, hive_partitioning=false)"
    types = {name: kind for name, kind, *_ in query(f"DESCRIBE SELECT * FROM {source}")}
    for column in table.columns:
        stored = types.get(column.name)
        if stored != column.sql_type:
            return f"{column.name} is {stored or 'missing'} and not {column.sql_type}"
    conditions = {column.name: condition for column in table.columns if (condition := _condition(column))}
    if not conditions:
        return None
    counts = ", ".join(f"count(*) FILTER (WHERE NOT ({condition}))" for condition in conditions.values())
    for name, count in zip(conditions, query(f"SELECT {counts} FROM {source}")[0], strict=True):
        if count:
            return f"{name} has {count} values that it cannot have"
    return None


def _condition(column: SchemaColumn) -> str:
    """What each value of a column fulfils, in SQL; empty for anything."""
    name = column.quoted
    conditions = [] if column.nullable else [f"{name} IS NOT NULL"]
    if column.check:
        conditions.append(f"coalesce({column.check}, true)")
    if (high := _BOUNDED.get(column.role)) is not None:
        low = 0 if column.role is Role.DURATION else -high  # freed bytes are below 0
        conditions.append(f"coalesce({name} BETWEEN {low} AND {high}, true)")
    return " AND ".join(conditions)
