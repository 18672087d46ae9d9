"""What a tool itself says about a file that it wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_LONGEST_S = 120


def refused(words: Sequence[str | Path]) -> str:
    """Why a command of the tool that reads the file fails, in its last words; empty where it does not."""
    name = f"{Path(words[0]).name} {words[1]}"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own tool
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LONGEST_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name} could not be asked: {error}"
    if not done.returncode:
        return ""
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return f"{name}: {lines[-1] if lines else done.returncode}"
