"""Losses: negative log-likelihood, and those that compare element by element.

An element-wise loss is counted without the sum or mean over its elements: torch calls a separate
operator for that, which is counted there.
"""

from __future__ import annotations

import math

from stepscope.costs.call import Call, broadcast
from stepscope.costs.dtype import promote
from stepscope.costs.work import Conventions, Models, Work, by_name, dense, sized, stored, total

MODELS = Models()


@MODELS.add(
    "loss.nll_forward",
    "nll_loss nll_loss2d nll_loss_nd nll_loss_forward nll_loss2d_forward",
    composites="nll_loss nll_loss2d nll_loss_nd",
)
def nll_forward(call: Call, _: Conventions) -> Work | None:
    """Negative log-likelihood, `nll_loss(x, target, weight, reduction)`: 1 for each target, 2 weighted. Reads the one
    element of x that each target names, the targets and the weights; writes two values for a reduced loss, one for each
    target and one more otherwise."""
    (x, target), weight, reduction = call.given(0, 1), call.tensor(2), call.integer(3)
    outs = target.elements + 1 if reduction == 0 else 2
    return Work(
        "loss.nll_forward",
        flops=target.elements * (1 if weight is None else 2),
        bytes_read=total(sized(target.elements, x.dtype), stored(target, weight)),
        bytes_written=None if reduction is None else sized(outs, x.dtype),
        dtype=x.dtype,
        notes=() if reduction is not None else ("reduction not recorded",),
    )


@MODELS.add("loss.nll_backward", "nll_loss_backward nll_loss2d_backward")
def nll_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of the negative log-likelihood: 1 for each target; writes the one element of each. A separate operator
    (`aten::zero_`) zeroed the others before."""
    x, target = call.given(1, 2)
    read = stored(target, *(call.tensor(place) for place in (0, 3, 6)))
    return Work("loss.nll_backward", target.elements, read, sized(target.elements, x.dtype), x.dtype)


@MODELS.add("loss.cross_entropy", "cross_entropy_loss", composites="cross_entropy_loss")
def cross_entropy(call: Call, _: Conventions) -> Work | None:
    """Cross-entropy, `cross_entropy_loss(x, target, weight, reduction)`: log-softmax and likelihood. 5n for the
    log-softmax over x and one operation for each target (two for a target of probabilities, each of which is multiplied
    and summed)."""
    (x, target), reduction = call.given(0, 1), call.integer(3)
    each = 2 if target.shape == x.shape else 1
    outs = 1 if reduction else math.prod(x.shape[:-1])
    flops = 5 * x.elements + each * target.elements
    written = None if reduction is None else sized(outs, x.dtype)
    return Work("loss.cross_entropy", flops, stored(x, target, call.tensor(2)), written, x.dtype)


_ELEMENTWISE = by_name(
    ("mse_loss l1_loss", 2),
    ("smooth_l1_loss huber_loss", 5),
    ("binary_cross_entropy binary_cross_entropy_with_logits", 9),
    ("soft_margin_loss", 4),
    ("kl_div", 3),
)
"""Operations per element: the difference and what follows; nine for -(t·log(x) + (1 - t)·log(1 - x)) with its two
clamps."""


@MODELS.add(
    "loss.elementwise",
    tuple(_ELEMENTWISE),
    composites="l1_loss kl_div binary_cross_entropy_with_logits soft_margin_loss",
)
def elementwise(call: Call, _: Conventions) -> Work | None:
    """Element-wise loss of prediction and target, before its mean: a few operations per element. Squared 2, absolute 2,
    smoothed or Huber 5, binary cross-entropy 9, soft margin 4, divergence 3; a weight adds one. Reads both and the
    weight, writes one value for each element."""
    (x, target), weight = call.given(0, 1), call.tensor(2)
    shape = broadcast(x.shape, target.shape)
    if shape is None:
        return None
    elements = math.prod(shape)
    types = [name for name in (x.dtype, target.dtype) if name is not None]
    flops = elements * (_ELEMENTWISE[call.name] + (weight is not None))
    written = sized(elements, promote(types)) if len(types) == 2 else None
    return Work("loss.elementwise", flops, stored(x, target, weight), written, x.dtype)


_ELEMENTWISE_BACKWARD = by_name(
    ("mse_loss_backward", 3),
    ("smooth_l1_loss_backward huber_loss_backward", 4),
    ("binary_cross_entropy_backward", 6),
    ("soft_margin_loss_backward", 5),
)


@MODELS.add("loss.elementwise_backward", tuple(_ELEMENTWISE_BACKWARD), composites="soft_margin_loss_backward")
def elementwise_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of an element-wise loss to the prediction. Squared 3, smoothed or Huber 4, binary cross-entropy 6, soft
    margin 5 operations per element. Reads gradient, prediction, target and weight."""
    (x, target), weight = call.given(1, 2), call.tensor(3)
    flops = x.elements * (_ELEMENTWISE_BACKWARD[call.name] + (weight is not None))
    read = stored(call.tensor(0), x, target, weight)
    return Work("loss.elementwise_backward", flops, read, dense(x), x.dtype)
