"""Merges rows of evidence that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def merged(rows: Iterable[dict[str, Any]], *keys: str, adding: Iterable[str]) -> list[dict[str, Any]]:
    """Merges rows that agree in some columns: the `adding` columns are summed, the others are the first row's."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(tuple(row[key] for key in keys), row)
        if one is not row:
            one |= {name: one[name] + row[name] for name in adding}
    return list(found.values())
