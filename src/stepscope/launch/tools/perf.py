"""Linux perf: sampled call stacks of everything on the CPU, or counts of its events."""

from __future__ import annotations

import struct
from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_SHORT = {"-F": "--freq", "-g": "--call-graph", "-o": "--output", "-D": "--delay", "-c": "--count"}
_ENDINGS = {"record": "perf.data", "stat": "perf.txt"}
_HEADER = struct.Struct("=8s2Q2Q2Q")
"""Magic, sizes of the header and of an attribute; place and size of the attributes, and of the data."""


def _arguments(request: Request) -> list[str]:
    set_name = request.set_name or "record"
    # 99 Hz is frequent enough for people, and not in step with other periodic work.
    ours = ["--call-graph=fp", "--freq=99"] if set_name == "record" else []
    start_ms = round(1000 * (request.delay_s or 0))
    if request.duration_s is not None:
        if set_name != "record" or request.is_older(6, 1):
            raise PERF.refusal("stat, and record before 6.1, has no --duration", "leave it out; --delay they have")
        ours.append(f"--delay={start_ms}-{start_ms + round(1000 * request.duration_s)}")
    elif request.delay_s is not None:
        ours.append(f"--delay={start_ms}")
    output = f"--output={request.stem}.{_ENDINGS[set_name]}"
    return [set_name, *request.merged(ours, _SHORT), output, "--"]


def _lacks(file: Path, _perf: str) -> str:
    with file.open("rb") as data:
        start = data.read(_HEADER.size)
    if not start:
        return "it is empty"
    if file.suffix == ".txt":
        return ""
    if not start.startswith(b"PERFILE2") or len(start) < _HEADER.size:
        return "it is not a perf.data file"
    # Written last; perf itself refuses a file without it.
    return "" if _HEADER.unpack(start)[-1] else "perf was ended before it had written all"


PERF = Tool(
    name="perf",
    about="Linux perf: sampled call stacks of the CPU, or counts of its events (--set stat)",
    way="around",
    executables=("perf",),
    arguments=_arguments,
    written=(Written(tuple(f"{{stem}}.{ending}" for ending in _ENDINGS.values()), _lacks),),
    sets=tuple(_ENDINGS),
    delays=("--delay", "--duration"),
    needs=frozenset({"perf-events"}),
    oldest=(4, 0),
)
