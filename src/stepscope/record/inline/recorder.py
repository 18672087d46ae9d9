"""Inline recording: acts at the start and end of every iteration in a plan's schedule.

`session` calls the recorder where iterations start and end. The recorder arms what the schedule orders, and later reads
the marks that the clocks have reached. It knows no loops, files or command lines.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stepscope.base.statistics import quantile
from stepscope.record import annotate
from stepscope.record.budget import OF_STEPS, Budget, UntimedBlock, next_timed
from stepscope.record.clock import Clock
from stepscope.record.inline.automatic_plan import AutomaticPlan
from stepscope.record.inline.events import MAX_LISTED, Event, Iterations, Measured, NotMeasured, not_measured_words
from stepscope.record.inline.schedule import Schedule, Turn
from stepscope.record.inline.shared_plan import SharedPlan, Weights
from stepscope.record.labels import parse_label
from stepscope.record.plan import Entry, Plan
from stepscope.record.ring import Marked, Ring
from stepscope.record.targets import Target
from stepscope.record.targets.copies import Copies
from stepscope.record.targets.find import Finder, why_not_seen
from stepscope.record.targets.watch import ArmedWatch, ObservingWatch, WatchedRegion
from stepscope.record.trouble import Guard, warn_once

_IN_GRAPH = "it runs inside a captured graph, where this torch's events keep no time; those of torch 2.8 do"
_JOB_GRAPH = (
    "it runs inside a graph that the job captures; ask `inline.recapture()` before each replay, and "
    "capture again where it answers True"
)
_DRAIN_SECONDS = 5.0
_REPLAY_SECONDS = 1.0
_USUAL = 16  # unarmed iterations with which an armed one is compared
_APART = 4
"""Distance of armed iterations from those with timed phases, if both are rare, so that the neighbours of both are
undisturbed."""
_READ_EVERY = 8  # iterations between two readings of reached marks; the ring holds eight times as many


_Arming = tuple[ArmedWatch, list[Target], bool]
"""What measures one event or all: its watch, its installed targets, and whether it listens to regions."""


class Recorder:
    """Runs a plan's schedule over a job's iterations. The model may be set later, during the warm-up."""

    def __init__(
        self,
        plan: Plan,
        guard: Guard,
        *,
        model: Any = None,
        optimizers: Iterable[Any] = (),
        copies: Copies | None = None,
        shared: SharedPlan | None = None,
    ) -> None:
        self.plan = plan
        self.model = model
        self.optimizers = list(optimizers)
        self.copies = copies
        self.events: list[Event] = []
        self.not_measured: list[NotMeasured] = []
        self.model_changes: list[int] = []
        """Iterations from which on another model was measured."""
        self.iterations = Iterations()
        """Every iteration that counts for the overhead."""
        self.untimed = UntimedBlock()
        """The iterations since the last one without an event that count for the mean."""
        self.iteration = -1
        self.bookkeeping_ns = 0
        self.in_graph = False
        """Whether something was measured inside a captured graph, where no iteration is unarmed."""
        self.watch: ObservingWatch | ArmedWatch | None = None
        self.share = OF_STEPS
        """The share of the limit for recording."""
        self._budgets: defaultdict[int | None, Budget] = defaultdict(lambda: Budget(share=self.share))
        self._overhead_ns = 0  # the time for arming the running iteration
        self._unarmed_ns: deque[int] = deque(maxlen=_USUAL)
        self.schedule = Schedule(
            # The first runs undisturbed; what was not given is found in the second.
            warmup=max(plan.warmup, 1 if model is not None and self.optimizers else 2),
            repetitions=plan.repetitions,
            unarmed_every=plan.unarmed_every,
            one_shot=plan.mode == "one_shot",
            in_rounds=plan.mode == "in_rounds",
            survey=plan.is_automatic,
            left=self._left,
            interval_of=self._interval,
            stays=self._job_recaptures,
        )
        self._guard = guard
        self._shared = shared
        self._ring = Ring()
        self._finder: Finder | None = None
        self._targets: list[Target] = []
        self._armed: list[tuple[Target | None, Clock]] = []
        self._armings: dict[int | None, _Arming] = {}
        self._armed_watch = ArmedWatch({})
        self._installed = False
        self._captured_for: int | None = -1
        self._recaptures = False
        self._began_ns: int | None = None
        self._excluded = False
        self._regions = False
        self._automatic: AutomaticPlan | None = None
        self._weights: Weights = {}
        self._first_ns: int | None = None
        self._last_ns = 0
        self._missed: Counter[int] = Counter()
        """By event, armed iterations that did not run it, since the last one that ran any event."""

    @property
    def surveys(self) -> bool:
        return self._automatic is not None and self._automatic.watch is not None

    @property
    def done(self) -> bool:
        """Whether everything measurable has been measured; some may still have to be read."""
        return self.schedule.turn.role == "done"

    def measured(self) -> Measured:
        return Measured(
            plan=self.plan,
            events=[replace(event, samples=event.samples.copy()) for event in self.events],
            not_measured=self.not_measured.copy(),
            model_changes=self.model_changes.copy(),
            iterations=self.iterations.copy(since=self.untimed),
            iterations_run=self.iteration + 1,
            bookkeeping_ns=self.bookkeeping_ns,
            in_graph=self.in_graph,
            armed_every=max((budget.interval for budget in self._budgets.values()), default=1),
            observed=self.schedule.has_observed,
            done=self.done,
        )

    def read(self) -> bool:
        """Reads marks that the clocks have reached; returns whether any is still in flight."""
        self._read()
        return len(self._ring) > 0

    def start_iteration(self, now_ns: int, *, first_of_epoch: bool = False) -> None:
        """Starts an iteration; the first of an epoch runs undisturbed and does not count."""
        self.iteration += 1
        self._began_ns = now_ns
        self.untimed.resume(now_ns)
        if self._first_ns is None:
            self._first_ns = now_ns
        self._excluded = first_of_epoch
        role = self.schedule.turn.role
        if first_of_epoch or role not in ("survey", "observe", "armed"):
            self._disarm()
        elif role == "survey":
            self._survey()
        elif role == "observe":
            self.watch = self._observe()
            self._install(self.watch)
        else:
            watch = self._arm(self.schedule.turn)
            self.watch = watch
            if not self._installed:
                self._install(watch)
            # Last, so that no offset includes the time for installing.
            watch.start()
            self._overhead_ns = time.perf_counter_ns() - now_ns

    def exclude_current(self) -> None:
        self._excluded = True

    def end_iteration(self, now_ns: int, values: Mapping[str, float] = MappingProxyType({})) -> bool:
        """Ends the iteration; returns whether everything is now measured."""
        if self._began_ns is None:  # the last of those that ran without a call
            self.untimed.skipped(1)
            self.untimed.resume(now_ns)
            return False
        if self._excluded:
            self.abandon()
            return False
        time_ns = now_ns - self._began_ns
        self._began_ns = None
        self._last_ns = now_ns
        watch, self.watch = self.watch, None
        turn = self.schedule.turn
        if turn.role == "survey" and self._automatic is not None:
            self._surveyed(self._automatic)
        measured = isinstance(watch, ArmedWatch) and self._collect(watch, turn)
        if turn.role == "observe" and isinstance(watch, ObservingWatch):
            self._disarm()
            self._close_targets()
            self._observed(watch)
        # With all events at once, an iteration may be very different from the undisturbed job.
        if turn.role == "unarmed" or (turn.counted and self.plan.mode != "one_shot"):
            self.untimed.timed(time_ns)
        if turn.role == "unarmed" or (measured and turn.counted):
            interval = self._interval(turn.event)
            of_all = self.untimed.take() if turn.role == "unarmed" else (interval, interval * time_ns)
            row = self.iteration, turn.role == "armed", time_ns, *of_all
            self.iterations.add(row, values)
        left = self._left()
        if left is not None and left <= 0:
            self.schedule.finish()
        following = self.schedule.advance(measured=measured, following=self.iteration + 2 + _APART)
        if following.role == "armed" and following.event == turn.event:
            for target in self._targets:
                target.reset()
        else:
            self._disarm()
        # Not every time, because code that a step has evicted from the caches is slow.
        if self.iteration % _READ_EVERY == 0:
            self._read()
        overhead_ns = time.perf_counter_ns() - now_ns
        self.bookkeeping_ns += overhead_ns
        if turn.role == "unarmed":
            self._unarmed_ns.append(time_ns)
        elif measured and turn.counted and self._unarmed_ns:
            usual_ns = round(quantile(sorted(self._unarmed_ns), 0.5))
            for budget in self._budgets_of(turn.event):
                budget.spent(self._overhead_ns + overhead_ns, usual_ns, time_ns - usual_ns + overhead_ns)
        return following.role == "done"

    def _budgets_of(self, event: int | None) -> set[Budget]:
        return {self._budgets[event], self._budgets[None if self.schedule.in_rounds else event]}

    def _interval(self, event: int | None) -> int:
        """The k of an event; that of all while little is known of it, but not in its first turn."""
        budget = self._budgets[event]
        if budget.judged or not self.schedule.in_rounds or self.schedule.first_round:
            return budget.interval
        return max(budget.interval, self._budgets[None].interval)

    def abandon(self, *, began: bool = True) -> None:
        if not began:
            self.iteration -= 1
        watch = self.watch
        self._began_ns = None
        self._disarm()
        if self._automatic is not None:
            self._automatic.abandon()
        if isinstance(watch, ArmedWatch):
            watch.give_back()

    def left_out(self, number: int) -> int:
        """How many iterations, from this one on, are neither armed nor just before an armed one, its comparison."""
        if self.schedule.turn.role != "unarmed":
            return 0
        following = number + _APART
        return max(0, next_timed(following, self._interval(self.schedule.event)) - following - 1)

    def passed(self, iterations: int) -> None:
        """Counts iterations that ran, or still run, without a call; the one before them was not timed either."""
        if self._began_ns is not None and not self._excluded:
            self.untimed.pause(self._began_ns)
            self.untimed.skipped(1)
        self.iteration += iterations
        self.untimed.skipped(iterations - 1)
        self._began_ns = None

    def remove(self) -> None:
        self._began_ns = None
        self._disarm()
        if self._automatic is not None:
            self._automatic.remove()
        self._close_targets()
        self._armed = []
        self._armings.clear()
        self._let_go()

    def drain(self) -> None:
        """Reads what is in flight, after the job: asking from a second thread would spoil a graph's capture."""
        self._wait_for_ring(_DRAIN_SECONDS, poll_seconds=0.01)
        self._ring.drop()
        for key, lost in self._ring.lost.items():
            self.events[key].lost += lost
        self._ring.lost.clear()

    def recapture(self) -> bool:
        """Whether a CUDA graph must be captured now, because its marks have changed: in the watched iterations, in the
        first of each event, and once more at the end. Ask once per iteration, before the replay.
        """
        self._recaptures = True
        turn = self.schedule.turn
        if self._excluded or turn.role in ("warmup", "unarmed"):
            return False
        if turn.role == "survey":
            return self.surveys
        asked_for = None if turn.role == "observe" else len(self.events)
        if turn.role == "armed":
            asked_for = turn.event or 0
        changed = asked_for != self._captured_for
        self._captured_for = asked_for
        if changed:
            self._armed_watch.in_graph = {}
        return changed

    def _job_recaptures(self) -> bool:
        return self._recaptures

    def _left(self) -> float | None:
        """The number of iterations left to measure in, at the present pace; None if unknown."""
        plan, run = self.plan, self.iteration + 1
        left = None if plan.measured_iterations is None else float(plan.measured_iterations - run)
        if plan.measured_seconds is not None and self._first_ns is not None:
            took_ns = self._last_ns - self._first_ns
            by_pace = run * (plan.measured_seconds * 1e9 / max(took_ns, 1) - 1)
            left = by_pace if left is None else min(left, by_pace)
        return left

    def _survey(self) -> None:
        if self._automatic is None:
            self._automatic = AutomaticPlan(self.model, self.optimizers, self.copies, self._guard, self._shared)
        self._automatic.start_iteration()
        self.watch = self._automatic.watch

    def _surveyed(self, plan: AutomaticPlan) -> None:
        """Ends the survey of an iteration, and makes the plan after enough of them."""
        plan.end_iteration()
        if plan.weights is None:
            return
        self._automatic = None
        self._weights = plan.weights
        entries = tuple(Entry(parse_label(label), label) for label in plan.weights)
        self.plan = replace(self.plan, entries=entries)
        self.schedule.surveyed()

    def _observe(self) -> ObservingWatch:
        self._finder = Finder(self.model, self.optimizers, self.copies)
        self._targets = self._finder.everything(self.plan)
        return ObservingWatch(self.plan, self._finder.clock_of, self._job_recaptures)

    def _observed(self, watch: ObservingWatch) -> None:
        finder = self._finder
        if finder is None:
            return
        ended = [event for event in watch.events if event.end_index is not None]
        self.events = [Event(event) for event in sorted(ended, key=lambda event: event.start_index)]
        self._armed = self._targets_in(finder)
        self.schedule.observed(len(self.events), self._heaviest_first())
        for entry in self.plan.entries:
            if any(entry.label.matches(event.label, event.occurrence) for event in ended):
                continue
            if any(entry.label.matches(event.label, event.occurrence) for event in watch.events):
                reason = "it started in the observed iteration but did not end in it"
            elif any(entry.label.matches(*event) for event in watch.in_graph):
                reason = _IN_GRAPH if self._recaptures else _JOB_GRAPH
            elif any(entry.label.matches(label, entry.label.occurrence or 0) for label in watch.elsewhere):
                reason = "it runs in another thread than the training loop's"
            else:
                # Finding the nearest name takes a millisecond of the job's time, and few names are ever shown.
                near = watch.seen if len(self.not_measured) < MAX_LISTED else ()
                reason = why_not_seen(entry, finder, near)
            self.not_measured.append(NotMeasured(entry, reason))
        self._let_go()
        if self.not_measured:
            warn_once(not_measured_words(self.plan, self.not_measured))

    def _heaviest_first(self) -> list[int] | None:
        """The numbers of the events, by their time in an iteration, longest first; None if the times are unknown."""
        if not self._weights:
            return None

        def weight(number: int) -> int:
            event = self.events[number].observed
            first = self._weights.get(f"{event.label}#0", 0)
            return self._weights.get(event.label, first)

        return sorted(range(len(self.events)), key=lambda number: -weight(number))

    def _let_go(self) -> None:
        """Releases the job's model and optimizers, so that hooks in them do not keep them alive."""
        self._finder = None
        self.model = None
        self.optimizers = []

    def _targets_in(self, finder: Finder) -> list[tuple[Target | None, Clock]]:
        armed = {
            label: (finder.armed(parse_label(label)), finder.clock_of(label))
            for label in {event.observed.label for event in self.events}
        }
        return [armed[event.observed.label] for event in self.events]

    def follow(self, model: Any, optimizers: Iterable[Any]) -> None:
        """Replaces the measured model by that of the next fold, whose modules at the same paths are then measured."""
        self._disarm()
        self.model, self.optimizers = model, list(optimizers) or self.optimizers
        if self._automatic is not None:
            self._automatic.remove()
            self._automatic = None
        if not self.schedule.has_observed:
            return
        self.model_changes.append(self.iteration + 1)
        self._close_targets()
        finder = Finder(model, self.optimizers, self.copies)
        self._armed = self._targets_in(finder)
        self._armings.clear()
        self._let_go()
        for key, missed in self._missed.items():
            self.events[key].missed -= missed
            self.events[key].other_model += missed
        self._missed.clear()
        self.schedule.start_again()
        lacking = {
            event.observed.label
            for event in self.events
            if (label := parse_label(event.observed.label)).module is not None and label.module not in finder.modules
        }
        if lacking:
            warn_once(
                f"the model that was found after {self.iteration + 1} iterations has no {', '.join(sorted(lacking))}: "
                "what was measured of it is of the model before"
            )

    def _keys(self, turn: Turn) -> range:
        return range(len(self.events)) if turn.event is None else range(turn.event, turn.event + 1)

    def _arm(self, turn: Turn) -> ArmedWatch:
        """The watch of a turn's event, which keeps its targets from turn to turn."""
        if turn.event not in self._armings:
            self._armings[turn.event] = self._arming(turn)
        self._armed_watch, self._targets, self._regions = self._armings[turn.event]
        return self._armed_watch

    def _arming(self, turn: Turn) -> _Arming:
        armed: dict[tuple[str, int], tuple[int, Clock]] = {}
        targets: dict[int, Target] = {}
        regions = False
        for key in self._keys(turn):
            event = self.events[key].observed
            target, clock = self._armed[key]
            armed[(event.label, event.occurrence)] = (key, clock)
            if target is None:
                regions = True  # or an input wait, which the session observes
            else:
                targets[id(target)] = target
        return ArmedWatch(armed, self._job_recaptures), [*targets.values()], regions

    def _install(self, watch: ObservingWatch | ArmedWatch) -> None:
        self._installed = True
        for target in self._targets:
            target.install(watch, self._guard)
        if isinstance(watch, ObservingWatch) or self._regions:
            annotate.listen(self._open_region)

    def _disarm(self) -> None:
        self.watch = None
        if not self._installed:
            return
        self._installed = False
        annotate.stop_listening(self._open_region)
        for target in self._targets:
            target.remove()

    def _close_targets(self) -> None:
        for target in (*self._targets, *(target for target, _ in self._armed if target is not None)):
            target.close()
        self._targets = []

    def _collect(self, watch: ArmedWatch, turn: Turn) -> bool:
        """Puts an armed iteration's marks into the ring; returns whether it ran what was armed."""
        ran: list[Marked] = []
        for pending in watch.end(self.iteration):
            ran += pending.measured
            ran += pending.in_graph
            if turn.counted and (pending.measured or pending.in_graph):
                pending.weight = self._interval(turn.event)
                self._ring.push(pending)
            else:
                pending.release()
        # An event alone has run if anything has.
        if turn.event is None or not ran:
            keys = {key for key, _, _ in ran}
            for event in self._keys(turn):
                self.events[event].missed += event not in keys
                self._missed[event] += event not in keys
        if ran:
            self._missed.clear()
        if watch.in_graph:
            self.in_graph = True
        if watch.in_graph and turn.counted:
            # The next replay overwrites these marks, so they are read before it or never.
            self._wait_for_ring(_REPLAY_SECONDS, poll_seconds=0.0002)
            self._ring.drop()
        return bool(ran)

    def _read(self) -> None:
        for key, sample in self._ring.read():
            self.events[key].samples.measured(sample.iteration, sample.duration_ns, sample.offset_ns, sample.weight)

    def _wait_for_ring(self, seconds: float, *, poll_seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._read()
        while len(self._ring) and time.monotonic() < deadline:
            time.sleep(poll_seconds)
            self._read()

    def _open_region(self, name: str) -> AbstractContextManager[Any] | None:
        watch = self.watch
        if watch is None or (isinstance(watch, ArmedWatch) and not watch.listens_to(name)):
            return None
        return WatchedRegion(watch, self._guard, name)
