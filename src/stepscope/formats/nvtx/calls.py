"""The arguments of wrapped calls, in the order and words of the operators that they call.

PyProf writes arguments as the Python function took them: by position, then by keyword. Operators have an order of their
own; if the two differ, or keywords must find their place, a signature is listed here. Element types are spelled as in
Kineto, scalars are texts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from stepscope.formats.nvtx.markers import Argument, Marker

_TYPES = {
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "bfloat16": "c10::BFloat16",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "bool": "bool",
    "half": "c10::Half",
    "float": "float",
    "double": "double",
    "long": "long int",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_POOLING = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")

SIGNATURES: dict[str, tuple[str, ...]] = {
    "linear": ("input", "weight", "bias"),
    "conv1d": _CONVOLUTION,
    "conv2d": _CONVOLUTION,
    "conv3d": _CONVOLUTION,
    "conv_transpose1d": _TRANSPOSED,
    "conv_transpose2d": _TRANSPOSED,
    "conv_transpose3d": _TRANSPOSED,
    "batch_norm": (
        "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps",
    ),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "embedding": ("weight", "input", "padding_idx", "scale_grad_by_freq", "sparse"),
    "dropout": ("input", "p", "training"),
    "softmax": ("input", "dim", "dtype"),
    "log_softmax": ("input", "dim", "dtype"),
    "nll_loss": ("input", "target", "weight", "reduction", "ignore_index"),
    "max_pool1d": _POOLING,
    "max_pool2d": _POOLING,
    "max_pool3d": _POOLING,
    "avg_pool2d": ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    "addmm": ("input", "mat1", "mat2", "beta", "alpha"),
    "baddbmm": ("input", "batch1", "batch2", "beta", "alpha"),
    "add": ("input", "other", "alpha"),
    "sub": ("input", "other", "alpha"),
    "addcmul": ("input", "tensor1", "tensor2", "value"),
    "addcdiv": ("input", "tensor1", "tensor2", "value"),
    "sum": ("input", "dim", "keepdim", "dtype"),
    "mean": ("input", "dim", "keepdim", "dtype"),
    "norm": ("input", "p", "dim", "keepdim", "dtype"),
    "transpose": ("input", "dim0", "dim1"),
    "cat": ("tensors", "dim"),
    "stack": ("tensors", "dim"),
    "index_select": ("input", "dim", "index"),
    "gather": ("input", "dim", "index"),
    "masked_fill": ("input", "mask", "value"),
}  # fmt: skip
"""Names of an operator's inputs in its own order, as the Python functions call them."""

_IN_PYTHON: dict[tuple[str, str], tuple[str, ...]] = {
    ("torch.nn.functional", "batch_norm"): (
        "input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps",
    ),
    ("torch.nn.functional", "embedding"): (
        "input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
    ),
    ("torch.nn.functional", "nll_loss"): (
        "input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction",
    ),
    ("torch.nn.functional", "softmax"): ("input", "dim", "_stacklevel", "dtype"),
    ("torch.nn.functional", "log_softmax"): ("input", "dim", "_stacklevel", "dtype"),
}  # fmt: skip
"""Order of the arguments of Python functions that differ from the operator with their name."""

_INTEGER = re.compile(r"\d{1,9}\Z")
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_LISTED = frozenset({"cat", "stack"})
_IN_PLACE = frozenset(
    ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul", "lshift", "rshift"]
)
_SWAPPED = frozenset(["add", "mul", "and", "or", "xor", "matmul"])
_SPELLED = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "invert": "bitwise_not"}
_NO_OPERATOR = frozenset(
    [
        "multi_head_attention_forward",
        "cross_entropy",
        "mse_loss",
        "backward",
        "forward",
        "DataLoader",
        "numel",
        "interpolate",
        "unfold",
        "fold",
        "normalize",
    ]
)
"""Python functions that call several operators, or none; no operator has their name."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of an operator call as in table `operator_input`: JSON lists."""

    dims: str
    types: str | None = None
    values: str | None = None


def stated_inputs(operator: Marker) -> Inputs | None:
    """The inputs that an operator's range states; None if it states no shapes."""
    if operator.sizes is None:
        return None
    types = [_TYPES.get(kind, kind) for kind in operator.types]
    return Inputs(operator.sizes, json.dumps(types) if types else None, operator.values)


def tensor_shape(inputs: Inputs, position: int) -> tuple[int, ...] | None:
    """The shape of an input, or None if it is not a tensor (or one without dimensions)."""
    shapes = json.loads(inputs.dims)
    if position >= len(shapes) or not shapes[position]:
        return None
    shape = shapes[position]
    return tuple(shape) if all(type(size) is int for size in shape) else None


def tensor_type(inputs: Inputs, position: int) -> str:
    """The element type of an input in our spelling; empty if unknown."""
    types = json.loads(inputs.types) if inputs.types else []
    return str(types[position]) if position < len(types) else ""


def integers_at(inputs: Inputs, position: int, count: int, default: int) -> tuple[int, ...] | None:
    """`count` integers from an input that is a number or a list; defaults if it was not given.

    None if it is something else.
    """
    values = json.loads(inputs.values) if inputs.values else []
    text = str(values[position]) if position < len(values) else ""
    words = text.strip("[]").replace(",", " ").split()
    if not all(_INTEGER.match(word) for word in words):
        return None
    integers = tuple(int(word) for word in words) or (default,)
    return integers * count if len(integers) == 1 else integers if len(integers) == count else None


def made_inputs(*given: tuple[tuple[int, ...] | list[list[int]], str, Any]) -> Inputs:
    """Inputs of a call, each as shape, type and value (None for a tensor)."""
    return Inputs(
        json.dumps([list(shape) for shape, _, _ in given]),
        json.dumps([kind for _, kind, _ in given]),
        json.dumps(["" if value is None else _text(value) for _, _, value in given]),
    )


def operator_name(call: Marker) -> str | None:
    """The operator that a wrapped function calls, or None if there is none.

    >>> operator_name(Marker("call", "", "Tensor", "__iadd__"))
    'aten::add_'
    """
    name = call.function
    if call.module not in ("torch", "Tensor", "torch.nn.functional") or name in _NO_OPERATOR:
        return None
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
        if name[0] == "i" and name[1:] in _IN_PLACE:
            return f"aten::{_SPELLED.get(name[1:], name[1:])}_"
        if name[0] == "r" and name[1:] in _SWAPPED:
            name = name[1:]
        name = _SPELLED.get(name, name)
    return f"aten::{name}"


def call_inputs(call: Marker, operator: str) -> Inputs | None:
    """A wrapped function's inputs to the operator that it calls; None if it has none."""
    base = operator.rpartition("::")[2].rstrip("_")
    given = _in_order(call, SIGNATURES.get(base))
    if base in _LISTED:
        given = _as_list(given)
    while given and given[-1] is None:
        given = given[:-1]
    if not given:
        return None
    return made_inputs(*(_entry(argument, base) for argument in given))


Given = Argument | tuple[Argument, ...] | None


def _in_order(call: Marker, signature: tuple[str, ...] | None) -> list[Given]:
    by_position = [argument for argument in call.arguments if not argument.name]
    by_keyword = {argument.name: argument for argument in call.arguments if argument.name}
    python = _IN_PYTHON.get((call.module, call.function))
    if signature is None:
        return list(call.arguments)
    if call.function in _LISTED:
        return [*by_position, *(by_keyword[name] for name in signature if name in by_keyword)]
    if python is not None:
        named = dict(zip(python, by_position, strict=False)) | by_keyword
        return [named.get(name) for name in signature]
    if signature[-1] == "alpha" and len(by_position) == 3 and by_position[1].shape is None:
        # The old way to write `a.add(2, b)`.
        by_position = [by_position[0], by_position[2], by_position[1]]
    remaining = signature[len(by_position) :]
    return [*by_position, *(by_keyword.get(name) for name in remaining)]


def _as_list(given: list[Given]) -> list[Given]:
    """The arguments with the tensors of a list as one: they were written one by one, before everything else."""
    tensors = tuple(argument for argument in given if isinstance(argument, Argument) and argument.shape is not None)
    others = [argument for argument in given if not (isinstance(argument, Argument) and argument.shape is not None)]
    return [tensors, *others]


def _entry(argument: Given, base: str) -> tuple[Any, str, Any]:
    if argument is None:
        return (), "", None
    if isinstance(argument, tuple):
        return [list(tensor.shape or ()) for tensor in argument], "TensorList", None
    if argument.shape is not None:
        return argument.shape, _TYPES.get(argument.value, argument.value), None
    if argument.kind == "NoneType" or argument.value is None:
        return (), "", None
    if isinstance(argument.value, (tuple, list)):
        return (), "ScalarList", argument.value
    if base == "nll_loss" and argument.value in _REDUCTIONS:
        return (), "Scalar", _REDUCTIONS[argument.value]
    return (), "str" if isinstance(argument.value, str) else "Scalar", argument.value


def _text(value: Any) -> str:
    """A value in Kineto's spelling: `2`, `[1, 1]`, `True`."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_text(item) for item in value[:64]) + "]"
    return str(value)[:256]
