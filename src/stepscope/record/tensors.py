"""Finds tensors in the values of loaders, modules and functions, and a batch's number of samples from their shapes.
Does not read any tensor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

_LOOKED_AT = 256  # objects in a batch that are examined, because a batch may be a very long list


def samples_in(batch: Any, loader: Any = None) -> int | None:
    """The first dimension shared by all tensors of a batch; None if they differ.

    Args:
        batch: the loader's value.
        loader: the loader or its sampler: if tensors differ, as offsets of bags do, one of them has its `batch_size`.

    >>> samples_in(["text"])
    """
    try:
        lengths = {int(tensor.shape[0]) for tensor in _some_of(batch) if len(tensor.shape)}
        if len(lengths) == 1:
            return lengths.pop()
        size = getattr(loader, "batch_size", None)
        return size if size in lengths else None
    except Exception:  # the job's own classes may raise anything
        return None


def _some_of(batch: Any) -> Iterator[Any]:
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
    """The tensors in arguments and results of modules: nested tuples, lists, dicts and plain objects.

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
