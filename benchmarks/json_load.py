"""Loads one trace file with the standard library's `json`: what every simple script does first."""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path


def main() -> None:
    """Loads the file named on the command line and prints seconds and events as JSON."""
    path = Path(sys.argv[1])
    began = time.perf_counter()
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    sys.stdout.write(
        json.dumps({"load_s": time.perf_counter() - began, "events": len(events)}) + "\n"
    )


if __name__ == "__main__":
    main()
