"""Rows that were put together in Python, as the Arrow table that a question answers with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from stepscope.answers.declare import Column, Type

if TYPE_CHECKING:
    import pyarrow as pa


def answer_rows(
    declared: Sequence[Column], names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> pa.Table:
    """A table with the named columns of a declaration, of the declared types; None becomes NULL.

    Raises:
        KeyError: a name that is not declared.
    """
    import pyarrow as pa

    types = {column.name: column.type for column in declared}
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        [_array(values, types[name]) for name, values in zip(names, columns, strict=True)],
        names=list(names),
    )


def _array(values: Sequence[Any], kind: Type) -> pa.Array:
    """Values as Arrow. `pa.array` imports pandas, where there is one, for longer than most answers take."""
    import numpy as np
    import pyarrow as pa

    known = np.array([value is not None for value in values], dtype=bool)
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    if kind == "text":
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        data = pa.py_buffer(b"".join(texts))
        return pa.Array.from_buffers(pa.string(), len(values), [validity, pa.py_buffer(ends), data])
    if kind == "float":
        floats = np.array([0.0 if value is None else value for value in values], np.float64)
        return pa.Array.from_buffers(pa.float64(), len(values), [validity, pa.py_buffer(floats)])
    whole = np.array([0 if value is None else index(value) for value in values], np.int64)
    if kind == "int":
        return pa.Array.from_buffers(pa.int64(), len(values), [validity, pa.py_buffer(whole)])
    bits = pa.py_buffer(np.packbits(whole.astype(bool), bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity, bits])


def noted(rows: pa.Table, note: str, *, rests_on: Iterable[str] | None = None) -> pa.Table:
    """Rows with a note for people: by which conventions numbers were made, say.

    Args:
        rows: the rows of an answer.
        note: the note.
        rests_on: the evidence that this form of the answer rests on; as declared for None.
    """
    told = {"note": note} | ({} if rests_on is None else {"rests_on": ",".join(rests_on)})
    return rows.replace_schema_metadata(told)


def note_of(rows: pa.Table) -> str:
    """The note that a question gave its rows, empty if none."""
    return str((rows.schema.metadata or {}).get(b"note", b"").decode("utf-8"))


def rests_on_of(rows: pa.Table) -> tuple[str, ...] | None:
    """The evidence that a question said its rows rest on; None if it said nothing."""
    told = (rows.schema.metadata or {}).get(b"rests_on")
    return None if told is None else tuple(filter(None, told.decode("utf-8").split(",")))
