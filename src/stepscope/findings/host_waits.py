"""Sorts the waits of a device for its host: many short ones, few long ones, and those in which the host itself waits. A
wait has one sort only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.recording import every_step
from stepscope.analysis.steps.parts import IDLE_PARTS, WAITING
from stepscope.findings.gap_fillers import Filler, Gap, find_fillers

if TYPE_CHECKING:
    from stepscope.analysis.overview import Times
    from stepscope.analysis.recording import Array
    from stepscope.analysis.steps.breakdown import Breakdown
    from stepscope.analysis.steps.breakdown import HostWaits as Waits
    from stepscope.query.scope import Scope

LARGEST = 5
FEW, EACH, LONG_NS = 0.5, 0.05, 100_000
"""If this many longest gaps of a step contain this share of its waits, those with at least this share and length are
single ones (`single-gaps` names the source of the numbers)."""

_LOOKED_INTO = 32
"""Up to this many single gaps, the longest, are looked into for host events; a training loop repeats them."""

_COLUMNS = [IDLE_PARTS.index(part) for part in WAITING]
_MANY, _SINGLE, _BLOCKED = range(3)


@dataclass(frozen=True, slots=True)
class Wait:
    """A long wait of a device for its host, and what the host did.

    Args:
        gap: where it is.
        time_ns: how much of the gap counts as waiting for the host (the DataLoader is another loss).
        filler: what the host did; None for gaps that were not looked into.
        blocked: whether the host itself waited for the device.
    """

    gap: Gap
    time_ns: int
    filler: Filler | None
    blocked: bool

    @property
    def key(self) -> tuple[int, int, int]:
        """Identifies the gap within a recording, as in `Finding.gaps`."""
        return self.gap.rank, self.gap.span, self.gap.start_ns

    @property
    def is_cold_start(self) -> bool:
        """Whether the host did something that takes this long only once."""
        return not self.blocked and self.filler is not None and self.filler.is_first_use


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Waits for the host in a mean step, each of one sort.

    Args:
        many: what the host did (ns) in the short ones, by part of the step.
        long: the long ones, of all steps, the longest first.
        steps: the number of steps, or, without marked steps, of recordings.
    """

    many: dict[str, int]
    long: tuple[Wait, ...]
    steps: int

    @property
    def many_ns(self) -> int:
        """Time of the many short ones in a mean step (ns)."""
        return sum(self.many.values())

    def sort(self, *, blocked: bool = False, cold: bool = False) -> list[Wait]:
        """The long ones in which the host itself waits, those of cold starts, or the others."""
        return [wait for wait in self.long if wait.blocked == blocked and wait.is_cold_start == cold]

    def mean_ns(self, waits: Iterable[Wait]) -> int:
        """Time of long ones in a mean step (ns)."""
        return round(sum(wait.time_ns for wait in waits) / self.steps)


class _LongGap(NamedTuple):
    gap: Gap
    parts_ns: list[int]
    blocked: bool


def waiting_parts(waits: Waits) -> Array:
    """What the host did in each gap (ns): a row for each gap, without the DataLoader and communication, which are other
    losses."""
    return np.asarray(waits.parts_ns[:, _COLUMNS])


def sort_waits(scope: Scope, times: Times, all_waits: dict[str, int]) -> HostWaits:
    """Sorts the waits of a recording; `all_waits` is the time of all in a mean step (ns), by what the host did."""
    long_gaps = [gap for broken in times.broken for gap in _long(broken, marked=times.marked)]
    steps = times.idle_over
    if not all_waits or not long_gaps:
        return HostWaits(all_waits, (), steps)
    long_gaps.sort(key=lambda gap: -sum(gap.parts_ns))
    with every_step(scope) as all_steps:
        fillers = find_fillers(all_steps, [gap.gap for gap in long_gaps[:_LOOKED_INTO]])
    long = tuple(Wait(gap.gap, sum(gap.parts_ns), fillers.get(gap.gap), gap.blocked) for gap in long_gaps)
    taken = np.sum([gap.parts_ns for gap in long_gaps], axis=0) / steps
    many = {part: max(0, all_waits[part] - round(float(ns))) for part, ns in zip(WAITING, taken, strict=True)}
    return HostWaits(many, long, steps)


def _long(broken: Breakdown, *, marked: bool) -> Iterator[_LongGap]:
    """The gaps of a recording that are not one of many short waits."""
    waits = broken.waits
    if waits is None:
        return
    parts_ns = waiting_parts(waits)
    sorts = _sorts(parts_ns.sum(axis=1), waits.blocked_ns, waits.window)
    steps = broken.counted_windows["step"].tolist() if marked else [None]
    for place in np.flatnonzero(sorts != _MANY).tolist():
        step = steps[int(waits.window[place])]
        where = (broken.rank, broken.span, step, int(waits.start[place]), int(waits.end[place]))
        yield _LongGap(Gap(*where), parts_ns[place].tolist(), bool(sorts[place] == _BLOCKED))


def _sorts(time_ns: Array, blocked_ns: Array, window: Array) -> Array:
    """Which of many, single and blocked each gap is."""
    sort = np.full(len(time_ns), _MANY)
    sort[(blocked_ns >= LONG_NS) & (2 * blocked_ns > time_ns)] = _BLOCKED
    others = np.flatnonzero(sort == _MANY)
    others = others[np.lexsort((-time_ns[others], window[others]))]
    step, ns = window[others], time_ns[others]
    place = np.arange(len(step)) - np.searchsorted(step, step)
    total = np.bincount(step, ns, len(step) and int(step[-1]) + 1)
    largest = np.bincount(step, ns * (place < LARGEST), len(total))
    few = largest > FEW * total
    single = few[step] & (ns >= LONG_NS) & (ns >= EACH * total[step])
    sort[others[single]] = _SINGLE
    return sort
