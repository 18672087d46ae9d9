"""Device work beside the operations and bytes of its operators, for the questions about efficiency.

Calls (`charging`) with the same operator, inputs, main kernel and device are one *variant*; only these few thousand are
handled in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stepscope.analysis.kernels.measured import Joined, joined_kernels
from stepscope.analysis.operators.calls import Codes, coded, distinct_rows
from stepscope.analysis.operators.charging import DIRECTIONS, Charges, WorkInPart, charges_of, work_in_part
from stepscope.analysis.recording import Array, every_step, once
from stepscope.base.units import ratio_text
from stepscope.costs import CLASSES, NOT_RECORDED, PRODUCTS, Conventions, Work, class_of, tensor_core_use
from stepscope.formats.vocabulary import unknown_model
from stepscope.link.columns import places
from stepscope.query.scope import Scope

_MUCH = 0.05
"""Share of device time from which missing operator inputs are reported."""
_TRANSFORMS = ("winograd", "fft2d", "fft_", "_fft")


class Device(NamedTuple):
    """A kind of device: its product name and multiprocessors, None if not recorded."""

    name: str | None
    sm_count: int | None


@dataclass(frozen=True, slots=True)
class Variant:
    """Calls with the same operator, inputs, main kernel and device.

    Args:
        name: operator or collective, or what the work is charged to without one.
        dims, types, strides: JSON lists of the inputs.
        work: the work of each call; None if not counted, and `why`.
        kernel: the kernel that did most of it.
        copy_kind: direction of a copy, else empty.
        transformed: convolves in a transformed space, with fewer multiplications.
        first: counts calls: false for all but one of the parts that different kernels did.
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
    first: bool = True


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Device work summed by the values that its questions distinguish.

    `rows` has a value per group: `rank`, `span`, `device`, `step` (NO_STEP), `module` (index, -1), `direction` (index
    in DIRECTIONS), `variant`, `kernel` (indices), `work` (0 kernel, 1 communication, 2 copy or fill); `events`,
    `device_ns`; `weight`, the number of calls whose work it did (weights of a variant add up to its calls);
    `shared_ns`, duration of events that shared their work; `occupancy_ns` and `occupied_ns`, the integral of occupancy
    and its duration; `counted_...` and `counted_..._ns`, what counters counted, and its duration.
    """

    variants: tuple[Variant, ...]
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    rows: dict[str, Array]

    def parts(self, group: Array) -> list[Part]:
        """Sums the rows by `group` (a number from 0 per row) and variant; within a group, most device time first."""
        distinct, which = distinct_rows(group, self.rows["variant"])
        sums = (np.bincount(which, weights=self.rows[name], minlength=len(distinct)).tolist() for name in _SUMMED)
        parts = [
            Part(key[0], key[1], round(events), round(device_ns), round(shared), *other_sums)
            for key, events, device_ns, shared, *other_sums in zip(distinct, *sums, strict=True)
        ]
        return sorted(parts, key=lambda part: (part.group, -part.device_ns, part.variant))

    def by_key(self, keys: Codes, group: Array) -> dict[Any, list[Part]]:
        """The parts of the rows of each key, in the order of their numbers; `group` is each row's key."""
        parts_of: list[list[Part]] = [[] for _ in keys.of]
        for part in self.parts(group):
            parts_of[part.group].append(part)
        return dict(zip(keys.of, parts_of, strict=True))

    @property
    def device_ns(self) -> int:
        """Summed duration of all device work."""
        return int(self.rows["device_ns"].sum())

    @property
    def not_recorded(self) -> str:
        """Says how much of its work is not counted because inputs were not recorded; empty if it is little."""
        lacking = np.array([variant.why == NOT_RECORDED for variant in self.variants], dtype=bool)
        ns = int(self.rows["device_ns"][lacking[self.rows["variant"]]].sum()) if len(lacking) else 0
        if ns <= _MUCH * self.device_ns:
            return ""
        return (
            f"Of operators with {ratio_text(ns / self.device_ns)} of the device time the inputs were not recorded, so that "
            "their work is not counted: record them with record_shapes=True."
        )


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
    counted_flops: float = 0.0
    counted_flops_ns: float = 0.0
    counted_dram_bytes: float = 0.0
    counted_dram_bytes_ns: float = 0.0
    counted_l2_bytes: float = 0.0
    counted_l2_bytes_ns: float = 0.0
    counted_l1_bytes: float = 0.0
    counted_l1_bytes_ns: float = 0.0


COUNTED = ("flops", "dram_bytes", "l2_bytes", "l1_bytes")
"""What hardware counters may have counted: operations, bytes of each memory."""
_SUMMED = (
    *("events", "device_ns", "shared_ns", "weight", "occupancy_ns", "occupied_ns"),
    *(name for counter in COUNTED for name in (f"counted_{counter}", f"counted_{counter}_ns")),
)
_KEYS = ("rank", "span", "device", "step", "module", "direction", "variant", "kernel", "work")


def device_work_of(scope: Scope, conventions: Conventions | None = None) -> DeviceWork:
    """The scope's device work with the work of its operators; cached in the scope."""
    return _device_work(scope, conventions or Conventions())


@once
def _device_work(scope: Scope, conventions: Conventions) -> DeviceWork:
    variants, kernels, modules = Codes(), Codes(), Codes()
    with every_step(scope) as all_steps:
        joined = joined_kernels(all_steps)
    parts = []
    for rank, steps in _steps_of_ranks(scope).items():
        with scope.of_rank(rank, steps) as rank_scope:
            charges = charges_of(rank_scope, rank, conventions)
            parts.append(
                _of_rank(rank_scope, rank, charges, work_in_part(scope, rank), variants, kernels, modules, joined)
            )
    names = (*_KEYS, *_SUMMED)
    rows = {name: np.concatenate([part[name] for part in parts]) if parts else np.zeros(0, np.int64) for name in names}
    of_variants, of_kernels, of_modules = (tuple(codes.of) for codes in (variants, kernels, modules))
    return DeviceWork(of_variants, of_kernels, of_modules, rows)  # type: ignore[arg-type]  # keys are what was numbered


def _steps_of_ranks(scope: Scope) -> dict[int, tuple[int, ...] | None]:
    if scope.steps is None:
        return dict.fromkeys(scope.ranks)
    rows = scope.sql("SELECT DISTINCT rank, step FROM step ORDER BY ALL").to_pylist()
    return {rank: tuple(row["step"] for row in rows if row["rank"] == rank) for rank in scope.ranks}


def _has_transform(kernel: str) -> bool:
    name = kernel.lower()
    return any(word in name for word in _TRANSFORMS)


def _of_rank(
    scope: Scope,
    rank: int,
    charges: Charges,
    part: WorkInPart | None,
    variants: Codes,
    kernels: Codes,
    modules: Codes,
    joined: Joined,
) -> dict[str, Array]:
    events, kernel, call, duration = charges.events, charges.kernel, charges.call, charges.duration
    count = events.num_rows
    calls = int(call.max(initial=-1)) + 1
    device, kinds_of_device = _devices(scope, rank, events)
    copy_kind, copy_kinds = coded(events.column("copy_kind"))
    main = charges.main()
    copy_code = np.where(charges.moving & (main == kernel), copy_kind, -1)
    copied = np.full(calls, -1, dtype=np.int64)
    copied[call[copy_code >= 0]] = copy_code[copy_code >= 0]
    transforms = np.array([_has_transform(name) for name in charges.kernels], bool)[kernel]
    transformed = np.bincount(call, weights=transforms, minlength=calls) > 0

    def variant(key: tuple[int, ...]) -> Variant:
        thing, main_kernel, device_number, copied_number, in_transform = key
        name, row, work, why, first = charges.things[thing]
        copied_as = copy_kinds[copied_number] if copied_number >= 0 else ""
        convolves = bool(in_transform) and work is not None and work.family == "convolution"
        texts = (row.dims, row.types, row.strides)
        device = kinds_of_device[device_number]
        return Variant(name, *texts, work, why, charges.kernels[main_kernel], device, copied_as, convolves, first)

    distinct, which = distinct_rows(charges.thing, main, device, copied[call], transformed.astype(np.int64)[call])
    variant_code = variants.all(variant(counter) for counter in distinct)
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
        "kernel": kernels.all(charges.kernels)[kernel] if count else kernel,
        "work": np.where(charges.communication, 1, np.where(charges.moving, 2, 0)),
        "events": np.ones(count, np.int64),
        "device_ns": duration,
        "shared_ns": np.where(charges.shared, duration, 0),
        "weight": charges.share,
        "occupancy_ns": np.where(occupied, occupancy * duration, 0.0),
        "occupied_ns": np.where(occupied, duration, 0),
        **_counted(joined, rank, events.column("id").to_numpy(), duration, charges, kernel),
    }
    if part is not None:
        rows, ns = part.of(events.column("id").to_numpy())
        complete_ns = np.maximum(duration[rows], 1)
        columns = {name: values[rows] for name, values in columns.items()}
        columns["device_ns"] = ns
        counted = [name for name in columns if name.startswith("counted_")]
        spans = [name for name in counted if name.endswith("_ns")]
        for name in ("shared_ns", "occupied_ns", *spans):
            columns[name] = np.where(columns[name] > 0, ns, 0)
        for name in ("weight", "occupancy_ns", *(name for name in counted if name not in spans)):
            columns[name] = np.where(ns == duration[rows], columns[name], columns[name] * ns / complete_ns)
    return _grouped(columns)


def _counted(
    joined: Joined, rank: int, ids: Array, duration: Array, charges: Charges, kernel: Array
) -> dict[str, Array]:
    """What counters counted of each piece of work; 0, of 0 ns, if they did not."""
    rows = np.flatnonzero(joined.rank == rank)
    rows = rows[np.argsort(joined.id[rows])]
    at = places(joined.id[rows], ids)
    on_tensor_cores = np.array(
        [tensor_core_use(name, None).used for name in charges.kernels] if len(rows) else [], bool
    )
    columns = {}
    for counter in COUNTED:
        values = np.full(len(ids), np.nan)
        if len(rows):
            values = np.where(at >= 0, joined.figure(counter)[rows][at], np.nan)
            if counter == "flops":
                # Without the counters of their paths, the work of tensor cores is missing from the others' sums.
                paths = np.where(at >= 0, joined.figure("tensor_operations")[rows][at], np.nan)
                values = np.where(on_tensor_cores[kernel] & ~(paths > 0), np.nan, values)
        measured = np.isfinite(values)
        columns[f"counted_{counter}"] = np.where(measured, values, 0.0)
        columns[f"counted_{counter}_ns"] = np.where(measured, duration, 0)
    return columns


def _devices(scope: Scope, rank: int, events: Any) -> tuple[Array, list[Device]]:
    query = "SELECT device, kind, name, sm_count FROM device WHERE rank = $rank"
    rows = scope.sql(query, {"rank": rank}).to_pylist()
    named_devices = {row["device"]: Device(row["name"], row["sm_count"]) for row in rows}
    kinds = {row["device"]: row["kind"] for row in rows}
    # Recorders of AMD's devices number them by node in one place and by process in another: if all
    # that the process saw are alike, one without a name is like them.
    named = {device for device in named_devices.values() if device.name is not None}
    other = named.pop() if len(named) == 1 else Device(None, None)
    numbers, which = np.unique(events.column("device").to_numpy(), return_inverse=True)
    devices = []
    for number in numbers.tolist():
        device = named_devices.get(number, other)
        device = other if device.name is None else device
        if device.name is None and number in kinds:
            device = named_devices[number]._replace(name=unknown_model(kinds[number]))
        devices.append(device)
    return which.reshape(-1), devices


def _grouped(columns: dict[str, Array]) -> dict[str, Array]:
    distinct, which = distinct_rows(*(columns[name] for name in _KEYS))
    keys = zip(*distinct, strict=True) if distinct else [()] * len(_KEYS)
    grouped = {name: np.array(key, dtype=np.int64) for name, key in zip(_KEYS, keys, strict=True)}
    for name in _SUMMED:
        # Doubles hold sums of ns exactly up to a hundred days.
        total = np.bincount(which, weights=columns[name], minlength=len(distinct))
        grouped[name] = total if columns[name].dtype == np.float64 else total.astype(np.int64)
    return grouped


def classes_of(work: DeviceWork) -> Array:
    """Class of work of each row, an index in `costs.CLASSES`: by the operator's family, else by the kernel's name.

    Work launched in an optimizer's step is the optimizer's, except products, communication, copies and fills.
    """
    rows = work.rows
    works = [variant.work for variant in work.variants]
    kernel_work = rows["work"] == 0
    return _classes(rows["variant"], works, rows["kernel"], work.kernels, rows["direction"], kernel_work)


def classes_of_events(scope: Scope, rank: int) -> tuple[Array, Array]:
    """Ids of a rank's device work, and the class of work of each, as in `classes_of`."""
    with scope.of_rank(rank, all_times=True) as rank_scope:
        charges = charges_of(rank_scope, rank, Conventions())
    works = [thing.work for thing in charges.things]
    direction = charges.events.column("direction").to_numpy()
    computes = ~charges.communication & ~charges.moving
    places = _classes(charges.thing, works, charges.kernel, charges.kernels, direction, computes)
    return charges.events.column("id").to_numpy(), places


def _classes(
    thing: Array, works: Sequence[Work | None], kernel: Array, kernels: Sequence[str], direction: Array, computes: Array
) -> Array:
    place = {name: number for number, name in enumerate(CLASSES)}
    pairs, which = distinct_rows(thing, kernel)

    def named(thing_number: int, name: int) -> int:
        work = works[thing_number]
        return place[class_of(None if work is None else work.family, kernels[name])]

    result = np.array([named(*pair) for pair in pairs], np.int64)[which]
    fixed = [place[name] for name in (*PRODUCTS, "communication")]
    stepping = (direction == DIRECTIONS.index("optimizer")) & computes
    return np.where(stepping & ~np.isin(result, fixed), place["optimizer"], result)
