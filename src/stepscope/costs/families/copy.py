"""Copies, casts, fills and random numbers: elements written, nothing computed."""

from __future__ import annotations

import math

from stepscope.costs.call import Call, Scalar, Tensor
from stepscope.costs.dtype import scalar_type
from stepscope.costs.work import Conventions, Model, Models, Work, by_name, dense, sized, stored

MODELS = Models()


@MODELS.add("copy.copy", "copy_")
def copy(call: Call, _: Conventions) -> Work | None:
    """Copy into a tensor, `copy_(to, from)`: reads the source once as stored, writes the target. Types may differ (a
    cast), and the source may broadcast. A copy between host and device counts the same bytes, on whichever side of the
    link."""
    to, source = call.given(0, 1)
    return Work("copy.copy", 0, stored(source), dense(to), to.dtype)


_CASTS = "to _to_copy clone contiguous lift_fresh_copy"
_CAST_TYPE: dict[str, int] = {"aten::_to_copy": 1, "aten::to": 1}


@MODELS.add("copy.cast", _CASTS, composites=_CASTS)
def cast(call: Call, _: Conventions) -> Work | None:
    """New tensor with the same elements, `clone`, `contiguous`, `to`, `_to_copy`: reads and writes n. The written type
    is the one that the call names, else that of the source. torch dispatches all of them to `copy_`, where they are
    counted, and some calls copy nothing at all."""
    (x,) = call.given(0)
    out = x.dtype
    if call.name in _CAST_TYPE:
        position = _CAST_TYPE[call.name]
        other = call.tensor(position)
        if other is not None:
            out = other.dtype
        elif isinstance(call.argument(position), Scalar):
            out = scalar_type(call.integer(position))
            if out is None:
                out = scalar_type(call.integer(2))
    return Work("copy.cast", 0, stored(x), sized(x.elements, out), out)


@MODELS.add("copy.to_host", "_local_scalar_dense item", composites="item")
def to_host(call: Call, _: Conventions) -> Work | None:
    """Copy of one element to the host, `_local_scalar_dense(x)`, which `.item()` calls."""
    (x,) = call.given(0)
    return Work("copy.to_host", 0, dense(x), dense(x), x.dtype) if x.elements == 1 else None


@MODELS.add("fill.fill", "fill_ zero_")
def fill(call: Call, _: Conventions) -> Work | None:
    """Fill in place, `fill_(x, value)` and `zero_(x)`: writes x."""
    (x,) = call.given(0)
    return Work("fill.fill", 0, 0, dense(x), x.dtype)


_LIKE = by_name(("full_like", 2), ("zeros_like ones_like rand_like randn_like", 1), ("randint_like", 2))
_SIZED = by_name(
    ("full", (0, 2, "float32")),
    ("zeros ones rand randn", (0, 1, "float32")),
    ("new_zeros new_ones", (1, 2, "")),
    ("new_full", (1, 3, "")),
)


def _family(name: str) -> str:
    return "random" if "rand" in name else "fill"


def filled_like(call: Call, _: Conventions) -> Work | None:
    """New tensor of another one's shape, `zeros_like(x)`: writes n elements of the requested type."""
    (x,), dtype = call.given(0), call.argument(_LIKE[call.name])
    out = scalar_type(call.integer(_LIKE[call.name])) if isinstance(dtype, Scalar) else x.dtype
    return Work(f"{_family(call.name)}.like", 0, 0, sized(x.elements, out), out)


def filled(call: Call, _: Conventions) -> Work | None:
    """New tensor of a given size, `zeros(size)`, `full(size, value)`, `rand(size)`: writes it."""
    position, dtype_at, default = _SIZED[call.name]
    sizes = call.integers(position)
    if sizes is None or any(size < 0 for size in sizes):
        return None
    like = call.tensor(0)
    dtype = call.argument(dtype_at)
    out: str | None = default or (like.dtype if like is not None else None)
    if isinstance(dtype, Scalar):
        out = scalar_type(call.integer(dtype_at))
    elif call.name == "aten::full" and not isinstance(call.value(1), float):
        value = call.value(1)
        out = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else None
    written = sized(math.prod(sizes), out)
    return Work(f"{_family(call.name)}.sized", 0, 0, written, out)


MODELS += (
    Model(f"{family}.{what}", names, count, composites=names)
    for family in ("fill", "random")
    for what, count, rows in (("like", filled_like, _LIKE), ("sized", filled, _SIZED))
    for names in [tuple(name for name in rows if _family(name) == family)]
)


@MODELS.add("fill.sequence", "arange")
def sequence(call: Call, _: Conventions) -> Work | None:
    """Numbers in equal steps, `arange(start, end, step)` into a tensor: writes it. Counted if the recorded ends and
    step show how many numbers there are."""
    numbers = []
    for argument in call.arguments[:3]:
        if isinstance(argument, Scalar) and isinstance(argument.value, (int, float)):
            numbers.append(argument.value)
        else:
            break
    if not numbers:
        return None
    start, end = (0.0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else 1
    if step == 0 or not all(math.isfinite(number) for number in (start, end, step)):
        return None
    count = max(0, math.ceil((end - start) / step))
    targets = [argument for argument in call.arguments if isinstance(argument, Tensor)]
    out = targets[0].dtype if targets else None
    if out is None:
        out = "float32" if any(isinstance(number, float) for number in numbers) else "int64"
    return Work("fill.sequence", 0, 0, sized(count, out), out)


@MODELS.add("random.in_place", "normal_ uniform_ bernoulli_ random_ exponential_ geometric_ cauchy_ log_normal_")
def random_in_place(call: Call, _: Conventions) -> Work | None:
    """Random numbers in place, `normal_(x, ...)`: writes x. Generating the numbers is not counted."""
    (x,) = call.given(0)
    return Work("random.in_place", 0, stored(call.tensor(1)), dense(x), x.dtype)


@MODELS.add("random.from_rates", "bernoulli poisson")
def random_from(call: Call, _: Conventions) -> Work | None:
    """Random numbers with given rates, `bernoulli(p)`: reads the rates, writes as many numbers."""
    (x,) = call.given(0)
    return Work("random.from_rates", 0, stored(x), dense(x), x.dtype)
