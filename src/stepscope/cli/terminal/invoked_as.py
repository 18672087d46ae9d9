"""The name under which this command line can be started, for hints that are pasted into a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def invoked_as() -> str:
    """Returns `stepscope` if that starts this one, else the path that does.

    A fresh clone has it in `.venv/bin`, which is not on the PATH.
    """
    ours = Path(sys.executable).with_name("stepscope")
    if not os.access(ours, os.X_OK):
        # Installed without its script, or for one user: found by name, or run as a module.
        return "stepscope" if shutil.which("stepscope") else f"{_short(sys.executable)} -m stepscope"
    executable = shutil.which("stepscope")
    if executable is not None and Path(executable).resolve() == ours.resolve():
        return "stepscope"
    return _short(str(ours))


def _short(path: str) -> str:
    try:
        here = Path.cwd()
    except OSError:
        return shlex.quote(path)
    absolute = Path(path)
    if not absolute.is_relative_to(here) or absolute.parent == here:
        return shlex.quote(path)
    return shlex.quote(str(absolute.relative_to(here)))
