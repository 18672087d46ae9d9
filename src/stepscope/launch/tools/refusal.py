"""Asks a tool itself about a file that it wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_LONGEST_S = 120


def refused(words: Sequence[str | Path]) -> str:
    """Why the tool's own command for reading the file fails, from its last words; empty if it does not."""
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
