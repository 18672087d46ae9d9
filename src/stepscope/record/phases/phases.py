"""Times the phases of every step, always on: input wait, copy to the device, forward, backward, optimizer.

Each moment of a step belongs to the innermost open phase, or to the residual: they add up exactly to the step's time on
the host. Marks on the stream of the model's device give the device time of each phase, and show whether the device had
already finished when the host asked.

If timing a step costs too much, only one in k is timed (see `Budget`). The total time of the steps in between is still
known from the clock at their start and end, so the mean step covers all of them; a timed step represents those since
the last one. An iteration that breaks off, or in which an epoch starts, ends the block before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from stepscope.base.step_phases import PHASE_OF_EVENT, PHASES, RECORDED_PHASES
from stepscope.record.budget import Budget, UntimedBlock
from stepscope.record.clock import Clock
from stepscope.record.memory import MemoryReader
from stepscope.record.phases.history import History
from stepscope.record.ring import MAX_MEASUREMENTS, Marked, Pending, Ring

COLUMNS = (
    *("step", "time_ns"),
    *(f"{phase}_ns" for phase in PHASES),
    *("weight", "weight_ns", "memory_bytes", "peak_bytes", "reserved_bytes"),
)
"""Columns of the recorded steps: a step represents `weight` steps, which took `weight_ns`; memory is 0 if not read."""

_RESIDUAL = PHASES.index("residual")
_WEIGHT, WEIGHT_NS = COLUMNS.index("weight"), COLUMNS.index("weight_ns")
_NUMBER = {event: PHASES.index(phase) for event, phase in PHASE_OF_EVENT.items()}
_INPUT_WAIT = _NUMBER["input_wait"]
_FORWARD = _NUMBER["forward"]
_BACKWARD = _NUMBER["backward"]
_OPTIMIZER = _NUMBER["optimizer"]


_WAITS = -1  # token of a wait for a batch in a step that is not timed

_MAX_PENDING = 64


class Phases:
    """Times the phases of one process. It is a `Watch`: targets call it when something starts and ends."""

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self.history = History(len(COLUMNS), adds_up=(_WEIGHT, WEIGHT_NS))
        self.installed: set[str] = set()
        """Observed phases; the others are not measured, which is not 0."""
        self.resting = False
        """Whether the running step is not timed."""
        self.steps = 0
        self.before = 0
        """A step's number in the job minus the number of steps that have ended, including it."""
        self.timed_steps = 0
        self.budget = Budget()
        """Decides which steps are timed, by the time of our own code in them."""
        self._overhead_ns = 0
        self._counted_ns: int | None = None
        self.disturbed_steps = 0
        """Steps that do not count: a profiler ran in them, wrote its file, or everything in them was watched."""
        self.unobserved_steps = 0
        """Steps that do not count because another model was trained in them before it was found."""
        self.opened = [0] * len(RECORDED_PHASES)
        """The number of starts of each phase, in all steps."""
        self.first_batch_ns: list[int] = []
        self.peak_bytes: int | None = None
        self.reserved_bytes: int | None = None
        """The most memory that a device's allocator held when it was read."""
        self.device_ns = [0] * len(RECORDED_PHASES)
        self.device_counts = [0] * len(RECORDED_PHASES)
        """How often the device was timed in each phase; with 0, its time is unknown."""
        self.device_steps = 0
        self.device_checked = 0
        self.device_idle = 0
        self.clock: Clock | None = None
        self.memory = MemoryReader()
        self.in_forward: Callable[[], object] | None = None
        """Called once, in the first observed forward."""
        self.memory_every = 10
        """Approximate number of steps between two readings: an allocator's counters cost tens of microseconds."""
        self.warmup = 5
        """Initial steps that do not count: allocations, autotuning, compilation."""
        self._now = now
        self._thread = threading.get_ident()
        self._times = [0] * len(PHASES)
        self._open: list[int] = []
        self._last_ns = 0
        self._began_ns: int | None = None
        self.untimed = UntimedBlock()
        """The counted steps since the last timed one."""
        self._excluded = False
        self._disturbed = False
        self._wait_began_ns = 0
        self._wait_ns: int | None = None  # the last wait for a batch in the running step
        self._first_wait_ns: int | None = None  # the last wait with which a loader started over in it
        self._ring = Ring()
        self._origin: Any = None
        self._marks: list[Marked] = []
        self._mark_open: Any = None
        self._backward_stop: Any = None
        self._device_idle: bool | None = None
        self._last_read = -1
        self._memory_step = 0
        self._opened_before = (0, 0)
        self._pending: list[tuple[tuple[int, ...], Mapping[str, float]]] = []
        """Counted steps with a backward but no forward of the known model; perhaps another model's."""

    def times(self, number: int, *, first_of_epoch: bool) -> bool:
        """Whether a step is timed, by its number; the first of an epoch always is, for its first batch."""
        return first_of_epoch or self.budget.due(number)

    def start_step(self, now_ns: int, *, first_of_epoch: bool = False, number: int | None = None) -> None:
        """Starts a step; `number` is its number in the job. The first of an epoch does not count."""
        number = self.steps + 1 if number is None else number
        self.resting = not self.times(number, first_of_epoch=first_of_epoch)
        self._excluded = first_of_epoch
        self._wait_ns = self._first_wait_ns = None
        self._thread = threading.get_ident()
        self._disturbed = False
        if self.resting:
            self._began_ns = None
            self.untimed.pause(now_ns)
            return
        self.untimed.resume(now_ns)
        self._overhead_ns = 0
        self._times = [0] * len(PHASES)
        self._open = [_RESIDUAL]
        self._opened_before = self.opened[_FORWARD], self.opened[_BACKWARD]
        self._began_ns = self._last_ns = now_ns
        clock = self.clock
        if clock is not None:
            self._give_back()
            self._backward_stop = self._device_idle = None
            self._origin = clock.mark()

    def passed(self, steps: int, *, runs: bool) -> None:
        """Counts untimed steps that ran without a call; the last of them, or else the one before, still `runs`."""
        if steps:
            self.steps += steps - runs
            self.untimed.skipped(steps - runs)
            self._excluded = False
            self._wait_ns = self._first_wait_ns = None
        self.resting = runs

    def exclude_current(self) -> None:
        """Excludes the running step: a loader has just started over in it."""
        self._excluded = True
        # A validation before an epoch has its own waits, and starts before them.
        self._first_wait_ns = self._wait_ns

    def disturbed(self) -> None:
        """Excludes the running step: a profiler or a survey slows it down."""
        self._disturbed = True

    def end_step(self, now_ns: int | None, values: Mapping[str, float] = MappingProxyType({})) -> None:
        """Ends the step; `values` are its numbers by name, the time None if it and the following steps are untimed."""
        if self.resting:
            self.resting = False
            self.steps += 1
            self._note_first_wait()
            self.untimed.skipped(1)
            if self._excluded or self._disturbed or self.steps <= self.warmup:
                self.untimed.resume(None)
            elif now_ns is not None:
                self.untimed.resume(now_ns)
        if self._began_ns is None or now_ns is None:
            return
        times = self._times
        times[self._open[-1]] += now_ns - self._last_ns
        time_ns = now_ns - self._began_ns
        self._began_ns = None
        self.steps += 1
        self.timed_steps += 1
        counted = not self._excluded and self.steps > self.warmup and not self._disturbed
        self.disturbed_steps += self._disturbed
        memory = self._read_memory() if self._memory_is_due(counted=counted) else (None,) * 3
        self._note_first_wait()
        if counted:
            untimed = self.untimed
            untimed.timed(time_ns)
            of_all = untimed.steps, untimed.ns
            row = (self.steps + self.before, time_ns, *times, *of_all, *(size or 0 for size in memory))
            self._pending.append((row, values))
            if not self._lacks_forward or len(self._pending) > _MAX_PENDING:
                self._count_pending()
            self._counted_ns = time_ns
        if self.clock is not None:
            self._collect(self.clock, counted=counted)
        if counted:
            self.untimed.take()

    @property
    def _lacks_forward(self) -> bool:
        forwards, backwards = self._opened_before
        no_forward = self.opened[_FORWARD] == forwards
        return bool(forwards) and no_forward and self.opened[_BACKWARD] != backwards

    def _count_pending(self) -> None:
        for row, values in self._pending:
            self.history.add(row, values, row[_WEIGHT])
        self._pending.clear()

    def other_model(self) -> None:
        """Assigns the last steps without a known forward to another model that was found."""
        self.unobserved_steps += len(self._pending)
        self._pending.clear()

    def took(self, time_ns: int) -> None:
        """Adds time of our own code in the running step, or after it."""
        self._overhead_ns += time_ns

    def settle(self) -> None:
        """Sets how many steps are timed, by the cost of the last timed ones; call between steps."""
        if self._counted_ns is not None:
            self.budget.spent(self._overhead_ns, self._counted_ns)
            self._counted_ns = None

    def abandon(self) -> None:
        self.resting = False
        self._began_ns = None
        self.untimed.resume(None)
        self._give_back()

    def open(self, label: str) -> int | None:
        if self.resting and label == "input_wait" and threading.get_ident() == self._thread:
            # An epoch may start in this step, and its first batch is recorded.
            self._wait_began_ns = self._now()
            return _WAITS
        if self._began_ns is None or threading.get_ident() != self._thread:
            return None
        if self.in_forward is not None and label == "forward":
            ask, self.in_forward = self.in_forward, None
            ask()
        now_ns = self._now()
        self._times[self._open[-1]] += now_ns - self._last_ns
        self._last_ns = now_ns
        number = _NUMBER[label]
        if number == _INPUT_WAIT:
            self._wait_began_ns = now_ns
        self._open.append(number)
        depth = len(self._open) - 1
        self.opened[number] += 1
        clock = self.clock
        # Input waits are the host's, and marks of phases inside phases would count twice. The ring drops a step with
        # one mark too many, because times of half of its phases would be wrong.
        if clock is not None and number and depth == 1 and len(self._marks) <= MAX_MEASUREMENTS:
            # Our marks must not get into a graph that the job captures.
            self._mark_open = None if clock.capturing() else clock.mark()
        self._overhead_ns += self._now() - now_ns
        return depth

    def close(self, token: int | None) -> None:
        if token == _WAITS and self.resting:
            self._waited(self._now())
        if token is None or token < 0 or self._began_ns is None or token >= len(self._open):
            return
        now_ns = self._now()
        self._times[self._open[-1]] += now_ns - self._last_ns
        self._last_ns = now_ns
        number = self._open[token]
        if number == _INPUT_WAIT:
            self._waited(now_ns)
        del self._open[token:]
        if self.clock is not None and token == 1 and self._mark_open is not None:
            self._mark_close(self.clock, number)
        self._overhead_ns += self._now() - now_ns

    def _waited(self, now_ns: int) -> None:
        self._wait_ns = now_ns - self._wait_began_ns
        if self._excluded and self._first_wait_ns is None:
            self._first_wait_ns = self._wait_ns

    def _note_first_wait(self) -> None:
        if self._excluded and self._first_wait_ns is not None and len(self.first_batch_ns) < 64:
            self.first_batch_ns.append(self._first_wait_ns)

    def _mark_close(self, clock: Clock, number: int) -> None:
        start, self._mark_open = self._mark_open, None
        if clock.capturing():
            clock.release(start)
            return
        stop = clock.mark()
        self._marks.append((number, start, stop))
        if number == _BACKWARD:
            self._backward_stop = stop
        elif number == _OPTIMIZER and self._backward_stop is not None:
            self._device_idle = clock.done(self._backward_stop)

    def where(self) -> tuple[bool, str | None]:
        """Whether a step runs, and its open phase; None in a step that is not timed. Callable from any thread."""
        if self.resting:
            return True, None
        open_now = self._open
        if self._began_ns is None or not open_now:
            return False, None
        number = open_now[-1]
        return True, PHASES[number]

    def measured(self, phase: str) -> bool:
        """Whether a phase's time is known; in compiled code and captured graphs it is in the residual."""
        if phase not in self.installed:
            return False
        return phase in ("input_wait", "host_to_device") or self.occurrences(phase) > 0

    def occurrences(self, phase: str) -> int:
        return self.opened[_NUMBER[phase]]

    def drain(self) -> None:
        self._read()
        self._ring.drop()
        self._count_pending()
        steps, ns = self.untimed.take()
        self.history.add_weight(steps, steps, ns)
        # At the end of a process anything may be gone, which must not cost the file.
        with suppress(Exception):
            self._read_memory()

    def _memory_is_due(self, *, counted: bool) -> bool:
        """Whether memory is read at this step: at a recorded one or between two, in case the job resets it."""
        since = self.steps - self._memory_step
        interval = self.memory_every
        if counted and self.history.keeps_next:
            return since >= interval or self.history.stride >= interval
        return since >= 2 * interval

    def _read_memory(self) -> tuple[int | None, int | None, int | None]:
        self._memory_step = self.steps
        current, peak, reserved = self.memory.read()
        if current is not None and peak is not None:
            # The system updates resident memory with a delay, and its peak even later.
            peak = max(peak, current)
        if peak is not None and peak > (self.peak_bytes or 0):
            self.peak_bytes = peak
        if reserved is not None and reserved > (self.reserved_bytes or 0):
            self.reserved_bytes = reserved
        return current, peak, reserved

    def _collect(self, clock: Clock, *, counted: bool) -> None:
        if counted and self._marks:
            self._ring.push(Pending(self.steps, clock, self._origin, self._marks, weight=self.untimed.steps))
            if self._device_idle is not None:
                self.device_checked += self.untimed.steps
                self.device_idle += self.untimed.steps * self._device_idle
            self._origin = None
            self._marks = []
        self._give_back()
        self._read()

    def _give_back(self) -> None:
        clock = self.clock
        if clock is None or self._origin is None:
            return
        clock.release(self._origin)
        for _, start, stop in self._marks:
            clock.release(start, stop)
        if self._mark_open is not None:
            clock.release(self._mark_open)
        self._origin = self._mark_open = None
        self._marks = []

    def _read(self) -> None:
        for phase, sample in self._ring.read():
            weight = sample.weight
            self.device_ns[phase] += sample.duration_ns * weight
            self.device_counts[phase] += 1
            if sample.iteration != self._last_read:
                self._last_read = sample.iteration
                self.device_steps += weight
