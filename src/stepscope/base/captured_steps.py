"""Which steps of a job another profiler records, and the signals that start and stop it.

`stepscope launch`, `stepscope record --capture` and `stepscope.capture()` share these words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stepscope.base.errors import UsageError

ERRORS = {
    "bad-steps": (
        "The steps that a profiler is to record are one number or one range, both ends included: `100` or "
        "`100-102`. Steps count from 0, as [recording](recording.md#scripts-unchanged) counts them."
    )
}

SIGNALS = ("cuda-profiler", "nvtx", "itt", "roctx")
"""How a job can start and stop a profiler: `cudaProfilerStart` and `cudaProfilerStop`, an NVTX range,
`__itt_resume` and `__itt_pause`, `roctxProfilerResume` and `roctxProfilerPause`."""

SIGNAL_VARIABLE = "STEPSCOPE_CAPTURE"
"""The environment variable that gives `stepscope.capture()` its signal, one of `SIGNALS`."""

CAPTURE_RANGE = "stepscope_capture"
"""Text of the NVTX range around the captured steps: started and ended, not pushed, in NVTX's default domain."""

_STEPS = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")


@dataclass(frozen=True, slots=True)
class StepRange:
    """Consecutive steps, from the first to the last, both included."""

    first: int
    last: int

    def __contains__(self, step: int) -> bool:
        return self.first <= step <= self.last

    def __str__(self) -> str:
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}-{self.last}"


def parse_steps(text: str) -> StepRange:
    """Parses `"100-102"` as steps.

    Raises:
        UsageError: it is neither a number nor a range, or the range runs backwards.

    >>> parse_steps("100-102")
    StepRange(first=100, last=102)
    """
    match = _STEPS.fullmatch(text.strip())
    steps = match and StepRange(int(match[1]), int(match[2] or match[1]))
    if not steps or steps.last < steps.first:
        raise UsageError(
            f'steps "{text}" cannot be read',
            hint='write one number or one range, for example "100" or "100-102"',
            slug="bad-steps",
        )
    return steps
