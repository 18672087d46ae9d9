"""One operator call as a recorder describes it: shapes, types, strides and scalar values.

Texts come from untrusted files: they are parsed with limits and never evaluated; malformed ones give None.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from stepscope.costs.dtype import recorded_dtype, size_of

_LONGEST_TEXT = 1 << 20
_LARGEST_SIZE = 1 << 48
_MAX_TENSORS = 100_000
_LONGEST_NUMBER = 64
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)\Z")

Value = bool | int | float | str | tuple["Value", ...] | None


class Tensor(NamedTuple):
    """A tensor input: its shape, element type and strides (in elements), where recorded."""

    shape: tuple[int, ...]
    dtype: str | None
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Number of elements that the shape names."""
        return math.prod(self.shape)

    @property
    def stored_elements(self) -> int:
        """Distinct elements in memory: broadcast repetitions count once; overlapping windows are bounded by their span."""
        if self.strides is None or 0 in self.shape:
            return self.elements
        distinct, span = 1, 1
        for size, stride in zip(self.shape, self.strides, strict=True):
            if stride != 0:
                distinct *= size
                span += (size - 1) * abs(stride)
        return min(distinct, span)

    @property
    def element_size(self) -> int | None:
        """Bytes of one element, or None if the type is unknown."""
        return size_of(self.dtype)

    @property
    def stored_bytes(self) -> int | None:
        """Bytes of the distinct elements in memory."""
        size = self.element_size
        return None if size is None else self.stored_elements * size

    @property
    def bytes(self) -> int | None:
        """Bytes of a dense tensor of this shape and type."""
        size = self.element_size
        return None if size is None else self.elements * size


class TensorList(NamedTuple):
    """A list of tensors. Recorders omit lists of more than 30: they appear empty."""

    tensors: tuple[Tensor, ...]


class Scalar(NamedTuple):
    """An input that is not a tensor; `value` is None if it was not recorded."""

    value: Value
    kind: str


Argument = Tensor | TensorList | Scalar | None


class MissingInput(Exception):  # noqa: N818 - not an error: the recording lacks something
    """An input that a formula needs is not in the recording: the call cannot be counted."""


class Call(NamedTuple):
    """One operator call.

    Args:
        name: as the recorder spells it (`aten::addmm`).
        arguments: inputs by position; None for an input that was not given.
        related: calls that may have what this one lacks: enclosing operators, and a forward call's backward.
    """

    name: str
    arguments: tuple[Argument, ...]
    related: tuple[Call, ...] = ()

    def argument(self, index: int) -> Argument:
        """Return an input by position, or None if there is none."""
        return self.arguments[index] if 0 <= index < len(self.arguments) else None

    def tensor(self, index: int) -> Tensor | None:
        """Return the tensor at a position, or None if there is none."""
        argument = self.argument(index)
        return argument if isinstance(argument, Tensor) else None

    def given(self, *positions: int) -> tuple[Tensor, ...]:
        """The tensors at positions; raises MissingInput if there is none at one of them."""
        tensors_at = [self.tensor(position) for position in positions]
        present = tuple(tensor for tensor in tensors_at if tensor is not None)
        if len(present) < len(tensors_at):
            raise MissingInput
        return present

    def listed(self, *positions: int) -> list[tuple[Tensor, ...]]:
        """The tensors of lists at positions; raises MissingInput if one was not recorded or is empty."""
        lists = [self.tensors(position) for position in positions]
        present = [tensors for tensors in lists if tensors is not None]
        if len(present) < len(lists):
            raise MissingInput
        return present

    def tensors(self, index: int) -> tuple[Tensor, ...] | None:
        """Return the tensors of a list, or None if it was not recorded or is empty."""
        argument = self.argument(index)
        return argument.tensors if isinstance(argument, TensorList) and argument.tensors else None

    def value(self, index: int) -> Value:
        """Return the value of a scalar input, or None if it was not recorded."""
        argument = self.argument(index)
        return argument.value if isinstance(argument, Scalar) else None

    def is_given(self, index: int) -> bool:
        """Whether the call has an input at this position, recorded in full or not."""
        return self.argument(index) is not None

    def integer(self, index: int) -> int | None:
        """Return an integer input, or None."""
        value = self.value(index)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, index: int) -> float | None:
        """Return a numeric input, or None."""
        value = self.value(index)
        return float(value) if isinstance(value, (int, float, bool)) else None

    def flag(self, index: int) -> bool | None:
        """Return a boolean input, or None. Numbers 0 and 1 are accepted as well."""
        value = self.value(index)
        return bool(value) if isinstance(value, bool) or value in (0, 1) else None

    def text(self, index: int) -> str | None:
        """Return a text input, or None."""
        value = self.value(index)
        return value if isinstance(value, str) else None

    def integers(self, index: int) -> tuple[int, ...] | None:
        """Return a list of integers (a single integer is a list of one), or None."""
        value = self.value(index)
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,)
        if isinstance(value, tuple) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return tuple(item for item in value if isinstance(item, int))
        return None

    def flags(self, index: int) -> tuple[bool, ...] | None:
        """Return a list of booleans, or None."""
        value = self.value(index)
        if isinstance(value, tuple) and all(isinstance(item, bool) or item in (0, 1) for item in value):
            return tuple(bool(item) for item in value)
        return None


def spread(values: tuple[int, ...] | None, rank: int) -> tuple[int, ...] | None:
    """Return one value for each of `rank` dimensions, repeating a single value; None if they do not fit.

    >>> spread((3,), 2), spread((3, 1), 2), spread((3, 1), 3)
    ((3, 3), (3, 1), None)
    """
    if values is not None and len(values) == 1:
        values = values * rank
    return values if values is not None and len(values) == rank else None


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that shapes broadcast to, or None if they do not fit.

    >>> broadcast((3, 1), (4,))
    (3, 4)
    """
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        offset = len(result) - len(shape)
        for position, size in enumerate(shape):
            here = result[offset + position]
            if size != here:
                if here != 1 and size != 1:
                    return None
                result[offset + position] = size if here == 1 else here
    return tuple(result)


def _parse_json(text: str | None) -> Any:
    if text is None or len(text) > _LONGEST_TEXT:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _sizes(item: Any) -> tuple[int, ...] | None:
    """Return a list of sizes or strides; None if it is not one, or beyond the limits."""
    if not isinstance(item, list):
        return None
    for size in item:
        if type(size) is not int or not -_LARGEST_SIZE < size < _LARGEST_SIZE:
            return None
    return tuple(item)


def _shape(item: Any) -> tuple[int, ...] | None:
    shape = _sizes(item)
    return shape if shape is not None and all(size >= 0 for size in shape) else None


def parse_value(text: object, *, depth: int = 0) -> Value:
    """Reads a scalar as Kineto writes it: `2`, `0.5`, `True`, `[1, 1]`, a word; None if unreadable.

    >>> parse_value("[True, False]")
    (True, False)
    >>> parse_value("9.9999999999999998e-13")
    1e-12
    """
    if isinstance(text, (bool, int, float)):
        return text
    if isinstance(text, list):
        return tuple(parse_value(item, depth=depth + 1) for item in text[:_MAX_TENSORS]) if depth < 4 else None
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        return None
    text = text.strip()
    if text in ("", "None"):
        return None
    if text in ("True", "true"):
        return True
    if text in ("False", "false"):
        return False
    if len(text) <= _LONGEST_NUMBER and _NUMBER.match(text):
        try:
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        except ValueError:
            return None
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        if not inner:
            return ()
        if "[" in inner or depth >= 1:
            return None
        return tuple(parse_value(item, depth=depth + 1) for item in inner.split(","))
    return text


def _tensor(shape: Any, dtype: str | None, strides: Any) -> Tensor | None:
    sizes = _shape(shape)
    if sizes is None:
        return None
    steps = _sizes(strides)
    if steps is not None and len(steps) != len(sizes):
        steps = None
    return Tensor(sizes, dtype, steps)


def _tensor_list(shapes: list[Any], strides: Any, dtype: str | None) -> TensorList | None:
    if len(shapes) > _MAX_TENSORS:
        return None
    steps = strides if isinstance(strides, list) and len(strides) == len(shapes) else None
    tensors = [
        _tensor(shape, dtype, None if steps is None else steps[position]) for position, shape in enumerate(shapes)
    ]
    readable = tuple(tensor for tensor in tensors if tensor is not None)
    return TensorList(readable) if len(readable) == len(tensors) else None


def parse_call(
    name: str,
    dims: str | None,
    types: str | None,
    strides: str | None = None,
    values: str | None = None,
    *,
    list_dtype: str | None = None,
    related: tuple[Call, ...] = (),
) -> Call | None:
    """Reads one call from the JSON texts of its inputs; None if shapes are missing or malformed.

    Args:
        dims: shapes, `[[8, 128], [128, 256], []]`; a list of tensors is a nested list.
        types: type names, `["c10::BFloat16", "float", "Scalar", ""]`.
        strides: shaped like `dims`.
        values: scalar values as texts.
        list_dtype: element type of the tensors in lists, which recorders omit.
        related: see Call.
    """
    shapes = _parse_json(dims)
    if not isinstance(shapes, list):
        return None
    kinds = _parse_json(types)
    kinds = kinds if isinstance(kinds, list) and len(kinds) == len(shapes) else None
    steps = _parse_json(strides)
    steps = steps if isinstance(steps, list) and len(steps) == len(shapes) else None
    texts = _parse_json(values)
    texts = texts if isinstance(texts, list) and len(texts) == len(shapes) else None

    arguments: list[Argument] = []
    for position, shape in enumerate(shapes):
        kind = kinds[position] if kinds is not None else None
        step = steps[position] if steps is not None else None
        if not isinstance(shape, list) or not (kind is None or isinstance(kind, str)):
            return None
        dtype = recorded_dtype(kind) if kind is not None else None
        if any(isinstance(item, list) for item in shape) or kind == "TensorList":
            tensors = _tensor_list(shape, step, list_dtype)
            if tensors is None:
                return None
            arguments.append(tensors)
        elif dtype is not None or shape:
            tensor = _tensor(shape, dtype, step)
            if tensor is None:
                return None
            arguments.append(tensor)
        elif kind == "":
            arguments.append(None)
        else:
            text = texts[position] if texts is not None else None
            arguments.append(Scalar(parse_value(text), kind or ""))
    return Call(name, tuple(arguments), related)
