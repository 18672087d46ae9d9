"""Element-wise operators with broadcasting: activations and their gradients, arithmetic, selection.

The result has the broadcast shape; its type is promoted as in torch. Each operand is read once as stored, the result is
written once; an in-place form writes its first operand. The table `pointwise` has the operations for each element.
"""

from __future__ import annotations

import math

from stepscope.costs.call import Argument, Call, Scalar, Tensor, broadcast
from stepscope.costs.dtype import is_complex, is_float, promote, real_of
from stepscope.costs.families.pointwise import POINTWISE, Pointwise, entry
from stepscope.costs.work import Conventions, Models, Work, dense, sized, stored

MODELS = Models()

_UNRECORDED = "type of a number not recorded: taken not to change the result's"


def _number_type(argument: Scalar) -> str | None:
    if isinstance(argument.value, bool):
        return "bool"
    if isinstance(argument.value, int):
        return "int64"
    if isinstance(argument.value, float):
        return "float32"
    return {"Double": "float32", "Float": "float32", "Int": "int64", "Bool": "bool"}.get(argument.kind)


def promoted(arguments: list[Argument]) -> tuple[str | None, bool]:
    """Type that operands promote to (None if unknown), and whether a number's type was missing."""
    dims: list[str] = []
    zero_dim: list[str] = []
    numbers: list[str] = []
    unrecorded = False
    for argument in arguments:
        if isinstance(argument, Tensor):
            if argument.dtype is None:
                return None, unrecorded
            (dims if argument.shape else zero_dim).append(argument.dtype)
        elif isinstance(argument, Scalar):
            kind = _number_type(argument)
            if kind is None:
                unrecorded = True
            else:
                numbers.append(kind)
    return promote(dims, zero_dim, numbers), unrecorded


def result_type(row: Pointwise, common: str | None, call: Call) -> str | None:
    """Type of a row's result if its operands promote to `common`."""
    if row.result == "bool":
        return "bool"
    if common is None:
        return None
    if row.result == "real":
        return real_of(common)
    if row.result == "float" or (row.result == "divide" and call.text(2) not in ("floor", "trunc")):
        return common if is_float(common) else "float32"
    return common


def operations(row: Pointwise, arithmetic: str | None, call: Call) -> int | None:
    """Operations for one element in the given type; None if they are not counted."""
    if arithmetic is not None and not is_float(arithmetic):
        return 0
    count = row.operations
    if is_complex(arithmetic):
        if row.complex_operations is None:
            return None
        count = row.complex_operations
    if row.factor is not None:
        factor = call.number(row.factor)
        if factor is not None and factor != 1:
            count += 2 if is_complex(arithmetic) else 1
    return count


_NAMES = tuple(f"aten::{name}{form}" for name in POINTWISE for form in ("", "_") if not (form and name.endswith("__")))


@MODELS.add(
    "elementwise.pointwise",
    _NAMES,
    composites="multiply multiply_ divide divide_ true_divide true_divide_ subtract subtract_ "
    "negative negative_ absolute absolute_ square square_ clip clip_ greater greater_ "
    "greater_equal greater_equal_ less less_ less_equal less_equal_ not_equal not_equal_ "
    "arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan_ "
    "arctan2 arctan2_ arctanh arctanh_ fix fix_ __and__ __or__ __xor__ __iand__ __ior__ "
    "__ixor__ rsub float_power float_power_ ldexp ldexp_ conj_physical "
    # activations and predicates composed of others
    "relu relu_ relu6 relu6_ selu selu_ prelu log_sigmoid mish_backward isreal isfinite",
)
def elementwise(call: Call, _: Conventions) -> Work | None:
    """Element-wise operator: (operations of its row)·(elements of the result). Integer and boolean arithmetic counts 0
    (see `work`). Source of each row: the function's definition as torch documents it."""
    known_row = entry(call.name.removeprefix("aten::"))
    if known_row is None:
        return None
    row, in_place = known_row
    operands = [call.argument(position) for position in row.operands]
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    first = call.argument(row.operands[0])
    if not tensors or (call.name == "aten::where" and len([o for o in operands if o]) < 3):
        return None
    if in_place and not isinstance(first, Tensor):
        return None
    shape = broadcast(*(tensor.shape for tensor in tensors))
    if shape is None or (in_place and isinstance(first, Tensor) and shape != first.shape):
        return None
    common, unrecorded = promoted([call.argument(position) for position in row.typed or row.operands])
    out = first.dtype if in_place and isinstance(first, Tensor) else result_type(row, common, call)
    floats = row.result in ("float", "divide")
    arithmetic = result_type(row, common, call) if floats else common
    each = operations(row, arithmetic, call)
    if each is None:
        return None
    elements = math.prod(shape)
    ambiguous = unrecorded and common is not None and not is_float(common) and row.result != "bool"
    return Work(
        "elementwise.pointwise",
        flops=each * elements,
        bytes_read=stored(*tensors),
        bytes_written=sized(elements * row.results, out),
        dtype=real_of(arithmetic),
        notes=(_UNRECORDED,) if ambiguous else (),
    )


@MODELS.add("elementwise.gated", "glu")
def gated(call: Call, _: Conventions) -> Work | None:
    """Gated linear unit, `glu(x)`: 5 operations for each of the n/2 elements of the result. One half of x is multiplied
    by the sigmoid (4) of the other."""
    (x,) = call.given(0)
    if x.elements % 2:
        return None
    half = x.elements // 2
    return Work("elementwise.gated", 5 * half, stored(x), sized(half, x.dtype), x.dtype)


@MODELS.add("elementwise.gated_backward", "glu_backward")
def gated_backward(call: Call, _: Conventions) -> Work | None:
    """Gradient of a gated linear unit: 9 operations for each element of the gradient. The sigmoid (4); gradient·sigmoid
    for one half; for the other that times (1 - sigmoid)·value (4)."""
    grad, x = call.given(0, 1)
    if x.elements != 2 * grad.elements:
        return None
    flops = 9 * grad.elements
    return Work("elementwise.gated_backward", flops, stored(grad, x), dense(x), x.dtype)
