"""Records an unmodified script or module, run like `python script.py` or `python -m module`."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from stepscope.base.errors import UsageError
from stepscope.record.after_import import AfterImport
from stepscope.record.job.as_main import MainProgram
from stepscope.record.job.loop import LoopFinder
from stepscope.record.recording import Recording
from stepscope.record.trouble import warn_once

ERRORS = {"no-script": "The script to run under StepScope is missing, or none was given."}


class _Recorded:
    """A recording of a script, started once the script has imported torch."""

    def __init__(self, record: Callable[[], Recording]) -> None:
        self._record = record
        self._recording: Recording | None = None
        self._finder: LoopFinder | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        try:
            self._recording = self._record()
            self._recording.start(lead_in=True)
            self._finder = LoopFinder(self._recording)
            self._finder.install()
        except Exception as error:
            warn_once(f"the script runs without being recorded: {type(error).__name__}: {error}")

    def stop(self) -> list[Path]:
        if os.getpid() != self._pid:
            return []
        try:
            # A thread that is still training ends its trace at its next step, which the finder sees.
            return [] if self._recording is None else self._recording.stop()
        finally:
            if self._finder is not None:
                self._finder.remove()


def run(
    command: Sequence[str],
    record: Callable[[], Recording] | None,
    *,
    module: bool = False,
    stay_main: bool = False,
    outlived: Callable[[Callable[[], list[Path]]], object] | None = None,
) -> list[Path]:
    """Runs a script and records it; returns the files of this process.

    The script has its own `sys.argv`, `sys.path[0]` and `__main__`; its exceptions and exit pass through.

    Args:
        command: the script's path, or the module's name, and its arguments.
        record: returns what records the script; called when it imports torch, perhaps in another directory. None:
            nothing records inside it.
        module: run `python -m module` rather than a file.
        stay_main: whether the script stays `__main__` after its last line, for its exit handlers and threads.
        outlived: gets a function that ends the recording, if Python waits for threads of the script; call it later.

    Raises:
        UsageError: the script does not exist.
    """
    if not command:
        raise UsageError("no script was given", hint="stepscope record -- train.py ARGS", slug="no-script")
    target, *arguments = command
    if not module:
        _check_python(target, arguments)
    if not module and not os.access(target, os.F_OK):
        raise UsageError(
            f"there is no script {target}", hint="give a Python file, or -m and a module's name", slug="no-script"
        )
    recorded = None if record is None else _Recorded(record)
    waiting = None if recorded is None else AfterImport("torch", recorded.start)
    main = MainProgram()
    written: list[Path] = []
    try:
        if waiting is not None:
            waiting.install()
        if module:
            main.run_module(target, arguments)
        else:
            main.run_script(target, arguments)
    finally:

        def end() -> list[Path]:
            if waiting is not None:
                waiting.remove()
            return [] if recorded is None else recorded.stop()

        if outlived is not None and recorded is not None and _threads_go_on():
            outlived(end)
        else:
            written = end()
        if not stay_main:
            main.restore()
    return written


def _threads_go_on() -> bool:
    """Whether Python must wait for threads before its exit handlers; an executor's threads only wait for work."""
    executors = sys.modules.get("concurrent.futures.thread")
    waiting = tuple(getattr(executors, "_threads_queues", ()))
    return any(
        not thread.daemon and thread is not threading.current_thread() and thread not in waiting
        for thread in threading.enumerate()
    )


def _check_python(target: str, arguments: Sequence[str]) -> None:
    """Refuses Python itself and scripts of other interpreters with a UsageError."""
    if re.fullmatch(r"python[\d.]*|pypy[\d.]*", Path(target).name):
        script = next((word for word in arguments if word.endswith(".py")), "train.py")
        what = " ".join(arguments[:2]) if arguments[:1] == ["-m"] else script
        raise UsageError(
            f"{target} runs a script, and is none",
            hint=f"leave it out, StepScope runs the script itself: -- {what} ARGS",
            slug="no-script",
        )
    with suppress(OSError):
        with Path(target).open("rb") as file:
            first = file.read(200).split(b"\n", 1)[0]
        if (first.startswith(b"#!") and b"py" not in first) or first.startswith(b"\x7fELF"):
            raise UsageError(
                f"{target} is no Python script",
                hint="record the Python script that it runs, in it: stepscope record -- train.py ARGS",
                slug="no-script",
            )
