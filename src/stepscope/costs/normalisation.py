"""Normalisations: batch, layer, group and RMS norm, forward and backward.

Operations are those of the textbook formula, written with n elements in rows that share their
statistics:

* forward with mean and variance: sum (n), subtract the mean, square, sum (3n), scale by the inverse
  deviation (n), and for each row a division, a division, an addition and a root (4); a weight and a
  bias add n each.
* forward by given statistics (evaluation): subtract and scale (2n); weight and bias add n each.
* RMS norm: square and sum (2n), scale (n), three for each row; a weight adds n.
* backward to the input with mean and variance: the normalised input again (2n), its two sums with
  the gradient (3n), and gradient - mean - normalised·covariance, scaled (4n): 9n. A weight that
  varies within the row multiplies the gradient first (n). Gradients of weight and bias add 2n and n
  where they are other sums than those two (layer and group norm).

Sources: Ioffe and Szegedy (2015) for batch norm, Ba et al. (2016) for layer norm, Wu and He (2018)
for group norm, Zhang and Sennrich (2019) for RMS norm. Statistics are kept in float32 for 16-bit
inputs.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stepscope.costs.call import Call, Scalar, Tensor
from stepscope.costs.dtype import accumulate_type, size_of
from stepscope.costs.work import Conventions, Model, Work, aten, total


def _given(*tensors: Tensor | None) -> int | None:
    return total(*(tensor.stored_bytes for tensor in tensors if tensor is not None))


def _work(
    formula: str, x: Tensor, flops: int, read: int | None, written: int | None, *notes: str
) -> Work:
    return Work(formula, flops, read, written, x.dtype, notes=notes)


_BATCH_NORM: dict[str, int | bool] = {
    "aten::batch_norm": 5,
    "aten::_batch_norm_impl_index": 5,
    "aten::native_batch_norm": 5,
    "aten::cudnn_batch_norm": 5,
    "aten::miopen_batch_norm": 5,
    "aten::instance_norm": 5,
    "aten::_native_batch_norm_legit": 5,
    "aten::_native_batch_norm_legit_functional": 5,
    "aten::_native_batch_norm_legit_no_training": False,
    "aten::_batch_norm_with_update": True,
    "aten::_batch_norm_with_update_functional": True,
    "aten::_batch_norm_no_update": False,
}
"""Position of the training flag, or its value where the operator fixes it."""


def batch_norm(call: Call, _: Conventions) -> Work | None:
    """Batch norm's forward over x [N, C, ...]; channels share statistics.

    Training: 5n + 4C, reads x, writes it and two statistics for each channel; running statistics
    are read and written (6C operations). Evaluation: 2n + 2C, reads the running statistics. Weight
    and bias: n each. Where the recording does not say whether it trains, the work of an evaluation
    is a lower bound.
    """
    x, weight, bias, mean, variance = (call.tensor(place) for place in range(5))
    if x is None or len(x.shape) < 2:
        return None
    position = _BATCH_NORM[call.name]
    if call.name == "aten::_native_batch_norm_legit" and isinstance(call.argument(3), Scalar):
        position = 3  # the overload without running statistics has the flag in their place
    training = position if isinstance(position, bool) else call.flag(position)
    n, channels = x.elements, x.shape[1]
    if call.name == "aten::instance_norm":
        channels *= x.shape[0]
    kept = size_of(accumulate_type(x.dtype))
    flops = n * ((5 if training else 2) + (weight is not None) + (bias is not None))
    read = total(x.stored_bytes, _given(weight, bias))
    written = x.bytes
    if training:
        flops += 4 * channels
        written = total(written, None if kept is None else 2 * channels * kept)
        if mean is not None and variance is not None:
            flops += 6 * mean.elements
            read = total(read, _given(mean, variance))
            written = total(written, mean.bytes, variance.bytes)
    else:
        flops += 2 * channels
        read = total(read, _given(mean, variance))
    work = _work("normalisation.batch_norm", x, flops, read, written)
    if training is not None:
        return work
    untold = "whether it trains is not recorded: counted as evaluation, a lower bound"
    return replace(work, bound="lower", notes=(untold,))


_BATCH_NORM_BACKWARD: dict[str, tuple[int, int, int, int | None, int | None]] = {
    "aten::native_batch_norm_backward": (0, 1, 2, 7, 9),
    "aten::batch_norm_backward": (0, 1, 2, 7, 9),
    "aten::_batch_norm_impl_index_backward": (2, 1, 3, 8, 10),
    "aten::cudnn_batch_norm_backward": (1, 0, 2, None, None),
    "aten::miopen_batch_norm_backward": (1, 0, 2, None, None),
}
"""Positions of gradient, input, weight, the training flag and the output mask."""


def batch_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Batch norm's backward: 9n for the input, whose two sums are the weight's and bias's gradients.

    Without the input's gradient 5n (2n the normalised input, 3n the sums). In evaluation the input's
    gradient is a scaling (n). Reads gradient, input, weight and the statistics of each channel;
    writes the gradients asked for.
    """
    grad_at, x_at, weight_at, training_at, mask_at = _BATCH_NORM_BACKWARD[call.name]
    grad, x, weight = call.tensor(grad_at), call.tensor(x_at), call.tensor(weight_at)
    if grad is None or x is None or len(x.shape) < 2 or grad.shape != x.shape:
        return None
    training = True if training_at is None else call.flag(training_at)
    mask = (True, True, True) if mask_at is None else call.flags(mask_at)
    notes: tuple[str, ...] = ()
    if training is None:
        training = True
        notes += ("whether it trained is not recorded: counted as training",)
    if mask is None or len(mask) != 3:
        mask = (True, weight is not None, weight is not None)
        notes += ("which gradients were computed is not recorded: counted as all",)
    n, channels = x.elements, x.shape[1]
    if training:
        flops = 9 * n if mask[0] else 5 * n if mask[1] or mask[2] else 0
    else:
        flops = n * mask[0] + 4 * n * mask[1] + n * mask[2]
    kept = size_of(accumulate_type(x.dtype))
    weight_size = weight.element_size if weight is not None else kept
    statistics = None if kept is None else 2 * channels * kept
    size = x.element_size
    written = (
        None
        if size is None or weight_size is None
        else n * size * mask[0] + channels * weight_size * (mask[1] + mask[2])
    )
    read = total(grad.stored_bytes, x.stored_bytes, _given(weight), statistics)
    return _work("normalisation.batch_norm_backward", x, flops, read, written, *notes)


def layer_norm(call: Call, _: Conventions) -> Work | None:
    """Layer norm's forward, `layer_norm(x, shape, weight, bias)`: 5n + 4 for each row.

    Weight and bias add n each. Writes the result and, in the native form, mean and inverse
    deviation of each row.
    """
    x, weight, bias = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None:
        return None
    row = _row(call.integers(1), weight)
    if row is None or row == 0 or x.elements % row:
        return None
    rows = x.elements // row
    kept = size_of(accumulate_type(x.dtype))
    statistics = 0 if call.name == "aten::layer_norm" else None if kept is None else 2 * rows * kept
    flops = x.elements * (5 + (weight is not None) + (bias is not None)) + 4 * rows
    read = total(x.stored_bytes, _given(weight, bias))
    return _work("normalisation.layer_norm", x, flops, read, total(x.bytes, statistics))


def _row(shape: tuple[int, ...] | None, weight: Tensor | None) -> int | None:
    """Elements that share statistics: the normalised shape, else the weight's."""
    if shape:
        return math.prod(shape) if min(shape) > 0 else None
    return weight.elements if weight is not None else None


def layer_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Layer norm's backward: 9n for the input, n more with a weight; 2n for weight's gradient, n bias's.

    The weight's gradient needs the normalised input (2n) as well where the input's is not asked for.
    Reads gradient, input, weight, mean and inverse deviation.
    """
    grad, x, mean, rstd, weight = (call.tensor(place) for place in (0, 1, 3, 4, 5))
    if grad is None or x is None or grad.shape != x.shape:
        return None
    given = call.flags(7)
    mask, notes = _asked(given, weight)
    row = _row(call.integers(2), weight)
    n = x.elements
    size = x.element_size
    weight_size = 0 if weight is None else weight.element_size
    if row is None and (mask[1] or mask[2]):
        weight_size = None
    written = (
        None
        if size is None or weight_size is None
        else n * size * mask[0] + (row or 0) * weight_size * (mask[1] + mask[2])
    )
    read = total(grad.stored_bytes, x.stored_bytes, _given(weight, mean, rstd))
    flops = _gradient_flops(n, mask, weighted=weight is not None)
    return _work("normalisation.layer_norm_backward", x, flops, read, written, *notes)


def _asked(
    mask: tuple[bool, ...] | None, weight: Tensor | None
) -> tuple[tuple[bool, bool, bool], tuple[str, ...]]:
    if mask is not None and len(mask) == 3:
        return (mask[0], mask[1], mask[2]), ()
    wanted = weight is not None
    return (True, wanted, wanted), (
        "which gradients were computed is not recorded: counted as all",
    )


def _gradient_flops(n: int, mask: tuple[bool, bool, bool], *, weighted: bool) -> int:
    flops = n * (9 + weighted) if mask[0] else 0
    if mask[1]:
        flops += 2 * n if mask[0] else 4 * n
    return flops + (n if mask[2] else 0)


def group_norm(call: Call, _: Conventions) -> Work | None:
    """Group norm's forward, `native_group_norm(x, weight, bias, N, C, HW, groups)`: 5n + 4 per group.

    Weight and bias add n each. Writes the result and, in the native form, mean and inverse
    deviation of each group of each sample.
    """
    x = call.tensor(0)
    if x is None or len(x.shape) < 2:
        return None
    if call.name == "aten::group_norm":
        weight, bias, groups = call.tensor(2), call.tensor(3), call.integer(1)
    else:
        weight, bias, groups = call.tensor(1), call.tensor(2), call.integer(6)
    if groups is None or groups < 1:
        return None
    rows = x.shape[0] * groups
    kept = size_of(accumulate_type(x.dtype))
    statistics = 0 if call.name == "aten::group_norm" else None if kept is None else 2 * rows * kept
    flops = x.elements * (5 + (weight is not None) + (bias is not None)) + 4 * rows
    read = total(x.stored_bytes, _given(weight, bias))
    return _work("normalisation.group_norm", x, flops, read, total(x.bytes, statistics))


def group_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Group norm's backward: as layer norm's, with C elements in the gradients of weight and bias."""
    grad, x, mean, rstd, weight = (call.tensor(place) for place in range(5))
    if grad is None or x is None or grad.shape != x.shape or len(x.shape) < 2:
        return None
    mask, notes = _asked(call.flags(9), weight)
    n, channels = x.elements, x.shape[1]
    size = x.element_size
    weight_size = size if weight is None else weight.element_size
    written = (
        None
        if size is None or weight_size is None
        else n * size * mask[0] + channels * weight_size * (mask[1] + mask[2])
    )
    read = total(grad.stored_bytes, x.stored_bytes, _given(weight, mean, rstd))
    flops = _gradient_flops(n, mask, weighted=weight is not None)
    return _work("normalisation.group_norm_backward", x, flops, read, written, *notes)


def rms_norm(call: Call, _: Conventions) -> Work | None:
    """RMS norm's forward, `rms_norm(x, shape, weight)`: 3n + 3 for each row, n more with a weight.

    The fused form also writes the inverse root of each row.
    """
    x, weight = call.tensor(0), call.tensor(2)
    if x is None:
        return None
    row = _row(call.integers(1), weight)
    if row is None or row == 0 or x.elements % row:
        return None
    rows = x.elements // row
    kept = size_of(accumulate_type(x.dtype))
    statistics = 0 if call.name == "aten::rms_norm" else None if kept is None else rows * kept
    flops = x.elements * (3 + (weight is not None)) + 3 * rows
    read = total(x.stored_bytes, _given(weight))
    return _work("normalisation.rms_norm", x, flops, read, total(x.bytes, statistics))


def rms_norm_backward(call: Call, _: Conventions) -> Work | None:
    """RMS norm's backward: 6n for the input (7n with a weight), 2n for the weight's gradient.

    The normalised input (n), its sum with the gradient (2n), and gradient - normalised·mean, scaled
    (3n). Reads gradient, input, weight and the inverse root of each row.
    """
    grad, x, rstd, weight = (call.tensor(place) for place in (0, 1, 3, 4))
    if grad is None or x is None or grad.shape != x.shape:
        return None
    mask = call.flags(5)
    notes: tuple[str, ...] = ()
    if mask is None or len(mask) != 2:
        mask = (True, weight is not None)
        notes = ("which gradients were computed is not recorded: counted as all",)
    n = x.elements
    flops = n * (6 + (weight is not None)) * mask[0] + (2 if mask[0] else 3) * n * mask[1]
    weight_bytes = 0 if weight is None else weight.bytes
    written = total(x.bytes if mask[0] else 0, weight_bytes if mask[1] else 0)
    read = total(grad.stored_bytes, x.stored_bytes, _given(weight, rstd))
    return _work("normalisation.rms_norm_backward", x, flops, read, written, *notes)


def statistics(call: Call, _: Conventions) -> Work | None:
    """Statistics of a synchronised batch norm, `batch_norm_stats(x, eps)`: 4n + 4C.

    Sum (n), subtract, square, sum (3n); reads x, writes mean and inverse deviation of each channel.
    """
    x = call.tensor(0)
    if x is None or len(x.shape) < 2:
        return None
    kept = size_of(accumulate_type(x.dtype))
    written = None if kept is None else 2 * x.shape[1] * kept
    flops = 4 * x.elements + 4 * x.shape[1]
    return _work("normalisation.statistics", x, flops, x.stored_bytes, written)


def elementwise_norm(call: Call, _: Conventions) -> Work | None:
    """Normalising by given statistics, `batch_norm_elemt(x, weight, bias, mean, invstd)`: 2n.

    Weight and bias add n each.
    """
    x, weight, bias, mean, invstd = (call.tensor(place) for place in range(5))
    if x is None:
        return None
    flops = x.elements * (2 + (weight is not None) + (bias is not None))
    read = total(x.stored_bytes, _given(weight, bias, mean, invstd))
    return _work("normalisation.elementwise", x, flops, read, x.bytes)


def backward_reduce(call: Call, _: Conventions) -> Work | None:
    """The two sums of a synchronised batch norm's backward: 5n.

    `batch_norm_backward_reduce(grad, x, mean, invstd, weight, ...)` reads gradient and input, writes
    four values for each channel.
    """
    grad, x, mean, invstd, weight = (call.tensor(place) for place in range(5))
    if grad is None or x is None or len(x.shape) < 2:
        return None
    kept = size_of(accumulate_type(x.dtype))
    written = None if kept is None else 4 * x.shape[1] * kept
    read = total(grad.stored_bytes, x.stored_bytes, _given(mean, invstd, weight))
    return _work("normalisation.backward_reduce", x, 5 * x.elements, read, written)


def backward_elementwise(call: Call, _: Conventions) -> Work | None:
    """The element-wise part of a synchronised batch norm's backward: 6n.

    `batch_norm_backward_elemt(grad, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count)`: the
    normalised input (2n), and gradient - mean - normalised·covariance, scaled (4n).
    """
    grad, x = call.tensor(0), call.tensor(1)
    if grad is None or x is None:
        return None
    others = _given(*(call.tensor(place) for place in range(2, 8)))
    read = total(grad.stored_bytes, x.stored_bytes, others)
    return _work("normalisation.backward_elementwise", x, 6 * x.elements, read, x.bytes)


MODELS: tuple[Model, ...] = (
    Model(
        "normalisation.batch_norm",
        tuple(_BATCH_NORM),
        batch_norm,
        composites=aten("batch_norm _batch_norm_impl_index instance_norm"),
    ),
    Model(
        "normalisation.batch_norm_backward",
        tuple(_BATCH_NORM_BACKWARD),
        batch_norm_backward,
        composites=aten("_batch_norm_impl_index_backward"),
    ),
    Model(
        "normalisation.layer_norm",
        aten("layer_norm native_layer_norm"),
        layer_norm,
        composites=aten("layer_norm"),
    ),
    Model(
        "normalisation.layer_norm_backward",
        aten("native_layer_norm_backward"),
        layer_norm_backward,
    ),
    Model(
        "normalisation.group_norm",
        aten("group_norm native_group_norm"),
        group_norm,
        composites=aten("group_norm"),
    ),
    Model(
        "normalisation.group_norm_backward",
        aten("native_group_norm_backward"),
        group_norm_backward,
    ),
    Model(
        "normalisation.rms_norm",
        aten("rms_norm _fused_rms_norm"),
        rms_norm,
        composites=aten("rms_norm _fused_rms_norm"),
    ),
    Model(
        "normalisation.rms_norm_backward", ("aten::_fused_rms_norm_backward",), rms_norm_backward
    ),
    Model("normalisation.statistics", aten("batch_norm_stats"), statistics),
    Model("normalisation.elementwise", aten("batch_norm_elemt"), elementwise_norm),
    Model("normalisation.backward_reduce", aten("batch_norm_backward_reduce"), backward_reduce),
    Model(
        "normalisation.backward_elementwise",
        aten("batch_norm_backward_elemt"),
        backward_elementwise,
    ),
)
