"""Turns rows that were made in Python into a question's Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from stepscope.query.declare import Column, Question

if TYPE_CHECKING:
    import pyarrow as pa

ArrowTable: TypeAlias = "pa.Table"
Row: TypeAlias = dict[str, Any]

_FEW_ROWS = 4_096
"""Up to this many rows are widened in Python: an Arrow cast loads a module, which takes longer."""


def answer_rows(
    declared: Sequence[Column], rows: Iterable[Sequence[Any]], names: Sequence[str] | None = None
) -> pa.Table:
    """Makes a table with the declared columns and types; None becomes NULL.

    Args:
        names: the columns that the rows have; None for all.

    Raises:
        KeyError: a name is not declared.
    """
    import pyarrow as pa

    types = _types()
    by_name = {column.name: types[column.type] for column in declared}
    names = list(by_name) if names is None else names
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        [pa.array(list(values), by_name[name]) for name, values in zip(names, columns, strict=True)], names=list(names)
    )


def answer_dicts(
    declared: Sequence[Column], rows: Iterable[Mapping[str, Any]], names: Sequence[str] | None = None
) -> pa.Table:
    """Like `answer_rows`, for rows as dicts; missing keys become NULL.

    Raises:
        KeyError: a name is not declared.
    """
    names = [column.name for column in declared] if names is None else names
    return answer_rows(declared, ([row.get(name) for name in names] for row in rows), names)


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}


def as_declared(question: Question, rows: pa.Table) -> pa.Table:
    """Puts the columns into the declared order and types.

    DuckDB sums integers to 128 bits and readers encode text by dictionary: people get plain 64-bit
    integers, doubles, text and booleans.

    Raises:
        ValueError: a column is not declared.
    """
    import pyarrow as pa

    types = _types()
    undeclared = set(rows.column_names) - {c.name for c in question.columns}
    if undeclared:
        raise ValueError(f"{question.name} does not declare {', '.join(sorted(undeclared))}")
    fields = [pa.field(c.name, types[c.type]) for c in question.columns if c.name in rows.column_names]
    ordered = rows.select([field.name for field in fields])
    declared = pa.schema(fields)
    if ordered.num_rows <= _FEW_ROWS:
        for place, (field, column) in enumerate(zip(declared, ordered.columns, strict=True)):
            kind = column.type
            is_integer = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and not kind.scale)
            if is_integer and field.type == pa.int64() != kind:
                numbers = [None if value is None else int(value) for value in column.to_pylist()]
                ordered = ordered.set_column(place, field, pa.array(numbers, field.type))
    if not ordered.schema.equals(declared):
        ordered = ordered.cast(declared)
    return ordered.combine_chunks()


def noted(rows: pa.Table, note: str, *, rests_on: Iterable[str] | None = None) -> pa.Table:
    """Adds a note for people to rows, such as the conventions behind the numbers.

    Args:
        rows: the rows of an answer.
        rests_on: the evidence that this form of the answer rests on; None for the declared.
    """
    metadata = {"note": note} | ({} if rests_on is None else {"rests_on": ",".join(rests_on)})
    return rows.replace_schema_metadata(metadata)


def note_of(rows: pa.Table) -> str:
    """The note that a question gave its rows; empty if none."""
    return str((rows.schema.metadata or {}).get(b"note", b"").decode("utf-8"))


def rests_on_of(rows: pa.Table) -> tuple[str, ...] | None:
    """The evidence that a question named for its rows; None if it named none."""
    stated = (rows.schema.metadata or {}).get(b"rests_on")
    return None if stated is None else tuple(filter(None, stated.decode("utf-8").split(",")))
