"""Runs `stepscope demo` as a user does."""

from __future__ import annotations

import sys

from gpu.stages.surroundings import DEVICE, SCRATCH, STEPSCOPE, outcome_of, run

SECONDS = 55.0


def main() -> int:
    found = outcome_of("demo")
    folder = SCRATCH / "demo"
    ended = run([*STEPSCOPE, "demo", "--device", DEVICE, "--output", folder], SECONDS)
    print(ended.printed)
    report = folder / "report.html"
    found.claim(
        "the demo ends and writes its report",
        ended.code == 0 and report.is_file(),
        seconds=ended.seconds,
        **({} if ended.code == 0 else {"why": ended.last_line()}),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
