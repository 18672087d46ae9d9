"""Traces of two operators that say whose they are: files to tell jobs apart by."""

import json
from pathlib import Path

START_NS = 1_700_000_000_000_000_000
MINUTE_NS = 60 * 10**9
H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"


def write_trace(
    path: Path,
    *,
    rank: int | None = None,
    world: int | None = None,
    device: str | None = H100,
    minute: float = 0,
    lasts_minutes: float = 0.1,
    step: int | None = None,
    **metadata: object,
) -> None:
    """A trace of two events, its start and `lasts_minutes` later its end, in a step if one is given."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at_us, "dur": 1}
        for name, at_us in (("first", 1.0), ("last", 1.0 + lasts_minutes * 60e6))
    ]
    if step is not None:
        marked = {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": 0.5, "dur": 90}
        events.append({"ph": "X", "pid": 1, "tid": 1, **marked})
    trace: dict[str, object] = {
        "baseTimeNanoseconds": START_NS + round(minute * MINUTE_NS),
        **metadata,
        "traceEvents": events,
        "traceName": str(path),
    }
    if device is not None:
        listed = [{"id": 0, "name": device, "computeMajor": 9, "numSms": 132}] if device else []
        trace = {"deviceProperties": listed, **trace}
    if rank is not None or world is not None:
        job = {"rank": rank, "world_size": world, **metadata.pop("job", {})}
        trace = {"distributedInfo": {k: v for k, v in job.items() if v is not None}, **trace}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(trace))
