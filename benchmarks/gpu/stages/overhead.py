"""Measures the cost of each way to record per step, in pairs, with `benchmarks/overheads.py`."""

from __future__ import annotations

import json
import sys

from gpu.stages.surroundings import DEVICE, ROOT, SCRATCH, outcome_of, run

SECONDS = 85.0
MINUTES = "1" if DEVICE == "cuda" else "0.1"
STEPS_MS = "1,20" if DEVICE == "cuda" else "1"


def main() -> int:
    found = outcome_of("overhead")
    file = SCRATCH / "overhead.json"
    command = [sys.executable, ROOT / "benchmarks" / "overheads.py", "--device", DEVICE]
    command += ["--minutes", MINUTES, "--rounds", "1", "--steps-ms", STEPS_MS]
    command += ["--block", "0.1", "-o", file]
    ended = run(command, SECONDS)
    print(ended.printed)
    if not file.is_file():
        found.note(f"overheads.py: {ended.last_line()}")
        return 1
    rows = json.loads(file.read_text("utf-8"))["rows"]
    found.figure("ways", rows)
    if "TraceML" not in {row["way"] for row in rows}:
        found.note("TraceML is not installed here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
