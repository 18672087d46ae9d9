"""torch's profiler, as traces use it."""

from __future__ import annotations

import os


def quieten_profiler() -> None:
    """Keeps the profiler's library from announcing on stderr that it starts and stops.

    To be called before the first profiler. What somebody has set in the environment stays.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
