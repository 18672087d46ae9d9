"""A question that someone put in SQL, answered like the declared ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb

from stepscope.answers.ask import SOURCES
from stepscope.answers.declare import Column, Question, Type, Unit
from stepscope.answers.scope import Scope
from stepscope.answers.table import Table
from stepscope.store.query import sql_error

if TYPE_CHECKING:
    import pyarrow as pa

_UNIT_OF_SUFFIX: tuple[tuple[str, Unit], ...] = (
    ("_ns", "ns"),
    ("bytes", "bytes"),
    ("_ratio", "ratio"),
)


def answer_query(scope: Scope, text: str) -> Table:
    """Runs one statement that only reads.

    Columns are of the four types that answers have; a list, a struct or a date becomes text. A unit
    is taken from the end of a column's name (`_ns`, `bytes`, `_ratio`).

    Raises:
        UsageError: the text is no such statement, or it does not work.
    """
    scope.check_read_only(text)
    try:
        rows = scope.sql(text)
    except duckdb.Error as error:
        raise sql_error(error) from None
    sources = scope.sql(SOURCES)
    names = _distinct(rows.column_names)
    arrays = [_plain_array(array) for array in rows.columns]
    columns = tuple(
        Column(name, _type(array.type), "", _unit(name, _type(array.type)))
        for name, array in zip(names, arrays, strict=True)
    )
    return Table(
        question=Question(
            name="sql",
            asks=" ".join(text.split()),
            columns=columns,
            answer=_none,
            rests_on=(),
            drawing="plan" if "explain_value" in names else "rows",
        ),
        arrow=_table(arrays, names),
        sources=tuple(sources.column("path").to_pylist()),
        note="" if rows.num_rows else "The query found no rows.",
    )


def _none(scope: Scope) -> pa.Table:
    """A query is asked once: its declaration serves to describe the columns."""
    raise ValueError(f"a free query cannot be asked again of {scope.store}")


def _table(arrays: list[Any], names: list[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table(arrays, names=names)


def _distinct(names: list[str]) -> list[str]:
    """SQL may name two columns alike; rows as objects cannot."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found


def _plain_array(array: Any) -> Any:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type).cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return array
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bit: exact as text
            return pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.float64())
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    return pa.array([_text(value) for value in array.to_pylist()], pa.string())


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _type(kind: Any) -> Type:
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind):
        return "float"
    return "bool" if pa.types.is_boolean(kind) else "text"


def _unit(name: str, kind: Type) -> Unit:
    if kind not in ("int", "float"):
        return ""
    return next((unit for suffix, unit in _UNIT_OF_SUFFIX if name.endswith(suffix)), "")
