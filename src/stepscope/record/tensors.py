"""The tensors in what loaders, modules and functions hand over, and how many samples a batch has by their
shapes. No tensor is looked into.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

_LOOKED_AT = 256
"""Things in a batch that are looked at: a batch may be a list of very many."""


def samples_in(batch: Any, loader: Any = None) -> int | None:
    """The first dimension that all tensors of a batch share; None where they differ.

    Args:
        batch: what the loader gave.
        loader: the loader or its sampler: where tensors differ, as offsets of bags do, one of them has the
            `batch_size` that it was made with.

    >>> samples_in(["text"])
    """
    try:
        lengths = {int(tensor.shape[0]) for tensor in _some_of(batch) if len(tensor.shape)}
        if len(lengths) == 1:
            return lengths.pop()
        size = getattr(loader, "batch_size", None)
        return size if size in lengths else None
    except Exception:  # whatever the job's own classes do when they are asked
        return None


def _some_of(batch: Any) -> Iterator[Any]:
    """Tensors in a batch, the outermost first."""
    waiting: deque[Any] = deque([batch])
    for _ in range(_LOOKED_AT):
        if not waiting:
            return
        value = waiting.popleft()
        if hasattr(value, "grad_fn"):
            yield value
        else:
            waiting.extend(islice(_inside(value), _LOOKED_AT))


def tensors_in(value: Any, depth: int = 4) -> list[Any]:
    """The tensors in what modules take and return: nested tuples, lists, dicts and plain objects.

    >>> tensors_in({"a": [1, None]})
    []
    """
    if hasattr(value, "grad_fn"):
        return [value]
    if depth == 0:
        return []
    return [tensor for item in _inside(value) for tensor in tensors_in(item, depth - 1)]


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | AbstractSet):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name, None) for field in fields(value))
    elif not isinstance(value, type) and not hasattr(value, "named_parameters"):
        yield from getattr(value, "__dict__", {}).values()
