"""What each stage gets from the run: its folders, the device, and commands with time limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu.outcome import Outcome

ROOT = Path(__file__).resolve().parents[3]
OUT = Path(os.environ.get("STEPSCOPE_GPU_OUT", "build/gpu"))
DEVICE = os.environ.get("STEPSCOPE_GPU_DEVICE", "cuda")
SCRATCH = OUT / "scratch"
ENDS_AT = time.monotonic() + float(os.environ.get("STEPSCOPE_GPU_SECONDS", "3600")) - 12
"""Time at which a stage should have written its results, a little before it is stopped."""
STEPSCOPE = (sys.executable, "-m", "stepscope")


def left() -> float:
    """Seconds left for a stage."""
    return max(0.0, ENDS_AT - time.monotonic())


def outcome_of(stage: str) -> Outcome:
    """The results of a stage."""
    return Outcome(OUT / "results" / f"{stage}.json")


@dataclass(frozen=True)
class Ended:
    """A finished command.

    Args:
        code: its exit code; None if it was stopped.
        printed: its standard output and error.
        seconds: its duration.
        hung: whether it was stopped because of its own time limit instead of the stage's.
    """

    code: int | None
    printed: str
    seconds: float
    hung: bool = False

    def last_line(self) -> str:
        """Why it failed, in its own words, for a summary."""
        lines = self.printed.strip().splitlines()
        return lines[-1][:200] if lines else "it printed nothing"


def run(
    command: Sequence[str | Path], seconds: float, *, more: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ended:
    """Runs a command until it ends, its time limit is reached, or the stage's time is over.

    Standard output and error are combined.
    """
    began = time.monotonic()
    # Into a file, because a pipe would stay open as long as anything that the command left running.
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(more or {})},
            cwd=cwd,
            start_new_session=True,
        )
        hung, limit = False, min(seconds, left())
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code, hung = None, limit == seconds
        printed.seek(0)
        return Ended(code, printed.read(), round(time.monotonic() - began, 1), hung)
