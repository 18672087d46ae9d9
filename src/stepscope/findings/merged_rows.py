"""Merges similar rows of evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def merge_rows(rows: Iterable[dict[str, Any]], *keys: str, adding: Iterable[str]) -> list[dict[str, Any]]:
    """Merges rows that agree in some columns: the `adding` columns are summed, the others are the first row's."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        first = groups.setdefault(tuple(row[key] for key in keys), row)
        if first is not row:
            first |= {name: first[name] + row[name] for name in adding}
    return list(groups.values())
