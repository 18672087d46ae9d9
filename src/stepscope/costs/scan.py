"""Running sums, sorting and searching.

A running sum, product or extreme is n operations. Sorting and selecting compare, but how often is
the algorithm's choice: they count 0 operations, and the bytes of one pass, which is the least any
algorithm needs (a radix sort of 64-bit keys makes several).
"""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.dtype import is_float, scalar_type, size_of
from stepscope.costs.reduction import reduced_extent
from stepscope.costs.work import Conventions, Model, Work, aten, total

_RUNNING: dict[str, tuple[int, bool]] = {
    "aten::cumsum": (1, False),
    "aten::cumprod": (1, False),
    "aten::cummax": (1, True),
    "aten::cummin": (1, True),
    "aten::_cummax_helper": (1, True),
    "aten::_cummin_helper": (1, True),
    "aten::logcumsumexp": (4, False),
    "aten::_logcumsumexp": (4, False),
}
"""Operations for each element, and whether indices are returned too."""


def running(call: Call, _: Conventions) -> Work | None:
    """Running sum, product or extreme along a dimension: n operations (4n for exponentials).

    Integer sums are written as int64 unless the call asks for another type. An extreme also writes
    its index (int64).
    """
    x = call.tensor(0)
    if x is None:
        return None
    each, indexed = _RUNNING[call.name]
    out = x.dtype
    if not indexed and each == 1:
        asked = scalar_type(call.integer(2))
        out = asked or ("int64" if x.dtype is not None and not is_float(x.dtype) else x.dtype)
    size = size_of(out)
    return Work(
        formula="scan.running",
        flops=each * x.elements if is_float(x.dtype) else 0,
        bytes_read=x.stored_bytes,
        bytes_written=None if size is None else x.elements * (size + 8 * indexed),
        dtype=x.dtype,
    )


def sort(call: Call, _: Conventions) -> Work | None:
    """Sort, `sort(x, ...)`: no operations counted; reads x, writes values and int64 indices."""
    x = call.tensor(0)
    if x is None:
        return None
    size = 0 if call.name == "aten::argsort" else x.element_size
    return Work(
        formula="scan.sort",
        flops=0,
        bytes_read=x.stored_bytes,
        bytes_written=None if size is None else x.elements * (size + 8),
        dtype=x.dtype,
        notes=("comparisons of a sort are not counted",),
    )


def topk(call: Call, _: Conventions) -> Work | None:
    """The k largest of each row, `topk(x, k, dim)`: reads x, writes k values and indices a row."""
    x, k, dim = call.tensor(0), call.integer(1), call.integer(2)
    if x is None or k is None or k < 0 or not x.shape:
        return None
    if dim is None or not -len(x.shape) <= dim < len(x.shape):
        return None
    rows = x.elements // x.shape[dim] if x.shape[dim] else 0
    size = x.element_size
    return Work(
        formula="scan.topk",
        flops=0,
        bytes_read=x.stored_bytes,
        bytes_written=None if size is None else rows * k * (size + 8),
        dtype=x.dtype,
        notes=("comparisons of a selection are not counted",),
    )


_SELECTIONS = {"aten::median": 1, "aten::nanmedian": 1, "aten::mode": 1, "aten::kthvalue": 2}


def select(call: Call, _: Conventions) -> Work | None:
    """Median, mode or k-th value of each row: reads x, writes a value (and an index) a row."""
    x = call.tensor(0)
    if x is None:
        return None
    position = _SELECTIONS[call.name]
    whole = len(call.arguments) == 1
    extent = (1, x.elements) if whole else reduced_extent(call, position, x.shape)
    size = x.element_size
    return Work(
        formula="scan.select",
        flops=0,
        bytes_read=x.stored_bytes,
        bytes_written=(
            None if size is None or extent is None else extent[0] * (size + (0 if whole else 8))
        ),
        dtype=x.dtype,
        notes=("comparisons of a selection are not counted",),
    )


def search(call: Call, _: Conventions) -> Work | None:
    """Search in sorted bounds, `bucketize(x, bounds)`: ceil(log2(bounds + 1)) comparisons a value.

    Reads values and bounds, writes int64 (or int32, where the call asks for it). `searchsorted`
    has the bounds first, one row of them or as many as rows of values.
    """
    x, bounds = call.tensor(0), call.tensor(1)
    if call.name == "aten::searchsorted":
        x, bounds = bounds, x
    if x is None or bounds is None or not bounds.shape:
        return None
    size = 4 if call.flag(2) else 8
    steps = bounds.shape[-1].bit_length()
    return Work(
        formula="scan.search",
        flops=steps * x.elements if is_float(x.dtype) else 0,
        bytes_read=total(x.stored_bytes, bounds.stored_bytes),
        bytes_written=x.elements * size,
        dtype=x.dtype,
    )


MODELS: tuple[Model, ...] = (
    Model("scan.running", tuple(_RUNNING), running),
    Model("scan.sort", aten("sort argsort msort"), sort, composites=aten("argsort msort")),
    Model("scan.topk", aten("topk"), topk),
    Model("scan.select", tuple(_SELECTIONS), select),
    Model("scan.search", aten("bucketize searchsorted"), search),
)
