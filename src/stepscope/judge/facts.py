"""What rules know of a recording: each thing is asked of the tables once, and only when a rule needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.breakdown import PARTS
from stepscope.analysis.overview import Times, measure_times
from stepscope.analysis.recording import WORK, every_step, rank_batches
from stepscope.floor.units import ratio_text, time_text

if TYPE_CHECKING:
    from stepscope.analysis.gaps import Gaps
    from stepscope.analysis.recording import Columns
    from stepscope.answers.scope import Scope
    from stepscope.costs import Limits
    from stepscope.judge.groups import Group
    from stepscope.judge.sequence import Sequence

Row = dict[str, Any]

ENOUGH_WORK = 50
"""Pieces of device work in a step (or recording) below which nothing is said of its kernels: what
takes less is no training step but a test of a single operator."""

COUNTED = """(rank, span, step) IN (
    SELECT (rank, span, step) FROM (
        SELECT rank, span, step,
            complete OR NOT bool_or(complete) OVER (PARTITION BY rank, span) AS counted
        FROM step
    ) WHERE counted
)"""
"""SQL: what belongs to a step that the mean step is made of."""


class Facts:
    """A recording as rules see it.

    Args:
        scope: the tables, narrowed to what was asked about.
        times: its step times, where they have been measured already.
    """

    def __init__(self, scope: Scope, times: Times | None = None) -> None:
        """Keeps the scope; nothing is read yet."""
        self.scope = scope
        self._times = times

    @cached_property
    def times(self) -> Times:
        """Step times, breakdowns and use of the device."""
        return self._times if self._times is not None else measure_times(self.scope)

    @cached_property
    def has_steps(self) -> bool:
        """Whether steps are marked, or known by the optimizer's calls."""
        return bool(self.scope.value("SELECT count(*) FROM step WHERE rule <> 'whole recording'"))

    @property
    def per(self) -> str:
        """What savings are per: `step`, or `recording` where steps are not marked."""
        return "step" if self.has_steps else "recording"

    @cached_property
    def parts(self) -> dict[str, int | None]:
        """Mean time of each activity in a step; without steps, from the device's first work to its
        last. None where it was not measured."""
        if self.has_steps:
            return self.times.mean()
        found = self.times.mean_of_device_spans()
        return found if any(found.values()) else self.times.mean()

    @cached_property
    def step_ns(self) -> int:
        """Mean length of a step, or of what stands in for it (ns)."""
        return sum(part or 0 for part in self.parts.values())

    @cached_property
    def steps(self) -> int:
        """How many steps the mean is over."""
        return max(1, sum(len(parts) for parts in self.times.parts_ns))

    @cached_property
    def window_ns(self) -> tuple[int, int] | None:
        """From the begin of the first counted step to the end of the last; None without steps."""
        counted = [_counted(broken.steps) for broken in self.times.broken]
        if not self.has_steps or not counted:
            return None
        return (
            min(int(steps["start_ns"].min()) for steps in counted),
            max(int(steps["end_ns"].max()) for steps in counted),
        )

    def time(self, *parts: str) -> int:
        """Mean time of activities in a step (ns); 0 where not measured."""
        return sum(self.parts.get(part) or 0 for part in parts)

    def share(self, *parts: str) -> float:
        """Their part of the step."""
        return self.part_of_step(self.time(*parts))

    def part_of_step(self, ns: float) -> float:
        """A time as a part of the mean step."""
        return ns / self.step_ns if self.step_ns else 0.0

    def amount(self, ns: float) -> str:
        """`33.4 % of the step (59.3 ms)`."""
        return f"{ratio_text(self.part_of_step(ns))} of the {self.per} ({time_text(ns)})"

    def by_recording(self, part: str) -> Iterator[Row]:
        """Mean time of an activity in the steps of each recording, the largest first."""
        column = PARTS.index(part)
        rows = []
        for broken in self.times.broken:
            complete = broken.steps["complete"]
            parts = broken.parts_ns[complete] if complete.any() else broken.parts_ns
            mean, whole = float(parts[:, column].mean()), float(parts.sum(axis=1).mean())
            rows.append(
                {
                    "rank": broken.rank,
                    "span": broken.span,
                    "steps": len(parts),
                    f"{part}_ns": round(mean),
                    "step_ns": round(whole),
                    "share_ratio": mean / whole if whole else None,
                }
            )
        return iter(sorted(rows, key=lambda row: row[f"{part}_ns"] or 0, reverse=True))

    def median_of_steps(self, part: str) -> float:
        """Median over steps of an activity's time (ns)."""
        column = PARTS.index(part)
        rows = [parts[:, column] for parts in self.times.parts_ns if len(parts)]
        return float(np.median(np.concatenate(rows))) if rows else 0.0

    @cached_property
    def checks(self) -> list[Row]:
        """Data-quality checks with a warning or an error."""
        rows: list[Row] = self.scope.sql(
            """
            SELECT "check", severity, sum(count)::BIGINT AS count, string_agg(DISTINCT affects, ',')
                AS affects, arg_max(explanation, count) AS explanation,
                string_agg(DISTINCT rank::VARCHAR, ', ') AS ranks
            FROM data_check WHERE severity IN ('warning', 'error') GROUP BY "check", severity
            ORDER BY severity, "check"
            """
        ).to_pylist()
        return rows

    @cached_property
    def kernels(self) -> Row:
        """Of the counted steps: `kernels`, `short` ones below 10 µs, `kernel_ns`, `short_ns`, `work`."""
        rows: list[Row] = self.scope.sql(
            f"""
            SELECT count(*) FILTER (kind = 'computation') AS kernels,
                count(*) FILTER (kind = 'computation' AND dur_ns < 10000) AS short,
                coalesce(sum(dur_ns) FILTER (kind = 'computation'), 0)::BIGINT AS kernel_ns,
                coalesce(sum(dur_ns) FILTER (kind = 'computation' AND dur_ns < 10000), 0)::BIGINT
                    AS short_ns,
                count(*) AS work
            FROM device_event WHERE {WORK} AND {self.counted}
            """
        ).to_pylist()
        return rows[0]

    @cached_property
    def gaps(self) -> dict[tuple[int, int], Gaps]:
        """When no device of a recording had anything to do, and why, cut to the counted steps."""
        from stepscope.analysis.gaps import KERNEL_WAIT_NS, find_gaps, launched_work

        found = {}
        steps = {(b.rank, b.span): b.steps for b in self.times.broken}
        with every_step(self.scope) as whole:
            for ranks in rank_batches(self.scope.ranks):
                for key, own in launched_work(whole, ranks).items():
                    windows = _counted(steps[key]) if self.has_steps and key in steps else None
                    found[key] = find_gaps(own, KERNEL_WAIT_NS, windows)
        return found

    @cached_property
    def host_wait_ns(self) -> float:
        """How long a step's devices had nothing to do because it was launched too late (ns)."""
        from stepscope.analysis.gaps import HOST_WAIT

        return (
            sum(int(g.length[g.cause == HOST_WAIT].sum()) for g in self.gaps.values()) / self.steps
        )

    @cached_property
    def counted(self) -> str:
        """SQL: the rows of an event table that the mean step is made of, also outside of the scope."""
        conditions = [COUNTED] if self.has_steps else []
        if self.scope.steps is not None:
            conditions.append(f"step IN ({', '.join(map(str, self.scope.steps)) or 'NULL'})")
        if self.scope.ranks != self.scope.store.ranks:
            conditions.append(f"rank IN ({', '.join(map(str, self.scope.ranks))})")
        return " AND ".join(conditions) or "true"

    @property
    def enough_work(self) -> bool:
        """Whether a step has enough device work for something to be said of its kernels."""
        return bool(self.kernels["work"] >= ENOUGH_WORK * self.steps)

    @cached_property
    def devices(self) -> list[Row]:
        """Devices that have work."""
        rows: list[Row] = self.scope.sql("SELECT * FROM device WHERE used").to_pylist()
        return rows

    @cached_property
    def limits(self) -> Limits | None:
        """What the devices can do, where all are the same and known."""
        from stepscope.costs import known_devices

        known = {(row["name"], row["sm_count"]) for row in self.devices}
        return known_devices().find(*next(iter(known))) if len(known) == 1 else None

    @cached_property
    def capability(self) -> int | None:
        """The least CUDA compute capability of the devices, major; None for other devices."""
        if not self.devices or any(row["kind"] != "cuda" for row in self.devices):
            return None
        majors = [row["compute_major"] for row in self.devices]
        return None if None in majors else int(min(majors))

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the devices have tensor cores (matrix cores), as far as is known."""
        if self.capability is not None:
            return self.capability >= 7
        return self.limits is not None and bool(self.limits.matrix)

    @cached_property
    def groups(self) -> list[Group]:
        """Device work by kernel, operator and inputs, the longest first."""
        from stepscope.judge.groups import group_work

        return group_work(self)

    @cached_property
    def sequence(self) -> Sequence | None:
        """The device work of a typical step in order."""
        from stepscope.judge.sequence import typical_step

        return typical_step(self)

    def host(self, text: str) -> list[Row]:
        """Rows of a query in which `{counted}` stands for the events of the counted steps."""
        rows: list[Row] = self.scope.sql(text.replace("{counted}", self.counted)).to_pylist()
        return rows


def _counted(steps: Columns) -> Columns:
    """The steps that a mean is made of."""
    complete = steps["complete"]
    return {name: values[complete] for name, values in steps.items()} if complete.any() else steps


def first(rows: Iterable[Row], most: int = 5) -> tuple[Row, ...]:
    """The first rows of evidence."""
    return tuple(row for row, _ in zip(rows, range(most), strict=False))
