"""Makes another profiler record some steps, the same on all ranks, and names what runs in them.

The profiler gets a signal before the first of the steps and one after the last. NVTX ranges name the steps and their
parts; they are also written without a signal, for users who run the profiler themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from stepscope.base.captured_steps import StepRange
from stepscope.record.capture.operators import OperatorTypes
from stepscope.record.capture.ranges import StepRanges
from stepscope.record.capture.signals import Signal, stop_after_device
from stepscope.record.job.trained_model import ModelSearch
from stepscope.record.recording import EveryStep
from stepscope.record.trouble import Guard, warn_once

_KNOWN_FROM = 3
"""The first step with a known model, which is searched in the step before, as in loops of scripts."""


class CapturedSteps(EveryStep):
    """Sends a signal around steps, and names what runs in them.

    Args:
        steps: the steps; None for all from the first with a known model.
        nvtx: whether NVTX ranges are written.
        start_step: number of the first step, for a resumed run.
    """

    records_values = False

    def __init__(
        self, steps: StepRange | None, signal: Signal | None, *, nvtx: bool = False, start_step: int = 0
    ) -> None:
        self.guard = Guard("the capture")
        self.uses_batches = nvtx
        self._steps = steps
        self._signal = signal
        # Steps are still counted after a range failed; otherwise the profiler would not be stopped.
        self._hooks = Guard("NVTX ranges")
        self._ranges: StepRanges | None = None
        self._search = ModelSearch(None, self._hooks) if nvtx else None
        self._types = OperatorTypes(self._hooks)
        self._first = steps.first if steps else start_step + _KNOWN_FROM
        self._start_step = self._number = start_step
        self._index = 0
        self._capturing = False
        self._misses_first = False
        self._captured = False
        self._over = False

    @property
    def over(self) -> bool:
        return self._over or self.guard.tripped

    def start(self, *, lead_in: bool = False) -> None:
        self._misses_first = lead_in and self._steps is not None and self._first == self._start_step + 1
        if self._misses_first:
            warn_once(
                f"step {self._first} will not be captured: a script's loop is found in its second step, which "
                f"goes by unobserved; the capture starts with step {self._first + 1}, if that is asked for"
            )
        self._guarded(self._enter_step)

    def step(self, number: int | None = None) -> None:
        self._index += 1
        self._number = self._number + 1 if number is None else number
        # Waiting costs nothing, in most steps of most jobs.
        if self._search is None and self._number < self._first:
            return
        if self.guard.inherited:
            return
        if self.over:
            with contextlib.suppress(Exception):
                self._end_ranges()
            return
        self._guarded(self._enter_step)

    def data_wait_start(self) -> object:
        return None if self._ranges is None else self._hooks.ask(self._ranges.open, "input_wait")

    def data_wait_end(self, token: object) -> None:
        if self._ranges is not None and token is not None:
            self._hooks.ask(self._ranges.close, token)

    def stop(self) -> list[Path]:
        if self.guard.inherited or self.stopped:
            return []
        self.stopped = True
        if not self._captured and not self.over:
            self._warn_of_nothing()
        self._guarded(self._end)
        with contextlib.suppress(Exception):
            self._end_ranges()
        return []

    def _enter_step(self) -> None:
        if self._steps is not None and self._number > self._steps.last:
            self._end()
            return
        if self._search is not None and not self._capturing:
            # The model is searched in an earlier step; a script's step 1 is not observed.
            observed = max(0, self._number - self._start_step - 1)
            before = max(0, self._first - self._start_step - 1)
            self._search.start_step(observed, first_recorded=before)
            if self._number == self._first - 1:
                self._hooks.ask(self._types.start)
        if self._number < self._first:
            return
        if not self._capturing:
            self._start_capture()
        if self._ranges is not None:
            self._hooks.ask(self._ranges.start_step, self._number)

    def _start_capture(self) -> None:
        if self._number != self._first and self._steps is not None and not self._misses_first:
            warn_once(
                f"step {self._first} could not be captured, because a script's loop is found in its "
                f"second step: the capture starts with step {self._number}"
            )
        self._captured = self._capturing = True
        if self._search is not None:
            types = self._hooks.ask(self._types.end) or []
            self._ranges = self._hooks.ask(StepRanges, self._hooks, self._search, types)
            self._search.close()
        if self._signal is not None:
            self._signal.start()

    def _end(self) -> None:
        self._over = True
        if self._search is not None:
            self._search.close()
        if not self._capturing:
            return
        self._capturing = False
        try:
            if self._ranges is not None:
                self._hooks.ask(self._ranges.end_step)
            if self._signal is not None:
                stop_after_device(self._signal)
        finally:
            self._end_ranges()

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            self._capturing = False
            self.guard.trip(error)
            with contextlib.suppress(Exception):
                self._end_ranges()

    def _end_ranges(self) -> None:
        self._types.end()
        if self._ranges is not None and self._ranges.end():
            self._ranges = None

    def _warn_of_nothing(self) -> None:
        if not self._index:
            warn_once("nothing was captured: an optimizer's steps are the steps, and none has stepped twice")
            return
        steps = self._steps or f"step {self._first}"
        warn_once(f"nothing was captured: the job was over in step {self._number}, before {steps}")
