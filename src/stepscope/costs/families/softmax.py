"""Softmax and its logarithm, forward and backward.

Operations of the numerically safe formula over n elements: maximum, subtraction, exponential, sum
and division are 5n; the logarithm has a subtraction instead of the division. The backward of softmax
multiplies by the output, sums, subtracts and multiplies: 4n. That of log-softmax sums, takes the
exponential of the output, multiplies and subtracts: 4n. Operations that each row needs once are not counted.
Source: the definition; PyProf's 40n and 21n stand for instructions, not operations.
"""

from __future__ import annotations

from stepscope.costs.call import Call, Scalar
from stepscope.costs.dtype import scalar_type
from stepscope.costs.work import Conventions, Models, Work, sized, stored

MODELS = Models()


@MODELS.add(
    "softmax.forward",
    "softmax log_softmax special_softmax special_log_softmax _softmax _log_softmax _safe_softmax _masked_softmax",
    composites="softmax log_softmax special_softmax special_log_softmax _safe_softmax",
)
def forward(call: Call, _: Conventions) -> Work | None:
    """Softmax or log-softmax, `softmax(x, dim, ...)`: 5n; reads x, writes as much. The call may have a 16-bit input
    written as float32. A masked softmax also reads the mask."""
    (x,) = call.given(0)
    out = x.dtype
    if call.name in ("aten::_softmax", "aten::_log_softmax") and call.flag(2):
        out = "float32"
    elif isinstance(call.argument(2), Scalar) and not call.name.startswith("aten::_"):
        out = scalar_type(call.integer(2)) or x.dtype
    read, written = stored(x, call.tensor(1)), sized(x.elements, out)
    return Work("softmax.forward", 5 * x.elements, read, written, x.dtype)


@MODELS.add("softmax.backward", "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward")
def backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of softmax or log-softmax from the output: 4n; reads gradient and output. The result has the input's
    type, which the call names."""
    grad, out = call.given(0, 1)
    if grad.shape != out.shape:
        return None
    mask = call.tensor(2) if call.name == "aten::_masked_softmax_backward" else None
    written = sized(grad.elements, scalar_type(call.integer(3)) or grad.dtype)
    read = stored(grad, out, mask)
    return Work("softmax.backward", 4 * grad.elements, read, written, grad.dtype)
