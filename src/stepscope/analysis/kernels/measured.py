"""Joins a recording's kernels with counters that another run measured.

A profiler that counts runs each kernel alone and several times, often only some of them. A measured launch is matched
with the recording's kernel of the same name, however spelled, grid and block. Among equal launches order decides: the
n-th measured is the n-th that ran if the numbers agree; if each step has as many as were measured, or that divided by
an integer, the position in the step counts; otherwise all get their mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.kernels.counters import Measurement, measurements_of, weighted_means
from stepscope.analysis.recording import Array, every_step, once
from stepscope.base.kernel_spelling import kernel_key
from stepscope.base.units import count_text, plural, ratio_text
from stepscope.query.scope import Scope

ORDER, PLACE, SHAPE = "order", "place in the step", "name and shape"
"""How launches of the same name and shape were told apart."""


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """Measured launches of one name and shape.

    Args:
        rank: of the recording with these kernels, else the rank that measured.
        name: as the recording spells it, else as the tool does.
        grid, block: x,y,z; a number if only that was measured.
        measured: the measurements, in order.
        values: by kind; means over the recording's kernels, else over the measurements.
        count: kernels of the recording that these were joined to.
        device_ns: their summed duration, else as measured; None if unknown.
        operator: operator of the recording that spent most time in them.
        rule: ORDER, PLACE or SHAPE; None if no kernel of the recording matches.
    """

    rank: int
    name: str
    grid: str | None
    block: str | None
    measured: tuple[Measurement, ...]
    values: dict[str, float]
    count: int
    device_ns: int | None
    operator: str | None
    rule: str | None

    @property
    def launches(self) -> int:
        """The number of measured launches."""
        return sum(launch.launches for launch in self.measured)


@dataclass(frozen=True, slots=True)
class Joined:
    """The measurements, joined to the recording's kernels.

    Args:
        kernels: by name and shape, those with the most time first.
        rank, id: of each joined kernel of the recording.
        measurement: of each, the measurement with its values; -1 for the mean of its name and shape.
        kernel: of each, its index in `kernels`.
        ran, ran_ns: computing kernels of the recording and their summed duration; 0 if nothing was measured.
    """

    kernels: tuple[MeasuredKernel, ...]
    rank: Array
    id: Array
    measurement: Array
    kernel: Array
    measurements: tuple[Measurement, ...]
    ran: int
    ran_ns: int

    @property
    def missing(self) -> tuple[MeasuredKernel, ...]:
        """Measured kernels that did not run in the recording."""
        return tuple(kernel for kernel in self.kernels if kernel.rule is None)

    def figure(self, kind: str) -> Array:
        """A value of each joined kernel of the recording; NaN if it was not measured."""
        nan = float("nan")
        of_kernel = np.array([item.values.get(kind, nan) for item in self.kernels] or [nan])
        of_launch = np.array([item.values.get(kind, nan) for item in self.measurements] or [nan])
        return np.where(self.measurement >= 0, of_launch[self.measurement], of_kernel[self.kernel])

    def describe(self) -> str:
        """Describes for people what was joined and what was not; empty if nothing was measured."""
        if not self.kernels:
            return ""
        launches = sum(kernel.launches for kernel in self.kernels)
        tools = Counter(m.tool for kernel in self.kernels for m in kernel.measured)
        text = f"{_some(launches, 'launch')} of {_some(len(self.kernels), 'kernel')} measured by {', '.join(sorted(tools))}"
        if not self.ran:
            return f"{text}; the recording has no kernels to join them to."
        rules = Counter(kernel.rule for kernel in self.kernels if kernel.rule)
        how = ", ".join(f"{count} by {rule}" for rule, count in rules.most_common())
        joined_ns = sum(kernel.device_ns or 0 for kernel in self.kernels if kernel.rule)
        lines = [
            f"{text}. Joined to {count_text(len(self.id))} of {count_text(self.ran)} kernels of the recording "
            f"({ratio_text(joined_ns / self.ran_ns if self.ran_ns else 0)} of their time)"
            + (f": {how}." if how else ".")
        ]
        if self.missing:
            names = ", ".join(sorted({kernel.name for kernel in self.missing})[:3])
            more = len(self.missing) - 3
            lines.append(
                f"Measured and not in the recording: {_some(sum(kernel.launches for kernel in self.missing), 'launch')} "
                f"({names}{f', and {more} more' if more > 0 else ''})."
            )
        return " ".join(lines)


def _some(count: int, word: str) -> str:
    return f"{count_text(count)} {plural(count, word)}"


def joined_note(scope: Scope) -> str:
    """Describes for people what was joined in all steps of a scope; empty if nothing was measured."""
    with every_step(scope) as all_steps:
        return joined_kernels(all_steps).describe()


@dataclass(slots=True)
class _Class:
    """Kernels of a rank of the recording that are alike in name, grid and block."""

    rank: int
    name: str
    key: tuple[str, tuple[str, ...]]
    grid: str
    block: str
    blocks: int
    threads: int

    def fits(self, launch: Measurement) -> bool:
        """Whether a measured launch has this shape, as far as it was measured."""
        return (
            launch.grid in (None, self.grid)
            and launch.block in (None, self.block)
            and launch.blocks in (None, self.blocks)
            and launch.threads in (None, self.threads)
        )


_SHAPES = """
    coalesce(grid_x, 0) || ',' || coalesce(grid_y, 1) || ',' || coalesce(grid_z, 1) AS grid,
    coalesce(block_x, 0) || ',' || coalesce(block_y, 1) || ',' || coalesce(block_z, 1) AS block
"""


@once
def joined_kernels(scope: Scope) -> Joined:
    """The measurements in the scope, joined to its kernels."""
    measurements = measurements_of(scope)
    none = np.zeros(0, np.int64)
    if not measurements:
        return Joined((), none, none, none, none, (), 0, 0)
    totals = scope.sql(
        "SELECT count(*) AS n, coalesce(sum(dur_ns), 0)::BIGINT AS ns FROM device_event WHERE kind = 'computation'"
    ).to_pylist()[0]
    events = {(launch.rank, launch.event): at for at, launch in enumerate(measurements) if launch.event is not None}
    classes = _classes(scope)
    class_of = _assigned(measurements, classes)
    rows = _launched(scope, [classes[number] for number in sorted(set(class_of.values()))])
    groups: dict[Any, list[int]] = {}
    for at, launch in enumerate(measurements):
        number = class_of.get(at)
        of = (
            ("ran", number)
            if number is not None
            else ("measured", launch.rank, launch.name, launch.grid, launch.blocks, launch.block, launch.threads)
        )
        groups.setdefault(of, []).append(at)
    kernels: list[MeasuredKernel] = []
    parts: list[tuple[Array, Array, Array]] = []
    for of, launches in groups.items():
        measured = tuple(measurements[at] for at in launches)
        if of[0] == "measured":
            kernels.append(_unmatched_kernel(measured))
            parts.append((none, none, none))
            continue
        launch = classes[of[1]]
        table = rows[launch.rank, launch.name, launch.grid, launch.block]
        chosen, rule = _match_launches(table, np.array(launches), measurements, events)
        kernels.append(_of_recording(launch, measured, table, chosen, rule, measurements))
        parts.append((np.full(len(chosen), launch.rank, np.int64), table["id"], chosen))
    order = sorted(
        range(len(kernels)), key=lambda at: (kernels[at].rule is None, -(kernels[at].device_ns or 0), kernels[at].name)
    )
    rank, ids, chosen = (np.concatenate([parts[at][column] for at in order]) for column in range(3))
    kernel = np.repeat(np.arange(len(order)), [len(parts[at][1]) for at in order])
    ordered = tuple(kernels[at] for at in order)
    return Joined(ordered, rank, ids, chosen, kernel, measurements, totals["n"], totals["ns"])


def _classes(scope: Scope) -> list[_Class]:
    rows = scope.sql(
        f"""
        SELECT DISTINCT rank, name, {_SHAPES} FROM device_event WHERE kind = 'computation' ORDER BY ALL
        """
    ).to_pylist()
    keys = {name: kernel_key(name) for name in {row["name"] for row in rows}}
    return [
        _Class(
            row["rank"], row["name"], keys[row["name"]], row["grid"], row["block"],
            int(np.prod([int(axis) for axis in row["grid"].split(",")], dtype=object)),
            int(np.prod([int(axis) for axis in row["block"].split(",")], dtype=object)),
        )
        for row in rows
    ]  # fmt: skip


def _assigned(measurements: Sequence[Measurement], classes: Sequence[_Class]) -> dict[int, int]:
    """The class of each measured launch, by index, if exactly one fits.

    Names are compared in ever less detail: everything tools agree on; template arguments without numbers; the
    function's name, if the tool gives no template arguments.
    """
    by_level: list[dict[Any, list[int]]] = [{} for _ in range(_LEVELS)]
    for number, kernel_class in enumerate(classes):
        for table, level in zip(by_level, _levels(kernel_class.key), strict=True):
            table.setdefault(level, []).append(number)
    with_kernels = {launch.rank for launch in classes}
    keys = {name: kernel_key(name) for name in {launch.name for launch in measurements}}
    class_of: dict[int, int] = {}
    for at, launch in enumerate(measurements):
        key = keys[launch.name]
        for depth, (table, level) in enumerate(zip(by_level, _levels(key), strict=True)):
            if depth == _LEVELS - 1 and key[1]:
                break
            fitting = [
                number
                for number in table.get(level, ())
                # A launch on a rank without kernels may belong to any other rank.
                if (classes[number].rank == launch.rank or launch.rank not in with_kernels)
                and classes[number].fits(launch)
            ]
            if fitting:
                first = min(classes[number].rank for number in fitting)
                matches = [number for number in fitting if classes[number].rank == first]
                if len(matches) == 1:
                    class_of[at] = matches[0]
                break
    return class_of


_LEVELS = 3


def _levels(key: tuple[str, tuple[str, ...]]) -> tuple[Any, ...]:
    """The levels of detail at which a name is compared, the full one first."""
    function, arguments = key
    return key, (function, tuple(argument for argument in arguments if not argument.isdigit())), function


def _launched(scope: Scope, classes: Sequence[_Class]) -> dict[tuple[int, str, str, str], dict[str, Any]]:
    if not classes:
        return {}
    requested = {(shape.rank, shape.name, shape.grid, shape.block) for shape in classes}
    rows = scope.sql(
        f"""
        SELECT rank, name, {_SHAPES}, list(id ORDER BY start_ns, id) AS id,
            list(coalesce(step, -1) ORDER BY start_ns, id) AS step,
            list(dur_ns ORDER BY start_ns, id) AS dur_ns,
            arg_max(operator_name, operator_ns) AS operator
        FROM (
            SELECT *, sum(dur_ns) OVER (PARTITION BY rank, name, operator_name) AS operator_ns
            FROM device_event WHERE kind = 'computation'
        )
        GROUP BY ALL
        """
    )
    kernels = {}
    for row in rows.to_pylist():
        key = (row["rank"], row["name"], row["grid"], row["block"])
        if key in requested:
            kernels[key] = {column: np.array(row[column], np.int64) for column in ("id", "step", "dur_ns")} | {
                "operator": row["operator"]
            }
    return kernels


def _match_launches(
    table: dict[str, Any], launches: Array, measurements: Sequence[Measurement], events: dict[tuple[int, int], int]
) -> tuple[Array, str]:
    """The measurement of each kernel, -1 for the mean, and how it was found."""
    count = len(table["id"])
    if all(measurements[at].event is not None for at in launches):
        rank = measurements[launches[0]].rank
        number = [events.get((rank, event), -1) for event in table["id"].tolist()]
        if any(at >= 0 for at in number):
            return np.array(number), SHAPE if -1 in number else ORDER
    if any(measurements[at].launches > 1 for at in launches):
        return np.full(count, -1), SHAPE
    if len(launches) == count:
        return launches, ORDER
    steps, sizes = np.unique(table["step"], return_counts=True)
    each = int(sizes[0])
    if steps[0] >= 0 and (sizes == each).all() and len(launches) % each == 0 and len(steps) > 1:
        start = np.searchsorted(np.sort(table["step"]), steps)
        order = np.argsort(table["step"], kind="stable")
        place = np.empty(count, np.int64)
        place[order] = np.arange(count) - np.repeat(start, sizes)
        return launches[place], PLACE
    return np.full(count, -1), SHAPE


def _of_recording(
    kernel_class: _Class,
    measured: tuple[Measurement, ...],
    table: dict[str, Any],
    chosen: Array,
    rule: str,
    measurements: Sequence[Measurement],
) -> MeasuredKernel:
    weights = Counter(at for at in chosen.tolist() if at >= 0)
    weighted = (
        [(measurements[at].values, float(weight)) for at, weight in weights.items()]
        if weights
        else [(launch.values, float(launch.launches)) for launch in measured]
    )
    return MeasuredKernel(
        kernel_class.rank,
        kernel_class.name, kernel_class.grid, kernel_class.block, measured, weighted_means(weighted), len(chosen),
        int(table["dur_ns"].sum()), table["operator"], rule,
    )  # fmt: skip


def _unmatched_kernel(measured: tuple[Measurement, ...]) -> MeasuredKernel:
    first = measured[0]
    durations = [launch.dur_ns * launch.launches for launch in measured if launch.dur_ns is not None]
    grid = first.grid or (None if first.blocks is None else str(first.blocks))
    block = first.block or (None if first.threads is None else str(first.threads))
    values = weighted_means((launch.values, float(launch.launches)) for launch in measured)
    device_ns = sum(durations) if durations else None
    return MeasuredKernel(first.rank, first.name, grid, block, measured, values, 0, device_ns, None, None)
