"""Answers a user's SQL in the same form as a declared question.

Besides the store's tables, each question's answer is a table: `answer.kernels`, `answer.device_time`. It is computed
when a query names it.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import duckdb

from stepscope.base.known_names import check_name
from stepscope.query.ask import SOURCES, ask_within, check_top
from stepscope.query.declare import Column, Question, Type, unit_of
from stepscope.query.scope import Scope
from stepscope.query.table import Table
from stepscope.questions import OURS, all_questions, find, of_one_recording
from stepscope.store.query import sql_error

if TYPE_CHECKING:
    import pyarrow as pa

ANSWERS = "answer"
"""The schema of the questions' answers in SQL."""


_PLACE = ("rank", "span", "check")
"""The columns that identify a check of an answer."""


def answer_query(scope: Scope, text: str, *, top: int | None = None) -> Table:
    """Runs one read-only statement.

    Columns have the four types that answers have; lists, structs and dates become text. Units are taken from the end of
    a column's name (`_ns`, `bytes`, `_ratio`). An answer that the statement names is asked of the scope's ranks and
    steps with default parameters, and its failing checks also mark the result.

    Args:
        top: return only the first N rows; no more are computed than they need.

    Raises:
        UsageError: the statement is not read-only or fails, or it names an answer that does not exist.
    """
    check_top(top)
    scope.check_read_only(text)
    scope.store.show_tables()
    questions = {name: _question(name) for name in scope.tables_of_schema(text, ANSWERS)}
    tables = {name: ask_within(question, scope) for name, question in questions.items()}
    answers = {name: table.arrow for name, table in tables.items()}
    try:
        with scope.with_temp_tables(ANSWERS, answers) if answers else nullcontext():
            rows = scope.rows(text, limit=None if top is None else top + 1)
    except duckdb.Error as error:
        raise sql_error(error) from None
    note = "" if rows.num_rows else "The query found no rows."
    if top is not None and rows.num_rows > top:
        rows, note = rows.slice(0, top), f"These are the first {top} rows; there are more."
    sources = scope.sql(SOURCES)
    rests_on = tuple(sorted({kind for question in questions.values() for kind in question.rests_on}))
    failed = {tuple(check[name] for name in _PLACE): check for of in tables.values() for check in of.checks}
    heads = _distinct(rows.column_names)
    arrays = [_plain_array(array) for array in rows.columns]
    types = [_type(array.type) for array in arrays]
    columns = tuple(
        Column(name, kind, "", unit_of(name) if kind in ("int", "float") else "")
        for name, kind in zip(heads, types, strict=True)
    )
    return Table(
        question=Question(
            name="sql",
            asks=" ".join(text.split()),
            columns=columns,
            answer=_none,
            rests_on=rests_on,
            drawing="plan" if "explain_value" in heads else "rows",
        ),
        arrow=_table(arrays, heads),
        sources=tuple(sources.column("path").to_pylist()),
        checks=tuple(sorted(failed.values(), key=lambda check: [check[name] for name in _PLACE])),
        note=note,
    )


def _question(name: str) -> Question:
    if name.replace("_", "-") not in OURS:
        names = [question.method for question in all_questions() if question.recordings == "one"]
        check_name(name, names, "answer")
    return of_one_recording(find(name))


def _none(scope: Scope) -> pa.Table:
    """Stands in for a question's function: the declaration only describes the columns."""
    raise ValueError(f"a free query cannot be asked again of {scope.store}")


def _table(arrays: list[Any], names: list[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table(arrays, names=names)


def _distinct(names: list[str]) -> list[str]:
    """Makes column names unique: SQL may repeat one, rows as objects cannot. Uses DuckDB's names in a subquery, because
    a query with a row limit is one."""
    distinct: dict[str, str] = {}
    for name in names:
        candidate, number = name, 0
        while candidate.lower() in distinct:
            number += 1
            candidate = f"{name}_{number}"
        distinct[candidate.lower()] = candidate
    return list(distinct.values())


def _plain_array(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

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
        numbers = array.cast(pa.float64())
        return pc.if_else(pc.is_finite(numbers), numbers, None)
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
