"""The inline recording of one process: loops drive it, and it drives the recorder and the phases.

`inline.start` makes a session.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepscope.base.folders import from_anywhere
from stepscope.record import annotate
from stepscope.record.budget import OF_STEPS
from stepscope.record.compiling import capturing_check
from stepscope.record.inline.rank_files import RankFiles
from stepscope.record.inline.recorder import Recorder
from stepscope.record.inline.shared_plan import SharedPlan
from stepscope.record.job.at_end import AtEnd
from stepscope.record.job.exit_reason import closing_reason, exit_reason, handled_exception
from stepscope.record.job.trained_model import FoundModel, TrainedModel
from stepscope.record.output import warn_unusable
from stepscope.record.phases.listeners import PhaseListeners
from stepscope.record.phases.phases import Phases
from stepscope.record.phases.stacks import StackSampler
from stepscope.record.plan import Plan
from stepscope.record.recording import Recording
from stepscope.record.targets.optimizers import put_hooks_in, take_hooks_out
from stepscope.record.trouble import Guard, warn_once

_FIRST_SAVE_SECONDS, _SAVE_AFTER_SECONDS, _SAVE_EVERY_SECONDS = 1.0, 5.0, 60.0
_SAVE_EVERY_PART = 0.2
"""Files are first saved after a second, then five seconds later, then whenever the run has become this much longer: of
a killed run at most a sixth is lost, and no more than a minute."""
_ASK_DDP_FIRST, _ASK_DDP_EVERY = 16, 128  # steps: DDP times its first ten, then one in a hundred
_SELDOM = 8
"""If fewer than one in this many steps is timed, hooks are removed in between: code that a step has evicted from the
caches costs microseconds even if it only returns."""


class Session(Recording):
    """Inline recording of one process; a missing plan means phases only, a missing model or optimizer is found.

    `roots` are the modules whose calls are the forward, if the model itself is not called.
    """

    def __init__(
        self,
        plan: Plan | None,
        *,
        model: Any = None,
        optimizer: Any = None,
        roots: Sequence[Any] | None = None,
        out: str | Path = ".",
        phases: bool = True,
    ) -> None:
        self.guard = Guard("inline recording")
        self._plan = plan
        optimizers = _listed(optimizer)
        self._trained = TrainedModel(self.guard, model, roots, optimizers=not optimizers)
        self._phases = Phases() if phases else None
        self._listeners = PhaseListeners(self._phases, self.guard)
        if self._phases is not None:
            self._phases.in_forward = self._ask_in_forward
        # Absolute, because a job may change its directory.
        self._files = RankFiles(from_anywhere(out), self.guard, phases=phases)
        warn_unusable(self._files.out)
        self._recorder: Recorder | None = None
        self._shared = SharedPlan(self._files) if plan is not None and plan.is_automatic else None
        if plan is not None:
            self._recorder = Recorder(plan, self.guard, model=model, optimizers=optimizers, shared=self._shared)
            if self._phases is not None:  # they share the limit
                self._phases.budget.share = self._recorder.share = OF_STEPS / 2
        self._blocks = [part.untimed for part in (self._phases, self._recorder) if part is not None]
        self._capturing = capturing_check()
        self._stacks: StackSampler | None = None
        self._in_iteration = False
        self._values: dict[str, float] = {}
        self._iterations = 0
        self._rested = 0
        self._left_ns: int | None = None  # when the last iteration ended, if the next did not follow at once
        self._ask_ddp_at = _ASK_DDP_FIRST
        self._survived = handled_exception()
        self._started = time.monotonic()
        self._save_at = self._started + _FIRST_SAVE_SECONDS
        self._recorder_over = False
        self._reads_left = 100
        self._said_stop = False
        self.successor: Session | None = None
        self._at_end = AtEnd(stop=self.stop, save=self._save_at_end)

    @property
    def written(self) -> list[Path]:
        return self._files.written

    @property
    def over(self) -> bool:
        return self.guard.tripped or (self._phases is None and (self._recorder is None or self._recorder_over))

    @property
    def done(self) -> bool:
        return self.guard.tripped or self._recorder is None or self._recorder.done

    @property
    def records_values(self) -> bool:
        phases, recorder = self._phases, self._recorder
        return (recorder is not None and not recorder.done) or (phases is not None and not phases.resting)

    def start(self, *, lead_in: bool = False) -> None:
        annotate.take_values(self.add_value)
        self.guard.ask(put_hooks_in)
        if self._shared is not None:
            self.guard.ask(self._shared.start)
        if not lead_in:
            if self._phases is not None:
                self._phases.before = -1  # a loop counts from 0
            self.start_iteration(first_of_epoch=True)

    def start_iteration(self, *, first_of_epoch: bool = False, number: int | None = None) -> int:
        if self.guard.tripped:
            self._take_out()
            return self._iterations
        if self.stopped or self._capturing():
            return self._iterations
        if self.to_skip and not first_of_epoch:
            self.skip()
            if self._left_ns is not None:
                for block in self._blocks:
                    block.exclude(self.began_ns - self._left_ns)
            return self._iterations + self._rested - self.to_skip
        try:
            now_ns = time.perf_counter_ns()
            self._wake()
            if self._in_iteration:
                self._end(now_ns)
                now_ns = time.perf_counter_ns()
            model = self._trained.start_iteration(self._iterations)
            if model is not None:
                self._listen(model)
            self._iterations += 1
            self._survived = handled_exception()
            self._in_iteration = True
            self._values = {}
            if self._phases is not None and self._phases.times(self._iterations, first_of_epoch=first_of_epoch):
                self._listeners.resume()
            overhead_ns, now_ns = time.perf_counter_ns() - now_ns, time.perf_counter_ns()
            self.began_ns = now_ns
            if self._recorder is not None and not self._recorder.done:
                self._recorder.start_iteration(now_ns, first_of_epoch=first_of_epoch)
            if self._phases is not None:
                if number is not None:
                    self._phases.before = number - self._phases.steps - 1
                self._phases.start_step(now_ns, first_of_epoch=first_of_epoch, number=self._iterations)
                if self._recorder is not None and self._recorder.surveys:
                    self._phases.disturbed()
                self._phases.took(overhead_ns + time.perf_counter_ns() - now_ns)
            self._pause(self._iterations, 1)
        except Exception as error:
            self.guard.trip(error)
        return self._iterations

    def _pause(self, number: int, runs: int = 0) -> None:
        """Requests no calls while nothing is measured, in iteration `number` and after; `runs` of them run already."""
        phases, recorder = self._phases, self._recorder
        if (
            self.guard.tripped
            or self._trained.looks
            or (self._plan is not None and self._plan.stop_after is not None)
            or (phases is not None and (self._stacks is None or (runs and not phases.resting)))
        ):
            return
        left = [] if phases is None else [phases.budget.left_out(number)]
        if recorder is not None and not self._recorder_over:
            left.append(recorder.left_out(number))
        if left:
            self.to_skip = self._rested = max(0, min(left) - runs)
        if not self.to_skip:
            return
        if not runs:
            now_ns = time.perf_counter_ns()
            for block in self._blocks:
                block.pause(now_ns)
            self._left_ns = now_ns if self.driver == "iteration" else None
        if phases is not None:
            phases.resting = True
            self._take_out_hooks(phases)

    def _take_out_hooks(self, phases: Phases) -> None:
        if phases.budget.interval >= _SELDOM:
            self._listeners.pause()

    def _wake(self) -> None:
        """Counts the iterations that ran without a call. The last one is still running."""
        if not self._rested:
            return
        ran = self._rested - self.to_skip
        self.to_skip = self._rested = 0
        phases, in_iteration = self._phases, self._in_iteration
        self._in_iteration = in_iteration or ran > 0
        if phases is not None and ran and in_iteration:
            phases.end_step(None)  # of one that is not timed, either
        if phases is not None:
            phases.passed(ran, runs=self._in_iteration)
        if ran:
            self._iterations += ran
            if self._recorder is not None:
                self._recorder.passed(ran)

    def end_iteration(self) -> None:
        if self.to_skip:
            if self.driver == "iteration":
                self._left_ns = time.perf_counter_ns()
            return
        self._wake()
        if self._in_iteration:
            self.guard.ask(self._end, time.perf_counter_ns())
            self.guard.ask(self._pause, self._iterations + 1)

    def abandon(self, iteration: int | None = None, *, began: bool = True) -> None:
        self._break()
        if self.guard.tripped or not self._in_iteration:
            return
        if iteration is not None and iteration != self._iterations:
            return
        self._in_iteration = False
        if not began:
            self._iterations -= 1
        try:
            if self._recorder is not None:
                self._recorder.abandon(began=began)
            if self._phases is not None:
                self._phases.abandon()
        except Exception as error:
            self.guard.trip(error)

    def _break(self) -> None:
        """Marks the running iteration as unlike others; those before it that ran without a call have ended."""
        self._wake()
        for block in self._blocks:
            block.resume(self.began_ns)

    def add_missed(self, iterations: int) -> None:
        self._break()
        if self._phases is not None:
            self._phases.before += iterations
        if self._iterations:
            self._trained.look_again()

    def exclude_current(self) -> None:
        self._break()
        if self._recorder is not None:
            self._recorder.exclude_current()
        if self._phases is not None:
            self._phases.exclude_current()

    def disturbed(self) -> None:
        """Marks times that are not the job's own: a profiler runs in the running iteration, or writes its file."""
        self._break()
        if not self._in_iteration:
            return
        if self._recorder is not None:
            self._recorder.exclude_current()
        if self._phases is not None:
            self._phases.disturbed()

    def add_value(self, name: str, number: float) -> None:
        if self._in_iteration and not self.stopped:
            self._values[name] = self._values.get(name, 0) + number

    def stops_now(self) -> bool:
        plan = self._plan
        if plan is None:
            return False
        if plan.stop_after is not None and self._iterations >= plan.stop_after:
            return True
        if not plan.stop_when_done or not self.done or self.guard.tripped:
            return False
        if self._files.process().world_size == 1:
            return True
        # Ranks may need different numbers of iterations, and one that leaves early would hang the others.
        if plan.stop_after is None and not self._said_stop:
            self._said_stop = True
            warn_once(
                "stop_when_done is ignored with several ranks, which would wait for each other; "
                "give the plan stop_after, which all ranks share"
            )
        return False

    def data_wait_start(self) -> tuple[Any, Any]:
        self._wake()
        phase = watched = None
        if self._in_iteration and not self.guard.tripped:
            if self._phases is not None:
                self._phases.installed.add("input_wait")
                phase = self.guard.ask(self._phases.open, "input_wait")
            watch = None if self._recorder is None else self._recorder.watch
            if watch is not None:
                watched = watch, self.guard.ask(watch.open, "input_wait")
        return phase, watched

    def data_wait_end(self, token: tuple[Any, Any]) -> None:
        phase, watched = token
        if watched is not None:
            self.guard.ask(watched[0].close, watched[1])
        if self._phases is not None:
            self.guard.ask(self._phases.close, phase)

    def recapture(self) -> bool:
        if self.guard.tripped or self._recorder is None:
            return False
        return self._recorder.recapture()

    def replaced_by(self, other: Session) -> None:
        """Hands over to another session of the script, which ends when this one's owner ends it."""
        self.stop()
        self.successor = other

    def stop(self) -> list[Path]:
        if self.successor is not None:
            self.successor.stop()
        if self.stopped or self.guard.inherited:
            return self.written
        self.stopped = True
        self._at_end.cancel()
        try:
            self._files.ended = closing_reason(self._survived)
            self.abandon()
            self._take_out()
            self._files.ask_settings(None, in_forward=False)
            if not self._files.settled():
                return self.written
            if self._shared is not None:
                self._shared.stop()
            if self._recorder is not None and not self._recorder_over:
                self._recorder.drain()
                measured = self._recorder.measured()
                if measured.iterations_run:
                    self._files.write_inline(measured)
            if self._phases is not None and self._phases.steps:
                self._phases.drain()
                self._files.write_phases(self._phases_document(self._phases, samples=True))
        except Exception as error:
            self.guard.trip(error)
        return self.written

    def _end(self, now_ns: int) -> None:
        self._in_iteration = False
        recorder = self._recorder
        if recorder is not None and not self._recorder_over:
            done = recorder.done
            if not done and recorder.end_iteration(now_ns, self._values):
                done = True
                recorder.remove()
                self._blocks.remove(recorder.untimed)
            if done and not (recorder.read() and self._reads_left):
                self._recorder_finished(recorder)
            elif done:
                self._reads_left -= 1
        if self._phases is not None:
            began_ns = time.perf_counter_ns()
            self._phases.end_step(now_ns, self._values)
            self._take_out_hooks(self._phases)
            self._phases.took(time.perf_counter_ns() - began_ns)
            self._trained.end_iteration(self._iterations, self._phases.occurrences)
            # The model may be gone when the recording ends, because a script's main() has returned.
            if self._phases.steps >= self._ask_ddp_at:
                self._ask_ddp_at = self._phases.steps + _ASK_DDP_EVERY
                self._files.ask_ddp(self._trained.model)
            self._phases.settle()
            if self._stacks is None and self._phases.history.count:
                self._stacks = StackSampler(self._phases)
                self._stacks.start()
                self._files.hardware.start()
        # Threads that wait for a hanging directory must not accumulate.
        now = time.monotonic()
        if now > self._save_at and self._has_measured and not self._files.background.busy:
            longer = _SAVE_EVERY_PART * (now - self._started)
            self._save_at = now + min(max(longer, _SAVE_AFTER_SECONDS), _SAVE_EVERY_SECONDS)
            self._save()

    @property
    def _has_measured(self) -> bool:
        events = self._recorder is not None and bool(self._recorder.events)
        return events or (self._phases is not None and self._phases.history.count > 0)

    def _ask_in_forward(self) -> None:
        self._files.ask_settings(self._trained.model, in_forward=True)

    def _save(self) -> None:
        recorder, files = self._recorder, self._files
        files.ask_settings(None, in_forward=False)
        if recorder is not None and not self._recorder_over and recorder.events:
            measured = recorder.measured()
            # The job's own thread finds out which process this is.
            files.process()
            files.background.run(lambda: files.write_inline(measured))
        if self._phases is not None:
            summary = self._phases_document(self._phases, samples=False)
            files.background.run(lambda: files.write_phases(summary))

    def _save_at_end(self) -> None:
        """On SIGTERM, perhaps within a step: writes what there is and changes nothing in the job."""
        if self.stopped or self.guard.inherited:
            return
        recorder, phases = self._recorder, self._phases
        self._files.ended = exit_reason()
        if recorder is not None and not self._recorder_over and recorder.events:
            self._files.write_inline(recorder.measured())
        if phases is not None and phases.steps:
            # Without the model, because its DDP timings would be read while the training thread runs.
            stacks = None if self._stacks is None else self._stacks.document()
            self._files.write_phases(self._files.phases_document(phases, None, None, stacks, samples=True))

    def _phases_document(self, phases: Phases, *, samples: bool) -> dict[str, Any]:
        copies = self._listeners.copies
        copied = None if copies is None else copies.copied
        # Only after the job, because naming thousands of frames takes milliseconds.
        stacks = self._stacks.document() if samples and self._stacks is not None else None
        return self._files.phases_document(phases, self._trained.model, copied, stacks, samples=samples)

    def _recorder_finished(self, recorder: Recorder) -> None:
        self._recorder_over = True
        if self._phases is None:
            self._listeners.remove()
        measured = recorder.measured()
        self._files.ask_settings(None, in_forward=False)
        self._files.process()
        self._files.background.run(lambda: self._files.write_inline(measured))

    def _listen(self, model: FoundModel) -> None:
        recorder = self._recorder
        if model.takes_over and self._phases is not None:
            self._phases.other_model()
        if model.roots is not None:
            self._listeners.install(model.model, model.roots)
            self._files.hardware.watch(self._listeners.device)
        if recorder is None or recorder.done:
            return
        if not recorder.schedule.has_observed:
            recorder.optimizers = recorder.optimizers or model.optimizers
        recorder.copies = self._listeners.copies
        if model.takes_over:
            recorder.follow(model.model, model.optimizers)
        if recorder.model is None and not recorder.schedule.has_observed:
            recorder.model = model.model

    def _take_out(self) -> None:
        """Removes everything of ours from the job, at a boundary, where torch does not iterate over hooks."""
        self._in_iteration = False
        annotate.stop_taking(self.add_value)
        if self._stacks is not None:
            self._stacks.stop()
        self._files.hardware.stop()
        self._trained.close()
        self._listeners.remove()
        take_hooks_out()
        if self._recorder is not None:
            self._recorder.remove()


def _listed(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
