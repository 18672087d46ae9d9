"""Inputs of backward calls, which no marker states, from those of the forward calls they undo.

Autograd runs in C++, where PyProf sees no arguments. But a node of autograd (`MmBackward, seq = 72`)
names the forward operator of its number, whose arguments are known, and what the node calls follows
from torch's own derivatives (tools/autograd/derivatives.yaml): the gradient of a product is two
products with the same three sizes, that of an element-wise function works on the result's shape.
Only nodes that are listed here are worked out; nothing is guessed for others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from stepscope.formats.nvtx.calls import (
    Inputs,
    integers_at,
    made_inputs,
    tensor_shape,
    tensor_type,
)
from stepscope.formats.nvtx.markers import base_name
from stepscope.formats.nvtx.ranges import Range

Shape = tuple[int, ...]
Tensor = tuple[Shape, str, Any]
"""Shape, type and value of an input, as `made_inputs` takes them."""
_SCALAR: Tensor = ((), "Scalar", None)
Calls = dict[str, list[Inputs]]
"""Name of an operator within a node → inputs of its calls, in order."""

_NODE = re.compile(r"(?:torch::autograd::)?(\w+?)Backward(?:s|\d+)?\Z")
_ACCUMULATE = "AccumulateGrad"

_ENCLOSING: dict[str, tuple[str, ...]] = {
    "mm": ("matmul", "linear"),
    "addmm": ("linear",),
    "bmm": ("matmul",),
    "_softmax": ("softmax",),
    "_log_softmax": ("log_softmax",),
    "_fused_dropout": ("dropout",),
    "native_layer_norm": ("layer_norm",),
    "nll_loss_forward": ("nll_loss",),
    "cudnn_convolution": ("conv1d", "conv2d", "conv3d"),
    "cudnn_batch_norm": ("batch_norm",),
}
"""Operators that hand what they were given on to another one."""


def derive_inputs(ranges: Iterable[Range]) -> None:
    """Gives the calls within nodes of autograd, and right after them, their inputs."""
    listed = list(ranges)
    by_sequence: dict[int, list[Range]] = {}
    for one in listed:
        if one.marker.sequence is not None and not _NODE.match(one.marker.name):
            by_sequence.setdefault(one.marker.sequence, []).append(one)
    gradients: list[tuple[Shape, str]] = []
    broadcast: Inputs | None = None
    thread = None
    for one in listed:
        if one.parent is not None or one.operator is None:
            continue
        if one.thread != thread:
            gradients, broadcast, thread = [], None, one.thread
        node = _NODE.match(one.marker.name)
        if node:
            forward = _forward_of(one, node[1], by_sequence)
            gradients, broadcast = [], None
            if forward is not None:
                known = _inputs_of(forward)
                if known is not None:
                    _hand_out(one, _calls(node[1], known))
                    gradients = _gradients(node[1], known)
                    broadcast = _reduced(node[1], known)
        elif one.marker.name.endswith(_ACCUMULATE) and gradients:
            shape, kind = gradients.pop(0)
            added = made_inputs((shape, kind, None), (shape, kind, None), ((), "Scalar", 1))
            _hand_out(one, {"add": [added]})
        elif base_name(one.operator) == "sum" and broadcast is not None and one.inputs is None:
            one.inputs, one.from_forward = broadcast, True


def _snake(node: str) -> str:
    """`LogSoftmax` → `log_softmax`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node).lower()


def _forward_of(node: Range, name: str, by_sequence: dict[int, list[Range]]) -> Range | None:
    """The operator whose gradient a node computes: of its number and name, the last before it."""
    wanted = _snake(name)
    candidates = [
        one
        for one in by_sequence.get(-1 if node.marker.sequence is None else node.marker.sequence, ())
        if one.end_ns <= node.start_ns and base_name(one.marker.name).lstrip("_") == wanted
    ]
    return max(candidates, key=lambda one: (one.start_ns, -one.end_ns), default=None)


def _inputs_of(forward: Range) -> Inputs | None:
    """What the forward operator was given, or what handed its work to it was given."""
    if forward.inputs is not None and forward.inputs.types is not None:
        return forward.inputs
    names = _ENCLOSING.get(base_name(forward.marker.name), ())
    for one in forward.above():
        if one.operator is None:
            break
        if base_name(one.operator) in names and one.inputs is not None and one.inputs.types:
            return one.inputs
    return forward.inputs


def _hand_out(node: Range, calls: Calls) -> None:
    for one in node.below():
        if one.operator is None or one.inputs is not None:
            continue
        waiting = calls.get(base_name(one.operator))
        if waiting:
            one.inputs, one.from_forward = waiting.pop(0), True


def _calls(node: str, known: Inputs) -> Calls:
    rule = _RULES.get(node)
    return (rule(known) or {}) if rule else {}


# -- what the nodes call: one function per family ---------------------------------------------------


def _products(known: Inputs, first: int = 0) -> Calls | None:
    """The gradients of A·B: Aᵀ·G first, then G·Bᵀ, with rows of leading dimensions as one."""
    a, b = tensor_shape(known, first), tensor_shape(known, first + 1)
    if a is None or b is None or len(b) != 2 or a[-1] not in b:
        return None
    n = b[1] if a[-1] == b[0] else b[0]  # linear gives the weight as it is stored: n x k
    m, k, kind = math.prod(a[:-1]), a[-1], tensor_type(known, first)
    return {"mm": [_pair((k, m), (m, n), kind), _pair((m, n), (n, k), kind)]}


def _batched_products(known: Inputs, first: int = 0) -> Calls | None:
    a, b = tensor_shape(known, first), tensor_shape(known, first + 1)
    if a is None or b is None or len(a) < 3 or len(b) != len(a):
        return None
    batch, kind = math.prod(a[:-2]), tensor_type(known, first)
    m, k, n = a[-2], a[-1], b[-1]
    return {
        "bmm": [
            _pair((batch, k, m), (batch, m, n), kind),
            _pair((batch, m, n), (batch, n, k), kind),
        ]
    }


def _pair(left: Shape, right: Shape, kind: str) -> Inputs:
    return made_inputs((left, kind, None), (right, kind, None))


def _of_result(*operators: str) -> Callable[[Inputs], Calls | None]:
    """Gradients of element-wise functions: calls on tensors of the result's shape."""

    def rule(known: Inputs) -> Calls | None:
        result, kind = _result(known), tensor_type(known, 0)
        if result is None:
            return None
        other = tensor_shape(known, 1)
        if other is None:
            value = made_inputs((result, kind, None), _SCALAR)
            return {name: [value] for name in operators}
        pair = _pair(result, result, kind)
        return {name: [pair, pair] for name in operators}

    return rule


def _like_input(
    operator: str, given: Callable[[Tensor], tuple[Tensor, ...]]
) -> Callable[[Inputs], Calls | None]:
    """Gradients that are one call, on tensors like the first input."""

    def rule(known: Inputs) -> Calls | None:
        shape, kind = tensor_shape(known, 0), tensor_type(known, 0)
        return None if shape is None else {operator: [made_inputs(*given((shape, kind, None)))]}

    return rule


def _layer_norm(known: Inputs) -> Calls | None:
    shape, weight, kind = tensor_shape(known, 0), tensor_shape(known, 2), tensor_type(known, 0)
    if shape is None or weight is None:
        return None
    rows = (shape[: len(shape) - len(weight)], "float", None)
    tensor = (shape, kind, None)
    normalized = ((), "ScalarList", weight)
    given = made_inputs(
        tensor, tensor, normalized, rows, rows, (weight, kind, None), (weight, kind, None)
    )
    return {"native_layer_norm_backward": [given]}


def _embedding(known: Inputs) -> Calls | None:
    weight, indices = tensor_shape(known, 0), tensor_shape(known, 1)
    if weight is None or indices is None or len(weight) != 2:
        return None
    given = made_inputs(
        ((*indices, weight[1]), tensor_type(known, 0), None),
        (indices, tensor_type(known, 1), None),
        ((), "Scalar", weight[0]),
        ((), "Scalar", -1),
        ((), "Scalar", False),
    )
    return {"embedding_dense_backward": [given]}


def _nll(known: Inputs) -> Calls | None:
    scores, target, kind = tensor_shape(known, 0), tensor_shape(known, 1), tensor_type(known, 0)
    if scores is None or target is None:
        return None
    zero = ((), kind, None)
    given = made_inputs(
        zero,
        (scores, kind, None),
        (target, tensor_type(known, 1), None),
        ((), "", None),
        ((), "Scalar", 1),
        ((), "Scalar", -100),
        zero,
    )
    return {"nll_loss_backward": [given]}


def _convolution(known: Inputs) -> Calls | None:
    x, w, kind = tensor_shape(known, 0), tensor_shape(known, 1), tensor_type(known, 0)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    axes = len(x) - 2
    stride, padding, dilation = (
        integers_at(known, position, axes, default)
        for position, default in ((3, 1), (4, 0), (5, 1))
    )
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    sizes = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    positions = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes]
    if min(positions) < 1:
        return None
    grad = ((x[0], w[0], *positions), kind, None)
    return {
        "cudnn_convolution_backward_input": [
            made_inputs(((), "ScalarList", x), grad, (w, kind, None))
        ],
        "cudnn_convolution_backward_weight": [
            made_inputs(((), "ScalarList", w), grad, (x, kind, None))
        ],
    }


def _batch_norm(known: Inputs) -> Calls | None:
    x, weight, kind = tensor_shape(known, 0), tensor_shape(known, 1), tensor_type(known, 0)
    if x is None or weight is None:
        return None
    scale = (weight, tensor_type(known, 1), None)
    given = made_inputs((x, kind, None), (x, kind, None), *[scale] * 5)
    return {"cudnn_batch_norm_backward": [given]}


_RULES: dict[str, Callable[[Inputs], Calls | None]] = {
    "Mm": _products,
    "Addmm": lambda known: _products(known, 1 if tensor_shape(known, 2) else 0),
    "Bmm": _batched_products,
    "Baddbmm": lambda known: _batched_products(known, 1),
    "Mul": _of_result("mul"),
    "Div": _of_result("div", "mul"),
    "Relu": _like_input("threshold_backward", lambda x: (x, x, ((), "Scalar", 0))),
    "Softmax": _like_input("_softmax_backward_data", lambda x: (x, x, _SCALAR, x)),
    "LogSoftmax": _like_input("_log_softmax_backward_data", lambda x: (x, x, _SCALAR, x)),
    "FusedDropout": _like_input(
        "_masked_scale", lambda x: (x, (x[0], "unsigned char", None), _SCALAR)
    ),
    "NativeLayerNorm": _layer_norm,
    "Embedding": _embedding,
    "NllLoss": _nll,
    "CudnnConvolution": _convolution,
    "CudnnBatchNorm": _batch_norm,
}


def _result(known: Inputs) -> Shape | None:
    """Shape of an element-wise result: its two operands broadcast."""
    a, b = tensor_shape(known, 0), tensor_shape(known, 1)
    if a is None or b is None:
        return a
    longest = max(len(a), len(b))
    padded = [(1,) * (longest - len(shape)) + shape for shape in (a, b)]
    return tuple(max(pair) for pair in zip(*padded, strict=True))


def _reduced(node: str, known: Inputs) -> Inputs | None:
    """The sum that undoes a broadcast, which autograd runs after the node."""
    if node not in ("Add", "Sub", "Mul"):
        return None
    a, b, result = tensor_shape(known, 0), tensor_shape(known, 1), _result(known)
    if a is None or b is None or result is None or a == b:
        return None
    small = a if math.prod(a) < math.prod(b) else b
    padded = (1,) * (len(result) - len(small)) + small
    summed = [axis for axis, size in enumerate(result) if padded[axis] != size]
    return made_inputs(
        (result, tensor_type(known, 0), None), ((), "ScalarList", summed), ((), "Scalar", True)
    )


def _gradients(node: str, known: Inputs) -> list[tuple[Shape, str]]:
    """Shapes of the parameters' gradients that a node hands to the `AccumulateGrad` after it."""
    kind = tensor_type(known, 0)

    def shapes(*positions: int) -> list[tuple[Shape, str]]:
        found = [tensor_shape(known, position) for position in positions]
        return [(shape, kind) for shape in found if shape is not None]

    if node == "T":
        return shapes(0)
    if node == "Embedding":
        return shapes(0)
    if node == "NativeLayerNorm":
        return shapes(2, 3)
    if node in ("Add", "Sub") and _reduced(node, known) is not None:
        a, b = shapes(0, 1)
        return [min(a, b, key=lambda one: math.prod(one[0]))]
    return []
