"""Which capture each replay of a CUDA graph runs, and so the operator of each piece of its work.

A launch of a graph is compared with every capture: its work agrees if it has as many pieces as were captured, each with
the kind (kernel, copy, fill) and the name of the launch at the same place. A name that a capture does not state agrees
with any. The order is that of the graph's nodes if the recorder numbers them, since they follow one another as they
were captured, else that of time. Work that agrees with captures of different content belongs to none of them: it is
unknown which graph it was.

If the recorder noted which call created each node, that decides, and nothing is compared. A graph is copied when it is
instantiated, and its nodes get new numbers: each copy names its original node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.captures import Captured
from stepscope.link.columns import numbers, places, words
from stepscope.link.device import COPY as COPIES
from stepscope.link.device import FILL as FILLS
from stepscope.link.device import Device
from stepscope.link.host import COPY, FILL, GRAPH_LAUNCH, LAUNCH, NOWHERE, Host
from stepscope.schema.arrays import Int32s, Int64s

_MAX_COPIES = 16
"""A longer chain of copies of copies is damage."""


def node_ids(device: Device) -> Int64s:
    """The number of the graph node that each device event ran, 0 for none."""
    return numbers(device.table, "graph_node_id")


def created_at(host: Host, device: Device, graph_node: pa.Table) -> Int32s:
    """Position of the innermost host event in which the node of each device event was first created; -1 for none."""
    put_in = np.full(len(device), NOWHERE, dtype=np.int32)
    if not graph_node.num_rows:
        return put_in
    node, original = numbers(graph_node, "node"), numbers(graph_node, "original", missing=-1)
    thread, time = numbers(graph_node, "thread", missing=-1), numbers(graph_node, "start_ns")
    # A copy may be recorded twice, once without its original.
    order = np.lexsort((time, original < 0, node))
    order = order[np.unique(node[order], return_index=True)[1]]
    nodes = node[order]
    above = places(nodes, original[order])
    first = np.arange(len(order))
    for _ in range(_MAX_COPIES):
        first = np.where(above[first] >= 0, above[first], first)
    # A node that still has an original is in a circle, or the creation of its original was not recorded.
    lost = original[order][first] >= 0
    row = order[first]
    position = np.where(lost, NOWHERE, host.innermost(thread[row], time[row]))
    at = places(nodes, node_ids(device))
    put_in[at >= 0] = position[at[at >= 0]]
    put_in[node_ids(device) <= 0] = NOWHERE
    return put_in


NO_CAPTURE = "no capture is recorded"
OTHER_COUNT = "no capture has as many pieces of work"
OTHER_NAMES = "captures of as many pieces have others"
AMBIGUOUS = "several captures agree that were made by different operators"
NO_CREATION = "the creation of their nodes is not recorded"
"""Why a replay is not attributed."""

_NO_SUCH_NAME = -2


@dataclass(slots=True)
class Replays:
    """What became of the replays of a recording.

    Args:
        source: for each device event the index in the list of captures of the recording that it was captured in, -1 if
            no capture shows it.
        node: its launch, an index among the launches of that recording.
        work: which device events were replayed from a graph; if none was, `source` and `node` are empty.
        matched: (recording, capture) of the replays that agree with one, and their number.
        by_node: those of them that were found by their nodes.
        refused: reasons for not attributing replays, and how many device events each leaves out.
    """

    source: NDArray[np.int8]
    node: Int32s
    work: NDArray[np.bool_]
    matched: dict[tuple[int, int], int] = field(default_factory=dict)
    by_node: set[tuple[int, int]] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)

    def places_in(self, source: int) -> Int32s:
        """For each device event its launch in the captures of a recording, -1 for none."""
        if not len(self.source):
            return np.full(len(self.work), -1, dtype=np.int32)
        return np.where(self.source == source, self.node, np.int32(-1))


def link_replays(host: Host, device: Device, launch: Int32s, sources: Sequence[Captured], put_in: Int32s) -> Replays:
    """Finds the capture of every replay.

    Args:
        launch: position of each device event's launch.
        sources: captures, by their recording.
        put_in: position in which the node of each device event was created, -1 if not recorded; the first of the
            captures are then those of that recording.
    """
    work = _replayed(host, device, launch)
    if not work.any():
        empty = np.zeros(0, dtype=np.int32)
        return Replays(empty.astype(np.int8), empty, work)
    replays = Replays(
        source=np.full(len(device), -1, dtype=np.int8), node=np.full(len(device), -1, dtype=np.int32), work=work
    )
    index = _CaptureIndex(sources, device)
    for rows in _groups(device, launch, replays.work):
        if (put_in[rows] >= 0).any():
            _by_node(replays, sources[0], rows, put_in[rows])
            continue
        matched, reason = index.match(rows)
        if matched is None:
            replays.refused[reason] = replays.refused.get(reason, 0) + len(rows)
            continue
        source, capture, ordered = matched
        first = int(sources[source].bounds[capture])
        replays.source[ordered] = source
        replays.node[ordered] = first + np.arange(len(ordered))
        replays.matched[source, capture] = replays.matched.get((source, capture), 0) + 1
    return replays


def _by_node(replays: Replays, source: Captured, rows: Int64s, put_in: Int32s) -> None:
    """Attributes a replay by the calls that created its nodes."""
    order = np.argsort(source.position)
    node = places(source.position[order], put_in)
    has_creator = node >= 0
    node = order[node[has_creator]]
    replays.source[rows[has_creator]] = 0
    replays.node[rows[has_creator]] = node
    for capture in np.unique(np.searchsorted(source.bounds, node, side="right") - 1).tolist():
        replays.matched[0, capture] = replays.matched.get((0, capture), 0) + 1
        replays.by_node.add((0, capture))
    if not has_creator.all():
        lost = int((~has_creator).sum())
        replays.refused[NO_CREATION] = replays.refused.get(NO_CREATION, 0) + lost


def _replayed(host: Host, device: Device, launch: Int32s) -> NDArray[np.bool_]:
    """Which device events are replayed work of a graph."""
    graph_id = device.table.column("graph_id").is_valid().to_numpy(zero_copy_only=False)
    replayed: NDArray[np.bool_] = device.work & graph_id
    linked = np.flatnonzero(device.work & (launch >= 0))
    replayed[linked[host.role[launch[linked]] == GRAPH_LAUNCH]] = True
    return replayed


def _groups(device: Device, launch: Int32s, work: NDArray[np.bool_]) -> Iterator[Int64s]:
    """The device events of each launch of a graph, in order of time. Events without their launch are grouped by
    correlation."""
    rows = np.flatnonzero(work)
    key = np.where(launch[rows] >= 0, launch[rows].astype(np.int64), -1 - device.correlation[rows])
    order = np.lexsort((rows, device.start[rows], key))
    rows, key = rows[order], key[order]
    if len(rows):
        yield from np.split(rows, np.flatnonzero(run_starts(key))[1:])


class _CaptureIndex:
    """The captures, and the sequences of work that were already compared with them."""

    def __init__(self, sources: Sequence[Captured], device: Device) -> None:
        self.sources = sources
        name, names = words(device.table, "name")
        code_of = {text: code for code, text in enumerate(names)}
        kind = np.full(len(device), LAUNCH, dtype=np.int64)
        kind[device.kind == COPIES] = COPY
        kind[device.kind == FILLS] = FILL
        self.work = kind << 32 | (name.astype(np.int64) & 0xFFFFFFFF)
        self.node_id = node_ids(device)
        self.compared: dict[bytes, tuple[tuple[int, int] | None, str]] = {}
        self.kinds: list[Int64s] = []
        self.names: list[Int64s] = []
        self.by_count: dict[int, list[tuple[int, int]]] = {}
        for number, source in enumerate(sources):
            codes = np.array([*(code_of.get(text, _NO_SUCH_NAME) for text in source.kernels), -1], np.int64)
            self.kinds.append(source.kind.astype(np.int64))
            self.names.append(codes[source.kernel])
            for capture, count in enumerate(np.diff(source.bounds).tolist()[: source.complete]):
                if count:
                    self.by_count.setdefault(count, []).append((number, capture))

    def match(self, rows: Int64s) -> tuple[tuple[int, int, Int64s] | None, str]:
        """The recording and the capture that a replay agrees with and its events in the capture's order;
        or None, and the reason."""
        orders = [rows]
        node_id = self.node_id[rows]
        if (node_id > 0).all():
            orders.insert(0, rows[np.argsort(node_id, kind="stable")])
        reason = ""
        for ordered in orders:
            work = self.work[ordered]
            key = work.tobytes()
            if key not in self.compared:
                self.compared[key] = self._compared(work)
            cached, reason = self.compared[key]
            if cached is not None:
                return (*cached, ordered), ""
            if reason == AMBIGUOUS:
                break
        return None, reason

    def _compared(self, work: Int64s) -> tuple[tuple[int, int] | None, str]:
        candidates = self.by_count.get(len(work), [])
        if not candidates:
            return None, OTHER_COUNT if self.by_count else NO_CAPTURE
        kind, name = work >> 32, work & 0xFFFFFFFF
        agreeing = []
        for source, capture in candidates:
            low, high = self.sources[source].bounds[capture : capture + 2]
            captured_name = self.names[source][low:high]
            if (kind == self.kinds[source][low:high]).all() and (
                (captured_name == -1) | (captured_name == name) | (kind != LAUNCH)
            ).all():
                agreeing.append((source, capture))
        if not agreeing:
            return None, OTHER_NAMES
        first = agreeing[0]
        if len(agreeing) > 1:
            content = _content(self.sources[first[0]], first[1])
            if any(_content(self.sources[source_index], capture) != content for source_index, capture in agreeing[1:]):
                return None, AMBIGUOUS
        return first, ""


_Place = tuple[str, str | None, str | None]


def _content(source: Captured, capture: int) -> list[list[_Place]]:
    """The content of a capture for each launch: the operators around it with their inputs, and the module."""
    events, spelled = source.events, source.words
    low, high = source.bounds[capture : capture + 2]
    operator = spelled["kind"].index("operator") if "operator" in spelled["kind"] else -1
    inputs = _texts(source, "operator_input", "dims", "types", "strides", "values")
    modules = _texts(source, "module", "path")

    def place(row: int) -> _Place:
        given, module = int(events["input_id"][row]), int(events["module_id"][row])
        return (spelled["name"][events["name"][row]], inputs.get(given), modules.get(module))

    content = []
    for row in source.event[low:high].tolist():
        chain = [place(row)]
        above = int(events["parent"][row])
        while above >= 0:
            if events["kind"][above] == operator:
                chain.append(place(above))
            above = int(events["parent"][above])
        content.append(chain)
    return content


def _texts(source: Captured, table: str, *columns: str) -> dict[int, str]:
    """The texts of the numbers of a table."""
    number = {"operator_input": "input_id", "module": "module_id"}[table]
    listed = source.texts[table].select([number, *columns]).to_pylist()
    return {row[number]: repr([row[column] for column in columns]) for row in listed}
