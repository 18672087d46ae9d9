"""What each kernel had to do: the work of its operator's call, at the kernel that did it.

A call's work counts once. Where a call launched several kernels it stands at the one that did it, the
longest one (for products: the longest that multiplies); the others have 0. The gradients of a
convolution stand at the kernels that their names assign them to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.operator_calls import (
    Calls,
    coded,
    distinct_calls,
    distinct_rows,
    index_of,
    operators,
)
from stepscope.analysis.recording import Array
from stepscope.answers.scope import Scope
from stepscope.costs import (
    FAMILIES,
    PRODUCTS,
    Row,
    Work,
    answering,
    class_of,
    is_composite,
    kernel_class,
    model_of,
    of_row,
    tensor_core_use,
)

UNKNOWN = -1
_GRADIENTS = (
    ("dgrad", "convolution.input_gradient"),
    ("wgrad", "convolution.weight_gradient"),
)
"""What names of kernels call the gradients of a convolution, and the formula of each."""


@dataclass(frozen=True, slots=True)
class KernelWork:
    """For each kernel its FLOPs and bytes (-1: not known), and numbers of its parameters and flag.

    `params` is a place in `texts`; `tensor_cores` is a text: 1 used, 0 not used, - not eligible, na.
    """

    flops: Array
    bytes: Array
    params: Array
    texts: list[str | None]
    tensor_cores: list[str]


def kernel_work(
    scope: Scope, rank: int, operator: Array, names: Any, duration: Array
) -> KernelWork:
    """The work of each kernel of a rank.

    Args:
        operator: id of the operator that launched each kernel, -1 for none.
        names: Arrow column with the name of each kernel.
        duration: of each kernel (ns).
    """
    kernel, kernel_names = coded(names)
    calls = operators(scope, rank)
    place = index_of(calls.ids, operator)
    key = np.where(place >= 0, calls.key[place] if len(calls.key) else UNKNOWN, UNKNOWN)
    number, rows = distinct_calls(
        scope, rank, calls, _longest(key, calls, kernel, kernel_names, duration)
    )
    works = [_counted(row) for row in rows]
    owner = _owners(calls, number, rows, works)
    call = np.where(place >= 0, owner[place] if len(owner) else UNKNOWN, UNKNOWN)
    asked = np.where(call >= 0, number[call] if len(number) else UNKNOWN, UNKNOWN)

    main = _main(call, _fitting(asked, works, kernel, kernel_names), duration)
    flops = np.array([UNKNOWN if w is None else w.flops for w in works] + [UNKNOWN], np.int64)
    sizes = [UNKNOWN if w is None or w.bytes is None else w.bytes for w in works]
    known = flops[asked] >= 0
    result = KernelWork(
        flops=np.where(known, np.where(main, flops[asked], 0), UNKNOWN),
        bytes=np.where(known, np.where(main, np.array([*sizes, UNKNOWN])[asked], 0), UNKNOWN),
        params=_spoken(place, number),
        texts=[_params(row) for row in rows],
        tensor_cores=_flags(kernel, kernel_names, asked, works, rows),
    )
    _split_gradients(result, call, asked, works, kernel, kernel_names)
    return result


def _counted(row: Row) -> Work | None:
    work = of_row(row)
    return None if work is None or work.family == "view" else work


def _longest(
    key: Array, calls: Calls, kernel: Array, kernel_names: list[str], duration: Array
) -> list[str]:
    """For each distinct call its longest kernel, empty where it launched none itself."""
    order = np.argsort(duration, kind="stable")
    found = np.full(len(calls.keys) + 1, UNKNOWN, dtype=np.int64)
    found[key[order]] = kernel[order]  # what has no call writes past the end
    return [kernel_names[one] if one >= 0 else "" for one in found[:-1].tolist()]


def _owners(calls: Calls, number: Array, rows: list[Row], works: list[Work | None]) -> Array:
    if not len(number):
        return number
    countable = np.array([work is not None for work in works], bool)
    composite = np.array([is_composite(row.name) for row in rows], bool)
    return answering(calls.parent, countable[number], composite[number])


def _fitting(
    asked: Array, works: list[Work | None], kernel: Array, kernel_names: list[str]
) -> Array:
    """Which kernels are of the class of their call's work, by their names."""
    names = [_class_of_work(name) for name in kernel_names]
    pairs, which = distinct_rows(asked, kernel)

    def fits(call: int, name: str) -> bool:
        work = works[call] if call >= 0 else None
        if work is None:
            return False
        return (
            name in PRODUCTS
            if FAMILIES[work.family] in PRODUCTS
            else name == class_of(work.family, "")
        )

    return np.array([fits(call, names[one]) for call, one in pairs], bool)[which]


def _class_of_work(kernel: str) -> str:
    """A kernel's class; none for those that only prepare products or add their parts up."""
    helps = tensor_core_use(kernel).rule == "helpers that multiply nothing"
    return "" if helps else kernel_class(kernel)


def _main(call: Array, fits: Array, duration: Array) -> Array:
    """Which kernel of its call did the work: of those that fit the longest, else the longest."""
    order = np.lexsort((duration, fits, call))
    ordered = call[order]
    last = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, bool)
    main = np.zeros(len(call), dtype=bool)
    main[order[last]] = True
    return main


def _split_gradients(
    result: KernelWork,
    call: Array,
    asked: Array,
    works: list[Work | None],
    kernel: Array,
    kernel_names: list[str],
) -> None:
    """Gives each gradient of a convolution to the kernels that are named after it."""
    split = np.array(
        [
            w is not None and {p.formula for p in w.parts} >= {f for _, f in _GRADIENTS}
            for w in works
        ]
        + [False]
    )
    for rows in _grouped(call, np.flatnonzero(split[asked])):
        work = works[asked[rows[0]]]
        named = [
            (part, [row for row in rows if word in kernel_names[kernel[row]]])
            for word, formula in _GRADIENTS
            for part in (work.parts if work else ())
            if part.formula == formula
        ]
        if not all(own for _, own in named):
            continue
        result.flops[rows], result.bytes[rows] = 0, 0
        for part, own in named:
            result.flops[own[0]] = part.flops
            result.bytes[own[0]] = UNKNOWN if part.bytes is None else part.bytes


def _grouped(call: Array, chosen: Array) -> list[Array]:
    order = chosen[np.argsort(call[chosen], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(call[order])) + 1) if len(order) else []


def _spoken(place: Array, number: Array) -> Array:
    """The distinct call whose inputs describe a kernel: its operator's own."""
    return np.where(place >= 0, number[place] if len(number) else UNKNOWN, UNKNOWN)


def _flags(
    kernel: Array, kernel_names: list[str], asked: Array, works: list[Work | None], rows: list[Row]
) -> list[str]:
    """PyProf's flag for each kernel: 1 used tensor cores, 0 could have, - could not, na not known."""
    used = [tensor_core_use(name).used for name in kernel_names]
    eligible = [
        work is not None and (model := model_of(row.name)) is not None and model.is_eligible
        for work, row in zip(works, rows, strict=True)
    ]
    flags = []
    for one, row in zip(kernel.tolist(), asked.tolist(), strict=True):
        if used[one]:
            flags.append("1")
        elif row < 0:
            flags.append("na")
        else:
            flags.append(("0" if used[one] is False else "na") if eligible[row] else "-")
    return flags


def _params(row: Row) -> str | None:
    """Shapes and types of a call's inputs without spaces: `(8,128)float32,(128,256)float32,1`."""
    if row.dims is None:
        return None
    try:
        shapes = json.loads(row.dims)
        kinds = json.loads(row.types) if row.types else [""] * len(shapes)
        values = json.loads(row.values) if row.values else [""] * len(shapes)
        shown = [_param(*one) for one in zip(shapes, kinds, values, strict=True)]
    except (TypeError, ValueError, RecursionError):
        return None
    return ",".join(shown)


def _param(shape: Any, kind: Any, value: Any) -> str:
    if isinstance(shape, list) and any(isinstance(size, list) for size in shape):
        return "[" + ",".join(_param(size, "", "") for size in shape[:8]) + "]"
    if isinstance(shape, list) and shape:
        return f"({','.join(map(str, shape))}){str(kind).replace('c10::', '').replace(' ', '_')}"
    return "".join(str(value or kind or "-").split())
