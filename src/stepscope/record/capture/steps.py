"""The recording that makes another profiler record some steps, the same on all ranks.

What the profiler gets is a signal before the first of them and one after the last.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stepscope.floor.captured_steps import StepRange
from stepscope.record.capture.signals import Signal, stop_after_device
from stepscope.record.recording import EveryStep
from stepscope.record.trouble import Guard, warn_once


class CapturedSteps(EveryStep):
    """Sends a signal around steps. It never raises into the job; what goes wrong is one warning.

    Args:
        steps: those to capture.
        signal: what is sent.
        start_step: number of the first step, for a run that was resumed.
    """

    def __init__(self, steps: StepRange, signal: Signal, *, start_step: int = 0) -> None:
        self.guard = Guard("the capture")
        self._steps = steps
        self._signal = signal
        self._number = start_step
        self._index = 0
        self._capturing = False
        self._captured = False
        self._over = False
        self._pid = os.getpid()

    @property
    def over(self) -> bool:
        """Whether no step is left to capture."""
        return self._over or self.guard.tripped

    def start(self, *, lead_in: bool = False) -> None:  # noqa: ARG002 - a lead-in is the first step
        """Starts with the first step."""
        self._guarded(self._enter_step)

    def step(self, number: int | None = None) -> None:
        """A step has ended and the next starts."""
        if self.over or os.getpid() != self._pid:
            return
        self._index += 1
        self._number = self._number + 1 if number is None else number
        self._guarded(self._enter_step)

    def stop(self) -> list[Path]:
        """Ends the capture, if one runs; it writes no files of its own."""
        if os.getpid() != self._pid or self.stopped:
            return []
        self.stopped = True
        if not self._captured and not self.over:
            self._warn_of_nothing()
        self._guarded(self._end)
        return []

    def _enter_step(self) -> None:
        if self._number > self._steps.last:
            self._end()
        elif self._number in self._steps and not self._capturing:
            self._begin()

    def _begin(self) -> None:
        if self._number != self._steps.first:
            warn_once(
                f"step {self._steps.first} could not be captured, because a script's loop is found in its "
                f"second step: the capture starts with step {self._number}"
            )
        self._captured = self._capturing = True
        self._signal.start()

    def _end(self) -> None:
        self._over = True
        if self._capturing:
            self._capturing = False
            stop_after_device(self._signal)

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            self._capturing = False
            self.guard.trip(error)

    def _warn_of_nothing(self) -> None:
        if not self._index:
            warn_once(
                "nothing was captured: an optimizer's steps are the steps, and none has stepped twice"
            )
            return
        warn_once(
            f"nothing was captured: the job was over in step {self._number}, before {self._steps}"
        )
