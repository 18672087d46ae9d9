"""Distinguishes a store with rows that the schema does not allow from a defect of a question.

Files that were changed by hand, or written by another program, have whatever checksums they were given. Comparing every
row each time would cost more than the questions do, so this runs after one has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.base.quoting import sql_literal
from stepscope.formats.accepted import LARGEST
from stepscope.schema.declare import Role, SchemaColumn, SchemaTable
from stepscope.schema.tables import TABLES

_BOUNDED = {Role.MOMENT: LARGEST, Role.DURATION: LARGEST, Role.BYTES: LARGEST, Role.EPOCH: 2 * LARGEST}

Rows = Callable[[str], list[tuple[Any, ...]]]


def unsound(files: dict[str, Iterable[str]], rows: Rows) -> str | None:
    """What the schema does not allow in a store's tables, in words; None if all is well.

    Args:
        files: the files of each table that has any.
        rows: runs a query.
    """
    for name, paths in files.items():
        if name in TABLES and (found := _of_table(TABLES[name], paths, rows)):
            return f"{name}: {found}"
    return None


def _of_table(table: SchemaTable, paths: Iterable[str], rows: Rows) -> str | None:
    for path in paths:
        source = f"read_parquet({sql_literal(path)}, hive_partitioning=false)"
        types = {name: kind for name, kind, *_ in rows(f"DESCRIBE SELECT * FROM {source}")}
        for column in table.columns:
            stored = types.get(column.name)
            if stored != column.sql_type:
                return f"{column.name} is {stored or 'missing'} and not {column.sql_type}"
        rules = [(column, rule) for column in table.columns if (rule := _rule(column))]
        if not rules:
            continue
        broken = ", ".join(f"count(*) FILTER (WHERE NOT ({rule}))" for _, rule in rules)
        for (column, _), count in zip(rules, rows(f"SELECT {broken} FROM {source}")[0], strict=True):
            if count:
                return f"{column.name} has {count} values that it cannot have"
    return None


def _rule(column: SchemaColumn) -> str:
    """The condition in SQL for each value of a column."""
    name = column.quoted
    rules = [] if column.nullable else [f"{name} IS NOT NULL"]
    if column.check:
        rules.append(f"coalesce({column.check}, true)")
    if column.role in _BOUNDED:
        # Released bytes are below 0.
        least = 0 if column.role is Role.DURATION else -_BOUNDED[column.role]
        rules.append(f"coalesce({name} BETWEEN {least} AND {_BOUNDED[column.role]}, true)")
    return " AND ".join(rules)
