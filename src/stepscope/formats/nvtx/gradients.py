"""Inputs of backward calls, which no marker states, from those of the forward calls they undo.

Autograd runs in C++, where PyProf sees no arguments. But the number of an autograd node (`MmBackward, seq = 72`)
identifies its forward operator, whose arguments are known, and the node's calls follow from torch's own derivatives
(tools/autograd/derivatives.yaml): the gradient of a product is two products with the same three sizes, that of an
element-wise function works on the result's shape. Only the nodes listed here are worked out; nothing is guessed for
others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.formats.consecutive import place_in_run
from stepscope.formats.nvtx.calls import Inputs, integers_at, made_inputs, tensor_shape, tensor_type
from stepscope.formats.nvtx.markers import Marker, base_name
from stepscope.formats.nvtx.ranges import NONE, Nested, Numbering, by_pair
from stepscope.schema.arrays import Int32s, Int64s

Shape = tuple[int, ...]
Tensor = tuple[Shape, str, Any]
"""Shape, type and value of an input, for `made_inputs`."""
_SCALAR: Tensor = ((), "Scalar", None)
Calls = dict[str, list[Inputs]]
"""Name of an operator within a node → inputs of its calls, in order."""

_NODE = re.compile(r"(?:torch::autograd::)?(\w+?)Backward(?:s|\d+)?\Z")
_ACCUMULATE = "AccumulateGrad"
_DEEPEST = 256
"""Ranges that are searched; only a damaged file nests deeper."""

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
"""Operators that pass their inputs on to another operator."""


@dataclass(slots=True)
class _Derived:
    """What a forward call says about the autograd node that undoes it.

    Args:
        calls: inputs of the node's calls.
        gradients: inputs of the addition that each `AccumulateGrad` after it makes, in order.
        broadcast: inputs of the sums after it, which undo a broadcast.
    """

    calls: Calls
    gradients: list[Inputs]
    broadcast: Inputs | None


def derive_inputs(tree: Nested) -> None:
    """Sets, in place, the inputs of the calls within autograd nodes and right after them."""
    top = np.flatnonzero((tree.nesting.parent < 0) & (tree.operator >= 0))
    kind = tree.of_marker(_kind)[top]
    nodes = np.flatnonzero(kind == _IS_NODE)
    if not len(nodes) or not (tree.given >= 0).any():
        return
    forward_inputs = _known_inputs(tree, _forwards(tree, top[nodes]))
    pair, derived = _derived(tree, top[nodes], forward_inputs)
    if not derived:
        return
    count = len(tree.ranges)
    # The source of the inputs below each range of the first level: which calls, by name and order.
    source = np.full(count, NONE, np.int32)
    source[top[nodes]] = pair
    calls = {
        (number, base): waiting
        for number, derivation in enumerate(derived)
        for base, waiting in derivation.calls.items()
    }
    # Between two nodes of a thread is work that the first one left to be done.
    thread = tree.ranges.thread[top]
    node = np.maximum.accumulate(np.where(kind == _IS_NODE, np.arange(len(top)), NONE))
    same = (node >= 0) & (thread[node] == thread)
    of_node = np.full(len(top), NONE, np.int32)
    of_node[nodes] = pair
    left = np.where(same, of_node[node], NONE)
    left[nodes] = NONE
    adding = np.flatnonzero((kind == _IS_ACCUMULATE) & (left >= 0))
    place = place_in_run(node[adding])
    additions: dict[tuple[int, int], int] = {}
    for number, derivation in enumerate(derived):
        for which, given in enumerate(derivation.gradients):
            additions[number, which] = len(derived) + len(additions)
            calls[additions[number, which], "add"] = [given]
    added = [additions.get(key, NONE) for key in zip(left[adding].tolist(), place.tolist(), strict=True)]
    source[top[adding]] = np.array(added, np.int32)
    base, bases = _bases(tree)
    _hand_out(tree, source, base, {(n, bases.number(name)): w for (n, name), w in calls.items()})
    sums = np.flatnonzero((left >= 0) & (base[top] == bases.number("sum")) & (tree.given[top] < 0))
    summed = np.array([tree.inputs.number(derivation.broadcast) for derivation in derived], np.int32)
    _give(tree, top[sums], summed[left[sums]])


_IS_NODE, _IS_ACCUMULATE = 1, 2


def _kind(marker: Marker) -> int:
    if _NODE.match(marker.name):
        return _IS_NODE
    return _IS_ACCUMULATE if marker.name.endswith(_ACCUMULATE) else 0


def _bases(tree: Nested) -> tuple[Int32s, Numbering[str]]:
    """The number of each operator's name, without namespace; -1 for other ranges."""
    bases: Numbering[str] = Numbering()
    return tree.of_operator(lambda name: bases.number(base_name(name))), bases


def _give(tree: Nested, at: Int64s, given: Int32s) -> None:
    """Sets the inputs of operators, in place, if they are known."""
    at, given = at[given >= 0], given[given >= 0]
    tree.given[at] = given
    tree.from_forward[at] = True


def _snake(node: str) -> str:
    """`LogSoftmax` → `log_softmax`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node).lower()


def _forwards(tree: Nested, nodes: Int64s) -> Int64s:
    """The operator whose gradient each node computes: the last before it with its number and name; -1 for none."""
    ranges = tree.ranges
    words: Numbering[str] = Numbering()

    def forward_name(marker: Marker) -> int:
        node = _NODE.match(marker.name)
        return words.number(_snake(node[1])) if node else NONE

    node_names = tree.of_marker(forward_name)[nodes]
    name = tree.of_marker(
        lambda marker: (
            NONE
            if marker.sequence is None or _NODE.match(marker.name)
            else words.of.get(base_name(marker.name).lstrip("_"), NONE)
        )
    )
    candidates = np.flatnonzero((name >= 0) & (ranges.sequence >= 0))
    key = np.stack([ranges.sequence[candidates], name[candidates].astype(np.int64)])
    order = np.lexsort((-ranges.end_ns[candidates], ranges.start_ns[candidates], key[1], key[0]))
    candidates, key = candidates[order], key[:, order]
    # With all candidates and nodes in one order, the last candidate before a node is its operator.
    sequences, names = ranges.sequence[nodes], node_names.astype(np.int64)
    both = np.concatenate([key, np.stack([sequences, names])], axis=1)
    _, group = np.unique(both, axis=1, return_inverse=True)
    group = group.ravel()
    mine, theirs = group[len(candidates) :], group[: len(candidates)]
    merged = np.lexsort(
        (
            np.append(np.arange(len(candidates)), np.full(len(nodes), len(candidates))),
            np.append(ranges.start_ns[candidates], ranges.start_ns[nodes]),
            group,
        )
    )
    before = np.cumsum(merged < len(candidates))
    at = np.empty(len(group), np.int64)
    at[merged] = before - 1
    at = at[len(candidates) :]
    # A candidate that has not ended when the node starts does not count; few do, one after the other.
    for _ in range(_DEEPEST):
        unfit = np.flatnonzero(at >= 0)
        unfit = unfit[theirs[at[unfit]] == mine[unfit]]
        unfit = unfit[ranges.end_ns[candidates[at[unfit]]] > ranges.start_ns[nodes[unfit]]]
        if not len(unfit):
            break
        at[unfit] -= 1
    forwards = np.full(len(nodes), NONE, np.int64)
    fits = np.flatnonzero((at >= 0) & (sequences >= 0))
    fits = fits[theirs[at[fits]] == mine[fits]]
    fits = fits[ranges.end_ns[candidates[at[fits]]] <= ranges.start_ns[nodes[fits]]]
    forwards[fits] = candidates[at[fits]]
    return forwards


def _known_inputs(tree: Nested, forward: Int64s) -> Int32s:
    """The inputs of each forward operator, or of the operator that passed its work to it; -1 for neither."""
    typed = np.array([*(inputs.types is not None for inputs in tree.inputs.of), False])[tree.given]
    base, bases = _bases(tree)
    allowed = {
        (bases.of[inner], bases.of[outer])
        for inner, outers in _ENCLOSING.items()
        for outer in outers
        if inner in bases.of and outer in bases.of
    }
    width = len(bases.of) + 1
    pairs = np.array([inner * width + outer for inner, outer in allowed], np.int64)
    mine = tree.of_marker(lambda inputs: bases.of.get(base_name(inputs.name), NONE))
    given = np.where(forward >= 0, tree.given[forward], NONE)
    rows = np.flatnonzero((forward >= 0) & ~typed[forward])
    at = tree.nesting.parent[forward[rows]]
    for _ in range(_DEEPEST):
        inside = (at >= 0) & (tree.operator[at] >= 0)
        rows, at = rows[inside], at[inside]
        if not len(rows):
            break
        key = mine[forward[rows]].astype(np.int64) * width + base[at]
        here = np.isin(key, pairs) & typed[at]
        given[rows[here]] = tree.given[at[here]]
        rows, at = rows[~here], tree.nesting.parent[at[~here]]
    return given.astype(np.int32)


def _derived(tree: Nested, nodes: Int64s, forward_inputs: Int32s) -> tuple[Int32s, list[_Derived]]:
    """The derived inputs for each distinct node and its inputs, and their number for each node."""
    listed = tree.inputs.listed()
    derived: list[_Derived] = []
    numbers: dict[tuple[str, int], int] = {}

    def number(marker: int, given: int) -> int:
        node = _NODE.match(tree.ranges.markers[marker].name)
        if node is None or given < 0:
            return NONE
        if (node[1], given) not in numbers:
            numbers[node[1], given] = len(derived)
            derived.append(_derive(node[1], listed[given]))
        return numbers[node[1], given]

    return by_pair(tree.ranges.marker[nodes], forward_inputs, number), derived


def _derive(node: str, inputs: Inputs) -> _Derived:
    additions = [
        made_inputs((shape, kind, None), (shape, kind, None), ((), "Scalar", 1))
        for shape, kind in _gradients(node, inputs)
    ]
    return _Derived(_calls(node, inputs), additions, _reduced(node, inputs))


def _hand_out(tree: Nested, source: Int32s, base: Int32s, calls: dict[tuple[int, int], list[Inputs]]) -> None:
    """Sets the inputs of the calls below each range of the first level from its source, in order."""
    inside = source.copy()
    tree.nesting.inherit(inside)
    deep = tree.nesting.parent >= 0
    waiting = np.flatnonzero(deep & (inside >= 0) & (base >= 0) & (tree.given < 0))
    root = tree.nearest_above(~deep)[waiting]
    order = np.lexsort((waiting, base[waiting], root))
    waiting, root = waiting[order], root[order]
    place = place_in_run(root.astype(np.int64) * (int(base.max(initial=0)) + 1) + base[waiting])
    rows = [
        (number, name, which, tree.inputs.number(given))
        for (number, name), listed in calls.items()
        for which, given in enumerate(listed)
    ]
    positions = max((which for _, _, which, _ in rows), default=0) + 1
    names = int(base.max(initial=0)) + 1
    keys = np.array([(n * names + b) * positions + w for n, b, w, _ in rows if b < names], np.int64)
    given = np.array([given for _, b, _, given in rows if b < names], np.int32)
    order = np.argsort(keys)
    keys, given = keys[order], given[order]
    usable = place < positions
    waiting, place = waiting[usable], place[usable]
    keys_of_rows = (inside[waiting].astype(np.int64) * names + base[waiting]) * positions + place
    at = np.clip(np.searchsorted(keys, keys_of_rows), 0, max(len(keys) - 1, 0))
    if len(keys):
        _give(tree, waiting, np.where(keys[at] == keys_of_rows, given[at], NONE).astype(np.int32))


def _calls(node: str, inputs: Inputs) -> Calls:
    rule = _RULES.get(node)
    return (rule(inputs) or {}) if rule else {}


# -- what the nodes call: one function per family ---------------------------------------------------


def _products(inputs: Inputs, first: int = 0) -> Calls | None:
    """The gradients of A·B: Aᵀ·G first, then G·Bᵀ, with rows of leading dimensions as one."""
    a, b = tensor_shape(inputs, first), tensor_shape(inputs, first + 1)
    if a is None or b is None or len(b) != 2 or a[-1] not in b:
        return None
    n = b[1] if a[-1] == b[0] else b[0]  # linear passes the weight as it is stored: n x k
    m, k, kind = math.prod(a[:-1]), a[-1], tensor_type(inputs, first)
    return {"mm": [_pair((k, m), (m, n), kind), _pair((m, n), (n, k), kind)]}


def _batched_products(inputs: Inputs, first: int = 0) -> Calls | None:
    a, b = tensor_shape(inputs, first), tensor_shape(inputs, first + 1)
    if a is None or b is None or len(a) < 3 or len(b) != len(a):
        return None
    batch, kind = math.prod(a[:-2]), tensor_type(inputs, first)
    m, k, n = a[-2], a[-1], b[-1]
    return {"bmm": [_pair((batch, k, m), (batch, m, n), kind), _pair((batch, m, n), (batch, n, k), kind)]}


def _pair(left: Shape, right: Shape, kind: str) -> Inputs:
    return made_inputs((left, kind, None), (right, kind, None))


def _of_result(*operators: str) -> Callable[[Inputs], Calls | None]:
    """Gradients of element-wise functions: calls on tensors of the result's shape."""

    def rule(inputs: Inputs) -> Calls | None:
        result, kind = _result(inputs), tensor_type(inputs, 0)
        if result is None:
            return None
        other = tensor_shape(inputs, 1)
        if other is None:
            value = made_inputs((result, kind, None), _SCALAR)
            return {name: [value] for name in operators}
        pair = _pair(result, result, kind)
        return {name: [pair, pair] for name in operators}

    return rule


def _like_input(operator: str, given: Callable[[Tensor], tuple[Tensor, ...]]) -> Callable[[Inputs], Calls | None]:
    """Gradients that are one call, on tensors like the first input."""

    def rule(inputs: Inputs) -> Calls | None:
        shape, kind = tensor_shape(inputs, 0), tensor_type(inputs, 0)
        return None if shape is None else {operator: [made_inputs(*given((shape, kind, None)))]}

    return rule


def _layer_norm(inputs: Inputs) -> Calls | None:
    shape, weight, kind = tensor_shape(inputs, 0), tensor_shape(inputs, 2), tensor_type(inputs, 0)
    if shape is None or weight is None:
        return None
    rows = (shape[: len(shape) - len(weight)], "float", None)
    tensor = (shape, kind, None)
    normalized = ((), "ScalarList", weight)
    given = made_inputs(tensor, tensor, normalized, rows, rows, (weight, kind, None), (weight, kind, None))
    return {"native_layer_norm_backward": [given]}


def _embedding(inputs: Inputs) -> Calls | None:
    weight, indices = tensor_shape(inputs, 0), tensor_shape(inputs, 1)
    if weight is None or indices is None or len(weight) != 2:
        return None
    given = made_inputs(
        ((*indices, weight[1]), tensor_type(inputs, 0), None),
        (indices, tensor_type(inputs, 1), None),
        ((), "Scalar", weight[0]),
        ((), "Scalar", -1),
        ((), "Scalar", False),
    )
    return {"embedding_dense_backward": [given]}


def _nll(inputs: Inputs) -> Calls | None:
    scores, target, kind = tensor_shape(inputs, 0), tensor_shape(inputs, 1), tensor_type(inputs, 0)
    if scores is None or target is None:
        return None
    zero = ((), kind, None)
    given = made_inputs(
        zero,
        (scores, kind, None),
        (target, tensor_type(inputs, 1), None),
        ((), "", None),
        ((), "Scalar", 1),
        ((), "Scalar", -100),
        zero,
    )
    return {"nll_loss_backward": [given]}


def _convolution(inputs: Inputs) -> Calls | None:
    x, w, kind = tensor_shape(inputs, 0), tensor_shape(inputs, 1), tensor_type(inputs, 0)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    axes = len(x) - 2
    stride, padding, dilation = (
        integers_at(inputs, position, axes, default) for position, default in ((3, 1), (4, 0), (5, 1))
    )
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    sizes = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    positions = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes]
    if min(positions) < 1:
        return None
    grad = ((x[0], w[0], *positions), kind, None)
    return {
        "cudnn_convolution_backward_input": [made_inputs(((), "ScalarList", x), grad, (w, kind, None))],
        "cudnn_convolution_backward_weight": [made_inputs(((), "ScalarList", w), grad, (x, kind, None))],
    }


def _batch_norm(inputs: Inputs) -> Calls | None:
    x, weight, kind = tensor_shape(inputs, 0), tensor_shape(inputs, 1), tensor_type(inputs, 0)
    if x is None or weight is None:
        return None
    scale = (weight, tensor_type(inputs, 1), None)
    given = made_inputs((x, kind, None), (x, kind, None), *[scale] * 5)
    return {"cudnn_batch_norm_backward": [given]}


_RULES: dict[str, Callable[[Inputs], Calls | None]] = {
    "Mm": _products,
    "Addmm": lambda inputs: _products(inputs, 1 if tensor_shape(inputs, 2) else 0),
    "Bmm": _batched_products,
    "Baddbmm": lambda inputs: _batched_products(inputs, 1),
    "Mul": _of_result("mul"),
    "Div": _of_result("div", "mul"),
    "Relu": _like_input("threshold_backward", lambda x: (x, x, ((), "Scalar", 0))),
    "Softmax": _like_input("_softmax_backward_data", lambda x: (x, x, _SCALAR, x)),
    "LogSoftmax": _like_input("_log_softmax_backward_data", lambda x: (x, x, _SCALAR, x)),
    "FusedDropout": _like_input("_masked_scale", lambda x: (x, (x[0], "unsigned char", None), _SCALAR)),
    "NativeLayerNorm": _layer_norm,
    "Embedding": _embedding,
    "NllLoss": _nll,
    "CudnnConvolution": _convolution,
    "CudnnBatchNorm": _batch_norm,
}


def _result(inputs: Inputs) -> Shape | None:
    """Shape of an element-wise result: its two operands broadcast."""
    a, b = tensor_shape(inputs, 0), tensor_shape(inputs, 1)
    if a is None or b is None:
        return a
    longest = max(len(a), len(b))
    padded = [(1,) * (longest - len(shape)) + shape for shape in (a, b)]
    return tuple(max(pair) for pair in zip(*padded, strict=True))


def _reduced(node: str, inputs: Inputs) -> Inputs | None:
    """The sum after the node with which autograd undoes a broadcast."""
    if node not in ("Add", "Sub", "Mul"):
        return None
    a, b, result = tensor_shape(inputs, 0), tensor_shape(inputs, 1), _result(inputs)
    if a is None or b is None or result is None or a == b:
        return None
    small = a if math.prod(a) < math.prod(b) else b
    padded = (1,) * (len(result) - len(small)) + small
    summed = [axis for axis, size in enumerate(result) if padded[axis] != size]
    return made_inputs((result, tensor_type(inputs, 0), None), ((), "ScalarList", summed), ((), "Scalar", True))


def _gradients(node: str, inputs: Inputs) -> list[tuple[Shape, str]]:
    """Shapes of the parameters' gradients that a node passes to the `AccumulateGrad` after it."""
    kind = tensor_type(inputs, 0)

    def shapes(*positions: int) -> list[tuple[Shape, str]]:
        candidates = [tensor_shape(inputs, position) for position in positions]
        return [(shape, kind) for shape in candidates if shape is not None]

    if node == "T":
        return shapes(0)
    if node == "Embedding":
        return shapes(0)
    if node == "NativeLayerNorm":
        return shapes(2, 3)
    if node in ("Add", "Sub") and _reduced(node, inputs) is not None:
        a, b = shapes(0, 1)
        return [min(a, b, key=lambda gradient: math.prod(gradient[0]))]
    return []
