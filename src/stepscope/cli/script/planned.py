"""Makes a plan from a script: runs it until some iterations have been watched, then ends it."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from stepscope.base.errors import StepScopeError
from stepscope.base.ranks import this_process
from stepscope.base.units import time_text
from stepscope.cli.script.end import exit_code, show_traceback
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.streams import as_python_has_them, flush
from stepscope.record import inline
from stepscope.record.planning.listing import Listed, iterations_needed, modules_of
from stepscope.record.planning.survey import Survey
from stepscope.record.script import run

GRACE_SECONDS = 30.0
"""Time that a script may take to end, for instance to save its model."""
_SILENT_SECONDS = 60.0

ERRORS = {
    "no-iterations": (
        "`stepscope plan` ran a script that ended before an iteration of it could be watched. "
        "Iterations are found in the process itself: from an optimizer's steps, from backwards where steps cannot be "
        "observed, as in compiled code, or from `inline.iterate` and `inline.iteration`. 6 are needed, 17 for "
        "everything. Processes that the script starts itself are not watched; `torchrun --no-python stepscope plan -- "
        "train.py` watches each rank."
    ),
    "script-failed": (
        "The script that `stepscope plan` ran raised, or exited with its own code, before an iteration of it "
        "was watched. Its output is above the error; first check whether it runs alone."
    ),
}


@dataclass
class ScriptPlan:
    """Runs a script and passes its plan to `write`, only on rank 0.

    The process then ends with code 0 whatever the script does, because the plan is written.

    Args:
        command: the script's path, or the module's name, and its arguments.
        write: gets the found events and the lines to print above the plan. It may raise `StepScopeError` and `OSError`,
            which are raised after the script has ended.
        top: the number of modules to name.
        iterations: the number of iterations of each kind to watch.
        repetitions: measurements per event, to compute the number of iterations that the plan takes.
    """

    command: Sequence[str]
    module: bool
    write: Callable[[list[Listed], list[str]], None]
    top: int
    iterations: int
    repetitions: int
    _failed: Exception | None = None

    @property
    def _name(self) -> str:
        return f"{'-m ' if self.module else ''}{self.command[0] if self.command else ''}"

    def make(self) -> None:
        """Runs the script.

        Raises:
            StepScopeError: the script failed, or ended before an iteration was watched.
        """
        pid = os.getpid()
        as_python_has_them()
        survey = Survey(top=self.top, iterations=self.iterations, finished=self._finished, swallowed=self._end_at_once)
        waiting = threading.Timer(_SILENT_SECONDS, self._say_silent, [survey])
        waiting.daemon = True
        waiting.start()
        failure = ""
        code = 0
        try:
            run(self.command, lambda: inline.drive(survey), module=self.module, stay_main=True)
        except StepScopeError:
            raise
        except SystemExit as left:
            code = exit_code(left)
            failure = f"exited with code {code}" if code else ""
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            show_traceback(error)
            failure = f"raised {type(error).__name__}"
            code = 1
        finally:
            waiting.cancel()
        if os.getpid() != pid:
            # This is a child that the script forked; it has no survey.
            raise SystemExit(code)
        if self._failed is not None:
            raise self._failed
        if not survey.labels:
            raise self._no_plan_error(survey, failure)
        if failure:
            _report(f"{self._name} {failure} after its plan was written; the plan is not affected")

    def _finished(self, survey: Survey) -> None:
        # On every rank, because one that hangs on exit would leave the launcher waiting.
        threading.Thread(target=self._end_late, name="stepscope-end", daemon=True).start()
        process = this_process()
        if process.rank != 0:
            return
        _report(f"{self._name} {self._watched(survey)}")
        try:
            self.write(survey.labels, self._header(survey, process.world_size))
        except (StepScopeError, OSError) as error:
            self._failed = error

    @staticmethod
    def _watched(survey: Survey) -> str:
        if not survey.stopped:
            return f"has been watched for {survey.iterations} iterations and now ends"
        count = survey.watched("all")
        watched = f"{count} watched iteration{'s'[: count != 1]}"
        operators = "" if survey.watched("operators") else ", and it names no operators"
        return (
            f"ended after {survey.iterations} of the {survey.all_iterations} iterations that a plan takes: "
            f"its times are of {watched}{operators}"
        )

    def _header(self, survey: Survey, world_size: int) -> list[str]:
        script = shlex.join(["-m", *self.command] if self.module else self.command)
        whose = "" if world_size == 1 else f" (rank 0 of {world_size})"
        lines = [
            f"What an iteration runs, in that order{whose}. Cut it down, and then:",
            f"  stepscope record --inline PLAN.toml -- {script}",
            f"Times are medians of {survey.watched('all')} iterations in which everything was watched at once: rough,",
            "and too long for what is short or contains much.",
        ]
        # With modules' backwards or operators, an iteration is longer still.
        untouched_ns, watched_ns = survey.median_ns("plain"), survey.median_ns("forwards")
        if untouched_ns is not None and watched_ns is not None:
            lines.append(f"Such an iteration took {time_text(watched_ns)}, an untouched one {time_text(untouched_ns)}.")
        listed = sum(bool(path) for path in modules_of(survey.labels))
        if listed < survey.modules:
            lines.append(f"Of {survey.modules} modules these are the {listed} heaviest; --top names more.")
        events = sum(event.events for event in survey.labels)
        needed = iterations_needed(survey.labels, self.repetitions)
        ran = f"; this run had {survey.iterations}" if survey.stopped else ""
        lines.append(f"To measure all {events} events takes about {needed} iterations{ran}.")
        return lines

    def _no_plan_error(self, survey: Survey, failure: str) -> StepScopeError:
        plain_command = shlex.join(["python", *(["-m"] if self.module else []), *self.command])
        if failure:
            return StepScopeError(
                f"{self._name} {failure} before an iteration of it was watched",
                hint=f"check whether it runs alone: {plain_command}",
                slug="script-failed",
            )
        if survey.error is not None:
            return StepScopeError(
                f"{self._name} could not be watched: {type(survey.error).__name__}: {survey.error}",
                hint="make a plan from a trace: stepscope record, then stepscope plan",
                slug="script-failed",
            )
        hint = "let it train for at least 6 steps, 17 to see everything; start several ranks with torchrun"
        if "torch" not in sys.modules:
            what, hint = "ended and never imported torch", "name the script that trains"
        elif survey.iterations == 0:
            what = "ended, and no optimizer was seen to step more than once in this process"
        else:
            what = "ended before an iteration of it was watched"
        return StepScopeError(f"{self._name} {what}", hint=hint, slug="no-iterations")

    def _say_silent(self, survey: Survey) -> None:
        if survey.iterations == 0 and not survey.ended:
            _report(
                f"no optimizer of {self._name} has stepped for {_SILENT_SECONDS:.0f} s; "
                "if it does not train, stop it with Ctrl-C"
            )

    def _end_late(self) -> None:
        time.sleep(GRACE_SECONDS)
        _report(f"{self._name} has not ended within {GRACE_SECONDS:.0f} s and is stopped now")
        self._end_at_once()

    def _end_at_once(self) -> NoReturn:
        if self._failed is not None:
            _report(str(self._failed))
        for stream in (sys.stdout, sys.stderr):
            try:
                flush(stream)
            except (OSError, ValueError):
                continue
        os._exit(0 if self._failed is None else 1)


def stdout_apart() -> int:
    """Reserves stdout for the plan: everything printed from now on goes to stderr.

    This is not undone, because scripts and their processes also print when they exit.

    Returns:
        A descriptor of the original stdout.
    """
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    return original


def write_all(descriptor: int, text: str) -> None:
    """Writes to a descriptor and closes it.

    Raises:
        OSError: the reader has gone, or the disk is full.
    """
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _report(text: str) -> None:
    print_err(f"stepscope: {text}")
