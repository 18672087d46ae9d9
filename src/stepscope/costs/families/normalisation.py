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
from stepscope.costs.dtype import accumulate_type
from stepscope.costs.work import Conventions, Models, Work, by_name, dense, sized, stored, total

MODELS = Models()


def _statistics(x: Tensor, values: int) -> int | None:
    """Bytes of statistics, which are kept in float32 for 16-bit inputs."""
    return sized(values, accumulate_type(x.dtype))


_ALL = "which gradients were computed is not recorded: counted as all"

_BATCH_NORM = by_name(
    (
        "batch_norm _batch_norm_impl_index native_batch_norm cudnn_batch_norm "
        "miopen_batch_norm instance_norm _native_batch_norm_legit "
        "_native_batch_norm_legit_functional",
        5,
    ),
    ("_native_batch_norm_legit_no_training", False),
    ("_batch_norm_with_update _batch_norm_with_update_functional", True),
    ("_batch_norm_no_update", False),
)
"""Position of the training flag, or its value if the operator fixes it."""


@MODELS.add(
    "normalisation.batch_norm", tuple(_BATCH_NORM), composites="batch_norm _batch_norm_impl_index instance_norm"
)
def batch_norm(call: Call, _: Conventions) -> Work | None:
    """Batch norm's forward over x [N, C, ...]; channels share statistics. Training: 5n + 4C, reads x, writes it and two
    statistics for each channel; running statistics are read and written (6C operations). Evaluation: 2n + 2C, reads the
    running statistics. Weight and bias: n each. If the recording does not say whether it trains, the work of an
    evaluation is a lower bound."""
    (x,) = call.given(0)
    weight, bias, mean, variance = (call.tensor(place) for place in range(1, 5))
    if len(x.shape) < 2:
        return None
    position = _BATCH_NORM[call.name]
    if call.name == "aten::_native_batch_norm_legit" and isinstance(call.argument(3), Scalar):
        position = 3  # the overload without running statistics has the flag here
    training = position if isinstance(position, bool) else call.flag(position)
    n, channels = x.elements, x.shape[1]
    if call.name == "aten::instance_norm":
        channels *= x.shape[0]
    flops = n * ((5 if training else 2) + (weight is not None) + (bias is not None))
    read, written = stored(x, weight, bias), dense(x)
    if training:
        flops += 4 * channels
        written = total(written, _statistics(x, 2 * channels))
        if mean is not None and variance is not None:
            flops += 6 * mean.elements
            read, written = (total(read, stored(mean, variance)), total(written, dense(mean, variance)))
    else:
        flops += 2 * channels
        read = total(read, stored(mean, variance))
    work = Work("normalisation.batch_norm", flops, read, written, x.dtype)
    if training is not None:
        return work
    unrecorded = "whether it trains is not recorded: counted as evaluation, a lower bound"
    return replace(work, bound="lower", notes=(unrecorded,))


_BATCH_NORM_BACKWARD: dict[str, tuple[int, int, int, int | None, int | None]] = {
    "aten::native_batch_norm_backward": (0, 1, 2, 7, 9),
    "aten::batch_norm_backward": (0, 1, 2, 7, 9),
    "aten::_batch_norm_impl_index_backward": (2, 1, 3, 8, 10),
    "aten::cudnn_batch_norm_backward": (1, 0, 2, None, None),
    "aten::miopen_batch_norm_backward": (1, 0, 2, None, None),
}
"""Positions of gradient, input, weight, the training flag and the output mask."""


@MODELS.add(
    "normalisation.batch_norm_backward", tuple(_BATCH_NORM_BACKWARD), composites="_batch_norm_impl_index_backward"
)
def batch_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Batch norm's backward: 9n for the input, whose two sums are the weight's and bias's gradients. Without the
    input's gradient 5n (2n the normalised input, 3n the sums). In evaluation the input's gradient is a scaling (n).
    Reads gradient, input, weight and the statistics of each channel; writes the requested gradients."""
    grad_at, x_at, weight_at, training_at, mask_at = _BATCH_NORM_BACKWARD[call.name]
    (grad, x), weight = call.given(grad_at, x_at), call.tensor(weight_at)
    if len(x.shape) < 2 or grad.shape != x.shape:
        return None
    training = True if training_at is None else call.flag(training_at)
    mask, notes = _requested((True, True, True) if mask_at is None else call.flags(mask_at), weight)
    if training is None:
        training, notes = True, ("whether it trained is not recorded: counted as training", *notes)
    n, channels = x.elements, x.shape[1]
    if training:
        flops = 9 * n if mask[0] else 5 * n if mask[1] or mask[2] else 0
    else:
        flops = n * mask[0] + 4 * n * mask[1] + n * mask[2]
    saved = accumulate_type(x.dtype) if weight is None else weight.dtype
    written = total(sized(n * mask[0], x.dtype), sized(channels * (mask[1] + mask[2]), saved))
    read = total(stored(grad, x, weight), _statistics(x, 2 * channels))
    return Work("normalisation.batch_norm_backward", flops, read, written, x.dtype, notes=notes)


@MODELS.add("normalisation.layer_norm", "layer_norm native_layer_norm", composites="layer_norm")
def layer_norm(call: Call, _: Conventions) -> Work | None:
    """Layer norm's forward, `layer_norm(x, shape, weight, bias)`: 5n + 4 for each row. Weight and bias add n each.
    Writes the result and, in the native form, mean and inverse deviation of each row."""
    (x,), weight, bias = call.given(0), call.tensor(2), call.tensor(3)
    row = _row(call.integers(1), weight)
    if row is None or row == 0 or x.elements % row:
        return None
    saved = call.name != "aten::layer_norm"
    return _normalised("normalisation.layer_norm", x, weight, bias, x.elements // row, saved=saved)


def _normalised(formula: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, *, saved: bool) -> Work:
    """The work over rows that share their statistics, which are also written if `saved`."""
    flops = x.elements * (5 + (weight is not None) + (bias is not None)) + 4 * rows
    written = total(dense(x), _statistics(x, 2 * rows) if saved else 0)
    return Work(formula, flops, stored(x, weight, bias), written, x.dtype)


def _row(shape: tuple[int, ...] | None, weight: Tensor | None) -> int | None:
    if shape:
        return math.prod(shape) if min(shape) > 0 else None
    return weight.elements if weight is not None else None


@MODELS.add("normalisation.layer_norm_backward", "native_layer_norm_backward")
def layer_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Layer norm's backward: 9n for the input, n more with a weight; 2n for weight's gradient, n bias's. Without the
    input's gradient, the weight's also needs the normalised input (2n). Reads gradient, input, weight, mean and inverse
    deviation."""
    (grad, x), weight = call.given(0, 1), call.tensor(5)
    saved = call.tensor(3), call.tensor(4)
    row, mask = _row(call.integers(2), weight), call.flags(7)
    return _gradients("normalisation.layer_norm_backward", grad, x, weight, saved, row, weight, mask)


def _gradients(
    formula: str,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    statistics: tuple[Tensor | None, ...],
    width: int | None,
    like: Tensor | None,
    flags: tuple[bool, ...] | None,
) -> Work | None:
    """The work of a backward; gradients of weight and bias have `width` elements of the type of `like`."""
    if grad.shape != x.shape:
        return None
    mask, notes = _requested(flags, weight)
    requested = mask[1] + mask[2]
    parameters = None if width is None and requested else 0
    if width is not None and like is not None:
        parameters = sized(width * requested, like.dtype)
    n = x.elements
    flops = n * (9 + (weight is not None)) * mask[0] + n * mask[2]
    flops += (2 if mask[0] else 4) * n * mask[1]
    written = total(sized(n * mask[0], x.dtype), parameters)
    read = stored(grad, x, weight, *statistics)
    return Work(formula, flops, read, written, x.dtype, notes=notes)


def _requested(mask: tuple[bool, ...] | None, weight: Tensor | None) -> tuple[tuple[bool, bool, bool], tuple[str, ...]]:
    if mask is not None and len(mask) == 3:
        return (mask[0], mask[1], mask[2]), ()
    return (True, weight is not None, weight is not None), (_ALL,)


@MODELS.add("normalisation.group_norm", "group_norm native_group_norm", composites="group_norm")
def group_norm(call: Call, _: Conventions) -> Work | None:
    """Group norm's forward, `native_group_norm(x, weight, bias, N, C, HW, groups)`: 5n + 4 per group. Weight and bias
    add n each. Writes the result and, in the native form, mean and inverse deviation of each group of each sample."""
    (x,) = call.given(0)
    saved = call.name != "aten::group_norm"
    first, groups = (1, call.integer(6)) if saved else (2, call.integer(1))
    if len(x.shape) < 2 or groups is None or groups < 1:
        return None
    weight, bias, rows = call.tensor(first), call.tensor(first + 1), x.shape[0] * groups
    return _normalised("normalisation.group_norm", x, weight, bias, rows, saved=saved)


@MODELS.add("normalisation.group_norm_backward", "native_group_norm_backward")
def group_norm_backward(call: Call, _: Conventions) -> Work | None:
    """Group norm's backward: as layer norm's, with C elements in the gradients of weight and bias."""
    (grad, x), weight, mask = call.given(0, 1), call.tensor(4), call.flags(9)
    if len(x.shape) < 2:
        return None
    saved, name = (call.tensor(2), call.tensor(3)), "normalisation.group_norm_backward"
    return _gradients(name, grad, x, weight, saved, x.shape[1], weight or x, mask)


@MODELS.add("normalisation.rms_norm", "rms_norm _fused_rms_norm", composites="rms_norm _fused_rms_norm")
def rms_norm(call: Call, _: Conventions) -> Work | None:
    """RMS norm's forward, `rms_norm(x, shape, weight)`: 3n + 3 for each row, n more with a weight. The fused form also
    writes the inverse root of each row."""
    (x,), weight = call.given(0), call.tensor(2)
    row = _row(call.integers(1), weight)
    if row is None or row == 0 or x.elements % row:
        return None
    rows = x.elements // row
    flops = x.elements * (3 + (weight is not None)) + 3 * rows
    written = total(dense(x), 0 if call.name == "aten::rms_norm" else _statistics(x, rows))
    return Work("normalisation.rms_norm", flops, stored(x, weight), written, x.dtype)


@MODELS.add("normalisation.rms_norm_backward", "aten::_fused_rms_norm_backward")
def rms_norm_backward(call: Call, _: Conventions) -> Work | None:
    """RMS norm's backward: 6n for the input (7n with a weight), 2n for the weight's gradient. The normalised input (n),
    its sum with the gradient (2n), and gradient - normalised·mean, scaled (3n). Reads gradient, input, weight and the
    inverse root of each row."""
    (grad, x), weight = call.given(0, 1), call.tensor(4)
    if grad.shape != x.shape:
        return None
    given = call.flags(5)
    recorded = given is not None and len(given) == 2
    mask = given if given is not None and recorded else (True, weight is not None)
    n = x.elements
    flops = n * (6 + (weight is not None)) * mask[0] + (2 if mask[0] else 3) * n * mask[1]
    written = total(dense(x) if mask[0] else 0, dense(weight) if mask[1] else 0)
    read = stored(grad, x, weight, call.tensor(3))
    return Work("normalisation.rms_norm_backward", flops, read, written, x.dtype, notes=() if recorded else (_ALL,))


@MODELS.add("normalisation.statistics", "batch_norm_stats")
def statistics(call: Call, _: Conventions) -> Work | None:
    """Statistics of a synchronised batch norm, `batch_norm_stats(x, eps)`: 4n + 4C. Sum (n), subtract, square, sum
    (3n); reads x, writes mean and inverse deviation of each channel."""
    (x,) = call.given(0)
    if len(x.shape) < 2:
        return None
    flops, written = 4 * x.elements + 4 * x.shape[1], _statistics(x, 2 * x.shape[1])
    return Work("normalisation.statistics", flops, stored(x), written, x.dtype)


@MODELS.add("normalisation.elementwise", "batch_norm_elemt")
def elementwise_norm(call: Call, _: Conventions) -> Work | None:
    """Normalising by given statistics, `batch_norm_elemt(x, weight, bias, mean, invstd)`: 2n. Weight and bias add n
    each."""
    (x,), weight, bias = call.given(0), call.tensor(1), call.tensor(2)
    flops = x.elements * (2 + (weight is not None) + (bias is not None))
    read = stored(x, weight, bias, call.tensor(3), call.tensor(4))
    return Work("normalisation.elementwise", flops, read, dense(x), x.dtype)


@MODELS.add("normalisation.backward_reduce", "batch_norm_backward_reduce")
def backward_reduce(call: Call, _: Conventions) -> Work | None:
    """The two sums of a synchronised batch norm's backward: 5n. `batch_norm_backward_reduce(grad, x, mean, invstd,
    weight, ...)` reads gradient and input, writes four values for each channel."""
    grad, x = call.given(0, 1)
    if len(x.shape) < 2:
        return None
    read = stored(grad, x, *(call.tensor(place) for place in range(2, 5)))
    written = _statistics(x, 4 * x.shape[1])
    return Work("normalisation.backward_reduce", 5 * x.elements, read, written, x.dtype)


@MODELS.add("normalisation.backward_elementwise", "batch_norm_backward_elemt")
def backward_elementwise(call: Call, _: Conventions) -> Work | None:
    """The element-wise part of a synchronised batch norm's backward: 6n. `batch_norm_backward_elemt(grad, x, mean,
    invstd, weight, sum_dy, sum_dy_xmu, count)`: the normalised input (2n), and gradient - mean - normalised·covariance,
    scaled (4n)."""
    grad, x = call.given(0, 1)
    read = stored(grad, x, *(call.tensor(place) for place in range(2, 8)))
    name = "normalisation.backward_elementwise"
    return Work(name, 6 * x.elements, read, dense(x), x.dtype)
