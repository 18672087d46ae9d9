"""Steps: where each starts and ends on the host, and which device work belongs to it.

Ranges that mark steps define them; without these the calls of the optimizer do; without those, what recurs (see
`period`); otherwise the complete recording is one step. A step's end is moved to the end of the device work that it
launched, and the next step starts no earlier (the rule of PyTorch's former TensorBoard plugin).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.vocabulary import step_number
from stepscope.link.columns import texts_at, words
from stepscope.link.device import Device
from stepscope.link.host import (
    ANNOTATION,
    BACKWARD,
    COPY,
    FILL,
    GRAPH_LAUNCH,
    LAUNCH,
    NOWHERE,
    OPERATOR,
    OPTIMIZER,
    STEP,
    Host,
)
from stepscope.link.period import find_period
from stepscope.schema.arrays import Int64s

SLOW_FIRST = 1.5
"""A first step that takes more than so many times the median of the others, and longer than any of them,
distorts their mean: warm-up of libraries and of the recorder easily doubles a step."""
ENOUGH_STEPS = 3
"""With fewer steps, including the first, the others have no meaningful median."""


_STARVED = 0.8
"""A last step was cut off if it has less than this share of the device events of each step before it, or of the one
before it if launches lack their work. A first step found by the optimizer was cut off if it has less than this share of
the next one's. Without device events, operators count."""

_SIMILAR = 0.5
"""Work that outlasts the device work of a next step with at least this share of the events delays no step."""

_IN_A_CUT_FILE = 0.99
"""In a truncated file, a step lacks events, wherever it is, if it has less than this share of the device events or
operators of the step that has most: tracers do not write in order of time."""


@dataclass(slots=True)
class Steps:
    """Steps in order of time: one entry each (times in ns)."""

    number: Int64s
    name: list[str]
    host_start: Int64s
    host_end: Int64s
    start: Int64s
    end: Int64s
    device_events: Int64s
    complete: NDArray[np.bool_]
    is_warmup: NDArray[np.bool_]
    rule: str
    similarity: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.number)

    def at(self, time: Int64s) -> NDArray[np.int32]:
        """Index of the step that each time is in on the host; -1 for none."""
        return _inside(self.host_start, self.host_end, time, unbounded=self.rule == COMPLETE_RECORDING)

    def on_device_at(self, time: Int64s) -> NDArray[np.int32]:
        """Index of the step that each time is in, including the steps' device work; -1 for none."""
        return _inside(self.start, self.end, time, unbounded=self.rule == COMPLETE_RECORDING)

    def table(self) -> pa.Table:
        """The steps as a table."""
        return pa.table(
            {
                "step": self.number,
                "name": pa.array(self.name, pa.string()),
                "start_ns": self.start,
                "end_ns": self.end,
                "host_start_ns": self.host_start,
                "host_end_ns": self.host_end,
                "device_events": self.device_events,
                "complete": self.complete,
                "is_warmup": self.is_warmup,
                "rule": pa.array([self.rule] * len(self), pa.string()),
                "similarity": pa.array(
                    [None] * len(self) if self.similarity is None else self.similarity, pa.float64()
                ),
            }
        )


PROFILER_STEP = "ProfilerStep"
OPTIMIZER_CALLS = "optimizer"
COMPLETE_RECORDING = "whole recording"


_BLOCK = 1 << 20
"""Times are looked up in blocks, to keep temporary arrays small."""


def _inside(start: Int64s, end: Int64s, time: Int64s, *, unbounded: bool) -> NDArray[np.int32]:
    result = np.full(len(time), -1, dtype=np.int32)
    for low in range(0, len(time) if len(start) else 0, _BLOCK):
        block = time[low : low + _BLOCK]
        index = np.searchsorted(start, block, side="right") - 1
        clipped = np.maximum(index, 0)
        # Nothing of a complete recording is outside it, not even what starts at its very end.
        within = (block < end[clipped]) | (block == start[clipped]) | unbounded
        result[low : low + _BLOCK] = np.where((index >= 0) & within, index, -1)
    return result


def find_steps(
    host: Host, device: Device, launch: NDArray[np.int32], *, tracks: Collection[int] = (), truncated: bool = False
) -> Steps:
    """Finds the steps and extends them by their device work."""
    marked = _marked(host)
    rule, period = PROFILER_STEP, None
    if marked is None:
        marked, rule = _between_optimizer_calls(host, tracks), OPTIMIZER_CALLS
    if marked is None and (period := find_period(host, launch, tracks=tracks)):
        count = len(period.start)
        marked, rule = (np.arange(count), period.name, period.start, period.end), period.rule
    if marked is None:
        marked, rule = _complete_recording(host, device, tracks), COMPLETE_RECORDING
    number, name, start, end = marked
    steps = Steps(
        number=number,
        name=name,
        host_start=start,
        host_end=end,
        start=start.copy(),
        end=end.copy(),
        device_events=np.zeros(len(number), dtype=np.int64),
        complete=np.ones(len(number), dtype=bool) if period is None else period.complete.copy(),
        is_warmup=np.zeros(len(number), dtype=bool),
        rule=rule,
        similarity=None if period is None else period.similarity,
    )
    if rule != COMPLETE_RECORDING:
        launched = _extend(steps, host, device, launch)
        _mark_incomplete(
            steps,
            launched if launched.any() else _per_step(steps, host, host.kind == OPERATOR),
            _unanswered(steps, host, launch),
        )
        if truncated:
            _mark_lacking(steps, launched, host, device, launch)
        first = is_warmup((steps.end - steps.start).tolist(), steps.complete.tolist())
        if first is not None:
            steps.is_warmup[first] = True
    elif truncated:
        steps.complete[:] = False
    return steps


def is_warmup(lengths_ns: Sequence[int], complete: Sequence[bool]) -> int | None:
    """Index of the first complete step, if it takes so long that means are better without it. If a later
    one takes longer, steps are uneven, and it is one of them.
    """
    rows = [row for row, is_complete in enumerate(complete) if is_complete]
    if len(rows) < ENOUGH_STEPS:
        return None
    first, others = lengths_ns[rows[0]], [lengths_ns[row] for row in rows[1:]]
    usual = median(others)
    return rows[0] if usual and first > max(SLOW_FIRST * usual, *others) else None


Marked = tuple[Int64s, list[str], Int64s, Int64s]


def _marked(host: Host) -> Marked | None:
    """Steps that ranges mark; overlapping ranges with one number are one step."""
    place = np.flatnonzero(host.role == STEP)
    names = texts_at(host.table, "name", host.nesting.row[place])
    steps: list[list[int]] = []
    name_of: dict[int, str] = {}
    ranges = sorted(
        (_storable(step_number(name or "")), int(host.start[p]), int(host.end[p]), name or "")
        for p, name in zip(place.tolist(), names, strict=True)
    )
    for number, start, end, name in ranges:
        name_of.setdefault(number, name)
        if steps and steps[-1][0] == number and start < steps[-1][2]:
            steps[-1][2] = max(steps[-1][2], end)
        else:
            steps.append([number, start, end])
    if not steps:
        return None
    steps.sort(key=lambda step: step[1:])
    highest = max(name_of)
    used: set[int] = set()
    numbers, texts = [], []
    for step in steps:
        texts.append(name_of[step[0]])
        if step[0] in used:  # the program restarted its count: a number must name one step
            highest += 1
            step[0] = highest
        used.add(step[0])
        numbers.append(step[0])
    return (
        np.array(numbers, dtype=np.int64),
        texts,
        np.array([step[1] for step in steps], dtype=np.int64),
        np.array([step[2] for step in steps], dtype=np.int64),
    )


def _storable(number: int | None) -> int:
    """The number of a step, or 0 for one that only a damaged name can have."""
    return number if number is not None and number < 1 << 53 else 0


def _between_optimizer_calls(host: Host, tracks: Collection[int]) -> Marked | None:
    """Steps from the end of one call of the optimizer to the end of the next; the first starts at the
    first recorded work.

    Calls with no backward between them belong to one step (several optimizers, or one in pieces).
    If optimizers have several names, the one that is called last marks the steps.
    """
    inherited = np.where(host.role == OPTIMIZER, np.arange(len(host), dtype=np.int32), NOWHERE)
    place = np.flatnonzero(inherited >= 0)
    if not len(place):
        return None
    host.nesting.inherit(inherited)
    above = host.nesting.parent[place]
    place = place[(above < 0) | (inherited[above] < 0)]
    place = place[np.argsort(host.start[place], kind="stable")]
    name, _ = words(host.table, "name")
    name = name[host.nesting.row[place]]
    place = place[name == name[-1]]
    end = np.sort(host.end[place])
    backward = np.sort(host.start[host.role == BACKWARD])
    if len(backward):
        done = np.searchsorted(backward, end)
        end = end[np.append(done[1:] > done[:-1], True)]
    start = np.append(_first_work(host, tracks, before=end[:2]), end[:-1])
    number = np.arange(len(end), dtype=np.int64)
    return number, [f"step {n}" for n in number.tolist()], start, np.maximum(end, start)


def _first_work(host: Host, tracks: Collection[int], *, before: Int64s) -> int:
    """Start of the first operator, range or launch (ns).

    The recorder's own start-up work does not count. A Python frame that was already open when the recording started has
    the recording's start as its own, and so has a range around the loop: neither is the step's start.

    Args:
        before: ends of the first steps, one or two; a range that ends later is around them.
    """
    launching = np.isin(host.role, (LAUNCH, GRAPH_LAUNCH, COPY, FILL))
    work = (host.kind == OPERATOR) | (host.kind == ANNOTATION) | launching
    work &= (host.end <= before[-1]) | (host.kind != ANNOTATION)
    work &= host.start <= before[0]
    for number, low, high in zip(host.thread_number, host.thread_start[:-1], host.thread_start[1:], strict=True):
        if int(number) in tracks:
            work[low:high] = False
    return int(host.start[work].min(initial=int(before[0])))


def _complete_recording(host: Host, device: Device, tracks: Collection[int]) -> Marked:
    starts, ends = [device.start[device.work]], [(device.start + device.dur)[device.work]]
    for number, low, high in zip(host.thread_number, host.thread_start[:-1], host.thread_start[1:], strict=True):
        if int(number) not in tracks:
            starts.append(host.start[low:high])
            ends.append(host.end[low:high])
    start, end = np.concatenate(starts), np.concatenate(ends)
    if not len(start):
        start, end = host.start, host.end
    if not len(start):
        empty = np.empty(0, dtype=np.int64)
        return empty, [], empty, empty
    return np.zeros(1, dtype=np.int64), ["0"], start.min()[None], end.max()[None]


def _extend(steps: Steps, host: Host, device: Device, launch: NDArray[np.int32]) -> Int64s:
    """Moves ends to those of the device work, and starts after them, in place; returns how much work each
    step launched."""
    count = len(steps)
    work = np.flatnonzero(device.work)
    start = device.start[work]
    end = start + device.dur[work]
    step = np.full(len(work), -1, dtype=np.int64)
    linked = np.flatnonzero(launch[work] >= 0)
    call = launch[work[linked]]
    inside = steps.at(host.start[call])
    # A call that crosses the end of a step counts for none, as in the original rule.
    inside[host.end[call] > np.append(steps.host_end, 0)[inside]] = -1
    step[linked] = inside
    mine = np.flatnonzero(step >= 0)
    launched = np.bincount(step[mine], minlength=count)
    device_start = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(device_start, step[mine], start[mine])
    device_end = _device_ends(step[mine], end[mine], launched)
    free = int(steps.host_start[0])
    if launched[0]:
        earlier = end[(step < 0) & (end < device_start[0])]
        free = max(free, int(earlier.max(initial=free)))
    for index in range(count):
        step_start = max(free, int(steps.host_start[index]))
        finish = int(steps.host_end[index])
        if launched[index]:
            finish = max(finish, int(device_end[index]))
        steps.start[index] = step_start
        steps.end[index] = free = max(finish, step_start)
    return launched


def _device_ends(step: Int64s, end: Int64s, launched: Int64s) -> Int64s:
    """When the device work of each step ended (ns); the least number if it has none.

    Work on a stream of its own that still runs after all work of the next step (copies of a checkpoint, an all-reduce
    beside several steps) does not count: the steps after it would take no time.
    """
    ends = np.full(len(launched), np.iinfo(np.int64).min)
    order = np.argsort(step, kind="stable")
    edge = np.searchsorted(step[order], np.arange(len(launched) + 1))
    until = np.iinfo(np.int64).max
    for index in reversed(range(len(launched))):
        step_ends = end[order[edge[index] : edge[index + 1]]]
        step_ends = step_ends[step_ends <= until]
        if len(step_ends):
            ends[index] = step_ends.max()
            if index and launched[index] >= _SIMILAR * launched[index - 1]:
                until = int(ends[index])
    return ends


def _unanswered(steps: Steps, host: Host, launch: NDArray[np.int32]) -> Int64s:
    """How many launches of each step have no device work in the recording."""
    without = np.isin(host.role, (LAUNCH, GRAPH_LAUNCH))
    without[launch[launch >= 0]] = False
    return _per_step(steps, host, without)


def _per_step(steps: Steps, host: Host, chosen: NDArray[np.bool_]) -> Int64s:
    """How many of the chosen host events are in each step."""
    step = steps.at(host.start[chosen])
    return np.bincount(step[step >= 0], minlength=len(steps))


def _mark_incomplete(steps: Steps, events: Int64s, unanswered: Int64s) -> None:
    """Marks steps that the ends of the recording cut off: last ones, and a first one of those that the optimizer ends,
    which may have started before the recording did.

    Steps differ for good reasons (accumulated gradients, sequences of any length), so a step counts as cut off only if
    it has less than all others, or less than the one before it and launches whose work is missing.
    """
    if not events.any():
        return
    if steps.rule == OPTIMIZER_CALLS and len(steps) > 1:
        steps.complete[0] = events[0] >= _STARVED * events[1]
    last = int(np.flatnonzero(events)[-1])
    steps.complete[last + 1 :] = False
    if not last:
        return
    fewest = int(events[:last].min())
    enough = _STARVED * fewest
    if unanswered[last] > unanswered[:last].max():
        enough = max(fewest, _STARVED * events[last - 1])
    if events[last] < enough:
        steps.complete[last] = False


def _mark_lacking(steps: Steps, launched: Int64s, host: Host, device: Device, launch: NDArray[np.int32]) -> None:
    """Marks steps of a truncated file that lack events, or may; a lone step cannot be compared with any.

    Even the fullest step may lack some, so each must show that nothing of it is in the missing part. A tracer writes
    the calls of a thread, and the work of a stream, in blocks: each in order of time, and the blocks in any order. A
    step is within blocks if neither the first nor the last row of any block is its own. Two blocks are also in order of
    time if what was between them is lost: such rows skip a step. A step that blocks divide still lacks nothing if
    several steps have exactly as many operators, calls of each thread and pieces of work of each stream, and none has
    more work.
    """
    counts = [_per_step(steps, host, host.kind == OPERATOR)]
    divided = np.zeros(len(steps), dtype=bool)
    for count in (launched, *counts):
        steps.complete &= (count >= _IN_A_CUT_FILE * count.max(initial=0)) & (len(steps) > 1)
    steps.complete &= (launched > 0) & (_unanswered(steps, host, launch) == 0)
    calls = np.flatnonzero(np.isin(host.role, (LAUNCH, GRAPH_LAUNCH, COPY, FILL))).astype(np.int32)
    _, stream = np.unique([device.device, device.stream], axis=1, return_inverse=True)
    work = np.flatnonzero(device.work & (launch >= 0))
    unlinked = device.start[device.work & (launch < 0)]
    for line, row, start, call_start in (
        (host.thread_of(calls), host.rows(calls), host.start[calls], host.start[calls]),
        (stream[work], work, device.start[work], host.start[launch[work]]),
    ):
        order = np.lexsort((row, line))
        line, start, call_start = line[order], start[order], call_start[order]
        late = np.searchsorted(steps.host_start, call_start, side="right")
        edge = np.ones(len(order) + 1, dtype=bool)
        edge[1:-1] = (np.diff(line) != 0) | (np.diff(start) < 0) | (np.diff(late) > 1)
        step = steps.at(call_start)
        edge_steps = step[edge[:-1] | edge[1:]]
        divided[edge_steps[edge_steps >= 0]] = True
        counts += [
            np.bincount(step[(line == number) & (step >= 0)], minlength=len(steps)) for number in np.unique(line)
        ]
    _, kind, similar_steps = np.unique(np.array(counts), axis=1, return_inverse=True, return_counts=True)
    usual = (similar_steps[kind.ravel()] >= ENOUGH_STEPS) & (launched == launched.max(initial=0))
    steps.complete &= usual | ~divided
    in_window = steps.on_device_at(unlinked)
    steps.complete[in_window[in_window >= 0]] = False


def steps_of_events(
    steps: Steps, host: Host, device: Device, launch: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Index of the step of each host position and of each device event; -1 for none.

    A host event belongs to the step in which it starts, on any thread. Device work belongs to the
    step that launched it, and without a launch to the step during which it started.
    """
    of_host = steps.at(host.start)
    of_device = steps.on_device_at(device.start)
    linked = np.flatnonzero(launch >= 0)
    of_device[linked] = of_host[launch[linked]]
    mine = (of_device >= 0) & device.work
    if steps.rule != COMPLETE_RECORDING:
        mine &= launch >= 0
    steps.device_events[:] = np.bincount(of_device[mine], minlength=len(steps))
    return of_host, of_device
