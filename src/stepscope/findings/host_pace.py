"""Decides whether the host sets the pace of the steps, and how long it then waits for its devices.

If in every step the devices run out of work at some moment and wait for the host, no work is carried over from step to
step: a step takes as long as the host takes for it. Shorter device work then shortens a step only by the host's waits
for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.recording import recordings, union_of
from stepscope.analysis.steps.gaps import COMMUNICATES, KERNEL_WAIT_NS, WAITS_FOR_DEVICE

if TYPE_CHECKING:
    from stepscope.findings.facts import Facts

_BLOCKING_CALLS = f"""
    SELECT rank, span, start_ns, start_ns + dur_ns AS end_ns FROM host_event
    WHERE {{counted}} AND (
        {COMMUNICATES}
        OR kind = 'runtime' AND ({WAITS_FOR_DEVICE} OR dur_ns >= {KERNEL_WAIT_NS})
    )
"""
"""Calls in which the host may wait for a device, or for other ranks: any runtime call that takes longer than one that
only enqueues work, because a full queue delays launches and copies of pageable memory wait for earlier work."""
_POLLS = "role = 'synchronize' AND contains(name, 'Query')"
_MAX_POLLS = 100
"""From this many polls per step the host may be waiting in its own loop, for an unknown time."""


def host_wait_ns(facts: Facts) -> float | None:
    """How long the host may wait for its devices in a mean step (ns); None unless it sets the pace of each counted
    step."""
    return facts.scope.cached(__name__, lambda: _host_wait_ns(facts))


def _host_wait_ns(facts: Facts) -> float | None:
    if not facts.has_steps or not facts.has_host or facts.platform not in ("cuda", "rocm"):
        return None
    for broken in facts.times.broken:
        waits = broken.waits
        steps = len(broken.counted_windows["step"])
        if waits is None or len(np.unique(waits.window[waits.launched])) < steps:
            return None
    (polls,) = facts.host(f"SELECT count(*) AS n FROM host_event WHERE {{counted}} AND {_POLLS}")
    if polls["n"] > _MAX_POLLS * facts.steps:
        return None
    calls_by_recording = recordings(facts.scope.numpy(_BLOCKING_CALLS.replace("{counted}", facts.counted)))
    calls = [union_of(events) for events in calls_by_recording.values()]
    return float(sum(int((intervals.end - intervals.start).sum()) for intervals in calls)) / facts.steps
