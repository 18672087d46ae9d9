"""Removes from the arguments of events what `base.environment` does not allow to be kept."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.environment import SUSPECT, without_secrets

_OF_THE_FILE = ("args", "other_args")
"""Columns of JSON with a file's own names and values."""


def leave_out_secrets(tables: dict[str, pa.Table]) -> None:
    """Replaces the tables in which arguments of events contain an environment or a secret."""
    for table, rows in tables.items():
        for position, field in enumerate(rows.schema):
            column = rows.column(position)
            if field.name in _OF_THE_FILE and column.null_count < rows.num_rows:
                rows = rows.set_column(position, field, _cleaned(column))
        tables[table] = rows


def _cleaned(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_encoded = pa.types.is_dictionary(column.type)
    encoded = column if is_encoded else column.dictionary_encode()
    pieces = []
    for piece in encoded.chunks:  # a text that many events share is checked once
        suspect = pc.match_substring_regex(piece.dictionary, SUSPECT)
        if pc.any(suspect).as_py():
            texts = piece.dictionary.filter(suspect).to_pylist()
            cleaned = pa.array(map(_cleaned_text, texts), piece.dictionary.type)
            replaced = pc.replace_with_mask(piece.dictionary, suspect, cleaned)
            piece = pa.DictionaryArray.from_arrays(piece.indices, replaced)
        pieces.append(piece)
    return pa.chunked_array(pieces, encoded.type).cast(column.type)


def _cleaned_text(text: str) -> str:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):  # a text that cannot be parsed cannot be cleaned
        return "{}"
    return json.dumps(without_secrets(value))
