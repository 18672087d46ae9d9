"""Device work beside what the operators that launched it had to do: what the questions about
efficiency are computed from.

Every kernel, copy and fill is charged to one *call*: the innermost operator with a formula that
encloses its launch (see `costs.answering`), so that no operator's work counts twice; a communication
kernel is a call of its own. Calls that are alike (operator, inputs, main kernel, device) are one
*variant*: there are thousands of them at most, and only they go through Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from stepscope.analysis.attribution import NO_OPERATOR
from stepscope.analysis.operator_calls import (
    Codes,
    coded,
    distinct_calls,
    distinct_rows,
    index_of,
    operators,
)
from stepscope.analysis.recording import WORK, Array
from stepscope.answers.scope import Scope
from stepscope.costs import (
    FAMILIES,
    PRODUCTS,
    Conventions,
    Row,
    Work,
    answering,
    class_of,
    collective,
    is_composite,
    kernel_class,
    of_row,
    tensor_core_use,
    why_not,
)
from stepscope.costs.dtype import collective_dtype

NO_STEP = -(1 << 62)
DIRECTIONS = ("", "forward", "backward", "optimizer")
_TRANSFORMS = ("winograd", "fft2d", "fft_", "_fft")


class Device(NamedTuple):
    """A kind of device: its product name and multiprocessors, None where the recording is silent."""

    name: str | None
    sm_count: int | None


@dataclass(frozen=True, slots=True)
class Variant:
    """Calls that are alike.

    Args:
        name: operator, or collective; what the work is charged to where no operator is known.
        dims: shapes of the inputs, as a JSON list.
        types: types of the inputs, as a JSON list.
        strides: strides of the inputs, as a JSON list.
        work: what each call had to do; None where it cannot be counted.
        why: why not; empty where it is counted.
        kernel: the kernel that did most of it.
        device: kind of device it ran on.
        copy_kind: direction of the copy where the call is one, else empty.
        transformed: whether it convolves in a transformed space, where fewer multiplications do.
    """

    name: str
    dims: str | None
    types: str | None
    strides: str | None
    work: Work | None
    why: str
    kernel: str
    device: Device
    copy_kind: str = ""
    transformed: bool = False


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Device work summed by what its questions tell apart.

    `rows` has one value a group: `rank`, `span`, `device`, `step` (NO_STEP for none), `module` (index
    into `modules`, -1 for none), `direction` (index into DIRECTIONS), `variant` and `kernel` (indices);
    `events`, `device_ns`; `weight`, how many calls' work the group stands for (a call's work is shared
    among its kernels of the right kind by their durations, so that weights of a variant add up to its
    calls); `shared_ns`, the duration of those that shared; `occupancy_ns` and `occupied_ns`, the
    integral of occupancy and the duration of the kernels that tell it; `work`, whether it is a kernel
    (0), a communication kernel (1) or a copy or fill (2).
    """

    variants: tuple[Variant, ...]
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    rows: dict[str, Array]

    def parts(self, group: Array) -> list[Part]:
        """The rows summed by group and variant, those with the most device time of a group first.

        Args:
            group: a number from 0 for each row.
        """
        distinct, which = distinct_rows(group, self.rows["variant"])
        sums = (
            np.bincount(which, weights=self.rows[name], minlength=len(distinct)).tolist()
            for name in _SUMMED
        )
        parts = [
            Part(one[0], one[1], round(events), round(device_ns), round(shared), *rest)
            for one, events, device_ns, shared, *rest in zip(distinct, *sums, strict=True)
        ]
        return sorted(parts, key=lambda part: (part.group, -part.device_ns, part.variant))

    @property
    def device_ns(self) -> int:
        """Summed duration of all device work."""
        return int(self.rows["device_ns"].sum())


class Part(NamedTuple):
    """What a group of rows has of a variant; see DeviceWork for the sums."""

    group: int
    variant: int
    events: int
    device_ns: int
    shared_ns: int
    weight: float
    occupancy_ns: float
    occupied_ns: float


_SUMMED = ("events", "device_ns", "shared_ns", "weight", "occupancy_ns", "occupied_ns")
_KEYS = ("rank", "span", "device", "step", "module", "direction", "variant", "kernel", "work")

_REMEMBERED: WeakKeyDictionary[Scope, dict[Conventions, DeviceWork]] = WeakKeyDictionary()


def device_work_of(scope: Scope, conventions: Conventions | None = None) -> DeviceWork:
    """The scope's device work with what its operators had to do; a scope asked again remembers."""
    asked = conventions or Conventions()
    known = _REMEMBERED.setdefault(scope, {})
    if asked not in known:
        known[asked] = _device_work(scope, asked)
    return known[asked]


def _device_work(scope: Scope, conventions: Conventions) -> DeviceWork:
    variants, kernels, modules = Codes(), Codes(), Codes()
    parts = []
    for rank, steps in _steps_of_ranks(scope).items():
        # A scope of its own reads this rank's files alone: with all ranks' it would be quadratic.
        with Scope(scope.store, [rank], steps) as own:
            parts.append(_of_rank(own, rank, conventions, variants, kernels, modules))
    names = (*_KEYS, *_SUMMED)
    rows = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.zeros(0, np.int64)
        for name in names
    }
    return DeviceWork(
        tuple(variants.of),  # type: ignore[arg-type]  # keys are what was numbered
        tuple(kernels.of),  # type: ignore[arg-type]
        tuple(modules.of),  # type: ignore[arg-type]
        rows,
    )


def _steps_of_ranks(scope: Scope) -> dict[int, tuple[int, ...] | None]:
    """The asked steps that each rank has, None where all are asked for."""
    if scope.steps is None:
        return dict.fromkeys(scope.ranks)
    rows = scope.sql("SELECT DISTINCT rank, step FROM step ORDER BY ALL").to_pylist()
    return {rank: tuple(row["step"] for row in rows if row["rank"] == rank) for rank in scope.ranks}


_EVENTS = f"""
    SELECT
        work.span, work.device, work.name, work.dur_ns, work.kind,
        coalesce(work.operator_id, -1) AS operator_id,
        coalesce(module.path, '') AS module,
        CASE work.direction WHEN 'forward' THEN 1 WHEN 'backward' THEN 2 WHEN 'optimizer' THEN 3
            ELSE 0 END::TINYINT AS direction,
        coalesce(work.step, {NO_STEP}) AS step,
        coalesce(work.occupancy_ratio, 'nan'::DOUBLE) AS occupancy,
        coalesce(work.copy_kind, '') AS copy_kind,
        CASE
            WHEN work.graph_id IS NOT NULL THEN 'CUDA graph ' || work.graph_id || ' (unattributed)'
            WHEN graph_launch.id IS NOT NULL THEN 'CUDA graph (unattributed)'
            ELSE '{NO_OPERATOR}'
        END AS orphan,
        collective.operation, collective.dtype, collective.elements_in, collective.elements_out,
        collective.group_size
    FROM (SELECT * FROM device_event WHERE rank = $rank AND {WORK}) AS work
    LEFT JOIN (SELECT * FROM module WHERE rank = $rank) AS module
        ON (module.span, module.module_id) = (work.span, work.module_id)
    LEFT JOIN (SELECT id FROM host_event WHERE rank = $rank AND role = 'graph_launch')
        AS graph_launch ON graph_launch.id = work.launch_id
    LEFT JOIN (SELECT * FROM collective WHERE rank = $rank) AS collective
        ON collective.id = work.id
    ORDER BY work.start_ns, work.id
"""


def _longest(group: Array, groups: int, kernel: Array, weight: Array) -> Array:
    """For each group the kernel of its event with the largest weight, -1 where it has no event."""
    order = np.argsort(weight, kind="stable")
    result = np.full(groups + 1, -1, dtype=np.int64)
    result[group[order]] = kernel[order]  # the last one written stays; group -1 writes past the end
    return result[:groups]


def _is_product(kernel: str) -> bool:
    use = tensor_core_use(kernel)
    return kernel_class(kernel) in PRODUCTS and use.rule != "helpers that multiply nothing"


def _has_transform(kernel: str) -> bool:
    name = kernel.lower()
    return any(word in name for word in _TRANSFORMS)


def _of_rank(
    scope: Scope,
    rank: int,
    conventions: Conventions,
    variants: Codes,
    kernels: Codes,
    modules: Codes,
) -> dict[str, Array]:
    events = scope.sql(_EVENTS, {"rank": rank})
    count = events.num_rows
    kernel, kernel_names = coded(events.column("name"))
    duration = events.column("dur_ns").to_numpy()
    calls = operators(scope, rank)
    operator = index_of(calls.ids, events.column("operator_id").to_numpy())
    own_key = np.where(operator >= 0, calls.key[operator] if len(calls.key) else -1, -1)
    main = _longest(own_key, len(calls.keys), kernel, duration)
    number, rows = distinct_calls(
        scope, rank, calls, [kernel_names[k] if k >= 0 else "" for k in main]
    )
    works = [of_row(row, conventions) for row in rows]
    countable = np.array([work is not None and work.family != "view" for work in works], bool)
    composite = np.array([is_composite(row.name) for row in rows], bool)
    if len(number):
        owner = answering(calls.parent, countable[number], composite[number])
    else:
        owner = np.zeros(0, np.int64)

    # A call is an operator's place, or lies behind the last one for what has no operator.
    answers = np.where(operator >= 0, owner[operator] if len(owner) else -1, -1)
    call = np.where(answers >= 0, answers, operator)
    kind, kinds = coded(events.column("kind"))
    communication = np.array([name == "communication" for name in kinds], bool)[kind]
    moving = np.array([name in ("copy", "fill") for name in kinds], bool)[kind]
    collectives, collective_rows = _collectives(events, communication)
    orphan, orphans = coded(events.column("orphan"))
    alone = (call < 0) | (collectives >= 0)
    call = np.where(alone, len(calls.ids) + np.arange(count), call)
    what = Codes()
    for row_number in range(len(rows)):
        what(("row", row_number))
    row_of = number[np.where(alone, 0, call)] if len(number) else np.zeros(count, np.int64)
    loose = what.all(("orphan", name) for name in orphans)[orphan] if count else orphan
    joint = what.all(("collective", place) for place in range(len(collective_rows)))
    thing = np.where(alone, loose, row_of)
    if len(joint):
        thing = np.where(collectives >= 0, joint[collectives], thing)

    families = [work.family if work is not None else "" for work in works]
    matrix = np.zeros(len(what.of), dtype=bool)
    matrix[: len(families)] = [FAMILIES.get(family) in PRODUCTS for family in families]
    product = np.array([_is_product(name) for name in kernel_names], bool)
    alike, call = distinct_rows(call)
    share, shared = _shares(
        call, duration, np.where(matrix[thing], product[kernel], ~moving) if count else moving
    )
    doing = np.where(share > 0, duration, -1)
    main_kernel = _longest(call, len(alike), kernel, doing)[call]
    device, kinds_of_device = _devices(scope, rank, events)
    copy_kind, copy_kinds = coded(events.column("copy_kind"))
    told = np.where(moving & (main_kernel == kernel), copy_kind, -1)
    copied = np.full(len(alike), -1, dtype=np.int64)
    copied[call[told >= 0]] = told[told >= 0]

    transforms = np.array([_has_transform(name) for name in kernel_names], bool)[kernel]
    transformed = np.bincount(call, weights=transforms, minlength=len(alike)) > 0
    things: list[Any] = list(what.of)

    def variant(one: tuple[int, ...]) -> Variant:
        thing_number, kernel_number, device_number, copied_number, in_transform = one
        name, row, work, why = _told(things[thing_number], rows, works, collective_rows)
        return Variant(
            name,
            row.dims,
            row.types,
            row.strides,
            work,
            why,
            kernel_names[kernel_number],
            kinds_of_device[device_number],
            copy_kinds[copied_number] if copied_number >= 0 else "",
            bool(in_transform) and work is not None and work.family == "convolution",
        )

    distinct, which = distinct_rows(
        thing, main_kernel, device, copied[call], transformed.astype(np.int64)[call]
    )
    variant_code = variants.all(variant(one) for one in distinct)
    module, module_names = coded(events.column("module"))
    module_code = np.array([modules(name) if name else -1 for name in module_names], np.int64)
    occupancy = events.column("occupancy").to_numpy()
    occupied = occupancy >= 0  # false for NaN
    columns = {
        "rank": np.full(count, rank, np.int64),
        "span": events.column("span").to_numpy().astype(np.int64),
        "device": events.column("device").to_numpy().astype(np.int64),
        "step": events.column("step").to_numpy(),
        "module": module_code[module] if count else module,
        "direction": events.column("direction").to_numpy().astype(np.int64),
        "variant": variant_code[which] if count else kernel,
        "kernel": kernels.all(kernel_names)[kernel] if count else kernel,
        "work": np.where(communication, 1, np.where(moving, 2, 0)),
        "events": np.ones(count, np.int64),
        "device_ns": duration,
        "shared_ns": np.where(shared, duration, 0),
        "weight": share,
        "occupancy_ns": np.where(occupied, occupancy * duration, 0.0),
        "occupied_ns": np.where(occupied, duration, 0),
    }
    return _grouped(columns)


def _told(
    thing: Any,
    rows: list[Row],
    works: list[Work | None],
    collectives: list[tuple[Any, ...]],
) -> tuple[str, Row, Work | None, str]:
    """Name, inputs and work of what an event is charged to, and why its work is not counted."""
    sort, which = thing
    if sort == "row":
        row, work = rows[which], works[which]
        why = (
            "" if work is not None and work.family != "view" else (why_not(row) or "moves nothing")
        )
        return row.name, row, work if not why else None, why
    if sort == "orphan":
        return which, Row(which), None, "no operator known"
    operation, dtype, given, got, size = collectives[which]
    kind = collective_dtype(dtype)
    work = collective(operation, kind, given, got, size)
    dims, types = f"[[{given}]]", f'["{dtype or ""}"]'
    return operation, Row(operation, dims, types), work, "" if work is not None else "no formula"


def _collectives(events: Any, communication: Array) -> tuple[Array, list[tuple[Any, ...]]]:
    """For each event the number of its distinct collective (-1: none recorded), and these."""
    result = np.full(len(communication), -1, dtype=np.int64)
    names = ("operation", "dtype", "elements_in", "elements_out", "group_size")
    places = np.flatnonzero(communication)
    codes = Codes()
    if places.size:
        listed = events.select(list(names)).take(places)
        told = zip(*(listed.column(name).to_pylist() for name in names), strict=True)
        for place, one in zip(places.tolist(), told, strict=True):
            if one[0] is not None and one[2] is not None and one[3] is not None:
                result[place] = codes(one)
    return result, list(codes.of)  # type: ignore[arg-type]


def _shares(call: Array, duration: Array, fits: Array) -> tuple[Array, Array]:
    """The part of its call's work that each event did, and whether it shared it with others.

    Events that fit do it, by duration; all do where none fits, equally where none lasted.
    """
    calls = int(call.max()) + 1 if len(call) else 0
    doing = fits | (np.bincount(call, weights=fits, minlength=calls) == 0)[call]
    several = np.bincount(call, weights=doing, minlength=calls)[call]
    lasted = np.bincount(call, weights=np.where(doing, duration, 0), minlength=calls)[call]
    even = 1.0 / np.maximum(several, 1)
    share = np.where(lasted > 0, duration / np.maximum(lasted, 1), even)
    return np.where(doing, share, 0.0), doing & (several > 1)


def _devices(scope: Scope, rank: int, events: Any) -> tuple[Array, list[Device]]:
    rows = scope.sql("SELECT device, name, sm_count FROM device WHERE rank = $rank", {"rank": rank})
    listed = zip(*(rows.column(c).to_pylist() for c in rows.column_names), strict=True)
    known = {number: Device(name, sm_count) for number, name, sm_count in listed}
    # Recorders of AMD's devices number them by node in one place and by process in another: where all
    # that the process saw are alike, one without a name is like them.
    named = {device for device in known.values() if device.name is not None}
    other = named.pop() if len(named) == 1 else Device(None, None)
    numbers, which = np.unique(events.column("device").to_numpy(), return_inverse=True)
    found = (known.get(number, other) for number in numbers.tolist())
    return which.reshape(-1), [other if device.name is None else device for device in found]


def _grouped(columns: dict[str, Array]) -> dict[str, Array]:
    """Rows that differ in no key become one."""
    distinct, which = distinct_rows(*(columns[name] for name in _KEYS))
    keys = zip(*distinct, strict=True) if distinct else [()] * len(_KEYS)
    grouped = {name: np.array(key, dtype=np.int64) for name, key in zip(_KEYS, keys, strict=True)}
    for name in _SUMMED:
        # Doubles hold sums of ns exactly up to a hundred days.
        total = np.bincount(which, weights=columns[name], minlength=len(distinct))
        grouped[name] = total if columns[name].dtype == np.float64 else total.astype(np.int64)
    return grouped


def classes_of(found: DeviceWork) -> Array:
    """Class of work of each row, as a place in `costs.CLASSES`.

    By the operator's family first, else by the kernel's name. What an optimizer's step launched is
    the optimizer's, except products, communication, copies and fills.
    """
    from stepscope.costs import CLASSES

    place = {name: number for number, name in enumerate(CLASSES)}
    pairs, which = distinct_rows(found.rows["variant"], found.rows["kernel"])

    def named(variant: int, kernel: int) -> int:
        work = found.variants[variant].work
        return place[class_of(None if work is None else work.family, found.kernels[kernel])]

    by_pair = np.array([named(*pair) for pair in pairs], np.int64)
    result = by_pair[which]
    kept = [place[name] for name in (*PRODUCTS, "communication")]
    stepping = (found.rows["direction"] == DIRECTIONS.index("optimizer")) & (
        found.rows["work"] == 0
    )
    return np.where(stepping & ~np.isin(result, kept), place["optimizer"], result)
