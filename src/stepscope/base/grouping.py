"""Groups things by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

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
