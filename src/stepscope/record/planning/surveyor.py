"""Watches iterations completely: what they run, in what order, and roughly how long.

Watching costs time, and whatever contains other watched parts includes their cost. So there are several kinds of
iteration:

| kind        | what is watched                                                                     |
| ----------- | ----------------------------------------------------------------------------------- |
| `all`       | everything but operators; finding a module's backward makes its forward longer      |
| `forwards`  | the same without modules' backwards: its times of everything else are more accurate |
| `operators` | the operators inside the modules that it is given                                   |
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from stepscope.record import annotate
from stepscope.record.clock import Clock
from stepscope.record.plan import Plan, plan_from
from stepscope.record.targets import Target
from stepscope.record.targets.copies import Copies
from stepscope.record.targets.find import Finder
from stepscope.record.targets.steps import collectives
from stepscope.record.targets.watch import Observed, ObservingWatch, WatchedRegion
from stepscope.record.trouble import Guard

Kind = Literal["all", "forwards", "operators"]

MAX_REGIONS = 512
"""The most names of regions that are watched in an iteration, the first ones."""

_STEP = ("zero_grad", "forward", "**.forward", "backward", "optimizer.step", "host_to_device")
# Functions of torch.distributed that communicate; the others only query or set up.
_COLLECTIVES = (
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list",
    "gather", "gather_object", "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "scatter", "scatter_object_list", "send",
)  # fmt: skip


class TimedWatch(ObservingWatch):
    """Also times what it observes, without waiting for a device."""

    def __init__(self, plan: Plan, clock_of: Callable[[str], Clock]) -> None:
        # What a graph runs is listed, but not marked.
        super().__init__(plan, clock_of, recaptures=lambda: True)
        self.regions: set[str] = set()
        self._timed_by = clock_of
        # Keeps the event itself, because the id of a freed one could be reused.
        self._marks: dict[int, tuple[Observed, Clock, Any, Any]] = {}

    def open(self, label: str) -> Observed | None:
        event = super().open(label)
        if event is not None and not self._in_graph:
            clock = self._timed_by(label)
            self._marks[id(event)] = (event, clock, clock.mark(), None)
        return event

    def close(self, token: Observed | None) -> None:
        marked = None if token is None else self._marks.get(id(token))
        if marked is not None:
            event, clock, start, stop = marked
            stop = clock.mark() if stop is None else clock.move(stop)
            self._marks[id(event)] = (event, clock, start, stop)
        super().close(token)

    def ended(self) -> list[Observed]:
        ended = [event for event in self.events if event.end_index is not None]
        return sorted(ended, key=lambda event: event.start_index)

    def reached(self) -> bool:
        return all(clock.done(stop) for _, clock, _, stop in self._marks.values() if stop is not None)

    def time_ns(self, event: Observed) -> int | None:
        """The duration of an event; None if unknown, as inside a captured graph."""
        marked = self._marks.get(id(event))
        if marked is None:
            return None
        _, clock, start, stop = marked
        if stop is None or not clock.done(stop):
            return None
        return clock.between_ns(start, stop)


@dataclass(frozen=True, slots=True)
class Round:
    """One watched iteration; `excluded` if an epoch started or a validation ran in it."""

    kind: Kind
    watch: TimedWatch
    excluded: bool


class Surveyor:
    """Watches iterations of one job; makes its own observer of copies on a device, unless one is given."""

    def __init__(self, model: Any, optimizers: Iterable[Any], guard: Guard, copies: Copies | None = None) -> None:
        self.rounds: list[Round] = []
        self.watch: TimedWatch | None = None
        self._guard = guard
        self._local_copies: Copies | None = None
        self._finder = Finder(model, optimizers, copies)
        if copies is None and self._finder.clock_of("forward").kind != "host":
            self._finder.copies = self._local_copies = Copies()
            self._local_copies.attach()
        self._kind: Kind = "all"
        self._targets: list[Target] = []

    def start_iteration(self, kind: Kind, modules: Iterable[str] = ()) -> None:
        """Starts watching one iteration, for operators those inside these modules ("" is the model itself)."""
        self._kind = kind
        plan = _plan(kind, modules)
        # Not the finder's own method, which would keep the model alive.
        watch = TimedWatch(plan, functools.cache(lambda label: self._finder.clock_of(label)))
        self._targets = self._finder.everything(plan)
        self.watch = watch
        for target in self._targets:
            target.install(watch, self._guard)
        if kind != "operators":
            annotate.listen(self._open_region)

    def end_iteration(self, *, excluded: bool = False) -> None:
        watch = self.watch
        self.abandon()
        if watch is not None and not self._guard.tripped:
            self.rounds.append(Round(self._kind, watch, excluded))

    def abandon(self) -> None:
        self.watch = None
        annotate.stop_listening(self._open_region)
        for target in self._targets:
            target.close()
        self._targets = []

    def reached(self) -> bool:
        return all(watched.watch.reached() for watched in self.rounds)

    def wait(self, seconds: float) -> None:
        """Waits until the clocks have reached every mark; only between iterations of a survey."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.reached():
                return
            time.sleep(0.001)

    def remove(self) -> None:
        self.abandon()
        if self._local_copies is not None:
            self._local_copies.detach()
        self._finder = Finder(None, (), None)

    def _open_region(self, name: str) -> WatchedRegion | None:
        watch = self.watch
        if watch is None or (name not in watch.regions and len(watch.regions) == MAX_REGIONS):
            return None
        watch.regions.add(name)
        return WatchedRegion(watch, self._guard, name)


def _plan(kind: Kind, modules: Iterable[str]) -> Plan:
    # A region may have any name, so the first entry names all regions, and everything else.
    events = ["**"]
    if kind == "operators":
        for path in modules:
            prefix = f"{path}." if path else ""
            events += [f"{prefix}forward.*::*", f"{prefix}backward.*::*"]
    else:
        events += [*_STEP, *(f"collective.{name}" for name in collectives() if name in _COLLECTIVES)]
        if kind == "all":
            events.append("**.backward")
    return plan_from({"events": events}, source="everything")
