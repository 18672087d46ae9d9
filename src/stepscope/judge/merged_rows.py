"""Rows of evidence that are alike, as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def merged(rows: Iterable[dict[str, Any]], *keys: str, adding: Iterable[str]) -> list[dict[str, Any]]:
    """Rows that agree in some columns as one: these columns are added up, the others are the first's."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(tuple(row[key] for key in keys), row)
        if one is not row:
            one |= {name: one[name] + row[name] for name in adding}
    return list(found.values())
