"""Kernels that Inductor generates with Triton, counted from their recorded row.

A generated kernel's name lists the operators that were fused into it (`triton_poi_fused_add_cos_sin_0`); its arguments
are the buffers it points to and the extents of its loops. Each operator of the name is counted once for each point of
the loops by its row in the table `pointwise`. Inductor names an operator once however often it was fused, so the
operations are a lower bound. The written buffers are not recorded: Inductor passes outputs last, and the last one is
taken to be the only one; the sum of bytes read and written is right unless a kernel updates a buffer in place, which is
then counted once instead of twice.
"""

from __future__ import annotations

import math
import re

from stepscope.costs.call import Call, Scalar, Tensor
from stepscope.costs.dtype import is_float
from stepscope.costs.families.pointwise import POINTWISE
from stepscope.costs.work import Conventions, Models, Work, sized, stored, total

MODELS = Models()

_NAME = re.compile(r"triton_(?P<kind>poi|red|per|for|tem|mix|spl)_fused_(?P<fused>.*?)(_\d+)?\Z")

_REDUCTIONS = {
    name: operations
    for operations, names in (
        (1, "sum mean prod amax amin max min argmax argmin cumsum"),
        (2, "norm linalg_vector_norm native_dropout native_dropout_backward"),
        (4, "var var_mean std _softmax_backward_data _log_softmax_backward_data _fused_rms_norm"),
        (4, "_native_batch_norm_legit_no_training"),
        (5, "_softmax _log_softmax"),
        (7, "native_layer_norm native_group_norm"),
        (7, "_native_batch_norm_legit _native_batch_norm_legit_functional"),
        (9, "native_batch_norm_backward"),
        (13, "native_layer_norm_backward native_group_norm_backward"),
    )
    for name in names.split()
}
"""Operations per element of operators that are not element-wise, by the formulas of their own
families with weight and bias."""

_LONGEST_NAME = 4096


def fused_operators(name: str) -> list[str]:
    """List the operators in a generated kernel's name; unknown words are left out.

    >>> fused_operators("triton_poi_fused_add_threshold_backward_0")
    ['add', 'threshold_backward']
    """
    return [word for word in fused_words(name) if _is_known(word)]


def fused_words(name: str) -> list[str]:
    """List the operators in a generated kernel's name; unknown words stay as they are.

    >>> fused_words("triton_tem_fused_my_op_add_3"), fused_words("gemm")
    (['my_op', 'add'], [])
    """
    match = _NAME.match(name[:_LONGEST_NAME])
    if match is None:
        return []
    words = match["fused"].split("_")
    operators: list[str] = []
    unknown: list[str] = []
    start = 0
    while start < len(words):
        # The longest name that starts here wins: threshold_backward before threshold.
        for end in range(min(len(words), start + 8), start, -1):
            text = "_".join(words[start:end])
            operator = next((form for form in (text, "_" + text) if _is_known(form)), None)
            if operator is not None and text:
                operators += _joined(unknown)
                unknown = []
                operators.append(operator)
                start = end
                break
        else:
            unknown.append(words[start])
            start += 1
    return operators + _joined(unknown)


def _joined(words: list[str]) -> list[str]:
    """Joins adjacent words into one name; none if there are no words."""
    name = "_".join(words).strip("_")
    return [name] if name else []


def _is_known(text: str) -> bool:
    return text in POINTWISE or text in _REDUCTIONS


def _operations(name: str) -> int:
    row = POINTWISE.get(name)
    return row.operations if row is not None else _REDUCTIONS[name]


@MODELS.add("generated.inductor", (), form=_NAME)
def generated(call: Call, _: Conventions) -> Work | None:
    """Generated kernel: (operations of its fused operators)·(points of its loops), a lower bound. The loops' extents
    are its last integer arguments, else those of the largest buffer. A buffer larger than the loops, such as the table
    of an embedding, counts with one element per point. Templates of matrix products (`tem`) and combined kernels
    (`for`) are not counted: their name does not say what they compute."""
    match = _NAME.match(call.name[:_LONGEST_NAME])
    if match is None or match["kind"] in ("tem", "for", "mix", "spl"):
        return None
    buffers = [argument for argument in call.arguments if isinstance(argument, Tensor)]
    if not buffers:
        return None
    largest = max(tensor.elements for tensor in buffers)
    points = _points(call, 1 if match["kind"] == "poi" else 2)
    if points is None or (points < largest and match["kind"] != "poi"):
        points = largest
    floats = [tensor.dtype for tensor in buffers if is_float(tensor.dtype)]
    flops = points * sum(_operations(name) for name in fused_operators(call.name))
    return Work(
        formula="generated.inductor",
        flops=flops if floats or all(tensor.dtype is None for tensor in buffers) else 0,
        bytes_read=total(*(_touched(tensor, points) for tensor in buffers[:-1])),
        bytes_written=_touched(buffers[-1], points),
        dtype=floats[0] if floats else buffers[0].dtype,
        bound="lower",
        notes=("operations by the fused operators' names, each once; outputs taken to be the last",),
    )


def _touched(tensor: Tensor, points: int) -> int | None:
    """Bytes of a buffer, or of one element per point if it has more."""
    entire, largest = stored(tensor), sized(points, tensor.dtype)
    return entire if entire is None or largest is None else min(entire, largest)


def _points(call: Call, loops: int) -> int | None:
    """Product of the extents of the loops, or None if they were not recorded. Kernels over one or two loops pass each
    extent; trailing arguments that are not positive integers are none of them."""
    extents = [
        argument.value
        for argument in call.arguments
        if isinstance(argument, Scalar)
        and isinstance(argument.value, int)
        and not isinstance(argument.value, bool)
        and argument.value > 0
    ]
    if not extents:
        return None
    return math.prod(extents[-loops:])
