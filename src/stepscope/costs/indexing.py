"""Gathering, scattering, joining and rearranging elements.

They move elements and compute nothing, except where they add what falls on the same place. Elements
that an index names count each time it does. `aten::index` and `aten::index_put_` have no model: their
indices are a list that recorders leave out, so the extent of the result is not known.
"""

from __future__ import annotations

import math

from stepscope.costs.call import Call, Tensor
from stepscope.costs.dtype import is_float
from stepscope.costs.work import Conventions, Model, Work, aten, total


def _move(
    formula: str, x: Tensor, read: int | None, written: int | None, flops: int = 0, *notes: str
) -> Work:
    return Work(formula, flops, read, written, x.dtype, notes=notes)


def _bytes(tensor: Tensor | None) -> int | None:
    return 0 if tensor is None else tensor.stored_bytes


def _elements(count: int, like: Tensor) -> int | None:
    size = like.element_size
    return None if size is None else count * size


def gather(call: Call, _: Conventions) -> Work | None:
    """One element for each index, `gather(x, dim, index)` and `take(x, index)`.

    Reads the index and as many elements, writes as many.
    """
    x = call.tensor(0)
    index = call.tensor(1 if call.name.startswith("aten::take") else 2)
    if x is None or index is None:
        return None
    moved = _elements(index.elements, x)
    return _move("indexing.gather", x, total(index.stored_bytes, moved), moved)


def index_select(call: Call, _: Conventions) -> Work | None:
    """Slices along a dimension, `index_select(x, dim, index)`: a slice for each index.

    Reads the index and the slices, writes them. Where the dimension was not recorded it must not
    matter: x has one dimension, or all of its dimensions are equal.
    """
    x, index = call.tensor(0), call.tensor(2)
    if x is None or index is None:
        return None
    count = _slices(x, call.integer(1), index.elements)
    if count is None:
        return None
    moved = _elements(count, x)
    return _move("indexing.index_select", x, total(index.stored_bytes, moved), moved)


def _slices(x: Tensor, dim: int | None, count: int) -> int | None:
    """Elements of `count` slices of x along a dimension."""
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


def scatter(call: Call, _: Conventions) -> Work | None:
    """One element to each index, `scatter_(x, dim, index, source)`.

    Reads index and as many elements of the source (none of a number), writes as many; with a sum
    it reads what it adds to and counts one operation for each. The form that is not in place
    copies x first: it reads and writes all of x as well.
    """
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None or index is None:
        return None
    name = call.name.removesuffix("_")
    adds = name in _SCATTER_ADD or call.text(4) is not None
    moved = _elements(index.elements, x)
    read = total(index.stored_bytes, 0 if source is None else moved, moved if adds else 0)
    written = moved
    if not call.name.endswith("_"):
        read, written = total(read, x.stored_bytes), total(written, x.bytes)
    flops = index.elements if adds and is_float(x.dtype) else 0
    return _move("indexing.scatter", x, read, written, flops)


def index_write(call: Call, _: Conventions) -> Work | None:
    """Slices of a source to places along a dimension, `index_copy_`, `index_add_`, `index_fill_`.

    Reads index and source, writes as many elements; a sum also reads what it adds to and counts
    one operation for each (two with a factor other than 1). The form that is not in place copies x
    first.
    """
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None or index is None:
        return None
    name = call.name.removesuffix("_")
    count: int | None
    if name == "aten::index_fill":
        count, source = _slices(x, call.integer(1), index.elements), None
    else:
        count = None if source is None else source.elements
    if count is None:
        return None
    adds = name == "aten::index_add"
    moved = _elements(count, x)
    read = total(index.stored_bytes, _bytes(source), moved if adds else 0)
    written = moved
    if not call.name.endswith("_"):
        read, written = total(read, x.stored_bytes), total(written, x.bytes)
    factor = call.number(4)
    each = 2 if factor is not None and factor != 1 else 1
    flops = each * count if adds and is_float(x.dtype) else 0
    return _move("indexing.index_write", x, read, written, flops)


def masked_select(call: Call, _: Conventions) -> Work | None:
    """Elements where a mask holds: reads tensor and mask; how many it writes is data, not recorded."""
    x, mask = call.tensor(0), call.tensor(1)
    if x is None or mask is None:
        return None
    read = total(x.stored_bytes, mask.stored_bytes)
    return _move("indexing.masked_select", x, read, None, 0, "extent of the result is data")


def masked_scatter(call: Call, _: Conventions) -> Work | None:
    """Elements of a source where a mask holds: reads tensor and mask, writes the tensor.

    Of the source it reads at most as many elements as the tensor has; how many is data and is left
    out.
    """
    x, mask = call.tensor(0), call.tensor(1)
    if x is None or mask is None:
        return None
    read = total(x.stored_bytes, mask.stored_bytes)
    return _move(
        "indexing.masked_scatter", x, read, x.bytes, 0, "what it reads of the source is data"
    )


def nonzero(call: Call, _: Conventions) -> Work | None:
    """Places of the non-zero elements: reads x; how many it writes is data, not recorded."""
    x = call.tensor(0)
    if x is None:
        return None
    return _move("indexing.nonzero", x, x.stored_bytes, None, 0, "extent of the result is data")


def join(call: Call, _: Conventions) -> Work | None:
    """Joining tensors, `cat(tensors)` and `stack(tensors)`: reads all, writes as much.

    Recorders leave the element type of lists out, and lists of more than 30 tensors altogether.
    """
    tensors = call.tensors(0)
    if tensors is None:
        return None
    first = tensors[0]
    return _move(
        "indexing.join",
        first,
        total(*(tensor.stored_bytes for tensor in tensors)),
        total(*(tensor.bytes for tensor in tensors)),
        0,
        *(() if first.dtype is not None else ("element type of lists not recorded",)),
    )


def rearrange(call: Call, _: Conventions) -> Work | None:
    """Every element to another place, `roll`, `flip`, `tril`, `pixel_shuffle`: reads x, writes it."""
    x = call.tensor(0)
    if x is None:
        return None
    return _move("indexing.rearrange", x, x.stored_bytes, x.bytes)


def repeat(call: Call, _: Conventions) -> Work | None:
    """A tensor laid out several times, `repeat(x, repeats)`: reads x, writes the product of repeats."""
    x, repeats = call.tensor(0), call.integers(1)
    if x is None or repeats is None or any(times < 0 for times in repeats):
        return None
    written = _elements(x.elements * math.prod(repeats), x)
    return _move("indexing.repeat", x, x.stored_bytes, written)


def pad(call: Call, _: Conventions) -> Work | None:
    """Padding, `constant_pad_nd(x, pads)` and its reflecting kin: reads x, writes the larger result.

    Pads come in pairs, the last dimension's first; negative ones crop.
    """
    x, pads = call.tensor(0), call.integers(1)
    if x is None or pads is None or len(pads) % 2 or len(pads) // 2 > len(x.shape):
        return None
    shape = list(x.shape)
    for pair in range(len(pads) // 2):
        shape[-1 - pair] += pads[2 * pair] + pads[2 * pair + 1]
    if min(shape, default=0) < 0:
        return None
    return _move("indexing.pad", x, x.stored_bytes, _elements(math.prod(shape), x))


def pad_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of a reflecting or replicating padding: one addition an element of the gradient."""
    grad, x = call.tensor(0), call.tensor(1)
    if grad is None or x is None:
        return None
    return _move("indexing.pad_backward", x, grad.stored_bytes, x.bytes, grad.elements)


def into_zeros(call: Call, _: Conventions) -> Work | None:
    """Gradient of a slice, `slice_backward(grad, input_sizes, ...)`: writes zeros and the gradient.

    Reads the gradient, writes the input's size. torch makes it of a fill and a copy, which are
    counted where they were recorded.
    """
    grad, sizes = call.tensor(0), call.integers(1)
    if grad is None or sizes is None or any(size < 0 for size in sizes):
        return None
    written = _elements(math.prod(sizes), grad)
    return _move("indexing.into_zeros", grad, grad.stored_bytes, written)


MODELS: tuple[Model, ...] = (
    Model(
        "indexing.gather",
        aten("gather take take_along_dim"),
        gather,
        composites=aten("take_along_dim"),
    ),
    Model("indexing.index_select", aten("index_select"), index_select),
    Model(
        "indexing.scatter",
        aten("scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_"),
        scatter,
    ),
    Model(
        "indexing.index_write",
        aten("index_copy index_copy_ index_add index_add_ index_fill index_fill_"),
        index_write,
        composites=aten("index_copy index_add index_fill"),
    ),
    Model("indexing.masked_select", aten("masked_select"), masked_select),
    Model(
        "indexing.masked_scatter",
        aten("masked_scatter masked_scatter_"),
        masked_scatter,
        composites=aten("masked_scatter"),
    ),
    Model("indexing.nonzero", aten("nonzero argwhere"), nonzero, composites=aten("argwhere")),
    Model(
        "indexing.join",
        aten("cat _cat stack _stack concat concatenate"),
        join,
        composites=aten("stack concat concatenate"),
    ),
    Model(
        "indexing.rearrange",
        aten(
            "roll flip tril triu tril_ triu_ pixel_shuffle pixel_unshuffle channel_shuffle "
            "native_channel_shuffle rot90"
        ),
        rearrange,
        composites=aten("channel_shuffle native_channel_shuffle rot90"),
    ),
    Model("indexing.repeat", aten("repeat tile"), repeat, composites=aten("repeat tile")),
    Model(
        "indexing.pad",
        aten(
            "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
            "replication_pad2d replication_pad3d"
        ),
        pad,
        composites=aten("constant_pad_nd"),
    ),
    Model(
        "indexing.pad_backward",
        aten(
            "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
            "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward"
        ),
        pad_backward,
    ),
    Model(
        "indexing.into_zeros",
        aten("slice_backward select_backward diagonal_backward"),
        into_zeros,
        composites=aten("slice_backward select_backward diagonal_backward"),
    ),
)
