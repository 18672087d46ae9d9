"""Recording an unmodified script or module, as `python script.py` or `python -m module` runs it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepscope.floor.errors import UsageError
from stepscope.record import inline
from stepscope.record.inline.session import Session
from stepscope.record.job.as_main import MainProgram
from stepscope.record.job.loop import LoopFinder
from stepscope.record.on_demand.trigger import OnDemand
from stepscope.record.plan import Plan
from stepscope.record.planning.survey import Survey
from stepscope.record.targets.after_import import AfterImport
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import Guard, say_once


class _Recording:
    """What is started as soon as the script has imported torch."""

    def __init__(
        self,
        plan: Plan | None,
        tracer: Tracer | OnDemand | None,
        survey: Survey | None,
        options: dict[str, Any],
    ) -> None:
        self._plan = plan
        self._tracer = tracer
        self._survey = survey
        self._options = options
        self._finder: LoopFinder | None = None
        self._session: Session | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        try:
            if self._survey is not None:
                inline.tell(self._survey)
                self._finder = LoopFinder(self._survey, self._survey.guard)
            elif self._tracer is not None:
                tracer = self._tracer
                if isinstance(tracer, Tracer):
                    tracer.start(lead_in=True)
                else:
                    tracer.start()
                guard: Guard = tracer.guard
                self._finder = LoopFinder(tracer, guard, on_missed=tracer.missed_one)
            else:
                self._session = inline.begin(self._plan, **self._options)
                self._finder = LoopFinder(self._session, self._session.guard)
            self._finder.install()
        except Exception as error:
            say_once(f"the script runs without being recorded: {type(error).__name__}: {error}")

    def stop(self) -> list[Path]:
        if os.getpid() != self._pid:
            return []
        if self._finder is not None:
            self._finder.remove()
        if self._survey is not None:
            inline.tell(None)
            self._survey.close()
            return []
        if self._tracer is not None:
            return self._tracer.stop()
        inline.stop()
        # A script that knows of inline recording may have stopped it itself.
        return [] if self._session is None else self._session.written


def run(
    command: Sequence[str],
    *,
    module: bool = False,
    plan: Plan | None = None,
    tracer: Tracer | OnDemand | None = None,
    survey: Survey | None = None,
    out: str | Path = "stepscope-out",
    phases: bool = True,
    stay_main: bool = False,
) -> list[Path]:
    """Runs a script, recorded, and says which files this process has written.

    Iterations are found from the optimizer's step, the model from the outermost module called,
    batches from the DataLoader. The script sees its own `sys.argv`, `sys.path[0]` and `__main__`;
    what it raises, and how it exits, is its own.

    Args:
        command: the script's path, or the module's name, and its arguments.
        module: run `python -m module` rather than a file.
        plan: measure these events inline; None for the phases only.
        tracer: record a trace instead, or listen for when one is asked for.
        survey: only see what can be measured, and end the script then.
        out: directory of the inline files.
        phases: whether phases are timed.
        stay_main: whether the script stays `__main__`, with its `sys.argv`, when its last line has
            run: for a process that ends then, whose exit handlers and threads are the script's.

    Raises:
        UsageError: there is no such script.
    """
    if not command:
        raise UsageError(
            "no script was given", hint="stepscope record -- train.py ARGS", slug="no-script"
        )
    target, *arguments = command
    if not module and not Path(target).exists():
        raise UsageError(
            f"there is no script {target}",
            hint="give a Python file, or -m and a module's name",
            slug="no-script",
        )
    recording = _Recording(plan, tracer, survey, {"out": Path(out).absolute(), "phases": phases})
    waiting = AfterImport("torch", recording.start)
    main = MainProgram()
    written: list[Path] = []
    try:
        waiting.install()
        if module:
            main.run_module(target, arguments)
        else:
            main.run_script(target, arguments)
    finally:
        waiting.remove()
        written = recording.stop()
        if not stay_main:
            main.restore()
    return written
