"""The table of element-wise operators behind `elementwise` and `foreach`.

`operations` counts the textbook formula, one for each add, subtract, multiply, divide, comparison,
root, exponential, logarithm, power, trigonometric or other special function; selecting, copying and
bit operations count 0. Names are torch's without `aten::` and without the underscore of the
in-place form. An operator that is not in the table has no model.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Result = Literal["same", "float", "bool", "real", "divide"]


class Pointwise(NamedTuple):
    """One element-wise operator.

    Args:
        operations: for each element of the result.
        operands: positions of the arguments that are combined element by element.
        result: its type: `same` as promoted, `float` (integers become float32), `bool`, `real` part of a complex one,
            `divide` (like float, unless the call names a rounding).
        complex_operations: real operations per element in complex arithmetic; None if not counted.
        typed: operands that decide the type; None for all of them.
        results: how many tensors it returns.
        factor: position of a number that costs one more operation if it is not 1.
    """

    operations: int
    operands: tuple[int, ...]
    result: Result = "same"
    complex_operations: int | None = None
    typed: tuple[int, ...] | None = None
    results: int = 1
    factor: int | None = None


def _unary(operations: int, names: str, result: Result = "same") -> dict[str, Pointwise]:
    return {name: Pointwise(operations, (0,), result) for name in names.split()}


def _binary(operations: int, names: str, result: Result = "same") -> dict[str, Pointwise]:
    return {name: Pointwise(operations, (0, 1), result) for name in names.split()}


POINTWISE: dict[str, Pointwise] = {
    **_unary(0, "bitwise_not"),
    **_unary(
        1, "ceil floor round trunc fix frac sign sgn relu hardshrink softshrink threshold deg2rad rad2deg nan_to_num"
    ),
    **_unary(2, "relu6 hardtanh leaky_relu"),
    **_unary(3, "elu celu hardsigmoid rrelu_with_noise"),
    **_unary(4, "hardswish selu"),
    **_unary(
        1,
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
        "asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh erf erfc erfinv lgamma "
        "digamma i0 sinc polygamma special_i0e special_i1 special_i1e special_erfcx special_ndtri "
        "special_log_ndtr special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
        "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
        "special_modified_bessel_k1 special_scaled_modified_bessel_k0 "
        "special_scaled_modified_bessel_k1 special_spherical_bessel_j0 special_airy_ai",
        "float",
    ),
    **_unary(2, "special_entr", "float"),
    **_unary(3, "softplus log_sigmoid log_sigmoid_forward logit", "float"),
    **_unary(4, "sigmoid", "float"),
    **_unary(5, "silu gelu mish", "float"),
    **_unary(0, "logical_not", "bool"),
    **_unary(1, "isnan isinf isfinite isposinf isneginf signbit isreal", "bool"),
    "neg": Pointwise(1, (0,), complex_operations=2),
    "negative": Pointwise(1, (0,), complex_operations=2),
    "conj_physical": Pointwise(0, (0,), complex_operations=1),
    "_conj_physical": Pointwise(0, (0,), complex_operations=1),
    "square": Pointwise(1, (0,), complex_operations=6),
    "reciprocal": Pointwise(1, (0,), "float", complex_operations=6),
    "abs": Pointwise(1, (0,), "real", complex_operations=4),
    "absolute": Pointwise(1, (0,), "real", complex_operations=4),
    "angle": Pointwise(1, (0,), "real", complex_operations=1),
    "frexp": Pointwise(1, (0,), "float", results=2),
    **_binary(
        0,
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ "
        "__xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ gcd lcm",
    ),
    **_binary(1, "maximum minimum fmax fmin pow copysign nextafter heaviside clamp_min clamp_max"),
    **_binary(2, "prelu _prelu_kernel fmod remainder xlogy floor_divide"),
    **_binary(4, "hypot"),
    **_binary(1, "atan2 arctan2 igamma igammac float_power special_zeta", "float"),
    **_binary(2, "special_xlog1py ldexp", "float"),
    **_binary(5, "logaddexp logaddexp2", "float"),
    **_binary(0, "logical_and logical_or logical_xor", "bool"),
    **_binary(1, "eq ne lt le gt ge greater greater_equal less less_equal not_equal", "bool"),
    "mul": Pointwise(1, (0, 1), complex_operations=6),
    "multiply": Pointwise(1, (0, 1), complex_operations=6),
    "add": Pointwise(1, (0, 1), complex_operations=2, factor=2),
    "sub": Pointwise(1, (0, 1), complex_operations=2, factor=2),
    "subtract": Pointwise(1, (0, 1), complex_operations=2, factor=2),
    "rsub": Pointwise(1, (0, 1), complex_operations=2, factor=2),
    "div": Pointwise(1, (0, 1), "divide", complex_operations=11),
    "divide": Pointwise(1, (0, 1), "divide", complex_operations=11),
    "true_divide": Pointwise(1, (0, 1), "divide", complex_operations=11),
    "clamp": Pointwise(2, (0, 1, 2)),
    "clip": Pointwise(2, (0, 1, 2)),
    "lerp": Pointwise(3, (0, 1, 2), typed=(0,)),
    "addcmul": Pointwise(2, (0, 1, 2), factor=3),
    "addcdiv": Pointwise(2, (0, 1, 2), "float", factor=3),
    "where": Pointwise(0, (0, 1, 2), complex_operations=0, typed=(1, 2)),
    "masked_fill": Pointwise(0, (0, 1, 2), complex_operations=0, typed=(0,)),
    **_binary(1, "threshold_backward hardshrink_backward softshrink_backward"),
    **_binary(2, "hardtanh_backward leaky_relu_backward"),
    "rrelu_with_noise_backward": Pointwise(1, (0, 1, 2)),
    **_binary(3, "sigmoid_backward tanh_backward hardsigmoid_backward"),
    **_binary(4, "softplus_backward logit_backward"),
    "elu_backward": Pointwise(4, (0, 5)),
    **_binary(5, "hardswish_backward log_sigmoid_backward"),
    **_binary(9, "silu_backward"),
    **_binary(11, "gelu_backward"),
    **_binary(13, "mish_backward"),
    "_prelu_kernel_backward": Pointwise(2, (0, 1, 2), results=2),
}


def entry(name: str) -> tuple[Pointwise, bool] | None:
    """Find an operator's row by its name without `aten::`, and whether it works in place.

    >>> entry("add_")[1], entry("add")[1], entry("no_such_operator")
    (True, False, None)
    """
    if name in POINTWISE:
        return POINTWISE[name], name.startswith("__i")
    if name.endswith("_") and name[:-1] in POINTWISE:
        return POINTWISE[name[:-1]], True
    return None
