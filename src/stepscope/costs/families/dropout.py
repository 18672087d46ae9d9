"""Dropout: elements kept or zeroed by a random mask, and scaled.

Each element is multiplied by its mask and by the scale: 2n. Generating the random numbers is not
counted. Source: Srivastava et al. (2014).
"""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import Conventions, Models, Work, dense, stored, total

MODELS = Models()


@MODELS.add("dropout.forward", "native_dropout _fused_dropout dropout dropout_", composites="dropout dropout_")
def forward(call: Call, _: Conventions) -> Work | None:
    """Dropout, `native_dropout(x, p, train)`: 2n; reads x, writes the result and a one-byte mask. Without training it
    is a copy. The composite form writes its mask with a separate operator."""
    (x,) = call.given(0)
    fused = call.name in ("aten::native_dropout", "aten::_fused_dropout")
    idle = call.name in ("aten::native_dropout", "aten::dropout") and call.flag(2) is False
    written = total(dense(x), x.elements if fused else 0)
    return Work("dropout.forward", 0 if idle else 2 * x.elements, stored(x), written, x.dtype)


@MODELS.add("dropout.backward", "native_dropout_backward _masked_scale")
def backward(call: Call, _: Conventions) -> Work | None:
    """Gradient through a dropout, `native_dropout_backward(grad, mask, scale)`: 2n; reads both."""
    grad, mask = call.given(0, 1)
    read = stored(grad, mask)
    return Work("dropout.backward", 2 * grad.elements, read, dense(grad), grad.dtype)
