"""Running sums, sorting and searching.

A running sum, product or extreme is n operations. Sorting and selecting compare, but the number of
comparisons depends on the algorithm: they count 0 operations, and the bytes of one pass, the least any
algorithm needs (a radix sort of 64-bit keys makes several).
"""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.dtype import is_float, scalar_type
from stepscope.costs.families.reduction import reduced_extent
from stepscope.costs.work import Conventions, Models, Work, by_name, sized, stored, total

MODELS = Models()

_INDEX = 8
"""Bytes of an int64, the type of indices."""

_SELECTED = ("comparisons of a selection are not counted",)

_RUNNING = by_name(
    ("cumsum cumprod", (1, False)),
    ("cummax cummin _cummax_helper _cummin_helper", (1, True)),
    ("logcumsumexp _logcumsumexp", (4, False)),
)
"""Operations per element, and whether indices are returned too."""


@MODELS.add("scan.running", tuple(_RUNNING))
def running(call: Call, _: Conventions) -> Work | None:
    """Running sum, product or extreme along a dimension: n operations (4n for exponentials). Integer sums are written
    as int64 unless the call names another type. An extreme also writes its index (int64)."""
    (x,) = call.given(0)
    each, indexed = _RUNNING[call.name]
    out = x.dtype
    if not indexed and each == 1:
        named_type = scalar_type(call.integer(2))
        out = named_type or ("int64" if x.dtype is not None and not is_float(x.dtype) else x.dtype)
    flops = each * x.elements if is_float(x.dtype) else 0
    written = total(sized(x.elements, out), _INDEX * x.elements * indexed)
    return Work("scan.running", flops, stored(x), written, x.dtype)


@MODELS.add("scan.sort", "sort argsort msort", composites="argsort msort")
def sort(call: Call, _: Conventions) -> Work | None:
    """Sort, `sort(x, ...)`: no operations counted; reads x, writes values and int64 indices."""
    (x,) = call.given(0)
    values = 0 if call.name == "aten::argsort" else sized(x.elements, x.dtype)
    written = total(values, _INDEX * x.elements)
    notes = ("comparisons of a sort are not counted",)
    return Work("scan.sort", 0, stored(x), written, x.dtype, notes=notes)


@MODELS.add("scan.topk", "topk")
def topk(call: Call, _: Conventions) -> Work | None:
    """The k largest of each row, `topk(x, k, dim)`: reads x, writes k values and indices per row."""
    (x,), k, dim = call.given(0), call.integer(1), call.integer(2)
    if k is None or k < 0 or dim is None or not -len(x.shape) <= dim < len(x.shape):
        return None
    outs = k * (x.elements // x.shape[dim] if x.shape[dim] else 0)
    written = total(sized(outs, x.dtype), _INDEX * outs)
    return Work("scan.topk", 0, stored(x), written, x.dtype, notes=_SELECTED)


_SELECTIONS = {"aten::median": 1, "aten::nanmedian": 1, "aten::mode": 1, "aten::kthvalue": 2}


@MODELS.add("scan.select", tuple(_SELECTIONS))
def select(call: Call, _: Conventions) -> Work | None:
    """Median, mode or k-th value of each row: reads x, writes a value (and an index) per row."""
    (x,) = call.given(0)
    over_all = len(call.arguments) == 1
    extent = reduced_extent(call, _SELECTIONS[call.name], x.shape)
    outs = 1 if over_all else None if extent is None else extent[0]
    written = None
    if outs is not None:
        written = total(sized(outs, x.dtype), 0 if over_all else _INDEX * outs)
    return Work("scan.select", 0, stored(x), written, x.dtype, notes=_SELECTED)


@MODELS.add("scan.search", "bucketize searchsorted")
def search(call: Call, _: Conventions) -> Work | None:
    """Search in sorted bounds, `bucketize(x, bounds)`: ceil(log2(bounds + 1)) comparisons per value. Reads values and
    bounds, writes int64 (or int32, if the call names it). `searchsorted` has the bounds first, one row of them or as
    many as rows of values."""
    x, bounds = call.given(0, 1)
    if call.name == "aten::searchsorted":
        x, bounds = bounds, x
    if not bounds.shape:
        return None
    flops = bounds.shape[-1].bit_length() * x.elements if is_float(x.dtype) else 0
    written = x.elements * (4 if call.flag(2) else _INDEX)
    return Work("scan.search", flops, stored(x, bounds), written, x.dtype)
