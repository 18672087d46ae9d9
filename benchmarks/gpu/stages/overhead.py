"""What each way to record costs a step, paired, by `benchmarks/record_overhead.py`."""

from __future__ import annotations

import json
import sys

from gpu.stages.surroundings import DEVICE, ROOT, SCRATCH, outcome_of, run

SECONDS = 85.0
ROUNDS = 12 if DEVICE == "cuda" else 2


def main() -> int:
    found = outcome_of("overhead")
    file = SCRATCH / "overhead.json"
    command = [sys.executable, ROOT / "benchmarks" / "record_overhead.py", "--device", DEVICE]
    ended = run([*command, "--rounds", str(ROUNDS), "--no-memory", "-o", file], SECONDS)
    print(ended.printed)
    if not file.is_file():
        found.note(f"record_overhead.py: {ended.last_line()}")
        return 1
    result = json.loads(file.read_text("utf-8"))
    tiny = {row["way"]: row["added_us"] for row in result["tiny"]}
    rows = [
        {
            "way": row["way"],
            "step_ms": row["step_ms"],
            "wall_ratio": row["wall_ratio"][0],
            "wall_interval": row["wall_ratio"][1:],
            "processor_ratio": row["processor_ratio"][0],
            "added_to_a_tiny_step_us": tiny[row["way"]][0],
        }
        for row in result["ways"]
    ]
    found.figure("rounds", result["rounds"])
    found.figure("ways", rows)
    if "TraceML" not in tiny:
        found.note("TraceML is not installed here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
