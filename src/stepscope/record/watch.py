"""Who listens while an iteration runs: the survey to everything, an armed watch to one event.

Whatever is installed in the job (see `targets`) says `open(label)` when something begins and hands
the returned token to `close` when it ends. A token of None means that nobody asked. Closing again
moves the end: a module's backward is over when the last of its nodes is, and which one that is
shows only afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from stepscope.record.clock import Clock
from stepscope.record.plan import Plan
from stepscope.record.ring import Marked
from stepscope.record.trouble import Guard


class Watch(Protocol):
    """Listens to what the installed targets say."""

    def open(self, label: str) -> Any:
        """Something of this label begins; the token is None when nobody asked for it."""

    def close(self, token: Any) -> None:
        """What `open` answered with `token` has ended, or has ended later than was said before."""


@dataclass(slots=True)
class Surveyed:
    """An event that the surveyed iteration ran; `end_index` is None when it began but did not end."""

    label: str
    occurrence: int
    device: int
    stream: int
    clock: str
    start_index: int
    end_index: int | None = None


class SurveyWatch:
    """Learns which planned events an iteration runs, in what order, on which device and stream.

    Args:
        plan: whose events are kept. Other labels are only counted, so that a wrong one in the plan
            can be told its nearest neighbours.
        clock_of: the clock that a label is measured with.
    """

    def __init__(self, plan: Plan, clock_of: Callable[[str], Clock]) -> None:
        self.events: list[Surveyed] = []
        self.seen: dict[str, int] = {}
        self.in_graph: set[tuple[str, int]] = set()
        """Planned (label, occurrence) inside a captured graph whose clock makes no marks there."""
        self._plan = plan
        self._clock_of = clock_of
        self._index = 0
        self._in_graph = False

    def open(self, label: str) -> Surveyed | None:
        """Notes the event when the plan names it."""
        clock = self._clock_of(label)
        if not self._in_graph and clock.capturing():
            # What ran before the capture was its rehearsal; the replays run what comes now.
            self._in_graph = True
            self.events.clear()
            self.seen.clear()
            self._index = 0
        occurrence = self.seen.get(label, 0)
        self.seen[label] = occurrence + 1
        if not self._plan.names(label, occurrence):
            return None
        if self._in_graph and not clock.marks_graphs():
            self.in_graph.add((label, occurrence))
            return None
        device, stream = clock.place()
        event = Surveyed(label, occurrence, device, stream, clock.kind, self._next_index())
        self.events.append(event)
        return event

    def close(self, token: Surveyed | None) -> None:
        """Notes the event's end."""
        if token is not None:
            token.end_index = self._next_index()

    def _next_index(self) -> int:
        self._index += 1
        return self._index - 1


@dataclass(slots=True)
class Marks:
    """The marks of one clock in one iteration; those in a graph are made again by its replays."""

    clock: Clock
    measured: list[Marked]
    in_graph: list[Marked]


@dataclass(slots=True)
class _Open:
    key: int
    clock: Clock
    start: Any
    in_graph: bool
    stop: Any = None


class ArmedWatch:
    """Marks the beginning and end of the events it was armed with, and of nothing else.

    Args:
        keys: (label, occurrence) to the event's key and clock.

    After the iteration `marked` gives what has begun and ended.
    """

    def __init__(self, keys: Mapping[tuple[str, int], tuple[int, Clock]]) -> None:
        self._keys = keys
        self._counts = dict.fromkeys((label for label, _ in keys), 0)
        self._opened: list[_Open] = []
        self._in_graph = False

    def listens_to(self, label: str) -> bool:
        """Whether any occurrence of this label is armed."""
        return label in self._counts

    def open(self, label: str) -> _Open | None:
        """Marks the beginning when this label's next occurrence is armed."""
        occurrence = self._counts.get(label)
        if occurrence is None:
            return None
        in_graph = any(clock.capturing() for _, clock in self._keys.values())
        if in_graph and not self._in_graph:
            # As in the survey: what ran before was the capture's rehearsal.
            self._in_graph = True
            self._give_back(self._opened)
            self._opened = []
            self._counts = dict.fromkeys(self._counts, 0)
            occurrence = 0
        self._counts[label] = occurrence + 1
        armed = self._keys.get((label, occurrence))
        if armed is None:
            return None
        key, clock = armed
        opened = _Open(key, clock, clock.mark(in_graph=in_graph), in_graph)
        self._opened.append(opened)
        return opened

    def close(self, token: _Open | None) -> None:
        """Marks the end, or moves it."""
        if token is None:
            return
        if token.stop is None:
            token.stop = token.clock.mark(in_graph=token.in_graph)
        else:
            token.stop = token.clock.move(token.stop)

    def marked(self) -> dict[int, Marks]:
        """What has begun and ended, by the clock's id; marks without an end are given back."""
        by_clock: dict[int, Marks] = {}
        for opened in self._opened:
            if opened.stop is None:
                self._give_back([opened])
                continue
            marks = by_clock.setdefault(id(opened.clock), Marks(opened.clock, [], []))
            kind = marks.in_graph if opened.in_graph else marks.measured
            kind.append((opened.key, opened.start, opened.stop))
        return by_clock

    def give_back(self) -> None:
        """Gives every mark back to its clock: nothing of the iteration is kept."""
        self._give_back(self._opened)
        self._opened = []

    def _give_back(self, opened: list[_Open]) -> None:
        for one in opened:
            if not one.in_graph:
                one.clock.release(one.start)
                if one.stop is not None:
                    one.clock.release(one.stop)


class WatchedRegion:
    """A region (see `annotate.region`) that the current iteration listens to."""

    __slots__ = ("_guard", "_label", "_token", "_watch")

    def __init__(self, watch: Watch, guard: Guard, label: str) -> None:
        self._watch = watch
        self._guard = guard
        self._label = label
        self._token: Any = None

    def __enter__(self) -> None:
        if not self._guard.tripped:
            try:
                self._token = self._watch.open(self._label)
            except Exception as error:
                self._guard.trip(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None and not self._guard.tripped:
            try:
                self._watch.close(self._token)
            except Exception as ours:
                self._guard.trip(ours)
