"""Traces on demand: a listening job records a few steps when asked, on all ranks at once.

    with on_demand("runs/a/trigger", model=model) as listener:
        for batch in listener.iterate(loader):
            ...

Then, wherever the directory is visible: `stepscope trigger runs/a/trigger --steps 3` (see `request`). A thread watches
the directory, so that a hanging file system does not delay a step; the loop itself only compares two numbers.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from stepscope.base.chosen_ranks import chosen
from stepscope.base.errors import StepScopeError
from stepscope.base.folders import from_anywhere
from stepscope.base.ranks import this_process
from stepscope.record.on_demand.request import (
    BUSY,
    FINAL,
    REQUEST,
    WARMUP,
    Answer,
    Request,
    new_request,
    read_request,
    write_answer,
)
from stepscope.record.on_demand.trigger import agree
from stepscope.record.recording import EveryStep
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import Guard, warn_once


class OnDemand(EveryStep):
    """Watches a directory, and records the steps that are requested there; a request from before its start is ignored.

    Args:
        out: directory of the traces; None for the watched one.
        name: name of the traces, followed by the first step's number; by default the script's.
        on_signal: whether SIGUSR2, sent to any rank, requests the default number of steps on all ranks, unless the job
            handles that signal itself.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        out: str | Path | None = None,
        name: str | None = None,
        model: Any = None,
        start_step: int = 0,
        on_signal: bool = False,
        poll_seconds: float = 0.5,
    ) -> None:
        # Absolute, because a job may change its directory.
        self.directory = from_anywhere(directory)
        self.out = self.directory if out is None else from_anywhere(out)
        self.guard = Guard("the trace on demand")
        self.written: list[Path] = []
        self._name = name
        self._model = model
        self._number = start_step
        self._index = 0
        self._on_signal = on_signal
        self._poll_seconds = poll_seconds
        self._seconds: deque[float] = deque(maxlen=32)
        self._began = time.perf_counter()
        self._request: Request | None = None
        self._order: Request | None = None
        self._tracer: Tracer | None = None
        self._finished: Tracer | None = None
        self._state = ("here", "")
        self._files: tuple[str, ...] = ()
        self._answered: tuple[Any, ...] = ()
        self._seen: tuple[int, ...] | None = None
        self._signalled = False
        self._complained = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        return self.stopped or self.guard.tripped

    @property
    def disturbs(self) -> bool:
        return any(tracer is not None and tracer.disturbs for tracer in (self._tracer, self._finished))

    @property
    def records_values(self) -> bool:
        return self._tracer is not None and self._tracer.records_values

    def add_value(self, name: str, number: float) -> None:
        if self._tracer is not None:
            self._tracer.add_value(name, number)

    def start(self, *, lead_in: bool = False) -> None:  # noqa: ARG002 - recorded steps come later
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._seen = self._from_before()
            self._began = time.perf_counter()
            self._take_signal()
            self._thread = threading.Thread(target=self._listen, name="stepscope-trigger", daemon=True)
            self._thread.start()
        except Exception as error:
            self.guard.trip(error)

    def step(self, number: int | None = None) -> None:
        now = time.perf_counter()
        self._seconds.append(now - self._began)
        self._began = now
        self._index += 1
        self._number = self._number + 1 if number is None else number
        if self._tracer is None and self._order is None:
            return
        try:
            self._record()
        except Exception as error:
            self._tracer = self._order = None
            self.guard.trip(error)

    def stop(self) -> list[Path]:
        if self.guard.inherited or self.stopped:
            return self.written
        self.stopped = True
        self._ending.set()
        self._leave_signal()
        if self._thread is not None:
            # It may hang in a file system, which must not affect the job.
            self._thread.join(2.0)
        tracer, self._tracer = self._tracer or self._finished, None
        order, self._order = self._order, None
        if order is not None and tracer is None:
            warn_once(
                f"no trace on demand was recorded: it was to start at step {order.at_step}, and rank "
                f"{this_process().rank} ended in step {self._number}"
            )
        if tracer is not None:
            tracer.stop()
            self._finished = tracer
        with contextlib.suppress(Exception):
            self._take_up_finished()
            if self._request is not None and self._state[0] not in FINAL:
                self._state = ("ended", "the job stopped listening")
            self._answer()
        return self.written

    # What runs in the training loop.

    def _record(self) -> None:
        tracer = self._tracer
        if tracer is not None:
            tracer.step(self._number)
            if tracer.over:
                self._tracer, self._finished = None, tracer
        order = self._order
        if order is None or order.at_step is None or self._number < order.at_step - WARMUP:
            return
        self._order = None
        if self._tracer is not None:
            self._state = ("skipped", "another recording was running")
        elif self._number > order.at_step - WARMUP:
            self._skip(order)
        else:
            self._start_trace(order)

    def _start_trace(self, order: Request) -> None:
        tracer = Tracer(
            self.out,
            name=self._name,
            wait=0,
            warmup=WARMUP,
            active=order.steps,
            model=self._model,
            memory=order.memory,
            stack=order.stack,
            start_step=self._number,
            step_in_name=True,
        )
        tracer.start()
        if tracer.over:
            self._finished = tracer
        else:
            self._tracer = tracer
            self._state = ("recording", "")

    def _skip(self, order: Request) -> None:
        why = f"it was in step {self._number} already when step {order.at_step} was asked for"
        self._state = ("skipped", why)
        warn_once(f"rank {this_process().rank} is not in the trace on demand: {why}")

    # What runs in the listening thread.

    def _listen(self) -> None:
        while not self._ending.wait(self._poll_seconds):
            try:
                self._look()
            except OSError as error:
                self._complain(error)
            except Exception as error:
                self.guard.trip(error)
                return

    def _look(self) -> None:
        if self._signalled:
            self._signalled = False
            threading.Thread(target=self._ask, name="stepscope-ask", daemon=True).start()
        signature = self._signature()
        if signature is not None and signature != self._seen:
            self._seen = signature
            try:
                request = read_request(self.directory)
            except ValueError as error:
                warn_once(f"{self.directory / REQUEST} is not answered: {error}")
            else:
                self._receive(request)
        self._take_up_finished()
        self._answer()

    def _receive(self, request: Request) -> None:
        if self._tracer is not None or self._finished is not None:
            warn_once("a trace on demand is not recorded: another is still running")
            self._write(request.id, BUSY, "it records for another request", ())
            self._answered = ()
            return
        process = this_process()
        self._request = request
        self._files = ()
        self._order = None
        try:
            mine = chosen(request.ranks, process)
        except StepScopeError as error:
            self._state = ("failed", str(error))
            return
        if request.at_step is None:
            self._state = ("here", "")
        elif not mine:
            self._state = ("not-chosen", "")
        else:
            self._state = ("armed", "")
            self._order = request

    def _take_up_finished(self) -> None:
        tracer = self._finished
        if tracer is None:
            return
        written = tracer.stop()
        self._finished = None
        self.written += written
        self._files = tuple(str(path.resolve()) for path in written)
        if written:
            self._state = ("written", "")
        else:
            reason = tracer.guard.error
            self._state = ("failed", "" if reason is None else f"{type(reason).__name__}: {reason}")

    def _answer(self) -> None:
        request = self._request
        seconds = list(self._seconds)
        # Without step durations, it is unknown how far ahead the others may be.
        if request is None or len(seconds) < 2:
            return
        state, why = self._state
        answer = (request.id, request.at_step, state, why, self._files)
        if answer == self._answered:
            return
        self._write(request.id, state, why, self._files)
        self._answered = answer

    def _write(self, request: str, state: str, why: str, files: tuple[str, ...]) -> None:
        process = this_process()
        place = process.rank, process.world_size, process.host, process.pid
        finer = process.local_rank, process.node, process.disagreement
        seconds = statistics.median(self._seconds or [0.0])
        write_answer(self.directory, Answer(request, *place, self._number, seconds, state, why, files, *finer))

    def _ask(self) -> None:
        try:
            agree(self.directory, new_request())
        except StepScopeError as error:
            warn_once(f"no trace on demand: {error.message}")
        except Exception as error:
            warn_once(f"no trace on demand: {type(error).__name__}: {error}")

    def _from_before(self) -> tuple[int, ...] | None:
        """The request in the directory that is not for this job; its sender may be waiting for this job to start."""
        signature = self._signature()
        with contextlib.suppress(ValueError):
            if signature is not None and read_request(self.directory).at_step is None:
                return None
        return signature

    def _signature(self) -> tuple[int, ...] | None:
        try:
            status = (self.directory / REQUEST).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            warn_once(f"{self.directory} cannot be used for traces on demand just now: {error}")

    # SIGUSR2

    def _take_signal(self) -> None:
        if not self._on_signal:
            return
        if threading.current_thread() is not threading.main_thread() or (
            signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL
        ):
            warn_once("SIGUSR2 does not start a trace: the job handles it itself, or has threads")
            return
        signal.signal(signal.SIGUSR2, self._on_usr2)
        signal.siginterrupt(signal.SIGUSR2, False)

    def _on_usr2(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def _leave_signal(self) -> None:
        if not self._on_signal or sys.is_finalizing():
            return
        with contextlib.suppress(ValueError):  # outside of the main thread
            if signal.getsignal(signal.SIGUSR2) == self._on_usr2:
                # Ignored instead of default, because a late signal would end the process.
                signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def on_demand(directory: str | Path, **options: Any) -> OnDemand:
    """Records steps when `stepscope trigger DIRECTORY` requests them; options are those of `OnDemand`.

    >>> listener = on_demand("runs/a/trigger", start_step=1000)
    """
    return OnDemand(directory, **options)
