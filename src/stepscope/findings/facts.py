"""Facts for rules about a recording: each is read from the tables once, when a rule first needs it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepscope.analysis.counted import counted_steps
from stepscope.analysis.overview import Times, measure_times
from stepscope.analysis.ranks.straggler import late_in_collectives, recorded_skew
from stepscope.analysis.recording import every_step, rank_batches
from stepscope.analysis.steps.gaps import KERNEL_WAIT_NS, find_gaps, launched_work
from stepscope.analysis.steps.parts import PARTS, WAITING
from stepscope.base.chosen_numbers import numbers_typed
from stepscope.base.units import ratio_text, time_text
from stepscope.findings.phase_means import PARTS as OF_PHASES
from stepscope.findings.phase_means import PhaseMeans
from stepscope.findings.recorded import Recorded
from stepscope.findings.recorded import Row as Row  # rules' type for rows of evidence
from stepscope.query.rank_exclusion import ranks_text as ranks_text  # how rules name ranks
from stepscope.schema.device_work import WORK

if TYPE_CHECKING:
    from stepscope.analysis.kernels.measured import MeasuredKernel
    from stepscope.analysis.memory.replay import Memory
    from stepscope.analysis.ranks.skew import RankSkew
    from stepscope.analysis.ranks.straggler import Straggler
    from stepscope.analysis.steps.gaps import Gaps
    from stepscope.findings.groups import Group
    from stepscope.findings.host_waits import HostWaits
    from stepscope.findings.sequence import Sequence
    from stepscope.query.scope import Scope

ENOUGH_WORK = 50
"""With less device work in a step (or recording), its kernels are not judged: it tests a single operator."""


class InputWait(NamedTuple):
    """How long training waits for its batches in a mean step; `untraced` are the phases of untraced steps, if the source."""

    ns: int
    share: float
    untraced: PhaseMeans | None = None


class Facts(Recorded):
    """A recording as rules see it: its events, or, if it has none, the phases of its steps.

    `of_all` has the facts of all ranks if this is about some of them.
    """

    def __init__(self, scope: Scope, complete: Facts | None = None) -> None:
        super().__init__(scope)
        self.of_all = self if complete is None else complete

    @property
    def left_out(self) -> tuple[int, ...]:
        """Ranks that are not judged with the others, because too much of them is missing."""
        return tuple(rank for rank in self.of_all.scope.ranks if rank not in self.scope.ranks)

    @property
    def options(self) -> str:
        """The options that narrow a command to the same ranks and steps; empty for all of them."""
        scope = self.of_all.scope
        ranks = () if scope.ranks == scope.store.ranks else scope.ranks
        steps = () if scope.steps == scope.store.stored_steps else scope.steps
        chosen = (("rank", ranks), ("step", steps))
        return "".join(f" --{name} {numbers_typed(which)}" for name, which in chosen if which)

    @cached_property
    def times(self) -> Times:
        """Step times, breakdowns and use of the device."""
        return measure_times(self.scope)

    @cached_property
    def rank_skew(self) -> RankSkew | None:
        """Which ranks the others wait for in collectives that were matched over ranks; None if none was."""
        if not self.matched_over_ranks:
            return None
        from stepscope.analysis.ranks.skew import find_skew

        return find_skew(self.scope)

    @cached_property
    def late(self) -> Straggler | None:
        """The ranks that the others wait for: according to collectives, or else phases."""
        if self.rank_skew is not None:
            return late_in_collectives(self.rank_skew)
        return None if self.phases is None else self.phases.late

    @cached_property
    def waited_for_late_ns(self) -> float:
        """How long ranks wait for those that `late` names, in a mean step (ns): the loss `straggling-rank`, not
        communication. 0 if phases are the source, whose times exclude it."""
        if self.late is None or self.rank_skew is None:
            return 0.0
        charged = recorded_skew(self.rank_skew)
        return self._in_the_mean(sum(charged[rank] for rank in self.late.ranks))

    @cached_property
    def waited_unrecorded_ns(self) -> float:
        """How long ranks wait for what late ones did before their recordings start, in a mean step (ns)."""
        if self.rank_skew is None:
            return 0.0
        from stepscope.analysis.ranks.skew import CAUSES

        before = self.rank_skew.charged_ns[:, CAUSES.index("before the recording")].sum()
        return self._in_the_mean(self.rank_skew.per_step(float(before)))

    def _in_the_mean(self, lost_ns: float) -> float:
        """Converts the loss of one of the others (ns) to the mean of all ranks."""
        ranks = len(self.rank_skew.ranks) if self.rank_skew is not None else 1
        return lost_ns * (ranks - 1) / ranks

    @property
    def has_device(self) -> bool:
        """Whether the recording shows a device."""
        return self.parts.get("kernel") is not None

    @property
    def has_host(self) -> bool:
        """Whether the recording shows what the host did."""
        return self.parts.get("cpu_exec") is not None

    @property
    def who_waits(self) -> str:
        """Names who waits for a batch."""
        return "the device waits" if self.has_device else "training waits"

    @property
    def confidence(self) -> Literal["high", "medium"]:
        """How sure the loss of a part of the step is: phases do not show what overlaps them."""
        return "high" if self.phases_alone is None else "medium"

    @cached_property
    def memories(self) -> list[Memory]:
        """The memory of each device and host, replayed over the complete recording."""
        from stepscope.analysis.memory.replay import memories

        if not self.memory_recorded:
            return []
        with every_step(self.scope) as all_steps:
            return memories(all_steps)

    @cached_property
    def busiest_operator(self) -> tuple[str, float] | None:
        """The operator with the largest self time on the host, and that time in a mean step (ns)."""
        rows = self.host(
            "SELECT name, sum(self_ns)::BIGINT AS ns FROM host_event WHERE kind = 'operator' AND {counted} "
            "GROUP BY name ORDER BY ns DESC, name LIMIT 1"
        )
        return (rows[0]["name"], rows[0]["ns"] / self.steps) if rows else None

    @property
    def per(self) -> str:
        """The unit of savings: `step`, or `recording` if no steps are found."""
        return "step" if self.has_steps or self.phases_alone else "recording"

    @cached_property
    def of(self) -> str:
        """The step, or what replaces it, in words."""
        if self.phases_alone is not None:
            return self.of_phases
        if self.per == "step":
            return "the step"
        if any(self.times.mean_of_device_spans().values()):
            return "the time from the device's first work to its last"
        return "the recording"

    @property
    def of_phases(self) -> str:
        """Describes the mean step of the phases."""
        return "a step that is not traced" if self.phases_alone is None else "the step"

    @cached_property
    def parts(self) -> dict[str, int | None]:
        """Mean time of each activity in a step; without steps, from the device's first work to its last. None if not
        measured. For phases, their parts of the step."""
        if self.phases_alone is not None:
            means = {part: self.phases_alone.part_ns(part) for part in OF_PHASES}
            return {part: None if ns is None else round(ns) for part, ns in means.items()}
        if self.of == "the time from the device's first work to its last":
            return self.times.mean_of_device_spans()
        return self.times.mean()

    @cached_property
    def step_ns(self) -> int:
        """Mean length of a step, or of what replaces it (ns); 0 if there is neither."""
        if self.phases_alone is not None:
            return round(self.phases_alone.step_ns)
        return sum(part or 0 for part in self.parts.values())

    @cached_property
    def steps(self) -> int:
        """How many steps the mean is over."""
        return max(1, sum(len(parts) for parts in self.times.parts_ns))

    @cached_property
    def window_ns(self) -> tuple[int, int] | None:
        """From the start of the first counted step to the end of the last; None without steps."""
        counted = [broken.counted_windows for broken in self.times.broken]
        if not self.has_steps or not counted:
            return None
        return (
            min(int(steps["start_ns"].min()) for steps in counted),
            max(int(steps["end_ns"].max()) for steps in counted),
        )

    def time(self, *parts: str) -> int:
        """Mean time of activities in a step (ns); 0 if not measured."""
        return sum(self.parts.get(part) or 0 for part in parts)

    def share(self, *parts: str) -> float:
        """Their share of the step."""
        return self.part_of_step(self.time(*parts))

    def part_of_step(self, ns: float) -> float:
        """A time as a share of the mean step."""
        return ns / self.step_ns if self.step_ns else 0.0

    @cached_property
    def input_wait(self) -> InputWait:
        """The time in which training waits for its batches.

        A profiler slows the loader, so the phases of untraced steps are the source, if there are any; with a device the
        smaller of both counts, because it may compute meanwhile.
        """
        traced = InputWait(self.time("dataloader"), self.share("dataloader"))
        means = None if self.phases_alone else self.phases
        wait_ns = None if means is None else means.part_ns("dataloader")
        if means is None or wait_ns is None or not means.step_ns:
            return traced
        untraced = InputWait(round(wait_ns), wait_ns / means.step_ns, means)
        return traced if self.has_device and traced.share < untraced.share else untraced

    def hidden(self, host_ns: float, counted_ns: float = 0.0) -> float:
        """Upper bound of what a host with this much less work saves beyond the waits that count as a loss (ns).

        A host that is done earlier gets ahead and hides other waits, by no more than its own saving and the time in
        which no kernel computes.
        """
        return max(0.0, min(host_ns, self.step_ns - self.time("kernel")) - counted_ns)

    def hidden_in(self, condition: str, counted_ns: float = 0.0) -> float:
        """The same for a host without some of its events (SQL)."""
        rows = self.host(f"SELECT sum(dur_ns)::BIGINT AS ns FROM host_event WHERE {condition} AND {{counted}}")
        return self.hidden(sum(row["ns"] or 0 for row in rows) / self.steps, counted_ns)

    def amount(self, ns: float) -> str:
        """`33.4 % of the step (59.3 ms)`."""
        return f"{ratio_text(self.part_of_step(ns))} of {self.of} ({time_text(ns)})"

    def by_recording(self, part: str) -> list[Row]:
        """Mean time of an activity in the steps of each recording, the largest first; for phases, on each rank."""
        if self.phases_alone is not None:
            return [
                self._row(rank, of["steps"], part, ns, of["mean_ns"])
                for rank, ns in self.phases_alone.by_rank(part).items()
                for of in [self.phases_alone.ranks[rank]["step"]]
            ]
        column = PARTS.index(part)
        rows = []
        for broken in self.times.broken:
            parts = broken.counted_parts_ns
            mean, step_ns = float(parts[:, column].mean()), float(parts.sum(axis=1).mean())
            row = self._row(broken.rank, len(parts), part, mean, step_ns)
            rows.append({"span": broken.span, **row})
        return sorted(rows, key=lambda row: row[f"{part}_ns"], reverse=True)

    @staticmethod
    def _row(rank: int, steps: int, part: str, mean_ns: float, step_ns: float) -> Row:
        return {
            "rank": rank,
            "steps": steps,
            f"{part}_ns": round(mean_ns),
            "step_ns": round(step_ns),
            "share_ratio": mean_ns / step_ns if step_ns else None,
        }

    def on_ranks(self, part: str, above: float) -> tuple[str, tuple[int, ...]]:
        """For phases: a part's time on each rank in words, and the ranks with a share above this, the worst first."""
        if self.phases_alone is None:
            return "", ()
        rows = self.by_recording(part)
        named = tuple(row["rank"] for row in rows if (row["share_ratio"] or 0) > above)
        if len(self.phases_alone.ranks) == 1:
            return "", named
        if len(rows) == 1:
            return f" on rank {rows[0]['rank']}", named
        words = "" if len(rows) == len(self.phases_alone.ranks) else f" on {ranks_text(named)}"
        worst = rows[0]
        return f"{words}, {ratio_text(worst['share_ratio'])} on rank {worst['rank']}", named

    @property
    def parts_command(self) -> str:
        """The same as a command to type, in words."""
        return "`stepscope phases`" if self.phases_alone is not None else "`stepscope steps`"

    @property
    def parts_query(self) -> str:
        """The command that shows the parts of a step."""
        if self.phases_alone is not None:
            return "stepscope phases SRC"
        return "stepscope steps SRC --by mean" if self.has_steps else "stepscope summary SRC"

    @cached_property
    def utilization(self) -> float | None:
        """GPU utilisation over the steps; None without a device or steps."""
        return self.times.overall_use()[0] if self.has_steps else None

    def idle_ns(self, *causes: str | None) -> dict[str, int]:
        """Mean time in which all devices were idle for these causes (see `idle`; None for no known one), by what the
        host did; empty if the recording does not show both sides."""
        if not self.has_device or not self.has_host:
            return {}
        by_cause = self._idle_ns
        explained = {part: sum(parts[part] for parts in by_cause.values()) for part in WAITING}
        explained["cpu_exec"] += explained["range"]  # outside of idle time, it includes ranges
        unknown = {part: max(self.time(part) - explained[part], 0) for part in WAITING}
        chosen = [unknown if cause is None else by_cause[cause] for cause in causes]
        return {part: sum(parts[part] for parts in chosen) for part in WAITING}

    @property
    def waiting_share(self) -> float:
        """The share of the step in which the device waits for the host, whatever the host does."""
        return self.part_of_step(sum(self._late_ns.values()))

    @cached_property
    def host_waits(self) -> HostWaits:
        """Waits for the host: many short ones, few long ones, and those in which the host itself waits."""
        from stepscope.findings.host_waits import sort_waits

        return sort_waits(self.scope, self.times, self._late_ns)

    @property
    def _late_ns(self) -> dict[str, int]:
        return self.idle_ns("host wait", "no work follows")

    @cached_property
    def _idle_ns(self) -> dict[str, dict[str, int]]:
        return self.times.mean_idle()

    @cached_property
    def kernels(self) -> Row:
        """For the counted steps: `kernels`, `short` ones below 10 µs, `kernel_ns`, `short_ns`, `work`."""
        (row,) = self.host(
            f"""
            SELECT count(*) FILTER (kind = 'computation') AS kernels,
                count(*) FILTER (kind = 'computation' AND dur_ns < 10000) AS short,
                coalesce(sum(dur_ns) FILTER (kind = 'computation'), 0)::BIGINT AS kernel_ns,
                coalesce(sum(dur_ns) FILTER (kind = 'computation' AND dur_ns < 10000), 0)::BIGINT
                    AS short_ns,
                count(*) AS work
            FROM device_event WHERE {WORK} AND {{counted}}
            """
        )
        return row

    @cached_property
    def gaps(self) -> dict[tuple[int, int], Gaps]:
        """When all devices of a recording were idle, and why, cut to the counted steps."""
        gaps = {}
        steps = {(b.rank, b.span): b.counted_windows for b in self.times.broken}
        with every_step(self.scope) as all_steps:
            for ranks in rank_batches(self.scope):
                for key, work in launched_work(all_steps, ranks).items():
                    windows = steps.get(key) if self.has_steps else None
                    gaps[key] = find_gaps(work, KERNEL_WAIT_NS, windows)
        return gaps

    @cached_property
    def counted(self) -> str:
        """SQL: the rows of an event table behind the mean step, even outside of the scope."""
        conditions = []
        if self.scope.steps is not None:
            conditions.append(f"step IN ({', '.join(map(str, self.scope.steps)) or 'NULL'})")
        if self.scope.ranks != self.scope.store.ranks:
            conditions.append(f"rank IN ({', '.join(map(str, self.scope.ranks))})")
        chosen = " AND ".join(conditions) or "true"
        if not self.has_steps:
            return chosen
        counted = counted_steps(chosen)
        return f"(rank, span, step) IN (SELECT (rank, span, step) FROM ({counted}))"

    @property
    def enough_work(self) -> bool:
        """Whether a step has enough device work to judge its kernels."""
        return bool(self.kernels["work"] >= ENOUGH_WORK * self.steps)

    @cached_property
    def groups(self) -> list[Group]:
        """Device work by kernel, operator and inputs, the longest first."""
        from stepscope.findings.groups import GROUPS, Group

        return [Group(**row) for row in self.host(GROUPS)]

    @cached_property
    def measured(self) -> list[MeasuredKernel]:
        """Kernels with hardware counters from another run, by name and shape, the longest first."""
        if self.scope.has_none("measured_kernel"):
            return []
        from stepscope.analysis.kernels.measured import joined_kernels

        with every_step(self.scope) as all_steps:
            return [kernel for kernel in joined_kernels(all_steps).kernels if kernel.rule is not None]

    def has_counter(self, name: str, kind: str) -> bool:
        """Whether a kernel has a kind of counter, for all its measured shapes."""
        kernels = [kernel for kernel in self.measured if kernel.name == name]
        return bool(kernels) and all(kind in kernel.values for kernel in kernels)

    @cached_property
    def sequence(self) -> Sequence | None:
        """The device work of a typical step, in order."""
        from stepscope.findings.sequence import typical_step

        return typical_step(self.scope, self.counted, marked=self.has_steps)

    def host(self, text: str) -> list[Row]:
        """Rows of a query in which `{counted}` is the condition on events of the counted steps."""
        return self._rows(text.replace("{counted}", self.counted))

    def to_repeat(self, text: str) -> str:
        """Such a query in one line, for `stepscope sql`."""
        return " ".join(text.replace("{counted}", self.counted).split())


def first(rows: Iterable[Row], limit: int = 5) -> tuple[Row, ...]:
    """The first rows of evidence."""
    return tuple(row for row, _ in zip(rows, range(limit), strict=False))
