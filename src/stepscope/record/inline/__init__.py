"""Inline recording of a training loop: a few lines in the script, which do nothing when it is off.

    from stepscope import inline

    inline.start("plan.toml", model=model, optimizer=optimizer, out="runs/a")
    for batch in inline.iterate(loader):
        ...

If `STEPSCOPE_INLINE` is set to a plan's file (or to `auto` or `phases`), the first `iterate` or `iteration` starts
recording and writes to `STEPSCOPE_OUT`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepscope.base.errors import StepScopeError
from stepscope.base.folders import from_anywhere
from stepscope.record.annotate import NO_REGION
from stepscope.record.recording import SCRIPT_FOLDERS, Recording, count_samples
from stepscope.record.settings import note_loader
from stepscope.record.trouble import warn_once

# A session and its dependencies are imported only when one is started, because loops of unrecorded jobs use this module
# too, and importing any module of this package imports it.
if TYPE_CHECKING:
    from stepscope.record.inline.session import Session
    from stepscope.record.plan import Plan

__all__ = ["done", "iterate", "iteration", "recapture", "start", "stop"]

T = TypeVar("T")

_session: Session | None = None
_instead: Recording | None = None
_offered: Recording | None = None
_asked_environment = False


def start(
    plan: Plan | Mapping[str, object] | str | Path | None = None,
    *,
    model: Any = None,
    optimizer: Any = None,
    out: str | Path = "stepscope-out",
    phases: bool = True,
) -> None:
    """Starts inline recording in this process; never raises.

    Args:
        plan: the events to measure one at a time: a file, a dict or a `Plan`; `"auto"` for what the job is found to
            run, round after round; None for phases only.
        model: the outermost module, or a `ModuleDict` of several, whose names then start the labels. None finds it in
            the second iteration: of several, the one with most parameters.
        optimizer: the optimizer, or a list of several. None finds them in the second iteration.
        out: directory for `<host>.<rank>.prof.json` and `<host>.<rank>.phases.json`.
        phases: whether the phases of every step are timed, with or without a plan.
    """
    if _instead is not None and not _instead.stopped:
        return  # the script only runs for a survey
    from stepscope.record.plan import as_plan

    try:
        session = new_session(
            None if plan is None else as_plan(plan), model=model, optimizer=optimizer, out=out, phases=phases
        )
        SCRIPT_FOLDERS.append(from_anywhere(out))
        session.start(lead_in=True)
    except StepScopeError as error:
        hint = f" ({error.hint})" if error.hint else ""
        warn_once(f"training goes on without inline recording: {error.message}{hint}")
    except Exception as error:
        warn_once(f"training goes on without inline recording: {type(error).__name__}: {error}")


def new_session(plan: Plan | None, **options: Any) -> Session:
    """Makes a session to be started, and ends the previous one; options are those of `Session`. May raise."""
    from stepscope.record.inline.session import Session

    global _session, _offered
    _offered = None
    before, _session = _session, Session(plan, **options)
    if before is not None:
        before.replaced_by(_session)
    return _session


def drive(recording: Recording) -> Recording:
    """Makes loops drive `recording` until it is stopped; until then no session starts."""
    global _instead
    _instead = recording
    return recording


def offer(recording: Recording) -> Recording:
    """Makes loops drive `recording` until it is stopped or the script starts its own session."""
    global _offered
    _offered = recording
    return recording


def iterate(loader: Iterable[T]) -> Iterable[T]:
    """Yields the batches of a loader, each an iteration, which includes the wait for the batch.

    A loop inside another loop's iteration is part of it. Returns the loader itself when nothing is recorded.

    >>> list(iterate([1, 2]))
    [1, 2]
    """
    recording = active()
    if recording is None or (recording.over and not recording.stops_now()):
        return loader
    return _Iterate(loader, recording)


def iteration() -> AbstractContextManager[Any]:
    """One iteration of a loop without a loader: `with inline.iteration(): ...`."""
    recording = active()
    return NO_REGION if recording is None or recording.over else _Iteration(recording)


def done() -> bool:
    """Whether the plan is complete; True when nothing is recorded."""
    recording = _running()
    return recording is None or recording.done


def recapture() -> bool:
    """Whether a CUDA graph must be captured again; ask once per iteration, before the replay.

    >>> recapture()  # nothing is recorded
    False
    """
    recording = _running()
    return recording is not None and recording.recapture()


def stop() -> list[Path]:
    """Ends the recording, writes its files and returns them. Also done at exit."""
    global _session
    session, _session = _session, None
    return [] if session is None else session.stop()


def active() -> Recording | None:
    """The recording that loops drive: a session, which the environment may start, or another."""
    global _asked_environment
    if _running() is None and not _asked_environment:
        _asked_environment = True
        setting = os.environ.get("STEPSCOPE_INLINE", "")
        if setting and setting != "0":
            plan = None if setting in ("1", "phases") else setting
            start(plan, out=os.environ.get("STEPSCOPE_OUT", "stepscope-out"))
    return _running()


def _running() -> Recording | None:
    for recording in (_instead, _offered, _session):
        if recording is not None and not recording.stopped:
            return recording
    return None


class _Iterate(Generic[T]):
    """A loader whose batches are iterations; other attributes are the loader's."""

    def __init__(self, loader: Iterable[T], recording: Recording) -> None:
        self._loader = loader
        self._recording = recording

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type] # as the loader: raises where it has none

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # not set yet: this is being copied
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[T]:
        recording = self._recording
        if recording.in_loop:
            for batch in self._loader:
                if recording.driver == "iteration":
                    count_samples(recording, batch, self._loader)
                yield batch
            return
        recording.driver = "iterate"
        recording.in_loop = True
        recording.abandon()
        running = -1
        first_of_epoch = True
        batches: Iterator[T] | None = None
        try:
            while True:
                if recording.to_skip and batches is not None:
                    recording.skip()
                    running += 1
                    try:
                        batch = next(batches)
                    except StopIteration:
                        recording.abandon(running, began=False)
                        return
                    yield batch
                    continue
                if recording.stops_now():
                    return
                if batches is not None and recording.over:
                    recording.end_iteration()
                    yield from batches
                    return
                running = recording.start_iteration(first_of_epoch=first_of_epoch)
                token = recording.data_wait_start()
                if batches is None:
                    batches = iter(self._loader)
                    recording.guard.ask(note_loader, batches)
                try:
                    batch = next(batches)
                except StopIteration:
                    recording.abandon(running, began=False)
                    return
                recording.data_wait_end(token)
                count_samples(recording, batch, self._loader)
                first_of_epoch = False
                yield batch
                recording.end_iteration()
        finally:
            # A break or an exception in the loop's body: the iteration is incomplete. Python may close this generator
            # late, when another loop is already running.
            recording.in_loop = False
            recording.abandon(running)


class _Iteration:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._inside = False

    def __enter__(self) -> None:
        self._inside = self._recording.in_loop
        if self._inside:
            return
        self._recording.driver = "iteration"
        self._recording.in_loop = True
        self._recording.start_iteration()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._inside:
            return
        self._recording.in_loop = False
        if kind is None:
            self._recording.end_iteration()
        else:
            self._recording.abandon()


def _in_child() -> None:
    global _session, _instead, _offered
    _session = _instead = _offered = None


os.register_at_fork(after_in_child=_in_child)
