"""Remembers results in memory, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")

MAX_BYTES = 64 << 20


class Memo:
    """Results by key. Beyond `MAX_BYTES` the large ones are dropped first, the least recently used first."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0

    def get_or_compute(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result under a key, computed at the first call."""
        if key in self._results:
            self._results[key] = result = self._results.pop(key)
            return cast("T", result)
        value = compute()
        if (size := _size(value)) <= MAX_BYTES:
            self._bytes += size
            self._results[key] = value
        while self._bytes > MAX_BYTES:
            sizes = {key: size for key, result in self._results.items() if (size := _size(result))}
            dropped = next((key for key, size in sizes.items() if size > MAX_BYTES // 100), next(iter(sizes)))
            self._bytes -= sizes[dropped]
            del self._results[dropped]
        return value


def _size(value: Any) -> int:
    """Bytes of a table or an array; other values count as none."""
    return int(getattr(value, "nbytes", 0))
