"""Loads one trace file with HolisticTraceAnalysis, the way its users do, and says how long it took.

Runs in an environment of its own, so that its dependencies and ours do not meet; needs nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version


def main() -> None:
    """Loads the file named on the command line and prints seconds, rows and the version as JSON."""
    path = sys.argv[1]
    began = time.perf_counter()
    from hta.trace_analysis import TraceAnalysis

    imported = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: path})
    loaded = time.perf_counter()
    sys.stdout.write(
        json.dumps(
            {
                "import_s": imported - began,
                "load_s": loaded - imported,
                "rows": len(analysis.t.get_trace(0)),
                "version": version("HolisticTraceAnalysis"),
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
