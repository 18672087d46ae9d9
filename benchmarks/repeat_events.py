"""Repeats a Kineto trace's events to make a valid, longer trace.

A copy's times start where the previous copy ended, and every number that must be unique in a recording (correlations,
flow ids, the recorder's own event numbers, Python call numbers, autograd sequence numbers, step numbers) advances by as
much as one copy uses. The events' text stays as the recorder wrote it: it becomes one template with a placeholder for
each such number, and a copy is one `%` on that template.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Numbers that share a name space advance together: a flow's id is its launch's correlation, and old recorders used
# correlations as external ids.
GROUPS = {
    "ts": "time",
    "correlation": "link",
    "External id": "link",
    "external id": "link",
    "id": "link",
    "wait_on_cuda_event_record_corr_id": "link",
    "Ev Idx": "event",
    "Profiler Event Index": "event",
    "Python id": "python",
    "Python parent id": "python",
    "Record function id": "record function",
    "Sequence number": "sequence",
    "Seq": "collective",
    "ProfilerStep#": "step",
}
# Here, 0 and below mean "none" and must not change.
ZERO_IS_NONE = {"link", "record function"}
NEGATIVE_IS_NONE = {"sequence", "python", "event", "collective", "step"}

_keys = "|".join(re.escape(key) for key in GROUPS if key not in ("id", "ProfilerStep#"))
NUMBER = re.compile(rf'(?<!\\)"({_keys})"\s*:\s*"?(-?\d+)|"(ProfilerStep#)(\d+)"')
FLOW_NUMBER = re.compile(rf'(?<!\\)"({_keys}|id)"\s*:\s*"?(-?\d+)|"(ProfilerStep#)(\d+)"')
GAP_US = 100


@dataclass
class Recording:
    """A trace as text: before its events, the events, after its events."""

    head: str
    separator: str
    once: list[str]
    repeated: list[tuple[dict[str, Any], str]]
    closing: list[tuple[dict[str, Any], str]]
    tail: str


def split_recording(text: str) -> Recording:
    """Splits a trace's text into its events, each with its original text."""
    opening = text.index("[", text.index('"traceEvents"')) if text.lstrip()[0] == "{" else text.index("[")
    decode = json.JSONDecoder().raw_decode
    once, repeated, closing = [], [], []
    position, separator, end = opening + 1, "", opening + 1
    while True:
        position = _skip(text, position)
        if text[position] == "]":
            break
        if end > opening + 1 and not separator:
            separator = text[end:position]
        event, end = decode(text, position)
        raw = text[position:end]
        if event.get("ph") == "M" or str(event.get("name")).startswith("Iteration Start"):
            once.append(raw)
        elif event.get("cat") == "Trace" or event.get("name") == "Record Window End":
            closing.append((event, raw))
        else:
            repeated.append((event, raw))
        position = end
    return Recording(text[: opening + 1] + "\n", separator or ",\n", once, repeated, closing, "\n" + text[position:])


def _skip(text: str, position: int) -> int:
    while text[position] in " \t\r\n,":
        position += 1
    return position


def mark_as_step(recording: Recording) -> None:
    """Adds a `ProfilerStep#0` around the events of the busiest operator thread if there is no step."""
    if any(str(event.get("name")).startswith("ProfilerStep#") for event, _ in recording.repeated):
        return
    threads = Counter((e["pid"], e["tid"]) for e, _ in recording.repeated if e.get("cat") == "cpu_op")
    pid, tid = threads.most_common(1)[0][0]
    on_thread = [e for e, _ in recording.repeated if e.get("ph") == "X" and (e["pid"], e["tid"]) == (pid, tid)]
    start = int(min(e["ts"] for e in on_thread)) - 1
    end = int(max(e["ts"] + e["dur"] for e in on_thread)) + 2
    numbers = [e["args"].get("External id", 0) for e, _ in recording.repeated if e.get("args")]
    event = {
        "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": pid, "tid": tid,
        "ts": start, "dur": end - start, "args": {"External id": max(numbers) + 1},
    }  # fmt: skip
    recording.repeated.append((event, json.dumps(event)))


@dataclass
class Template:
    """The repeated events as one format string, with the numbers of the first copy and their increments."""

    recording: Recording
    text: bytes
    first: list[int]
    shifts: list[int]
    period_us: int
    steps: int
    events: int
    by_group: dict[str, int] = field(default_factory=dict)

    def copies(self) -> Iterator[bytes]:
        """Yields copies of the events without end, each with the separator before it."""
        current = tuple(self.first)
        while True:
            yield self.text % current
            current = tuple(map(int.__add__, current, self.shifts))

    def closing(self, copies: int) -> list[str]:
        """The events that mark the recording's end, moved to the end of the last copy."""
        later = (copies - 1) * self.period_us

        def move(match: re.Match[str]) -> str:
            return f"{match[1]}{int(match[2]) + later}"

        moved = []
        for event, raw in self.recording.closing:
            key = "dur" if event.get("ph") == "X" else "ts"
            moved.append(re.sub(rf'("{key}"\s*:\s*)(\d+)', move, raw, count=1))
        return moved


def make_template(recording: Recording, period_us: int | None = None) -> Template:
    """Finds every number that must advance, and its increment; times by `period_us` if it is given."""
    parts: list[str] = []
    groups: list[str] = []
    first: list[int] = []
    for event, raw in recording.repeated:
        pattern = FLOW_NUMBER if event.get("ph") in ("s", "t", "f") else NUMBER
        parts.append(recording.separator.replace("%", "%%"))
        position = 0
        for match in pattern.finditer(raw):
            number = match.lastindex or 2
            parts += [raw[position : match.start(number)].replace("%", "%%"), "%d"]
            position = match.end(number)
            groups.append(GROUPS[match[number - 1]])
            first.append(int(match[number]))
        parts.append(raw[position:].replace("%", "%%"))
    period = _period_us(recording) if period_us is None else period_us
    by_group = {"time": period}
    for group in set(groups) - {"time"}:
        values = [v for g, v in zip(groups, first, strict=True) if g == group and _moves(g, v)]
        by_group[group] = max(values) - min(values) + 1 if values else 0
    shifts = [by_group[g] if _moves(g, v) else 0 for g, v in zip(groups, first, strict=True)]
    steps = by_group.get("step", 1)
    text = "".join(parts).encode()
    return Template(recording, text, first, shifts, period, steps, len(recording.repeated), by_group)


def _moves(group: str, value: int) -> bool:
    if group in ZERO_IS_NONE:
        return value > 0
    return group not in NEGATIVE_IS_NONE or value >= 0


def _period_us(recording: Recording) -> int:
    spans = [(e["ts"], e["ts"] + e.get("dur", 0)) for e, _ in recording.repeated if "ts" in e]
    return int(max(end for _, end in spans) - min(start for start, _ in spans)) + 1 + GAP_US
