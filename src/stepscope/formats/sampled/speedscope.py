"""Reads speedscope's JSON, which py-spy, pyinstrument, rbspy, perf and others write.

A profile is a thread: either samples, each a stack and a weight, or events that open and close frames.
Source: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import INT32, LIMIT, integer, integer_in, real
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.frames import UNKNOWN, Frame
from stepscope.formats.inline.document import load
from stepscope.formats.options import ReadOptions
from stepscope.formats.sampled.stacks import MAX_FRAMES, Samples, none_sampled
from stepscope.formats.tables import Facts, RankTables, ReadReport

_LOOKS = re.compile(
    rb'"\$schema"\s*:\s*"https?://www\.speedscope\.app/file-format-schema\.json"'
    rb'|"(?:exporter)"\s*:\s*"speedscope@'
)
_LARGEST_BYTES = 1 << 29
_FRAMES_PER_EVENT = 64
"""In all stacks of opened frames together; a stack beyond has its first and last frame."""
_SCALE_NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_THREAD = re.compile(r'(?:Process (\d+) )?Thread (\w+)(?: "(.*)")?', re.DOTALL)
_PROCESS = re.compile(r'process (\d+):".*"', re.DOTALL)
_PYTHON = re.compile(r"(?i)\.pyx?$|^<.*>$")

ERRORS = {
    "bad-speedscope": (
        "A profile in speedscope's format is not a complete JSON document, or has more than 512 MiB. It was "
        "truncated in copying, or the profiler was killed while it wrote; a large one is smaller as collapsed "
        "stacks: `py-spy record -f raw`."
    ),
}


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be in speedscope's format."""
    return strip_bom(head).lstrip(b" \t\r\n")[:1] == b"{" and _LOOKS.search(head) is not None


def peek(member: Member) -> Facts | None:
    """The file's origin, or None when it holds no profile."""
    loaded = _load(member)
    return _facts(loaded, set()) if loaded.get("profiles") else None


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    report = ReadReport()
    loaded = _load(member)
    frames = _frames(loaded, report)
    of_py_spy = _exporter(loaded)[0] == "py-spy"
    samples = Samples("running" if of_py_spy else None)
    for profile in _objects(loaded.get("profiles"), report):
        scale = _SCALE_NS.get(str(profile.get("unit")))
        weights_of = _sampled if profile.get("type") == "sampled" else _evented
        thread = None
        for stack, (count, weight) in weights_of(profile, report).items():
            path = [frames[number] if 0 <= number < len(frames) else Frame(UNKNOWN) for number in stack]
            pid, path = _process(path)
            if thread is None:
                thread = _thread(samples, str(profile.get("name") or ""), pid)
            total = real(weight * (scale or 1), report, high=LIMIT)
            samples.add(
                path[::-1],
                thread=thread,
                weight=(count if total is None or scale is not None else round(total)) or None,
                sampled_ns=None if total is None or scale is None else round(total),
            )
            report.read += max(count, 1)
    if not samples:
        raise none_sampled(member)
    return RankTables(_facts(loaded, samples.pids), report, **samples.tables())


def _load(member: Member) -> dict[str, Any]:
    loaded = load(member, _LARGEST_BYTES, _refused)
    return loaded if isinstance(loaded, dict) else {}


def _refused(member: Member, reason: str) -> SourceError:
    return SourceError(
        f"{member.label}: {reason}",
        hint="copy it again, or record with py-spy record -f raw, which is small",
        slug="bad-speedscope",
    )


def _exporter(loaded: dict[str, Any]) -> tuple[str | None, str | None]:
    name, _, version = str(loaded.get("exporter") or "").partition("@")
    return name or None, version or None


def _facts(loaded: dict[str, Any], pids: set[str]) -> Facts:
    tool, version = _exporter(loaded)
    numbers = [number for number in map(integer_in, pids) if number is not None]
    return Facts(tool=tool, tool_version=version, pid=numbers[0] if len(numbers) == 1 else None)


def _frames(loaded: dict[str, Any], report: ReadReport) -> list[Frame]:
    shared = loaded.get("shared")
    listed = shared.get("frames") if isinstance(shared, dict) else None
    listed = listed if isinstance(listed, list) else []
    return [_frame(frame if isinstance(frame, dict) else {}, report) for frame in listed]


def _frame(stated: dict[str, Any], report: ReadReport) -> Frame:
    """A frame; in place of the source file py-spy has the library of native code."""
    name, file = str(stated.get("name") or UNKNOWN), stated.get("file")
    if not isinstance(file, str) or not file:
        return Frame(name)
    line = integer(stated.get("line"), report, below=INT32) or None
    if line is None and not _PYTHON.search(file):
        return Frame(name, library=file)
    return Frame(name, file=file, line=line)


def _objects(listed: Any, report: ReadReport) -> Iterator[dict[str, Any]]:
    for value in listed if isinstance(listed, list) else ():
        if isinstance(value, dict):
            yield value
        else:
            report.drop("wrong_type")


StackWeights = dict[tuple[int, ...], tuple[int, float]]
"""Stacks, outermost frame first: how often each was sampled, and its summed weight."""


def _sampled(profile: dict[str, Any], report: ReadReport) -> StackWeights:
    samples, weights = profile.get("samples"), profile.get("weights")
    counts: Counter[tuple[int, ...]] = Counter()
    sums: dict[tuple[int, ...], float] = {}
    if not isinstance(samples, list):
        return {}
    weights = weights if isinstance(weights, list) else []
    for place, sample in enumerate(samples):
        weight = real(weights[place], low=0) if place < len(weights) else 1.0
        if not isinstance(sample, list) or weight is None:
            report.drop("wrong_type")
            continue
        numbers = [integer(frame, report) for frame in sample]
        stack = tuple(-1 if number is None else number for number in numbers)
        counts[stack] += 1
        sums[stack] = sums.get(stack, 0.0) + weight
    return {stack: (counts[stack], sums[stack]) for stack in counts}


def _evented(profile: dict[str, Any], report: ReadReport) -> StackWeights:
    """The weight that passed while each stack was open; there are no samples, so the count is 0."""
    events = profile.get("events")
    nodes: list[tuple[int, int, int]] = [(-1, -1, -1)]  # of the tree of stacks: parent, frame, outermost frame
    children: dict[tuple[int, int], int] = {}
    sums: dict[int, float] = {}
    opened: Counter[int] = Counter()
    node = 0
    last = real(profile.get("startValue"), report) or 0.0
    for event in events if isinstance(events, list) else ():
        at = real(event.get("at"), low=last) if isinstance(event, dict) else None
        frame = integer(event.get("frame")) if isinstance(event, dict) else None
        if at is None or frame is None:
            report.drop("wrong_type")
            continue
        if node:
            sums[node] = sums.get(node, 0.0) + at - last
        last = at
        if event.get("type") == "O":
            above, opened[frame] = node, opened[frame] + 1
            node = children.setdefault((above, frame), len(nodes))
            if node == len(nodes):
                nodes.append((above, frame, nodes[above][2] if above else frame))
        while opened[frame] and event.get("type") != "O":
            node, closed, _ = nodes[node]
            opened[closed] -= 1
            if closed == frame:
                break
    paths: StackWeights = {}
    room = _FRAMES_PER_EVENT * len(events) if isinstance(events, list) else 0
    for node, passed in sums.items():
        if passed > 0:
            path = _path(nodes, node, MAX_FRAMES if room > 0 else 1)
            room -= len(path)
            paths[path] = 0, paths.get(path, (0, 0.0))[1] + passed
    if room < 0:
        report.note("implausible_size")
    return paths


def _path(nodes: list[tuple[int, int, int]], node: int, longest: int) -> tuple[int, ...]:
    """The innermost frames of a stack, after its outermost one if there are more."""
    inner: list[int] = []
    outermost = nodes[node][2]
    while node and len(inner) < longest:
        node, frame, _ = nodes[node]
        inner.append(frame)
    return (*([outermost] if node else []), *reversed(inner))


def _process(path: list[Frame]) -> tuple[str, list[Frame]]:
    """The process and the other frames; py-spy has the process as outermost frame if it samples several."""
    match = _PROCESS.fullmatch(path[0].function) if path else None
    return (match[1], path[1:]) if match else ("", path)


def _thread(samples: Samples, name: str, pid: str) -> int | None:
    match = _THREAD.fullmatch(name)
    if match is None:
        return samples.thread(pid, "", name) if name else None
    return samples.thread(match[1] or pid, match[2], match[3])
