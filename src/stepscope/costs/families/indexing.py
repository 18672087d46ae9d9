"""Gathering, scattering, joining and rearranging elements.

They move elements and compute nothing, except for adding elements at the same place. An element
counts each time an index names it. `aten::index` and `aten::index_put_` have no model: their
indices are a list that recorders omit, so the extent of the result is unknown.
"""

from __future__ import annotations

import math

from stepscope.costs.call import Call, Tensor
from stepscope.costs.dtype import is_float
from stepscope.costs.work import Conventions, Models, Work, dense, of_lists, sized, stored, total

MODELS = Models()

_DATA = ("extent of the result is data",)


@MODELS.add("indexing.gather", "gather take take_along_dim", composites="take_along_dim")
def gather(call: Call, _: Conventions) -> Work | None:
    """One element for each index, `gather(x, dim, index)` and `take(x, index)`. Reads the index and as many elements,
    writes as many."""
    x, index = call.given(0, 1 if call.name.startswith("aten::take") else 2)
    moved = sized(index.elements, x.dtype)
    return Work("indexing.gather", 0, total(stored(index), moved), moved, x.dtype)


@MODELS.add("indexing.index_select", "index_select")
def index_select(call: Call, _: Conventions) -> Work | None:
    """Slices along a dimension, `index_select(x, dim, index)`: a slice for each index. Reads the index and the slices,
    writes them. If the dimension was not recorded it must not matter: x has one dimension, or all of its dimensions are
    equal."""
    x, index = call.given(0, 2)
    count = _slices(x, call.integer(1), index.elements)
    if count is None:
        return None
    moved = sized(count, x.dtype)
    return Work("indexing.index_select", 0, total(stored(index), moved), moved, x.dtype)


def _slices(x: Tensor, dim: int | None, count: int) -> int | None:
    if not x.shape:
        return count
    if dim is None:
        if len(set(x.shape)) > 1:
            return None
        dim = 0
    if not -len(x.shape) <= dim < len(x.shape):
        return None
    dim %= len(x.shape)
    return count * math.prod(size for place, size in enumerate(x.shape) if place != dim)


_SCATTER_ADD = ("aten::scatter_add", "aten::scatter_reduce", "aten::scatter_reduce_two")


@MODELS.add("indexing.scatter", "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_")
def scatter(call: Call, _: Conventions) -> Work | None:
    """One element to each index, `scatter_(x, dim, index, source)`. Reads index and as many elements of the source
    (none of a number), writes as many; with a sum it also reads the targets and counts one operation for each. The form
    that is not in place copies x first: it reads and writes all of x as well."""
    (x, index), source = call.given(0, 2), call.tensor(3)
    adds = call.name.removesuffix("_") in _SCATTER_ADD or call.text(4) is not None
    moved = sized(index.elements, x.dtype)
    read = total(stored(index), 0 if source is None else moved, moved if adds else 0)
    flops = index.elements if adds and is_float(x.dtype) else 0
    return _written("indexing.scatter", call, x, flops, read, moved)


def _written(formula: str, call: Call, x: Tensor, flops: int, read: int | None, written: int | None) -> Work:
    """The work; the form that is not in place copies x first."""
    if not call.name.endswith("_"):
        read, written = total(read, stored(x)), total(written, dense(x))
    return Work(formula, flops, read, written, x.dtype)


@MODELS.add(
    "indexing.index_write",
    "index_copy index_copy_ index_add index_add_ index_fill index_fill_",
    composites="index_copy index_add index_fill",
)
def index_write(call: Call, _: Conventions) -> Work | None:
    """Slices of a source to places along a dimension, `index_copy_`, `index_add_`, `index_fill_`. Reads index and
    source, writes as many elements; a sum also reads the targets and counts one operation for each (two with a factor
    other than 1). The form that is not in place copies x first."""
    (x, index), source = call.given(0, 2), call.tensor(3)
    name = call.name.removesuffix("_")
    count = None if source is None else source.elements
    if name == "aten::index_fill":
        count, source = _slices(x, call.integer(1), index.elements), None
    if count is None:
        return None
    adds = name == "aten::index_add"
    moved = sized(count, x.dtype)
    read = total(stored(index, source), moved if adds else 0)
    each = 1 if call.number(4) in (None, 1) else 2
    flops = each * count if adds and is_float(x.dtype) else 0
    return _written("indexing.index_write", call, x, flops, read, moved)


@MODELS.add("indexing.masked_select", "masked_select")
def masked_select(call: Call, _: Conventions) -> Work | None:
    """Elements selected by a mask: reads tensor and mask; the number written depends on data."""
    x, mask = call.given(0, 1)
    return Work("indexing.masked_select", 0, stored(x, mask), None, x.dtype, notes=_DATA)


@MODELS.add("indexing.masked_scatter", "masked_scatter masked_scatter_", composites="masked_scatter")
def masked_scatter(call: Call, _: Conventions) -> Work | None:
    """Elements of a source where a mask is true: reads tensor and mask, writes the tensor. It reads at most as many
    elements of the source as the tensor has; the number depends on data and is left out."""
    x, mask = call.given(0, 1)
    notes = ("what it reads of the source is data",)
    return Work("indexing.masked_scatter", 0, stored(x, mask), dense(x), x.dtype, notes=notes)


@MODELS.add("indexing.nonzero", "nonzero argwhere", composites="argwhere")
def nonzero(call: Call, _: Conventions) -> Work | None:
    """Places of the non-zero elements: reads x; the number written depends on data."""
    (x,) = call.given(0)
    return Work("indexing.nonzero", 0, stored(x), None, x.dtype, notes=_DATA)


@MODELS.add("indexing.join", "cat _cat stack _stack concat concatenate", composites="stack concat concatenate")
def join(call: Call, _: Conventions) -> Work | None:
    """Joining tensors, `cat(tensors)` and `stack(tensors)`: reads all, writes as much. Recorders omit the element type
    of lists, and lists of more than 30 tensors altogether."""
    (tensors,) = call.listed(0)
    return of_lists("indexing.join", tensors, 0, stored(*tensors), dense(*tensors))


@MODELS.add(
    "indexing.rearrange",
    "roll flip tril triu tril_ triu_ pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle rot90",
    composites="channel_shuffle native_channel_shuffle rot90",
)
def rearrange(call: Call, _: Conventions) -> Work | None:
    """Moves every element, `roll`, `flip`, `tril`, `pixel_shuffle`: reads x, writes it."""
    (x,) = call.given(0)
    return Work("indexing.rearrange", 0, stored(x), dense(x), x.dtype)


@MODELS.add("indexing.repeat", "repeat tile", composites="repeat tile")
def repeat(call: Call, _: Conventions) -> Work | None:
    """A tensor repeated, `repeat(x, repeats)`: reads x, writes the product of repeats."""
    (x,), repeats = call.given(0), call.integers(1)
    if repeats is None or any(times < 0 for times in repeats):
        return None
    written = sized(x.elements * math.prod(repeats), x.dtype)
    return Work("indexing.repeat", 0, stored(x), written, x.dtype)


@MODELS.add(
    "indexing.pad",
    "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
    "replication_pad2d replication_pad3d",
    composites="constant_pad_nd",
)
def pad(call: Call, _: Conventions) -> Work | None:
    """Padding, `constant_pad_nd(x, pads)` and its reflecting variants: reads x, writes the larger result. Pads come in
    pairs, the last dimension's first; negative ones crop."""
    (x,), pads = call.given(0), call.integers(1)
    if pads is None or len(pads) % 2 or len(pads) // 2 > len(x.shape):
        return None
    shape = list(x.shape)
    for pair in range(len(pads) // 2):
        shape[-1 - pair] += pads[2 * pair] + pads[2 * pair + 1]
    if min(shape, default=0) < 0:
        return None
    return Work("indexing.pad", 0, stored(x), sized(math.prod(shape), x.dtype), x.dtype)


@MODELS.add(
    "indexing.pad_backward",
    "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
    "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
)
def pad_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of a reflecting or replicating padding: one addition per element of the gradient."""
    grad, x = call.given(0, 1)
    return Work("indexing.pad_backward", grad.elements, stored(grad), dense(x), x.dtype)


@MODELS.add(
    "indexing.into_zeros",
    "slice_backward select_backward diagonal_backward",
    composites="slice_backward select_backward diagonal_backward",
)
def into_zeros(call: Call, _: Conventions) -> Work | None:
    """Gradient of a slice, `slice_backward(grad, input_sizes, ...)`: writes zeros and the gradient. Reads the gradient,
    writes the input's size. torch composes it of a fill and a copy, which are counted if they were recorded."""
    (grad,), sizes = call.given(0), call.integers(1)
    if sizes is None or any(size < 0 for size in sizes):
        return None
    written = sized(math.prod(sizes), grad.dtype)
    return Work("indexing.into_zeros", 0, stored(grad), written, grad.dtype)
