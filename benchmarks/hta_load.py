"""Loads traces with HolisticTraceAnalysis, the way its users do, and says how long it took.

Runs in an environment of its own, so that its dependencies and ours do not meet; needs nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version


def main() -> None:
    """Loads the files of ranks 0, 1, ... named on the command line; prints seconds, rows and the version as JSON."""
    files = dict(enumerate(sys.argv[1:]))
    began = time.perf_counter()
    from hta.trace_analysis import TraceAnalysis

    imported = time.perf_counter()
    analysis = TraceAnalysis(trace_files=files)
    loaded = time.perf_counter()
    sys.stdout.write(
        json.dumps(
            {
                "import_s": imported - began,
                "load_s": loaded - imported,
                "rows": sum(len(analysis.t.get_trace(rank)) for rank in files),
                "version": version("HolisticTraceAnalysis"),
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
