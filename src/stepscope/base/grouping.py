"""Groups things by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Things by their key; keys and things in order of appearance.

    >>> grouped([1, 2, 3], lambda number: number % 2)
    {1: [1, 3], 0: [2]}
    """
    groups: dict[K, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def merge_rows(rows: Iterable[dict[str, Any]], *keys: str, adding: Iterable[str]) -> list[dict[str, Any]]:
    """Merges rows that agree in some columns: the `adding` columns are summed, the others are the first row's."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        first = groups.setdefault(tuple(row[key] for key in keys), row)
        if first is not row:
            first |= {name: first[name] + row[name] for name in adding}
    return list(groups.values())
