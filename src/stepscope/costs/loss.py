"""Losses: negative log-likelihood, and those that compare element by element.

An element-wise loss is counted without the sum or mean over its elements: torch calls that as an
operator of its own, which is counted there.
"""

from __future__ import annotations

from stepscope.costs.call import Call, Tensor, broadcast
from stepscope.costs.dtype import promote, size_of
from stepscope.costs.work import Conventions, Model, Work, aten, total


def _bytes(tensor: Tensor | None) -> int | None:
    return 0 if tensor is None else tensor.stored_bytes


def nll_forward(call: Call, _: Conventions) -> Work | None:
    """Negative log-likelihood, `nll_loss(x, target, weight, reduction)`: 1 for each target, 2 weighted.

    Reads the one element of x that each target names, the targets and the weights; writes two values
    for a reduced loss, one for each target and one more otherwise.
    """
    x, target, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    if x is None or target is None:
        return None
    size = x.element_size
    reduction = call.integer(3)
    written: int | None = None
    if size is not None and reduction is not None:
        written = size * (2 if reduction else target.elements + 1)
    return Work(
        formula="loss.nll_forward",
        flops=target.elements * (1 if weight is None else 2),
        bytes_read=total(
            None if size is None else target.elements * size, target.stored_bytes, _bytes(weight)
        ),
        bytes_written=written,
        dtype=x.dtype,
        notes=() if reduction is not None else ("reduction not recorded",),
    )


def nll_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of the negative log-likelihood: 1 for each target; writes as much as the input was."""
    grad, x, target, weight = (call.tensor(place) for place in range(4))
    if x is None or target is None:
        return None
    return Work(
        formula="loss.nll_backward",
        flops=target.elements,
        bytes_read=total(_bytes(grad), target.stored_bytes, _bytes(weight), _bytes(call.tensor(6))),
        bytes_written=x.bytes,
        dtype=x.dtype,
    )


def cross_entropy(call: Call, _: Conventions) -> Work | None:
    """Cross-entropy, `cross_entropy_loss(x, target, weight, reduction)`: log-softmax and likelihood.

    5n for the log-softmax over x and one operation for each target (two for a target of
    probabilities, each of which is multiplied and summed).
    """
    x, target, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    if x is None or target is None:
        return None
    size = x.element_size
    reduction = call.integer(3)
    each = 2 if target.shape == x.shape else 1
    outs = None if reduction is None else 1 if reduction else x.elements // max(1, x.shape[-1])
    return Work(
        formula="loss.cross_entropy",
        flops=5 * x.elements + each * target.elements,
        bytes_read=total(x.stored_bytes, target.stored_bytes, _bytes(weight)),
        bytes_written=None if size is None or outs is None else outs * size,
        dtype=x.dtype,
    )


_ELEMENTWISE: dict[str, int] = {
    "aten::mse_loss": 2,
    "aten::l1_loss": 2,
    "aten::smooth_l1_loss": 5,
    "aten::huber_loss": 5,
    "aten::binary_cross_entropy": 9,
    "aten::binary_cross_entropy_with_logits": 9,
    "aten::soft_margin_loss": 4,
    "aten::kl_div": 3,
}
"""Operations for each element: the difference and what is made of it; nine for -(t·log(x) +
(1 - t)·log(1 - x)) with its two clamps."""


def elementwise(call: Call, _: Conventions) -> Work | None:
    """Element-wise loss of prediction and target, before its mean: a few operations an element.

    Squared 2, absolute 2, smoothed or Huber 5, binary cross-entropy 9, soft margin 4, divergence 3;
    a weight adds one. Reads both and the weight, writes one value for each element.
    """
    x, target = call.tensor(0), call.tensor(1)
    if x is None or target is None:
        return None
    shape = broadcast(x.shape, target.shape)
    if shape is None:
        return None
    weight = call.tensor(2)
    elements = 1
    for extent in shape:
        elements *= extent
    size = size_of(promote([name for name in (x.dtype, target.dtype) if name is not None]))
    known = x.dtype is not None and target.dtype is not None and size is not None
    return Work(
        formula="loss.elementwise",
        flops=elements * (_ELEMENTWISE[call.name] + (weight is not None)),
        bytes_read=total(x.stored_bytes, target.stored_bytes, _bytes(weight)),
        bytes_written=elements * size if known and size is not None else None,
        dtype=x.dtype,
    )


_ELEMENTWISE_BACKWARD: dict[str, int] = {
    "aten::mse_loss_backward": 3,
    "aten::smooth_l1_loss_backward": 4,
    "aten::huber_loss_backward": 4,
    "aten::binary_cross_entropy_backward": 6,
    "aten::soft_margin_loss_backward": 5,
}


def elementwise_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of an element-wise loss to the prediction.

    Squared 3, smoothed or Huber 4, binary cross-entropy 6, soft margin 5 operations an element.
    Reads gradient, prediction, target and weight.
    """
    grad, x, target, weight = (call.tensor(place) for place in range(4))
    if x is None or target is None:
        return None
    return Work(
        formula="loss.elementwise_backward",
        flops=x.elements * (_ELEMENTWISE_BACKWARD[call.name] + (weight is not None)),
        bytes_read=total(_bytes(grad), x.stored_bytes, target.stored_bytes, _bytes(weight)),
        bytes_written=x.bytes,
        dtype=x.dtype,
    )


MODELS: tuple[Model, ...] = (
    Model(
        "loss.nll_forward",
        aten("nll_loss nll_loss2d nll_loss_nd nll_loss_forward nll_loss2d_forward"),
        nll_forward,
        composites=aten("nll_loss nll_loss2d nll_loss_nd"),
    ),
    Model("loss.nll_backward", aten("nll_loss_backward nll_loss2d_backward"), nll_backward),
    Model(
        "loss.cross_entropy",
        aten("cross_entropy_loss"),
        cross_entropy,
        composites=aten("cross_entropy_loss"),
    ),
    Model(
        "loss.elementwise",
        tuple(_ELEMENTWISE),
        elementwise,
        composites=aten("l1_loss kl_div binary_cross_entropy_with_logits soft_margin_loss"),
    ),
    Model(
        "loss.elementwise_backward",
        tuple(_ELEMENTWISE_BACKWARD),
        elementwise_backward,
        composites=aten("soft_margin_loss_backward"),
    ),
)
