"""Reductions: sums, means, extremes, variances and norms over some or all dimensions.

Over n elements with m results: a sum, product or extreme is n operations; a mean n + m; a variance 4n + 2m (sum,
subtract, square, sum), a deviation m more; a Euclidean or absolute norm 2n + m, other norms 3n + m; a logarithm of a
sum of exponentials 4n + 2m. Counting and logical reductions are none. `keepdim` changes the result's shape, not its
size. If the recording does not say which dimensions are reduced, m is unknown: then the bytes written are unknown too,
and the terms in m, which are small, are left out.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from stepscope.costs.call import Call, Scalar, Tensor
from stepscope.costs.dtype import is_float, real_of, scalar_type
from stepscope.costs.work import Conventions, Models, Work, by_name, sized, stored, total

MODELS = Models()

Result = Literal["same", "sum", "bool", "index", "real"]


class _Reduction(NamedTuple):
    """One reduction: operations for each input and each result, and positions of its arguments."""

    each: int
    per_result: int = 0
    result: Result = "same"
    dim: int = 1
    dtype: int | None = None
    results: int = 1
    indexed: bool = False


_UNRECORDED = "reduced dimensions not recorded"

_REDUCTIONS = by_name(
    ("sum nansum prod", _Reduction(1, result="sum", dtype=3)),
    ("mean nanmean", _Reduction(1, 1, dtype=3)),
    ("max min", _Reduction(1, indexed=True)),
    ("amax amin", _Reduction(1)),
    ("aminmax _aminmax", _Reduction(2, results=2)),
    ("all any", _Reduction(0, result="bool")),
    ("count_nonzero", _Reduction(0, result="index")),
    ("argmax argmin", _Reduction(1, result="index")),
    ("var", _Reduction(4, 2, result="real")),
    ("std", _Reduction(4, 3, result="real")),
    ("var_mean", _Reduction(4, 2, result="real", results=2)),
    ("std_mean", _Reduction(4, 3, result="real", results=2)),
    ("logsumexp", _Reduction(4, 2)),
)


def reduced_extent(call: Call, position: int, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Number of results and number of elements reduced to each, or None if not recorded. No dimensions, or an empty
    list of them, means all."""
    n = math.prod(shape)
    argument = call.argument(position)
    if argument is None or (isinstance(argument, Scalar) and argument.value == ()):
        return 1, n
    if isinstance(argument, Scalar) and isinstance(argument.value, bool):
        return 1, n  # var(x, unbiased) has no dimensions
    dims = call.integers(position)
    if dims is None:
        return None
    rank = max(1, len(shape))
    if any(not -rank <= dim < rank for dim in dims):
        return None
    if not shape:
        return 1, 1
    reduced = {dim % rank for dim in dims}
    results = math.prod(size for dim, size in enumerate(shape) if dim not in reduced)
    return results, math.prod(shape[dim] for dim in reduced)


def _dtype(row: _Reduction, x: Tensor, named_type: str | None) -> str | None:
    if named_type is not None:
        return named_type
    if row.result == "bool":
        return "bool"
    if row.result == "index":
        return "int64"
    if row.result == "real":
        return real_of(x.dtype)
    if row.result == "sum" and x.dtype is not None and not is_float(x.dtype):
        return "int64"
    return x.dtype


@MODELS.add("reduction.reduce", tuple(_REDUCTIONS), composites="nanmean")
def reduction(call: Call, _: Conventions) -> Work | None:
    """Reduction by its row: reads the n elements, writes the m results (and indices of extremes)."""
    row, (x,) = _REDUCTIONS[call.name], call.given(0)
    if isinstance(call.argument(1), Tensor) and call.name in ("aten::max", "aten::min"):
        return None  # the larger of two tensors: torch calls aten::maximum inside
    over_all = len(call.arguments) <= (2 if row.dtype is not None or row.each == 4 else 1)
    extent = (1, x.elements) if over_all else reduced_extent(call, row.dim, x.shape)
    named_type = None
    if row.dtype is not None:
        named_type = scalar_type(call.integer(1 if over_all else row.dtype))
    out = _dtype(row, x, named_type)
    arithmetic = is_float(named_type or x.dtype) or x.dtype is None
    results = None if extent is None else extent[0]
    flops = row.each * x.elements + row.per_result * (results or 0)
    written = None
    if results is not None:
        indices = 8 * results if row.indexed and not over_all else 0
        written = total(sized(results * row.results, out), indices)
    notes = () if results is not None else (_UNRECORDED,)
    return Work("reduction.reduce", flops if arithmetic else 0, stored(x), written, real_of(x.dtype), notes=notes)


@MODELS.add(
    "reduction.norm", "norm linalg_vector_norm linalg_norm frobenius_norm", composites="norm linalg_norm frobenius_norm"
)
def norm(call: Call, _: Conventions) -> Work | None:
    """Norm of some order, `linalg_vector_norm(x, order, dim)`: 2n + m; 3n + m but for orders 1, 2, inf. Reads x, writes
    the m results."""
    (x,) = call.given(0)
    extent = reduced_extent(call, 2, x.shape) if len(call.arguments) > 2 else (1, x.elements)
    order = call.number(1)
    usual = order is None or order in (1, 2) or math.isinf(order)
    out = real_of(x.dtype)
    flops = (2 if usual else 3) * x.elements + (0 if extent is None else extent[0])
    written = None if extent is None else sized(extent[0], out)
    return Work("reduction.norm", flops, stored(x), written, out, notes=() if extent is not None else (_UNRECORDED,))


@MODELS.add("reduction.equal", "equal")
def compare_all(call: Call, _: Conventions) -> Work | None:
    """Whether two tensors are equal, `equal(a, b)`: n comparisons; writes one boolean."""
    a, b = call.given(0, 1)
    return Work("reduction.equal", a.elements * is_float(a.dtype), stored(a, b), 1, a.dtype)
