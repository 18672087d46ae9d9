"""Element types: recorders' names for them, their sizes in bytes, and the type of a result.

Canonical names are torch's own without the prefix (`float32`, `bfloat16`, `float8_e4m3fn`).
"""

from __future__ import annotations

from collections.abc import Iterable

SIZES: dict[str, int] = {
    name: size
    for size, names in (
        (1, "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"),
        (1, "int8 uint8 bool qint8 quint8"),
        (2, "float16 bfloat16 int16 uint16"),
        (4, "float32 int32 uint32 qint32 complex32"),
        (8, "float64 int64 uint64 complex64"),
        (16, "complex128"),
    )
    for name in names.split()
}
"""Bytes of one element. `float4_e2m1fn_x2` has two numbers in its one byte."""

_RECORDED: dict[str, str] = {
    spelling: name
    for name, spellings in {
        "float64": "double",
        "float32": "float",
        "float16": "c10::Half|half",
        "bfloat16": "c10::BFloat16|bfloat16",
        "int64": "long|long int|long long",
        "int32": "int",
        "int16": "short|short int",
        "int8": "signed char|char",
        "uint8": "unsigned char",
        "uint16": "unsigned short|short unsigned int",
        "uint32": "unsigned int",
        "uint64": "unsigned long|long unsigned int|unsigned long long",
        "bool": "bool",
        "complex32": "c10::complex<c10::Half>",
        "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
        **{name: f"c10::{name.capitalize()}" for name in SIZES if name.startswith(("float8", "float4"))},
        **{name: f"c10::{name}" for name in SIZES if name.startswith(("qint", "quint"))},
    }.items()
    for spelling in spellings.split("|")
}
_COLLECTIVE: dict[str, str] = {
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "bfloat16": "bfloat16",
    "complexhalf": "complex32",
    "complexfloat": "complex64",
    "complexdouble": "complex128",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
}

_SCALAR_TYPE: dict[int, str] = {
    first + place: name
    for first, names in (
        (0, "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool"),
        (12, "qint8 quint8 qint32 bfloat16"),
        (23, "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"),
        (44, "float8_e8m0fnu float4_e2m1fn_x2"),
    )
    for place, name in enumerate(names.split())
}
"""torch's `ScalarType` numbers, as an operator's `dtype` argument is recorded."""

_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


def recorded_dtype(text: str) -> str | None:
    """The element type for Kineto's `Input type`; None if it is not a tensor's. Case matters: `Float` is a Python
    number."""
    name = _RECORDED.get(text)
    if name is None and text.startswith(("const ", "at::")):
        return _RECORDED.get(text.split(" ", 1)[-1].replace("at::", "c10::", 1))
    return name


def collective_dtype(text: str | None) -> str | None:
    """Name the element type for a collective's `dtype` argument, or None."""
    return None if text is None else _COLLECTIVE.get(text.lower())


def scalar_type(number: int | None) -> str | None:
    """Name the element type with torch's `ScalarType` number, or None for an unknown number."""
    return None if number is None else _SCALAR_TYPE.get(number)


def size_of(dtype: str | None) -> int | None:
    """Bytes of one element, or None if the type is unknown."""
    return None if dtype is None else SIZES.get(dtype)


def is_float(dtype: str | None) -> bool:
    """Whether arithmetic on the type is floating-point arithmetic (complex included)."""
    return dtype is not None and dtype.startswith(("float", "bfloat", "complex"))


def is_complex(dtype: str | None) -> bool:
    """Whether the type is complex."""
    return dtype in _REAL


def real_of(dtype: str | None) -> str | None:
    """Name the real type of a complex one; other types are returned unchanged."""
    return _REAL.get(dtype, dtype) if dtype is not None else None


def accumulate_type(dtype: str | None) -> str | None:
    """Name the type in which GPUs keep statistics of the type: float32 for 16-bit floats."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _category(dtype: str) -> int:
    if dtype == "bool":
        return 0
    return 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def _wider(a: str, b: str) -> str | None:
    if a == b:
        return a
    if _category(a) != _category(b):
        low, high = (a, b) if _category(a) < _category(b) else (b, a)
        if _category(high) == 3 and low == "float64":
            return "complex128"
        return high
    if a in _FLOATS and b in _FLOATS:
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return max(a, b, key=_FLOATS.index)
    if a in _INTEGERS and b in _INTEGERS:
        if "uint8" in (a, b) and "int8" in (a, b):
            return "int16"
        return max(a, b, key=_INTEGERS.index)
    if _category(a) == 3:
        return max(a, b, key=lambda name: SIZES[name])
    return None


def promote(tensors: Iterable[str], zero_dim: Iterable[str] = (), numbers: Iterable[str] = ()) -> str | None:
    """The type of a result from those of its inputs, as torch promotes them; None if unknown.

    Args:
        tensors: types of inputs with at least one dimension.
        zero_dim: of inputs without dimension, which only count against a lower category (bool < integer < float <
            complex).
        numbers: `"bool"`, `"int64"` or `"float32"` for Python numbers; weaker still.

    >>> promote(["float16", "bfloat16"])
    'float32'
    >>> promote(["int64"], numbers=["float32"])
    'float32'
    >>> promote(["float16"], zero_dim=["float64"])
    'float16'
    """
    result: str | None = None
    for level in (list(tensors), list(zero_dim), list(numbers)):
        if not level:
            continue
        joined: str | None = level[0]
        for name in level[1:]:
            joined = _wider(joined, name) if joined is not None else None
        if joined is None:
            return None
        if result is None or _category(joined) > _category(result):
            if result is not None and _category(joined) == 3 and result == "float64":
                joined = "complex128"
            result = joined
    return result
