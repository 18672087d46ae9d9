"""Inline recording of a training loop: a few lines in the script, nothing when it is off.

    from stepscope import inline

    inline.start("plan.toml", model=model, optimizer=optimizer, out="runs/a")
    for batch in inline.iterate(loader):
        ...

Without `start`, `iterate(loader)` is the loader itself and `iteration()` does nothing. With the
environment variable `STEPSCOPE_INLINE` set to a plan's file (or to `phases`), the first `iterate` or
`iteration` starts by itself and writes to `STEPSCOPE_OUT`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepscope.floor.errors import StepScopeError
from stepscope.record.annotate import NOTHING
from stepscope.record.inline.session import Session
from stepscope.record.plan import Plan, as_plan
from stepscope.record.trouble import say_once

if TYPE_CHECKING:
    from stepscope.record.planning.survey import Survey

__all__ = ["done", "iterate", "iteration", "recapture", "start", "stop"]

T = TypeVar("T")

_session: Session | None = None
_survey: Survey | None = None
_asked_environment = False


def start(
    plan: Plan | Mapping[str, object] | str | Path | None = None,
    *,
    model: Any = None,
    optimizer: Any = None,
    out: str | Path = "stepscope-out",
    phases: bool = True,
) -> None:
    """Starts inline recording in this process.

    It never raises: a plan that cannot be used is said once, and the job runs unprofiled.

    Args:
        plan: what to measure one event at a time: a file, a dict or a `Plan`; None for phases only.
        model: the outermost module, or a `ModuleDict` of several, whose names then come first in
            labels. None finds it in the second iteration: of several the one with most parameters.
        optimizer: the optimizer, or a list of several. None finds them in the second iteration.
        out: directory for `<host>.<rank>.prof.json` and `<host>.<rank>.phases.json`.
        phases: whether the phases of every step are timed, with or without a plan.
    """
    if _survey is not None:
        return  # the script is only run to see what can be measured in it
    try:
        begin(
            None if plan is None else as_plan(plan),
            model=model,
            optimizer=optimizer,
            out=out,
            phases=phases,
        )
    except StepScopeError as error:
        hint = f" ({error.hint})" if error.hint else ""
        say_once(f"training goes on without inline recording: {error.message}{hint}")
    except Exception as error:
        say_once(f"training goes on without inline recording: {type(error).__name__}: {error}")


def begin(plan: Plan | None, **options: Any) -> Session:
    """Starts a session, ending the one before; options are those of `Session`. It may raise."""
    global _session
    if _session is not None:
        _session.close()
    _session = Session(plan, **options)
    return _session


def tell(survey: Survey | None) -> None:
    """Loops tell `survey` about their iterations, and nothing is recorded; None ends that."""
    global _survey
    _survey = survey


def iterate(loader: Iterable[T]) -> Iterable[T]:
    """The batches of a loader, each an iteration; the wait for it belongs to it.

    The loader itself when nothing is recorded.

    >>> list(iterate([1, 2]))
    [1, 2]
    """
    session = active()
    if session is None or (session.idle and not session.stops_now()):
        return loader
    return _Iterate(loader, session)


def iteration() -> AbstractContextManager[Any]:
    """One iteration of a loop that does not go over a loader: `with inline.iteration(): ...`."""
    session = active()
    return NOTHING if session is None or session.idle else _Iteration(session)


def done() -> bool:
    """Whether the plan is measured; True when nothing is recorded."""
    session = _survey or _session
    return session is None or session.done


def recapture() -> bool:
    """Whether a CUDA graph has to be captured again now; ask once per iteration, before the replay.

    >>> recapture()  # nothing is recorded
    False
    """
    session = _survey or _session
    return session is not None and session.recapture()


def stop() -> list[Path]:
    """Ends the recording, writes what was measured and says where. Also done at exit."""
    global _session
    session, _session = _session, None
    return [] if session is None else session.close()


def active() -> Session | Survey | None:
    """The running session, started from the environment if that asks for one, or the survey."""
    global _asked_environment
    if _survey is not None:
        return _survey
    if _session is None and not _asked_environment:
        _asked_environment = True
        asked = os.environ.get("STEPSCOPE_INLINE", "")
        if asked and asked != "0":
            plan = None if asked in ("1", "phases") else asked
            start(plan, out=os.environ.get("STEPSCOPE_OUT", "stepscope-out"))
    return _session


class _Iterate(Generic[T]):
    """A loader whose batches are iterations; its other attributes are the loader's."""

    def __init__(self, loader: Iterable[T], session: Session | Survey) -> None:
        self._loader = loader
        self._session = session

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type] # as the loader: raises where it has none

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # not there yet: somebody copies this
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[T]:
        session = self._session
        session.driver = "iterate"
        session.abandon()
        running = -1
        fresh = True
        batches: Iterator[T] | None = None
        try:
            while not session.stops_now():
                if batches is not None and session.idle:
                    session.end()
                    yield from batches
                    return
                running = session.begin(fresh=fresh)
                tokens = session.input_begins()
                if batches is None:
                    batches = iter(self._loader)
                try:
                    batch = next(batches)
                except StopIteration:
                    session.abandon(running, began=False)
                    return
                session.input_ends(tokens)
                fresh = False
                yield batch
                session.end()
        finally:
            # A break or an exception in the loop's body: the iteration is not whole. Python may
            # close this generator late, when another loop is already running.
            session.abandon(running)


class _Iteration:
    """One iteration as a context."""

    def __init__(self, session: Session | Survey) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session.driver = "iteration"
        self._session.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._session.end()
        else:
            self._session.abandon()


def _in_child() -> None:
    global _session, _survey
    for telling in (_session, _survey):
        if telling is not None:
            telling.forget_in_child()
    _session = _survey = None


os.register_at_fork(after_in_child=_in_child)
