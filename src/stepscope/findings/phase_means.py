"""The mean step by a job's own phases: the time of each loss on the ranks that measured it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.analysis.job.phase_times import times_of
from stepscope.analysis.ranks.straggler import RankTimes, Straggler, find_straggler
from stepscope.base.step_phases import PHASES

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

Row = dict[str, Any]

COMPUTE = ("forward", "backward", "optimizer")
_PHASE_OF = {"dataloader": "input_wait", "copy": "host_to_device", "residual": "residual"}
"""The phase behind each part of the step, with the part's name in the step breakdown."""
PARTS = (*_PHASE_OF, "communication", "compute")

_OVER_STEPS = "mean_ns device_mean_ns communication_ns exposed_communication_ns timed_backward_ns"
_OVER_STEPS += " copied_bytes pageable_bytes"
_MEANS = ", ".join(
    f"sum({name} * steps) / sum(steps) FILTER ({name} IS NOT NULL) AS {name}" for name in _OVER_STEPS.split()
)


@dataclass(frozen=True, slots=True)
class PhaseMeans:
    """Means over all recordings of each rank, by phase; `step` is the complete step.

    Args:
        ranks: columns of the table `phase`, by rank and phase.
        late: ranks that the others wait for; None if none is known.
    """

    ranks: Mapping[int, Mapping[str, Row]]
    late: Straggler | None

    @property
    def step_ns(self) -> float:
        """Mean step over all ranks (ns)."""
        return self._mean(phases["step"]["mean_ns"] for phases in self.ranks.values())

    def total(self, column: str) -> int:
        """Sum of a count over the ranks' steps."""
        return sum(phases["step"][column] or 0 for phases in self.ranks.values())

    def mean(self, column: str) -> float | None:
        """Mean of a column of the ranks' steps; None if no rank has it."""
        values = [phases["step"][column] for phases in self.ranks.values()]
        values = [value for value in values if value is not None]
        return self._mean(values) if values else None

    def phase_ns(self, phase: str) -> float | None:
        """Mean time of a phase on the host, over the ranks that measured it (ns); None if none did."""
        times = [of[phase]["mean_ns"] for of in self.ranks.values() if phase in of]
        return self._mean(times) if times else None

    def host_ns(self) -> float:
        """Mean time in forward, backward and optimizer on the host (ns)."""
        return self._of_compute("mean_ns")

    def device_ns(self) -> float:
        """The same on the device (ns)."""
        return self._of_compute("device_mean_ns")

    def part_ns(self, part: str) -> float | None:
        """Mean time of one of `PARTS` on the ranks that measured it (ns); None if it was not measured."""
        times = self.by_rank(part)
        return self._mean(times.values()) if times else None

    def by_rank(self, part: str) -> dict[int, float]:
        """Time of a part on each rank that measured it (ns), the longest first.

        A late rank's loss in a phase counts as its lateness. If all-reduce was timed on all ranks, only the time on the
        rank that waits least counts; the rest is waiting on the others.
        """
        times = {rank: self._on(phases, part) for rank, phases in self.ranks.items()}
        measured = {rank: ns for rank, ns in times.items() if ns is not None}
        if part == "communication" and len(measured) == len(times) > 1:
            waits = {rank: float(of["step"]["exposed_communication_ns"]) for rank, of in self.ranks.items()}
            rank = min(waits, key=lambda rank: waits[rank])
            return {rank: measured[rank]}
        if self.late is not None and self.late.phase == _PHASE_OF.get(part):
            measured = {rank: ns for rank, ns in measured.items() if rank not in self.late.ranks}
        return dict(sorted(measured.items(), key=lambda pair: (-pair[1], pair[0])))

    def exposed_by_rank(self) -> dict[int, float | None]:
        """Exposed communication on each rank by DDP's timings, including waits for late ranks (ns); None if it did not
        time it."""
        return {rank: self._on(phases, "communication") for rank, phases in self.ranks.items()}

    def _on(self, phases: Mapping[str, Row], part: str) -> float | None:
        if part == "compute":
            times = [float(phases[name]["mean_ns"]) for name in COMPUTE if name in phases]
            return sum(times) if times else None
        if part != "communication":
            row = phases.get(_PHASE_OF[part])
            return None if row is None else float(row["mean_ns"])
        step, backward = phases["step"], phases.get("backward", {})
        if step["exposed_communication_ns"] is None or not step["timed_backward_ns"]:
            return None
        # DDP timed other steps, including the first and slowest: only the share of backward carries over.
        backward_ns = backward.get("device_mean_ns") or backward.get("mean_ns") or 0.0
        exposed = backward_ns * step["exposed_communication_ns"] / step["timed_backward_ns"]
        return float(min(exposed, step["mean_ns"]))

    def _of_compute(self, column: str) -> float:
        return self._mean(
            sum(phases[name][column] or 0.0 for name in COMPUTE if name in phases) for phases in self.ranks.values()
        )

    @staticmethod
    def _mean(values: Iterable[float]) -> float:
        numbers = list(values)
        return sum(numbers) / len(numbers) if numbers else 0.0


def phase_means(scope: Scope) -> PhaseMeans | None:
    """The means of the requested ranks and steps; None if no job measured its phases.

    Phases that ranges mark in the few steps of another tool's recording are not used: its events say more, and are
    judged.
    """
    if scope.has_none("phase", "phase_step"):
        return None
    rows = scope.sql(
        f"""
        SELECT rank, phase, sum(steps)::BIGINT AS steps, {_MEANS},
            coalesce(bool_or(forward_waits), false) AS forward_waits,
            sum(checked_steps)::BIGINT AS checked_steps, sum(idle_steps)::BIGINT AS idle_steps,
            sum(first_batch_ns * first_batches) AS first_batches_ns,
            sum(first_batches)::BIGINT AS first_batches
        FROM ({times_of(scope)})
        ANTI JOIN (SELECT DISTINCT rank, span FROM step WHERE rule = 'ProfilerStep') USING (rank, span)
        WHERE steps > 0 GROUP BY rank, phase ORDER BY rank
        """
    ).to_pylist()
    ranks: dict[int, dict[str, Row]] = {}
    for row in rows:
        ranks.setdefault(row["rank"], {})[row["phase"]] = row
    ranks = {rank: phases for rank, phases in ranks.items() if "step" in phases}
    if not ranks:
        return None
    return PhaseMeans(ranks, find_straggler(_rank_times(ranks)))


def _rank_times(ranks: Mapping[int, Mapping[str, Row]]) -> dict[int, RankTimes]:
    on_device = all(
        phases.get(name, {}).get("device_mean_ns") is not None
        for phases in ranks.values()
        for name in ("forward", "backward")
    )
    return {
        rank: RankTimes(
            step_ns=phases["step"]["mean_ns"],
            phases=_times(phases, on_device=on_device),
            all_reduce_ns=phases["step"]["communication_ns"],
            forward_waits=phases["step"]["forward_waits"],
            on_device=on_device,
        )
        for rank, phases in ranks.items()
    }


def _times(phases: Mapping[str, Row], *, on_device: bool) -> dict[str, float]:
    """Each phase's mean time; the wait for input is the host's even if the others are the device's."""
    column = "device_mean_ns" if on_device else "mean_ns"
    times = {name: phases[name]["mean_ns" if name == "input_wait" else column] for name in PHASES if name in phases}
    return {name: ns for name, ns in times.items() if ns is not None}
