"""Operators over lists of tensors (`_foreach_*`), as optimizers use them.

They do to each tensor of the lists what the operator of the same name does to one. Recorders omit the element type of
tensors in a list, and lists of more than 30 tensors: then bytes are unknown, or the call cannot be counted at all.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stepscope.costs.call import Call, Tensor, TensorList, broadcast
from stepscope.costs.dtype import real_of
from stepscope.costs.families.elementwise import operations, result_type
from stepscope.costs.families.pointwise import POINTWISE, entry
from stepscope.costs.work import Conventions, Models, Work, dense, of_lists, sized, stored, total

MODELS = Models()

_PREFIX = "aten::_foreach_"


_SPECIAL = ("copy", "clone", "zero", "norm", "max", "powsum", "mm")
_NAMES = tuple(
    f"{_PREFIX}{name}{form}"
    for name in POINTWISE
    for form in ("", "_")
    if not name.startswith("__") and name not in _SPECIAL
)


@MODELS.add("elementwise.foreach", _NAMES, over_lists=True)
def foreach(call: Call, _: Conventions) -> Work | None:
    """Element-wise operator on each tensor of the lists: (operations of its row)·(elements). Reads all lists, writes
    the first one in place or as many new tensors."""
    lists = entry(call.name.removeprefix(_PREFIX))
    if lists is None:
        return None
    row, _in_place = lists
    (first,) = call.listed(row.operands[0])
    flops = 0
    read: list[int | None] = []
    written: list[int | None] = []
    for index, tensor in enumerate(first):
        parts: list[Tensor] = [tensor]
        for position in row.operands[1:]:
            other = call.argument(position)
            if isinstance(other, TensorList):
                if len(other.tensors) != len(first):
                    return None
                parts.append(other.tensors[index])
            elif isinstance(other, Tensor):
                parts.append(other)
        shape = broadcast(*(part.shape for part in parts))
        if shape is None:
            return None
        out = result_type(row, tensor.dtype, call)
        each = operations(row, out, call) if row.result != "bool" else row.operations
        if each is None:
            return None
        result = Tensor(shape, out)
        flops += each * result.elements
        read.extend(part.stored_bytes for part in parts)
        written.append(result.bytes)
    work = of_lists("elementwise.foreach", first, flops, total(*read), total(*written))
    return replace(work, dtype=real_of(work.dtype))


@MODELS.add("copy.foreach", "_foreach_copy_ _foreach_copy _foreach_clone", over_lists=True)
def foreach_copy(call: Call, _: Conventions) -> Work | None:
    """Copies of lists, `_foreach_copy_(to, from)` and `_foreach_clone(from)`: no operations."""
    lists = [argument for argument in call.arguments if isinstance(argument, TensorList)]
    if not lists or not lists[0].tensors or not lists[-1].tensors:
        return None
    target, source = lists[0].tensors, lists[min(1, len(lists) - 1)].tensors
    return of_lists("copy.foreach", target, 0, stored(*source), dense(*target))


@MODELS.add("fill.foreach", "_foreach_zero_ _foreach_zero", over_lists=True)
def foreach_zero(call: Call, _: Conventions) -> Work | None:
    """Sets each tensor of a list to zero: no operations, writes all."""
    (tensors,) = call.listed(0)
    return of_lists("fill.foreach", tensors, 0, 0, dense(*tensors))


@MODELS.add("reduction.foreach", "_foreach_norm _foreach_max _foreach_powsum", over_lists=True)
def foreach_reduce(call: Call, _: Conventions) -> Work | None:
    """A norm, maximum or sum of powers of each tensor: 2n for a norm (n for its infinite one), else n. Reads all
    tensors, writes one value for each."""
    (tensors,) = call.listed(0)
    order = call.number(1)
    each = 1 if call.name == f"{_PREFIX}max" or (order is not None and math.isinf(order)) else 2
    flops = each * sum(tensor.elements for tensor in tensors)
    written = sized(len(tensors), tensors[0].dtype)
    return of_lists("reduction.foreach", tensors, flops, stored(*tensors), written)


@MODELS.add(
    "optimizer.unscale",
    "_amp_foreach_non_finite_check_and_unscale_ _amp_foreach_non_finite_check_and_unscale",
    over_lists=True,
)
def unscale(call: Call, _: Conventions) -> Work | None:
    """Unscaling of gradients under loss scaling, `_amp_foreach_non_finite_check_and_unscale_`: 2n. Each gradient is
    checked and multiplied in place."""
    (tensors,) = call.listed(0)
    flops = 2 * sum(tensor.elements for tensor in tensors)
    return of_lists("optimizer.unscale", tensors, flops, stored(*tensors), dense(*tensors))


@MODELS.add("gemm.foreach", "_foreach_mm", over_lists=True)
def matrix_products(call: Call, _: Conventions) -> Work | None:
    """Products of pairs of matrices in two lists, `_foreach_mm(a, b)`: the sum of 2·M·N·K."""
    left, right = call.listed(0, 1)
    if len(left) != len(right):
        return None
    flops = 0
    outs: list[Tensor] = []
    for a, b in zip(left, right, strict=True):
        if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
            return None
        flops += 2 * a.elements * b.shape[1]
        outs.append(Tensor((a.shape[0], b.shape[1]), a.dtype))
    read = stored(*left, *right)
    return of_lists("gemm.foreach", left, flops, read, dense(*outs), "matrix")
