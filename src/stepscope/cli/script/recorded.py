"""Runs a script for `stepscope record`: records it, ends as it would alone, and shows the recording."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.errors import StepScopeError
from stepscope.base.plugins import stay_out
from stepscope.base.ranks import this_process
from stepscope.cli.script.end import Interrupted, exit_code, show_traceback
from stepscope.cli.script.files import RecordedFiles
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.streams import as_python_has_them, reporting
from stepscope.record.job.at_end import AtEnd

if TYPE_CHECKING:
    from stepscope.record.recording import Recording
    from stepscope.record.sampling import Sampling


@dataclass
class RecordedScript:
    """One run of a script.

    Args:
        command: the script's path, or the module's name, and its arguments.
        record: returns what records it from inside; None if nothing does.
        sampling: samples its stacks from outside; None if nothing does.
    """

    command: Sequence[str]
    module: bool
    record: Callable[[], Recording] | None
    sampling: Sampling | None
    files: RecordedFiles
    reports: Callable[[], bool]
    _pid: int = field(default_factory=os.getpid, init=False)
    _outlived: Callable[[], list[Path]] | None = field(default=None, init=False)

    def run(self, interrupted: Interrupted) -> int:
        """Runs the script, ends the recording and reports; returns the script's exit code.

        Args:
            interrupted: ends the process with SIGINT if SIGINT ended the script; created before everything else.

        Raises:
            StepScopeError: the script does not exist.
        """
        from stepscope.record.recording import SCRIPT_FOLDERS

        stay_out()
        path = sys.path[:]
        as_python_has_them()
        SCRIPT_FOLDERS.clear()
        leaving = AtEnd(report=lambda: self.files.name_alone() if self._is_reported() else None)
        try:
            code, written = self._ran(interrupted)
        finally:
            if self._outlived is not None:
                # Python waits for the script's threads, which may train, and then calls exit handlers.
                atexit.register(self._end_late, leaving)
            else:
                leaving.cancel()
        if self._outlived is not None:
            return code
        if self.sampling is not None:
            written += self.sampling.stop()
        if self._is_reported():
            scripts, sys.path[:] = sys.path[:], path
            with reporting():
                self._report(written)
            sys.path[:] = scripts
        return code

    def _ran(self, interrupted: Interrupted) -> tuple[int, list[Path]]:
        """The exit code, and the files of a script that ran to its last line; otherwise they are found in the
        folder."""
        from stepscope.record.script import run

        try:
            if self.sampling is not None:
                self.sampling.start()
            return 0, run(self.command, self.record, module=self.module, stay_main=True, outlived=self._take_outlived)
        except SystemExit as left:
            return exit_code(left), []
        except StepScopeError:
            raise
        except KeyboardInterrupt as error:
            show_traceback(error)
            interrupted.end_so()
            return Interrupted.CODE, []
        except BaseException as error:
            show_traceback(error)
            return 1, []

    def _take_outlived(self, end: Callable[[], list[Path]]) -> None:
        self._outlived = end

    def _end_late(self, leaving: AtEnd) -> None:
        with reporting():
            if self._outlived is not None:
                self._outlived()
            if self.sampling is not None:
                self.sampling.stop()
            leaving.cancel()
            if self._is_reported():
                self.files.name_alone("The script's threads ended after it.")

    def _is_reported(self) -> bool:
        # A child that the script forked reports nothing.
        return os.getpid() == self._pid and self.reports()

    def _report(self, written: list[Path]) -> None:
        self.files.show(written)
        if self.sampling is not None and self.sampling.why_not is not None and this_process().rank == 0:
            print_err(f"note: no stacks, or not all, were sampled: {self.sampling.why_not}")
