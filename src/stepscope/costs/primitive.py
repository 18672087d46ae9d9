"""Operations of oneDNN's primitives, from the problem that its log states in benchdnn's notation."""

from __future__ import annotations

import re
from math import prod

_TOKEN = re.compile(r"(?<![a-z])([a-z]+)(\d{1,12})")
_CONVOLUTION = re.compile(r"(?:[a-z]+\d{1,12}_?)+")
_DIMS = re.compile(r"\d{1,12}(?:x\d{1,12})*")

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "s8": "int8", "u8": "int8",
}  # fmt: skip
"""oneDNN's element types by their names in `costs`."""


def primitive_flops(primitive: str, shape: str | None) -> int | None:
    """Operations of one oneDNN execution, a multiply-add counted as 2; None if no formula is known.

    A convolution counts 2 · mb · oc · ic/g · (output positions) · (kernel), padding included, in each direction,
    whatever algorithm runs; a deconvolution has input positions; an inner product 2 · mb · oc · ic · (input positions);
    a matmul 2 · batch · m · n · k (benchdnn's problem descriptors).

    >>> primitive_flops("inner_product", "mb32ic512oc1000")
    32768000
    >>> primitive_flops("matmul", "4x8x16:4x16x2")
    2048
    """
    if not shape:
        return None
    if primitive == "matmul":
        return _matmul(shape)
    if primitive not in ("convolution", "deconvolution", "inner_product"):
        return None
    if _CONVOLUTION.fullmatch(shape) is None:
        return None
    size = {name: int(number) for name, number in _TOKEN.findall(shape)}
    try:
        base = 2 * size["mb"] * size["oc"] * size["ic"]
    except KeyError:
        return None
    if primitive == "inner_product":
        return base * prod(size.get(letter, 1) for letter in ("id", "ih", "iw"))
    side = "o" if primitive == "convolution" else "i"
    if f"{side}w" not in size or "kw" not in size:
        return None
    moved = prod(size.get(f"{letter}{axis}", 1) for letter in (side, "k") for axis in "dhw")
    return base * moved // max(size.get("g", 1), 1)


def _matmul(shape: str) -> int | None:
    sides = shape.split(":")
    if len(sides) < 2 or not all(_DIMS.fullmatch(text) for text in sides[:2]):
        return None
    left, right = ([int(text) for text in side.split("x")] for side in sides[:2])
    if len(left) != len(right) or len(left) < 2 or left[-1] != right[-2]:
        return None
    batch = prod(max(pair) for pair in zip(left[:-2], right[:-2], strict=True))
    return 2 * batch * left[-2] * left[-1] * right[-1]
