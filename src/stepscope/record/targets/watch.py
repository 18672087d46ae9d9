"""Receives what targets observe in an iteration: an observing watch takes everything, an armed one one event.

Targets call `open(label)` when something starts and pass the token to `close` when it ends; None means that it is not
needed. Closing again moves the end: a module's backward ends with the last of its nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Protocol

from stepscope.record.clock import Clock
from stepscope.record.compiling import never
from stepscope.record.labels import parse_label
from stepscope.record.plan import Plan
from stepscope.record.ring import Marked, Pending
from stepscope.record.trouble import Guard


class Watch(Protocol):
    """What targets call when something starts and ends."""

    @property
    def resting(self) -> bool:
        """Whether calls do nothing now, so that a target need not prepare anything."""

    def open(self, label: str) -> Any:
        """Something with this label starts; the token is None if it is not wanted."""

    def close(self, token: Any) -> None:
        """What `token` stands for has ended, or ended later than at the last call."""


@dataclass(slots=True)
class Observed:
    """An event in the observed iteration; `end_index` is None if it started and did not end."""

    label: str
    occurrence: int
    device: int
    stream: int
    clock: str
    start_index: int
    end_index: int | None = None


class ObservingWatch:
    """Learns which planned events an iteration runs, in what order, on which device and stream.

    Other labels are counted, to suggest the nearest ones for a wrong label. `recaptures` is whether the job asks when
    to capture its graph (see `Recorder.recapture`).
    """

    resting = False

    def __init__(self, plan: Plan, clock_of: Callable[[str], Clock], recaptures: Callable[[], bool] = never) -> None:
        self.events: list[Observed] = []
        self.seen: dict[str, int] = {}
        self.in_graph: set[tuple[str, int]] = set()
        """Planned (label, occurrence) inside a captured graph that cannot contain marks."""
        self.elsewhere: set[str] = set()
        """Labels restricted to the training loop's thread that occurred in another one."""
        self._thread = get_ident()
        self._plan = plan
        self._clock_of = clock_of
        self._recaptures = recaptures
        self._indices = itertools.count()
        self._in_graph = False

    def open(self, label: str) -> Observed | None:
        if get_ident() != self._thread and parse_label(label).in_loops_thread:
            self.elsewhere.add(label)
            return None
        clock = self._clock_of(label)
        if not self._in_graph and clock.capturing():
            # Before the capture was its rehearsal; the replays run what follows.
            self._in_graph = True
            self.events.clear()
            self.seen.clear()
            self._indices = itertools.count()
        occurrence = self.seen.get(label, 0)
        self.seen[label] = occurrence + 1
        if not self._plan.names(label, occurrence):
            return None
        if self._in_graph and not (self._recaptures() and clock.marks_graphs()):
            self.in_graph.add((label, occurrence))
            return None
        device, stream = clock.place()
        event = Observed(label, occurrence, device, stream, clock.kind, next(self._indices))
        self.events.append(event)
        return event

    def close(self, token: Observed | None) -> None:
        if token is not None:
            token.end_index = next(self._indices)


@dataclass(slots=True)
class _Open:
    key: int
    clock: Clock
    start: Any
    in_graph: bool
    iteration: object
    stop: Any = None


class ArmedWatch:
    """Marks the start and end of armed events, by (label, occurrence), in one iteration after the other.

    Between `end` and the next `start` it marks nothing. In a graph that the job captures without asking, marks would
    stay as long as it replays the graph.
    """

    def __init__(
        self, keys: Mapping[tuple[str, int], tuple[int, Clock]], recaptures: Callable[[], bool] = never
    ) -> None:
        self.in_graph: dict[int, list[Marked]] = {}
        """By the clock's id, the marks in a captured graph, which every replay records again."""
        self._keys = keys
        self._recaptures = recaptures
        self._labels = dict.fromkeys((label for label, _ in keys), 0)
        self._thread_bound = {label for label in self._labels if parse_label(label).in_loops_thread}
        self._clocks = list({id(clock): clock for _, clock in keys.values()}.values())
        self._thread = get_ident()
        self._counts: dict[str, int] = {}
        self._opened: list[_Open] = []
        self._origins: list[Any] = []
        self._capturing = False

    def start(self) -> None:
        """Starts an iteration: every clock marks it, and its events from now on."""
        self._thread = get_ident()
        self._counts = self._labels.copy()
        self._opened = []
        self._capturing = False
        self._origins = [clock.mark() for clock in self._clocks]

    @property
    def resting(self) -> bool:
        return not self._counts

    def listens_to(self, label: str) -> bool:
        return label in self._counts

    def open(self, label: str) -> _Open | None:
        occurrence = self._counts.get(label)
        if occurrence is None or (label in self._thread_bound and get_ident() != self._thread):
            return None
        in_graph = False
        for clock in self._clocks:
            in_graph = in_graph or clock.capturing()
        if in_graph and not self._recaptures():
            return None
        if in_graph and not self._capturing:
            # As in the observed iteration, what ran before was the capture's rehearsal.
            self._capturing = True
            self._give_back()
            self._opened = []
            self._counts = self._labels.copy()
            occurrence = 0
        self._counts[label] = occurrence + 1
        armed = self._keys.get((label, occurrence))
        if armed is None:
            return None
        key, clock = armed
        opened = _Open(key, clock, clock.mark(in_graph=in_graph), in_graph, self._opened)
        self._opened.append(opened)
        return opened

    def close(self, token: _Open | None) -> None:
        if token is None or token.iteration is not self._opened:
            return
        if not token.in_graph and token.clock.capturing():
            # It started before the capture, so our mark would become part of the graph.
            return
        if token.stop is None:
            token.stop = token.clock.mark(in_graph=token.in_graph)
        else:
            token.stop = token.clock.move(token.stop)

    def end(self, iteration: int) -> list[Pending]:
        """Ends the iteration; returns its measurements for each clock, without events that have not ended."""
        opened, origins = self._opened, self._origins
        self._counts, self._opened, self._origins = {}, [], []
        if self._capturing:
            self.in_graph = {}
        pending = []
        # Plain loops, because this code and its data are not in the caches after a training step.
        for clock, origin in zip(self._clocks, origins, strict=True):
            measured: list[Marked] = []
            for event in opened:
                if event.clock is not clock:
                    continue
                if event.stop is None:
                    _give_back(event)
                elif event.in_graph:
                    marks = self.in_graph.setdefault(id(clock), [])
                    marks.append((event.key, event.start, event.stop))
                else:
                    measured.append((event.key, event.start, event.stop))
            in_graph = self.in_graph.get(id(clock), ())
            end = clock.mark() if in_graph else None
            pending.append(Pending(iteration, clock, origin, measured, in_graph, end))
        return pending

    def give_back(self) -> None:
        self._give_back()
        for clock, origin in zip(self._clocks, self._origins, strict=False):
            clock.release(origin)
        self._counts, self._opened, self._origins = {}, [], []

    def _give_back(self) -> None:
        for event in self._opened:
            _give_back(event)


def _give_back(event: _Open) -> None:
    if not event.in_graph:
        event.clock.release(event.start)
        if event.stop is not None:
            event.clock.release(event.stop)


class WatchedRegion:
    """A region (see `annotate.region`) that the current iteration observes."""

    __slots__ = ("_guard", "_label", "_token", "_watch")

    def __init__(self, watch: Watch, guard: Guard, label: str) -> None:
        self._watch = watch
        self._guard = guard
        self._label = label
        self._token: Any = None

    def __enter__(self) -> None:
        self._token = self._guard.ask(self._watch.open, self._label)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            self._guard.ask(self._watch.close, self._token)
