"""Converts values to bytes and back: numbers, texts, tuples, lists, dictionaries, NumPy arrays, Arrow tables, and
records (dataclasses and named tuples) of these.

The bytes may be a stranger's. They name records that the reader expects, and nothing else is ever made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

_ALIGNED: Final = 8
_KINDS: Final = "biuf"
"""Kinds of arrays: booleans, integers, floating-point numbers."""


def packed(value: Any) -> bytes:
    """Converts a value to bytes.

    Raises:
        TypeError: it is or contains something else.
    """
    arrays: list[bytes] = []
    at = 0

    def keep(data: bytes) -> int:
        nonlocal at
        start, padded = at, data + bytes(-len(data) % _ALIGNED)
        arrays.append(padded)
        at += len(padded)
        return start

    def told(one: Any) -> Any:
        if one is None or type(one) in (bool, int, str):
            return one
        if type(one) is float:
            return one if math.isfinite(one) else {"float": repr(one)}
        if isinstance(one, np.ndarray) and type(one) is np.ndarray and one.dtype.kind in _KINDS:
            return {"array": [keep(one.tobytes()), one.dtype.str, one.shape]}
        if isinstance(one, np.generic) and one.dtype.kind in _KINDS:
            return {"number": [keep(one.tobytes()), one.dtype.str]}
        if isinstance(one, pa.Table):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, one.schema) as writer:
                writer.write_table(one)
            stream = sink.getvalue().to_pybytes()
            return {"table": [keep(stream), len(stream)]}
        if is_dataclass(one) and not isinstance(one, type):
            parts = [told(getattr(one, field.name)) for field in fields(one)]
            return {"record": [type(one).__name__, parts]}
        if isinstance(one, tuple) and hasattr(one, "_fields"):
            return {"record": [type(one).__name__, [told(part) for part in one]]}
        if type(one) is dict:
            return {"dict": [[told(key), told(part)] for key, part in one.items()]}
        if type(one) in (list, tuple):
            return {type(one).__name__: [told(part) for part in one]}
        raise TypeError(f"a {type(one).__name__} is not kept")

    head = json.dumps(told(value), separators=(",", ":")).encode()
    return b"".join([len(head).to_bytes(_ALIGNED, "little"), head, bytes(-len(head) % _ALIGNED), *arrays])


def unpacked(data: bytes, *records: type) -> Any:
    """Converts bytes back to their value.

    Args:
        data: from `packed`.
        records: the classes of the records that it may contain.

    Raises:
        ValueError: they are not such a value.
    """
    known = {one.__name__: one for one in records}
    size = int.from_bytes(data[:_ALIGNED], "little")
    first = _ALIGNED + size + -size % _ALIGNED

    def array(start: int, kind: str, shape: Sequence[int] = (1,)) -> Any:
        dtype = np.dtype(kind)
        if dtype.kind not in _KINDS or start < 0:
            raise ValueError("no array of numbers")
        count = math.prod(shape)
        # A copy: the caller may change what it gets.
        return np.frombuffer(data, dtype, count, first + start).reshape(shape).copy()

    def table(start: int, length: int) -> pa.Table:
        stream = pa.py_buffer(data[first + start : first + start + length])
        with pa.ipc.open_stream(stream) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
        return rows

    def record(name: str, parts: list[Any]) -> Any:
        return known[name](*map(made, parts))

    makers: dict[str, Callable[[Any], Any]] = {
        "float": float,
        "array": lambda of: array(*of),
        "number": lambda of: array(*of)[0],
        "table": lambda of: table(*of),
        "record": lambda of: record(*of),
        "dict": lambda of: {made(key): made(part) for key, part in of},
        "list": lambda of: list(map(made, of)),
        "tuple": lambda of: tuple(map(made, of)),
    }

    def made(one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        ((kind, of),) = one.items()
        return makers[kind](of)

    try:
        return made(json.loads(data[_ALIGNED : _ALIGNED + size]))
    # NumPy parses the type of an array as an expression.
    except (LookupError, TypeError, ArithmeticError, SyntaxError, RecursionError, pa.ArrowException) as error:
        raise ValueError(f"no value that was kept: {error}") from None
