"""Asks a question of a store: checks what it is asked with, and makes a `Table` of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

from stepscope.answers.declare import Parameter, Question
from stepscope.answers.rows import note_of
from stepscope.answers.scope import Scope
from stepscope.answers.selection import check_name
from stepscope.answers.table import Table
from stepscope.floor.errors import UsageError
from stepscope.formats.evidence import bears_on
from stepscope.store.open import Store, damaged_store

if TYPE_CHECKING:
    import pyarrow as pa


SOURCES = "SELECT path FROM source ORDER BY rank, span, path"

_FAILED_CHECKS = """
SELECT * FROM data_check WHERE severity <> 'ok' ORDER BY rank, span, "check"
"""

ERRORS = {
    "bad-parameter": "A parameter of a question has a value of another type than it declares.",
    "bad-top": "`--top` takes a number of rows from 1. Leave it out to get all rows.",
    "column-twice": "`--columns` names a column twice.",
}


@contextmanager
def reading(store: Store) -> Iterator[None]:
    """Tells a store whose files have gone or were cut from a defect of a question.

    Raises:
        StoreError: a file of the store cannot be read.
    """
    try:
        yield
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        damaged = isinstance(error, duckdb.IOException) or ".parquet" in reason
        if store.directory is None or not damaged:
            raise
        raise damaged_store(store.directory, reason) from None


def ask(
    question: Question,
    store: Store,
    *,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    **parameters: Any,
) -> Table:
    """The answer to a question.

    Args:
        question: what is asked.
        store: of which recording.
        ranks: of these ranks alone.
        steps: of these steps alone, as the program counts them.
        top: the first so many rows alone.
        columns: these columns alone, in this order.
        **parameters: what the question declares; those left out or None take their default.

    Raises:
        StoreError: a file of the store cannot be read.
        UsageError: a rank, step, column, parameter or choice that does not exist.
    """
    check_top(top)
    asked = _complete(question, parameters)
    if columns is not None:
        _check_columns(columns, question)
    with reading(store), Scope(store, ranks, steps) as scope:
        told = _answered(question, scope, asked)
        rows = as_declared(question, told)
        sources = scope.sql(SOURCES)
        note = note_of(told) if rows.num_rows else _note(question, scope)
        checks = failed_checks(scope, question.rests_on)
    if columns is not None:
        for name in columns:
            if name not in rows.column_names:
                raise UsageError(
                    f"this form of {question.name} has no column {name!r}",
                    hint=f"it has: {', '.join(rows.column_names)}",
                    slug="unknown-column",
                )
        rows = rows.select(list(columns))
    return Table(
        question=question,
        arrow=rows if top is None else rows.slice(0, top),
        sources=tuple(sources.column("path").to_pylist()),
        checks=checks,
        note=note,
    )


def rows_by_default(question: Question, scope: Scope) -> pa.Table:
    """The rows of an answer, asked with the defaults of its parameters.

    Raises:
        UsageError: the scope is narrowed to steps of which the question can say nothing.
    """
    return as_declared(question, _answered(question, scope, _complete(question, {})))


def failed_checks(scope: Scope, rests_on: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """Data-quality checks that found something and bear on what rests on this evidence."""
    known = tuple(rests_on)
    checks = scope.sql(_FAILED_CHECKS).to_pylist()
    return tuple(check for check in checks if bears_on(check["affects"], known))


def _answered(question: Question, scope: Scope, asked: Mapping[str, Any]) -> pa.Table:
    if question.steps == "trace":
        scope.check_traced()
    return question.answer(scope, **asked)


def as_declared(question: Question, rows: pa.Table) -> pa.Table:
    """The rows with the columns in the declared order and of the declared types.

    DuckDB sums integers to 128 bits and readers encode text by dictionary: people get plain 64-bit
    integers, doubles, text and booleans.

    Raises:
        ValueError: a column that is not declared.
    """
    import pyarrow as pa

    types = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}
    undeclared = set(rows.column_names) - {c.name for c in question.columns}
    if undeclared:
        raise ValueError(f"{question.name} does not declare {', '.join(sorted(undeclared))}")
    fields = [
        pa.field(c.name, types[c.type]) for c in question.columns if c.name in rows.column_names
    ]
    ordered = rows.select([field.name for field in fields])
    declared = pa.schema(fields)
    if not ordered.schema.equals(declared):  # a cast imports a module of Arrow's, which takes time
        ordered = ordered.cast(declared)
    return ordered.combine_chunks()


def _check_columns(columns: Sequence[str], question: Question) -> None:
    known = [c.name for c in question.columns]
    if not columns:
        raise UsageError("no columns", hint=f"there is: {', '.join(known)}", slug="unknown-column")
    for position, name in enumerate(columns):
        check_name(name, known, "column", of=question.name)
        if name in columns[:position]:
            raise UsageError(f"column {name!r} twice", hint="name it once", slug="column-twice")


def _complete(question: Question, given: dict[str, Any]) -> dict[str, Any]:
    by_name = {parameter.name: parameter for parameter in question.parameters}
    for name in given:
        check_name(name, tuple(by_name), "parameter", of=question.name)
    return {
        name: parameter.default if given.get(name) is None else _checked(parameter, given[name])
        for name, parameter in by_name.items()
    }


def _checked(parameter: Parameter, value: Any) -> Any:
    kinds: dict[str, type | tuple[type, ...]] = {
        "int": int,
        "float": (int, float),
        "text": str,
        "bool": bool,
    }
    is_flag = isinstance(value, bool) and parameter.type != "bool"  # True is an int in Python
    if is_flag or not isinstance(value, kinds[parameter.type]):
        raise UsageError(
            f"{parameter.name}={value!r} is not of type {parameter.type}",
            hint=f"{parameter.name}: {parameter.meaning}",
            slug="bad-parameter",
        )
    if parameter.choices:
        check_name(str(value), parameter.choices, "choice", of=f"--{parameter.name}")
    return value


def check_top(top: int | None) -> None:
    """Refuses to show no rows at all.

    Raises:
        UsageError: fewer than one row was asked for.
    """
    if top is not None and top < 1:
        raise UsageError(
            f"cannot show the top {top}",
            hint="give a number of rows of at least 1, or leave it out to get all",
            slug="bad-top",
        )


def _note(question: Question, scope: Scope) -> str:
    """Why there is nothing to show."""
    work = "kind IN ('computation', 'communication', 'copy', 'fill')"
    if scope.steps is not None or scope.ranks != scope.store.ranks:
        reason = "Nothing of this in the chosen ranks and steps."
    elif question.needs == "device" and not scope.value(
        f"SELECT count(*) FROM device_event WHERE {work}"
    ):
        reason = "The recording has no device events."
    else:
        reason = "The recording has nothing of this."
    return f"{reason} {question.fills}".strip()
