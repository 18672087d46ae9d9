"""The captures of CUDA graphs in a recording.

While a stream is captured, launches do not run: each becomes a node of a graph, and replays of the graph run them
later, by one call for all. So a launch between the start and the end of a capture that has no device event shows what a
node is and which operator and module created it. Launches of all threads count, since backward runs in threads of its
own; if two captures overlap, each has its own thread's.

A recorder that notes which call created which node (Nsight Systems) shows this without captures, also for a graph that
the program built call by call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.link.collectives import CollectiveCalls, read_collective_calls
from stepscope.link.columns import words
from stepscope.link.host import ANNOTATION, CAPTURE_END, CAPTURE_START, COPY, FILL, LAUNCH, NOWHERE, OPERATOR, Host
from stepscope.schema.arrays import Int32s, Int64s

if TYPE_CHECKING:
    from stepscope.formats.tables import RankTables


IN_TRACE, IN_FILE, EARLIER = "trace", "file", "earlier"
"""Rules of `capture.rule`."""

_LAUNCHING = (LAUNCH, COPY, FILL)


class Placed(NamedTuple):
    """What link found for each position of a recording's host events; -1 for nothing."""

    module: Int32s
    direction: NDArray[np.int8]
    stack: Int32s


@dataclass(frozen=True, slots=True)
class Captured:
    """The captures of one recording.

    Args:
        rule: where they come from: IN_TRACE, IN_FILE, or EARLIER.
        path: the file, None for the recording that is linked.
        names: for each capture the innermost range around it.
        complete: how many of them have all their launches in order; one more has the calls that created nodes
            outside of any recorded capture.
        bounds: where the launches of each capture start, and their number at the end.
        kind: LAUNCH, COPY or FILL for each launch, in order of time.
        kernel: index in `kernels` of the kernel that each launches, -1 if not recorded.
        kernels: names of kernels.
        position: position of each launch among that recording's host events.
        event: its row in `events`.
        events: the launches and the operators and ranges around them, parents before children.
        words: the words for its numbers of kinds, roles and names.
        texts: tables that the numbers in `events` refer to: `module`, `operator_input`, `kernel_source`
            and `call_stack`.
        calls: what is known of collectives at each launch.
    """

    rule: str
    path: str | None
    names: list[str | None]
    complete: int
    bounds: Int64s
    kind: NDArray[np.int8]
    kernel: Int32s
    kernels: list[str]
    position: Int32s
    event: Int32s
    events: dict[str, NDArray[np.int32]]
    words: dict[str, list[str]]
    texts: dict[str, pa.Table]
    calls: CollectiveCalls

    def __len__(self) -> int:
        """The number of captures."""
        return len(self.names)


class Windows(NamedTuple):
    """Captures by time: the position of the call that starts each, its thread and times."""

    start_call: Int32s
    thread: Int64s
    start: Int64s
    end: Int64s


def capture_windows(host: Host) -> Windows:
    """The captures of a recording, in order of time. A capture without an end is left out.

    A call within another one of its kind (a driver's within the runtime's) is the same call.
    """
    starts: list[int] = []
    ends: list[int] = []
    calls = np.flatnonzero((host.role == CAPTURE_START) | (host.role == CAPTURE_END))
    thread = host.thread_of(calls.astype(np.int32))
    opened: dict[int, int] = {}
    for place, thread_number in zip(calls.tolist(), thread.tolist(), strict=True):
        if host.role[place] == CAPTURE_START:
            opened.setdefault(thread_number, place)
        elif thread_number in opened:
            starts.append(opened.pop(thread_number))
            ends.append(place)
    order = np.argsort(host.start[starts], kind="stable") if starts else np.zeros(0, np.int64)
    first, last = np.array(starts, np.int32)[order], np.array(ends, np.int32)[order]
    return Windows(first, host.thread_of(first), host.start[first], host.start[last])


def captured_launches(host: Host, windows: Windows, ran: NDArray[np.bool_], put_in: Int32s) -> tuple[Int32s, Int32s]:
    """Positions of the captured launches, in order of capture and time, and their captures.

    Args:
        ran: which positions launched recorded work, and so were not captured.
        put_in: positions in which nodes of graphs were created; those outside all captures form one more.
    """
    launching = np.isin(host.role, _LAUNCHING)
    place = np.flatnonzero(launching & ~ran).astype(np.int32)
    # A driver call within a runtime call is the same launch.
    above = host.climb(host.nesting.parent[place], launching)
    place = place[above < 0]
    start, thread = host.start[place], host.thread_of(place)
    capture = np.full(len(place), -1, dtype=np.int32)
    around, within = capture.copy(), np.zeros(len(place), dtype=np.int32)
    for number, (_, capture_thread, low, high) in enumerate(zip(*windows, strict=True)):
        inside = (start >= low) & (start <= high)
        within += inside
        around[inside] = number
        capture[inside & (thread == capture_thread)] = number
    capture = np.where((capture < 0) & (within == 1), around, capture)
    place, capture = place[capture >= 0], capture[capture >= 0]
    others = np.setdiff1d(put_in[put_in >= 0], place).astype(np.int32)
    place = np.append(place, others)
    capture = np.append(capture, np.full(len(others), len(windows.start_call), np.int32))
    order = np.lexsort((place, host.start[place], capture))
    return place[order], capture[order]


def find_captured(
    host: Host,
    ran: NDArray[np.bool_],
    placed: Placed,
    tables: RankTables,
    texts: dict[str, pa.Table],
    *,
    put_in: Int32s,
    path: str | None,
) -> Captured | None:
    """The captures of a recording, with what encloses their launches; None if it has none."""
    windows = capture_windows(host)
    place, capture = captured_launches(host, windows, ran, put_in)
    complete = len(windows.start_call)
    count = max(complete, int(capture.max(initial=-1)) + 1)
    if not count:
        return None
    kernel, kernels = _kernels(host, place)
    is_range = (host.kind == OPERATOR) | (host.kind == ANNOTATION)
    rows, event = _enclosed(host, is_range, place, capture)
    events, spelled = _columns(host, placed, rows)
    events["capture"] = (rows.keys // max(len(host), 1)).astype(np.int32)
    node = np.full(len(rows.at), -1, dtype=np.int32)
    bounds = np.searchsorted(capture, np.arange(count + 1))
    node[event] = np.arange(len(place)) - bounds[capture]
    events["node"] = node
    around = host.climb(windows.start_call.copy(), host.kind == ANNOTATION)
    text, spoken = words(host.table, "name")
    return Captured(
        rule=IN_TRACE if path is None else IN_FILE,
        path=path,
        names=[
            spoken[text[host.nesting.row[at]]] if at >= 0 else None
            for at in [*around.tolist(), *[NOWHERE] * (count - complete)]
        ],
        complete=complete,
        bounds=bounds,
        kind=host.role[place],
        kernel=kernel,
        kernels=kernels,
        position=place,
        event=event,
        events=events,
        words=spelled,
        texts=texts,
        calls=read_collective_calls(host, place, tables),
    )


class _Rows(NamedTuple):
    """Events of captures: sorted keys (number of the capture · number of host events + position), the
    position, and the row of the event above, -1 for none."""

    keys: Int64s
    at: Int32s
    parent: Int32s


def _enclosed(host: Host, is_range: NDArray[np.bool_], place: Int32s, capture: Int32s) -> tuple[_Rows, Int32s]:
    """The launches with everything that encloses them, once a capture, and the row of each launch."""
    width = max(len(host), 1)
    nearest = host.nesting.parent.astype(np.int64)
    nearest = np.where(nearest >= 0, host.climb(nearest.astype(np.int32), is_range), NOWHERE)
    level = capture.astype(np.int64) * width + place
    levels = [level]
    while len(level):
        above = nearest[level % width]
        level = np.unique((level - level % width + above)[above >= 0])
        levels.append(level)
    keys = np.unique(np.concatenate(levels))
    at = (keys % width).astype(np.int32)
    above = nearest[at] if len(at) else at
    parent = np.searchsorted(keys, keys - at + above)
    rows = _Rows(keys, at, np.where(above >= 0, parent, -1).astype(np.int32))
    return rows, np.searchsorted(keys, capture.astype(np.int64) * width + place).astype(np.int32)


def _columns(host: Host, placed: Placed, rows: _Rows) -> tuple[dict[str, NDArray[np.int32]], dict[str, list[str]]]:
    """The columns of `captured_event`, words as numbers, and the words."""
    row = host.nesting.row[rows.at]
    columns: dict[str, NDArray[np.int32]] = {
        "parent": rows.parent,
        "module_id": placed.module[rows.at],
        "direction": placed.direction[rows.at].astype(np.int32),
        "stack_id": placed.stack[rows.at],
    }
    for name in ("input_id", "kernel_source_id"):
        columns[name] = host.numbers(name, missing=-1)[rows.at].astype(np.int32)
    spelled: dict[str, list[str]] = {}
    for name in ("kind", "role", "name"):
        codes, spelled[name] = words(host.table, name)
        columns[name] = codes[row]
    return columns, spelled


def _kernels(host: Host, place: Int32s) -> tuple[Int32s, list[str]]:
    """The kernel of each launch: stated by the call (ROCm), or the name of the generated code that the
    operator around it runs (Triton).
    """
    row = host.nesting.row[place]
    code, kernels = words(host.table, "launched_kernel")
    kernel = code[row]
    generated = host.numbers("kernel_source_id", missing=-1) >= 0
    caller = host.operators_at(place)
    by_operator = (kernel < 0) & (host.role[place] == LAUNCH) & (caller >= 0)
    by_operator[by_operator] = generated[caller[by_operator]]
    if by_operator.any():
        text, texts = words(host.table, "name")
        kernel[by_operator] = len(kernels) + text[host.nesting.row[caller[by_operator]]]
        kernels = [*kernels, *texts]
    return kernel, kernels
