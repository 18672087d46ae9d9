"""Pooling and resampling of images, forward and backward.

A window of k elements takes k comparisons (maximum) or k additions and a division (average). A
linear interpolation between 2, 4 or 8 neighbours is a product and a sum for each of them, a cubic
one has 16; the nearest neighbour is a copy. Weights of interpolations are not counted.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stepscope.costs.call import Call, Tensor, spread
from stepscope.costs.work import Conventions, Models, Work, aten, by_name, dense, sized, stored, total

MODELS = Models()

_BACKWARD = aten(
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward"
)
_NEIGHBOURS = by_name(
    ("upsample_nearest1d upsample_nearest2d upsample_nearest3d", 1),
    ("_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d", 1),
    ("upsample_linear1d", 2),
    ("upsample_bilinear2d", 4),
    ("upsample_trilinear3d", 8),
    ("upsample_bicubic2d", 16),
)
"""Number of neighbours that contribute to a result."""


def _rank(call: Call) -> int:
    """Dimensions of the window or image, from the operator's name: `avg_pool2d`."""
    return next(rank for rank in (1, 2, 3) if f"{rank}d" in call.name)


def _takes_maximum(call: Call) -> bool:
    return "max_pool" in call.name


def _pooled(call: Call, x: Tensor, rank: int, *, maximum: bool) -> tuple[int, int] | None:
    """Elements of the result and of one window, or None if arguments were not recorded."""
    kernel = spread(call.integers(1), rank)
    given = call.integers(2)
    stride = kernel if given == () or not call.is_given(2) else spread(given, rank)
    padding = spread(call.integers(3), rank)
    dilation = spread(call.integers(4), rank) if maximum else (1,) * rank
    ceil = call.flag(5 if maximum else 4)
    if kernel is None or stride is None or padding is None or dilation is None or ceil is None:
        return None
    if min(stride) < 1 or len(x.shape) < rank:
        return None
    outs = math.prod(x.shape[:-rank])
    for n, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        size = (room + (s - 1 if ceil else 0)) // s + 1
        if ceil and (size - 1) * s >= n + p:
            size -= 1  # the last window must start within the input or its left padding
        if size < 1:
            return None
        outs *= size
    return outs, math.prod(kernel)


def _related_output(call: Call, x: Tensor) -> int | None:
    for other in call.related:
        if other.name in _BACKWARD:
            grad, inputs = other.tensor(0), other.tensor(1)
            if grad is not None and inputs is not None and inputs.shape == x.shape:
                return grad.elements
    return None


@MODELS.add(
    "pooling.pool",
    "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices "
    "max_pool3d_with_indices mkldnn_max_pool2d avg_pool1d avg_pool2d avg_pool3d",
    composites="max_pool1d max_pool2d max_pool3d max_pool1d_with_indices avg_pool1d",
    asks_related=True,
)
def pool(call: Call, _: Conventions) -> Work | None:
    """Pooling over windows of k elements: k operations per result, one more for an average. Reads x, writes the result
    and, if the operator returns them, int64 indices. If the window was not recorded, the extent of the result comes
    from its gradient and the window is taken to tile the input, a lower bound."""
    (x,) = call.given(0)
    maximum, indexed = _takes_maximum(call), call.name.endswith("_with_indices")
    extent = _pooled(call, x, _rank(call), maximum=maximum)
    if extent is not None:
        outs, window = extent
        flops = outs * (window + (not maximum))
        return Work("pooling.pool", flops, stored(x), _results(x, outs, indexed), x.dtype)
    shape_known = _related_output(call, x)
    if shape_known is None:
        return None
    notes, written = ("window not recorded: taken to tile the input, a lower bound",), _results(x, shape_known, indexed)
    return Work("pooling.pool", x.elements, stored(x), written, x.dtype, bound="lower", notes=notes)


def _results(x: Tensor, count: int, indexed: int) -> int | None:
    return total(sized(count, x.dtype), 8 * count * indexed)


@MODELS.add("pooling.pool_backward", _BACKWARD, hints_forward=True)
def pool_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of a pooling: one addition for each gradient (maximum) or window element (average). Reads gradient and
    indices, writes as much as the input. An average whose window was not recorded counts one addition for each element
    of the input, a lower bound."""
    grad, x = call.given(0, 1)
    maximum = _takes_maximum(call)
    flops, shape_known = grad.elements, True
    if not maximum:
        kernel = spread(call.integers(2), _rank(call))
        shape_known = kernel is not None
        flops = x.elements if kernel is None else grad.elements * (math.prod(kernel) + 1)
    read = stored(grad, call.tensor(7) if maximum else None)
    work = Work("pooling.pool_backward", flops, read, dense(x), x.dtype)
    if shape_known:
        return work
    return replace(work, bound="lower", notes=("window not recorded: one addition for each element of the input",))


@MODELS.add(
    "pooling.adaptive",
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d mkldnn_adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d",
    composites="adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d",
)
def adaptive(call: Call, _: Conventions) -> Work | None:
    """Pooling to a given extent: one operation for each element of x, one division per result. The overlap of windows
    whose extents do not divide is not counted twice. The maximum also writes int64 indices and divides nothing."""
    (x,), rank, maximum = call.given(0), _rank(call), _takes_maximum(call)
    extent = spread(call.integers(1), rank)
    if len(x.shape) < rank or extent is None or min(extent) < 0:
        return None
    outs = math.prod(x.shape[:-rank]) * math.prod(extent)
    flops = x.elements + (0 if maximum else outs)
    return Work("pooling.adaptive", flops, stored(x), _results(x, outs, maximum), x.dtype)


@MODELS.add(
    "pooling.adaptive_backward",
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
    "adaptive_max_pool2d_backward adaptive_max_pool3d_backward",
)
def adaptive_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of adaptive pooling: one operation for each element of the input."""
    grad, x = call.given(0, 1)
    read = stored(grad, call.tensor(2))
    return Work("pooling.adaptive_backward", x.elements, read, dense(x), x.dtype)


@MODELS.add("pooling.resample", tuple(_NEIGHBOURS))
def resample(call: Call, _: Conventions) -> Work | None:
    """Resampling to a given extent: two operations for each neighbour of a result, none for nearest."""
    rank, neighbours = _rank(call), _NEIGHBOURS[call.name]
    (x,), extent = call.given(0), spread(call.integers(1), rank)
    if extent is None or len(x.shape) != rank + 2 or min(extent) < 0:
        return None
    outs = x.shape[0] * x.shape[1] * math.prod(extent)
    flops = outs * (2 * neighbours if neighbours > 1 else 0)
    return Work("pooling.resample", flops, stored(x), sized(outs, x.dtype), x.dtype)


@MODELS.add("pooling.resample_backward", tuple(f"{name}_backward" for name in _NEIGHBOURS))
def resample_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of resampling: two operations for each neighbour of a result; one sum for nearest. Reads the gradient,
    writes the input's size, which the call names."""
    rank, neighbours = _rank(call), _NEIGHBOURS[call.name.removesuffix("_backward")]
    (grad,), sizes = call.given(0), call.integers(2)
    if sizes is not None and (len(sizes) != rank + 2 or min(sizes) < 0):
        return None
    flops = grad.elements * (2 * neighbours if neighbours > 1 else 1)
    written = None if sizes is None else sized(math.prod(sizes), grad.dtype)
    return Work("pooling.resample_backward", flops, stored(grad), written, grad.dtype)
