"""Finds the ranks that the others wait for: from a trace's collectives (`skew`), or from the phases of every rank's
steps.

Phases do not show arrivals: gradient exchange makes steps, and with overlapped all-reduce even backwards, equally long
on all ranks, so a longer phase may be a wait. Three things are evidence:

1. **All-reduce**, if DDP timed it on every rank: the rank that arrives last waits least there.
2. **Input wait** is never a wait for another rank.
3. **One of many**: with four ranks or more, a few that do more than all others before they meet are late.

Without such evidence, no rank is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.analysis.ranks.skew import RankSkew
    from stepscope.analysis.recording import Array

LATE_ABOVE = 0.05
"""Share of the step that the others must wait for a rank to be named."""
ENOUGH_RANKS = 4
"""With fewer ranks, their number alone does not show which one is late."""

_LOCAL_PHASES = ("input_wait", "host_to_device", "forward", "optimizer")
_MEETING = "backward"
_NEARLY = 0.75
"""Ranks late by at least this share of the latest one's lateness are late with it: those of a slow node."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Mean times of a rank's step (ns).

    Args:
        step_ns: the complete step, on the host.
        phases: on the device if marked there (then without the residual, which includes waiting for it), else on the
            host.
        all_reduce_ns: of a backward, with waiting for late ranks; None if it was not timed.
        forward_waits: ranks wait for each other in forward, too.
    """

    step_ns: float
    phases: Mapping[str, float]
    all_reduce_ns: float | None = None
    forward_waits: bool = False
    on_device: bool = False


@dataclass(frozen=True, slots=True)
class Straggler:
    """Ranks that the others wait for, the latest first.

    Args:
        skew_ns: what the others lose by the latest, in a mean step; `share_ratio` of the step.
        phase: where it loses that time; None if collectives are the evidence.
        phase_ns: how much longer that phase is than the others'; None for backward, which includes waiting.
        waits_ns: time in all-reduce of the latest and of the others (median); None if not timed.
        in_step: the others' steps are as long: they wait in every step.
        cause: with collectives, the name in `skew.CAUSES` of what it did longer.
    """

    ranks: tuple[int, ...]
    skew_ns: float
    share_ratio: float
    phase: str | None
    phase_ns: float | None = None
    waits_ns: tuple[float, float] | None = None
    in_step: bool = True
    cause: str | None = None


def find_straggler(ranks: Mapping[int, RankTimes]) -> Straggler | None:
    """Finds the ranks that the others wait for; None if none stands out or there is no evidence."""
    step_ns = max((times.step_ns for times in ranks.values()), default=0.0)
    if len(ranks) < 2 or step_ns <= 0:
        return None
    compared = _Compared(ranks, step_ns)
    for judge in (_by_all_reduce, _by_input, _by_number):
        straggler = judge(compared)
        if straggler is not None:
            return straggler
    return None


def late_in_collectives(skew: RankSkew) -> Straggler | None:
    """The ranks that the others wait for in matched collectives, each charged with what it caused."""
    from stepscope.analysis.ranks.skew import CAUSES

    if not skew.step_ns:
        return None
    late = recorded_skew(skew)
    ranks = _latest(late, skew.step_ns, max_share=0.5)
    if not ranks:
        return None
    skew_ns = late[ranks[0]]
    cause = CAUSES[int(skew.by_rank(recorded_charges(skew))[ranks[0]].argmax())]
    return Straggler(ranks, skew_ns, skew_ns / skew.step_ns, None, cause=cause)


def recorded_skew(skew: RankSkew) -> dict[int, float]:
    """How long one of the others waits for each rank in a mean step (ns), without time before the rank's recording."""
    return {rank: skew.per_step(float(causes.sum())) for rank, causes in skew.by_rank(recorded_charges(skew)).items()}


def recorded_charges(skew: RankSkew) -> Array:
    """The charge of each wait (ns), a column per cause, without what lies before a recording."""
    from stepscope.analysis.ranks.skew import CAUSES

    return skew.charged_ns[:, : CAUSES.index("before the recording")]


def _latest(late: Mapping[int, float], step_ns: float, *, max_share: float) -> tuple[int, ...]:
    """The latest rank and those nearly as late, if it is late enough and they are at most the share `max_share` of all."""
    latest = max(late, key=lambda rank: late[rank])
    if late[latest] < LATE_ABOVE * step_ns:
        return ()
    with_it = [rank for rank in late if late[rank] >= _NEARLY * late[latest]]
    if len(with_it) > max_share * len(late):
        return ()
    return tuple(sorted(with_it, key=lambda rank: (-late[rank], rank)))


@dataclass(slots=True)
class _Compared:
    ranks: Mapping[int, RankTimes]
    step_ns: float

    @property
    def timed(self) -> bool:
        return all(times.all_reduce_ns is not None for times in self.ranks.values())

    @property
    def local_phases(self) -> tuple[str, ...]:
        waits = any(times.forward_waits for times in self.ranks.values())
        return tuple(phase for phase in _LOCAL_PHASES if phase != "forward" or not waits)

    def excess(self, phases: Iterable[str]) -> dict[int, float]:
        """How much longer each rank is in these phases than the others' median."""
        names = tuple(phases)
        times = {rank: sum(of.phases.get(name, 0.0) for name in names) for rank, of in self.ranks.items()}
        others = medians_of_others(times)
        return {rank: time - others[rank] for rank, time in times.items()}

    def straggler(
        self,
        late: Mapping[int, float],
        phases: Sequence[str],
        *,
        max_share: float = 0.5,
        waits_ns: tuple[float, float] | None = None,
    ) -> Straggler | None:
        """The latest rank and those nearly as late, if they are at most the share `max_share` of all."""
        with_it = _latest(late, self.step_ns, max_share=max_share)
        if not with_it:
            return None
        latest, skew_ns = with_it[0], late[with_it[0]]
        longer = {phase: self.excess([phase])[latest] for phase in phases}
        phase = max(longer, key=lambda name: longer[name])
        if longer[phase] < 0.25 * skew_ns:
            phase = _MEETING
        return Straggler(
            with_it, skew_ns, skew_ns / self.step_ns, phase, None if phase == _MEETING else longer[phase], waits_ns
        )


def _by_all_reduce(compared: _Compared) -> Straggler | None:
    if not compared.timed:
        return None
    waits = {rank: of.all_reduce_ns or 0.0 for rank, of in compared.ranks.items()}
    others = medians_of_others(waits)
    late = {rank: others[rank] - wait for rank, wait in waits.items()}
    latest = max(late, key=lambda rank: late[rank])
    phases = (*_LOCAL_PHASES, "residual")
    straggler = compared.straggler(late, phases, waits_ns=(waits[latest], others[latest]))
    if straggler is None:
        return None
    # A rank that spends much more time elsewhere than it is late by may be waiting there.
    if any(compared.excess([phase])[latest] > 1.5 * straggler.skew_ns for phase in phases):
        return None
    # If most of the all-reduce is not waiting, a phase has to confirm it.
    waiting = straggler.skew_ns >= 0.5 * others[latest]
    return straggler if waiting or (straggler.phase_ns or 0.0) >= 0.5 * straggler.skew_ns else None


def _by_input(compared: _Compared) -> Straggler | None:
    late = compared.excess(["input_wait"])
    straggler = compared.straggler(late, ["input_wait"])
    return None if straggler is None else _met(compared, straggler)


def _by_number(compared: _Compared) -> Straggler | None:
    """Judges by what ranks do on their own, with care: the rest of a step may be a wait too."""
    if len(compared.ranks) < ENOUGH_RANKS:
        return None
    local_phases, straggler = compared.local_phases, None
    if not compared.timed:
        straggler = compared.straggler(compared.excess(local_phases), local_phases)
    if straggler is None:
        with_rest = (*local_phases, "residual")
        straggler = compared.straggler(compared.excess(with_rest), with_rest, max_share=0.25)
    return None if straggler is None else _met(compared, straggler)


def _met(compared: _Compared, straggler: Straggler) -> Straggler | None:
    """The same straggler, if the others' steps are as long because they wait, or shorter because they do not."""
    rank = straggler.ranks[0]
    steps = {of: times.step_ns for of, times in compared.ranks.items()}
    if steps[rank] - medians_of_others(steps)[rank] >= 0.5 * straggler.skew_ns:
        return replace(straggler, in_step=False)
    if not compared.ranks[rank].on_device:
        return straggler
    # A device with work left does not notice a late host: then nobody waits.
    waiting = [_MEETING] if "forward" in compared.local_phases else [_MEETING, "forward"]
    return straggler if -compared.excess(waiting)[rank] >= 0.5 * straggler.skew_ns else None


def medians_of_others(times: Mapping[int, float]) -> dict[int, float]:
    """For each rank the median of all others' times; for two ranks or more.

    >>> medians_of_others({0: 1.0, 1: 2.0, 2: 4.0, 3: 8.0})
    {0: 4.0, 1: 4.0, 2: 2.0, 3: 2.0}
    """
    # Sorted once: a median for each of thousands of ranks would sort them thousands of times.
    order = sorted(times, key=lambda rank: times[rank])
    left = len(order) - 1
    medians = {}
    for place, rank in enumerate(order):
        low, high = (order[middle + (middle >= place)] for middle in ((left - 1) // 2, left // 2))
        medians[rank] = (times[low] + times[high]) / 2
    return medians
