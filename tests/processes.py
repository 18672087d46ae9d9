"""Programs that a test runs to their end, with what they print as text."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def ran(*command: str | Path, timeout: float = 120, **how: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, whatever its status; `how` is the rest of `subprocess.run`."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **how)


def python(*arguments: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """The same of this Python."""
    return ran(sys.executable, *arguments, **how)
