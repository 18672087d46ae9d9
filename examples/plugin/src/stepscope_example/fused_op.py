"""The work of `mylib::fused_op(x, bias)`: gelu(x + bias), in one kernel."""

from __future__ import annotations

from stepscope.plugin import Call, Conventions, Model, Work


def fused_op(call: Call, _: Conventions) -> Work | None:
    """gelu(x + bias) of n elements: 1 for the sum and 8 for the tanh form of gelu, 9n. Reads x and the
    bias, writes as much as x.
    """
    x, bias = call.tensor(0), call.tensor(1)
    if x is None or bias is None or x.bytes is None or bias.bytes is None:
        return None
    return Work(
        formula="elementwise.mylib_fused_op",
        flops=9 * x.elements,
        bytes_read=x.bytes + bias.bytes,
        bytes_written=x.bytes,
        dtype=x.dtype,
    )


MODEL = Model("elementwise.mylib_fused_op", ("mylib::fused_op",), fused_op)
