"""Replays a device's memory: allocated and reserved bytes after each event, and every allocation."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.analysis.memory.categories import NO_ROLE, ROLES, categories
from stepscope.analysis.memory.lifetimes import NO_EVENT, alive_bytes, lifetimes
from stepscope.analysis.recording import once
from stepscope.query.scope import Scope
from stepscope.schema.arrays import Int64s

BEFORE, NO_ADDRESSES, NOT_EXPLAINED = (
    "(before the recording)",
    "(addresses were not recorded)",
    "(not explained by the recorded events)",
)
"""Names for bytes that no recorded allocation explains."""

_ALLOCATE = (
    "('aten::empty', 'aten::empty_like', 'aten::empty_strided', 'aten::new_empty', "
    "'aten::new_empty_strided', 'aten::resize_')"
)
"""Operators that only allocate: their caller is more informative."""

_OPERATOR = f"""
    SELECT own.rank, own.id, own.direction, own.span, own.module_id, own.stack_id,
        CASE WHEN own.name NOT IN {_ALLOCATE} THEN own.name
            WHEN one.kind = 'operator' AND one.name NOT IN {_ALLOCATE} THEN one.name
            WHEN two.kind = 'operator' AND two.name NOT IN {_ALLOCATE} THEN two.name
            WHEN one.kind = 'operator' AND two.kind = 'operator' AND three.kind = 'operator' THEN three.name
            ELSE own.name END AS operator
    FROM host_event AS own
    LEFT JOIN host_event AS one ON (one.rank, one.id) = (own.rank, own.parent_id)
    LEFT JOIN host_event AS two ON (two.rank, two.id) = (one.rank, one.parent_id)
    LEFT JOIN host_event AS three ON (three.rank, three.id) = (two.rank, two.parent_id)
    WHERE (own.rank, own.id) IN (SELECT (rank, operator_id) FROM memory_event)
"""
_STACKS = "SELECT DISTINCT frames FROM call_stack WHERE frames IS NOT NULL ORDER BY frames"
_NUMBERED = f"""
    SELECT rank, span, stack_id, texts.number FROM call_stack
    JOIN (SELECT frames, (row_number() OVER (ORDER BY frames) - 1)::INTEGER AS number FROM ({_STACKS})) AS texts
    USING (frames)
"""
"""Stacks as indices of texts: a text for each of millions of events would take gigabytes."""
_EVENTS = f"""
    WITH operator AS ({_OPERATOR}), numbered AS ({_NUMBERED})
    SELECT m.rank, m.span, m.device_kind, coalesce(m.device, -1) AS device, m.time_ns,
        coalesce(m.address, -1) AS address, m.bytes,
        m.total_allocated_bytes AS allocated, m.total_reserved_bytes AS reserved,
        coalesce(m.role, operator.direction) AS role,
        coalesce(m.operator_name, operator.operator) AS operator,
        module.path AS module, coalesce(own.number, theirs.number) AS stack
    FROM memory_event AS m
    LEFT JOIN operator ON (operator.rank, operator.id) = (m.rank, m.operator_id)
    LEFT JOIN module ON (module.rank, module.span, module.module_id)
        = (operator.rank, operator.span, operator.module_id)
    LEFT JOIN numbered AS own ON (own.rank, own.span, own.stack_id) = (m.rank, m.span, m.stack_id)
    LEFT JOIN numbered AS theirs ON (theirs.rank, theirs.span, theirs.stack_id)
        = (operator.rank, operator.span, operator.stack_id)
    ORDER BY m.rank, m.span, m.device_kind, device, m.time_ns, m.sequence
"""
_BLOCKS = f"""
    WITH numbered AS ({_NUMBERED})
    SELECT rank, span, device_kind, device, coalesce(address, -1) AS address,
        coalesce(requested_bytes, bytes) AS bytes, role, operator_name AS operator, NULL::VARCHAR AS module,
        number AS stack
    FROM memory_block LEFT JOIN numbered USING (rank, span, stack_id)
    WHERE state = 'allocated' ORDER BY rank, span, device_kind, device, address
"""
_RESERVED = """
    SELECT rank, span, device_kind, device, CASE WHEN bool_and(known) THEN sum(bytes) END::BIGINT AS bytes FROM (
        SELECT rank, span, device_kind, device, bytes, state IN ('allocated', 'pending', 'free') AS known
        FROM memory_block
        UNION ALL SELECT rank, span, device_kind, coalesce(device, -1), NULL, NULL FROM allocator_event
    ) GROUP BY ALL
"""
"""Every device with segments or events of its allocator, and the bytes of its segments if it is known what of them is
in use."""
_MARKS = """
    SELECT rank, span, name, time_ns, coalesce(json_extract_string(args, '$.stage'), '') AS stage
    FROM instant WHERE category = 'memory annotation' ORDER BY rank, span, time_ns
"""
_OPTIMIZER_ENDS = """
    SELECT rank, span, start_ns + dur_ns AS end_ns FROM host_event
    WHERE role = 'optimizer' AND dur_ns IS NOT NULL ORDER BY rank, span, end_ns
"""
_SOURCES = "SELECT rank, span, format FROM source"
_STEPS = """
    SELECT rank, span, step, host_start_ns AS start_ns, host_end_ns AS end_ns FROM step
    WHERE rule <> 'whole recording' AND complete ORDER BY rank, start_ns
"""
_PROFILER_STEP = re.compile(r"ProfilerStep#(\d{1,18})$")
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
_TEXTS = ("operator", "module")


class Step(NamedTuple):
    """A training step, by the clock of the memory events."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of allocations: the index for each, -1 for none, and the distinct texts."""

    number: NDArray[np.int32]
    words: list[str]

    def at(self, row: int) -> str | None:
        """The text of an allocation."""
        number = int(self.number[row])
        return None if number < 0 else self.words[number]


@dataclass(frozen=True, eq=False)
class Memory:
    """The memory of one device, or of the host, in one recording of a rank.

    Args:
        kind: `cpu`, `cuda`, ...
        device: index; None for the host.
        source: format of the file.
        time_ns: of each event.
        allocated, reserved: bytes in each state (`lifetimes`); None if `reserved` was not recorded.
        start, end, bytes, address, taken, given: the allocations, as in `Lifetimes`; last those known only from a
            snapshot's blocks.
        role, category: indices in `ROLES` and `CATEGORIES`.
        operator, module, stack: what made each.
        steps: the steps whose memory this is, in order, none before the end of another.
        addressed: whether the events have addresses.
        counted: whether `allocated` is counted from events, because no total was recorded.
    """

    rank: int
    span: int
    kind: str
    device: int | None
    source: str
    time_ns: Int64s
    allocated: Int64s
    reserved: Int64s | None
    start: Int64s
    end: Int64s
    bytes: Int64s
    address: Int64s
    taken: Int64s
    given: Int64s
    role: NDArray[np.int8]
    category: NDArray[np.int8]
    operator: Texts
    module: Texts
    stack: Texts
    steps: list[Step]
    addressed: bool
    counted: bool

    @property
    def has_history(self) -> bool:
        """Whether events were recorded; else the only state is that of the snapshot, whose moment is not known."""
        return bool(len(self.time_ns))

    @property
    def place(self) -> dict[str, Any]:
        """The columns of an answer that identify the memory, and the file's format."""
        names = ("rank", "span", "kind", "device", "source")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def unexplained(self) -> Int64s:
        """Bytes in each state that no allocation explains."""
        explained = alive_bytes(self.start, self.end, self.bytes, len(self.allocated))
        return self.allocated - explained

    def unexplained_name(self, state: int) -> str:
        """The name for the bytes that no allocation explains in a state."""
        if not self.addressed:
            return NO_ADDRESSES
        return BEFORE if self.unexplained[state] == self.unexplained[0] else NOT_EXPLAINED

    @property
    def at_ns(self) -> Int64s:
        """When each state started; the first one with the first event."""
        return np.concatenate([self.time_ns[:1], self.time_ns])

    def state_at(self, time_ns: int) -> int:
        """The state at a time: after the last event at or before it."""
        return int(np.searchsorted(self.time_ns, time_ns, side="right"))

    def states_in(self, windows: list[tuple[int, int]] | None) -> Int64s:
        """The states in some stretches of time, including the one at each start; all for None."""
        if windows is None:
            return np.arange(len(self.allocated))
        ranges = [
            np.arange(self.state_at(start - 1), np.searchsorted(self.time_ns, end) + 1)
            for start, end in windows
            if len(self.time_ns) and end > self.time_ns[0] and start <= self.time_ns[-1]
        ]
        return np.unique(np.concatenate(ranges)) if ranges else np.zeros(0, np.int64)

    def peak(self, states: Int64s) -> int:
        """The first of some states with the most allocated bytes."""
        return int(states[int(self.allocated[states].argmax())])

    def alive(self, state: int) -> Int64s:
        """The allocations that are alive in a state."""
        return np.flatnonzero((self.start <= state) & (self.end > state))

    def step_of(self, time_ns: int) -> int | None:
        """The step at a time."""
        after = bisect_right(self.steps, time_ns, key=lambda step: step.start_ns)
        step = self.steps[after - 1] if after else None
        return step.number if step is not None and time_ns < step.end_ns else None


@once
def memories(scope: Scope) -> list[Memory]:
    """The memory of every device and host of a scope's ranks (all steps and events), by rank, span, kind and index."""
    events = scope.sql(_EVENTS).combine_chunks()
    blocks = scope.sql(_BLOCKS).combine_chunks()
    marks = scope.sql(_MARKS).to_pylist()
    stacks = scope.sql(_STACKS)["frames"].to_pylist()
    ends = scope.sql(_OPTIMIZER_ENDS).to_pylist()
    source = {(row["rank"], row["span"]): row["format"] for row in scope.sql(_SOURCES).to_pylist()}
    steps = scope.sql(_STEPS).to_pylist()
    keys = ("rank", "span", "device_kind", "device")
    groups, of_blocks = _groups(events, keys), _groups(blocks, keys)
    reserved = {tuple(row[name] for name in keys): row["bytes"] for row in scope.sql(_RESERVED).to_pylist()}
    memory = []
    for key in sorted({*groups, *of_blocks, *reserved}):
        rank, span = key[:2]
        marks_of_span = [row for row in marks if (row["rank"], row["span"]) == (rank, span)]
        ended = [row["end_ns"] for row in ends if (row["rank"], row["span"]) == (rank, span)]
        alive = of_blocks.get(key, blocks.slice(0, 0))
        rows = groups.get(key, events.slice(0, 0))
        of_rank = [row for row in steps if row["rank"] == rank]
        of_device = rows, alive, reserved.get(key)
        memory.append(_memory(key, source.get((rank, span), ""), of_device, stacks, marks_of_span, ended, of_rank))
    return memory


def _groups(events: pa.Table, keys: tuple[str, ...]) -> dict[tuple[Any, ...], pa.Table]:
    """The rows of each device, which are contiguous."""
    counted = events.group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    groups, at = {}, 0
    for *key, count in zip(*(counted[name].to_pylist() for name in (*keys, "count_all")), strict=True):
        groups[tuple(key)] = events.slice(at, count)
        at += count
    return groups


def _memory(
    key: tuple[Any, ...],
    source: str,
    of_device: tuple[pa.Table, pa.Table, int | None],
    stacks: list[str],
    marks: list[dict[str, Any]],
    ended: list[int],
    steps: list[dict[str, Any]],
) -> Memory:
    rank, span, kind, device = key
    events, blocks, at_end = of_device
    address, size = _numbers(events, "address"), _numbers(events, "bytes")
    time_ns = _numbers(events, "time_ns")
    addressed = np.flatnonzero(address >= 0)
    paired = lifetimes(address[addressed], size[addressed])
    place = np.append(addressed + 1, [len(size) + 1])
    start = np.where(paired.start == 0, 0, place[paired.start - 1])
    end = place[paired.end - 1]
    taken, given = (np.where(row == NO_EVENT, NO_EVENT, np.append(addressed, 0)[row]) for row in paired[3:])
    further = blocks.filter(pa.array(~np.isin(_numbers(blocks, "address"), address)))
    count = len(further)
    event = np.where(paired.taken == NO_EVENT, paired.given, paired.taken)
    place_of = np.concatenate([address[addressed][event], _numbers(further, "address")])
    start = np.concatenate([start, np.zeros(count, np.int64)])
    end = np.concatenate([end, np.full(count, len(size) + 1)])
    bytes_ = np.concatenate([paired.bytes, _numbers(further, "bytes")])
    no_events = np.full(count, NO_EVENT)
    taken, given = np.concatenate([taken, no_events]), np.concatenate([given, no_events])
    role_of_event = _roles(events)
    role = np.concatenate([_of_events(role_of_event, taken[: len(taken) - count]), _roles(further)])
    of_events = taken[: len(taken) - count]
    texts = {name: _texts(events[name], of_events, further[name]) for name in _TEXTS}
    stack = [row["stack"].fill_null(-1).to_numpy().astype(np.int32) for row in (events, further)]
    texts["stack"] = Texts(np.concatenate([_of_events(stack[0], of_events, -1), stack[1]]), stacks)
    ends = sorted(
        ended + [row["time_ns"] for row in marks if row["stage"] == "END" and _OPTIMIZER_STEP.match(row["name"])]
    )
    return Memory(
        rank, span, kind, None if device < 0 else device, source,
        time_ns,
        _states(_totals(events, "allocated", size, bytes_[start == 0]), size, int(bytes_[start == 0].sum())),
        _reserved(events, at_end),
        start, end, bytes_, place_of, taken, given,
        role,
        categories(start, end, role, role_of_event, np.searchsorted(time_ns, ends, side="right")),
        **texts,
        steps=_steps(steps, marks, time_ns),
        addressed=bool(len(addressed)) or not len(address),
        counted=bool(len(size)) and not _has_totals(events, "allocated"),
    )  # fmt: skip


def _numbers(table: pa.Table, name: str) -> Int64s:
    return table[name].cast(pa.int64()).to_numpy()


def _roles(table: pa.Table) -> NDArray[np.int8]:
    import pyarrow.compute as pc

    place = pc.index_in(table["role"].cast(pa.string()), value_set=pa.array(ROLES))
    return place.fill_null(NO_ROLE).to_numpy().astype(np.int8)


def _of_events(values: NDArray[Any], events: Int64s, missing: int = NO_ROLE) -> NDArray[Any]:
    """The values of some events, `missing` for NO_EVENT."""
    return np.append(values, np.array([missing], values.dtype))[events]


def _texts(of_event: pa.ChunkedArray, taken: Int64s, of_block: pa.ChunkedArray) -> Texts:
    both = pa.chunked_array([*of_event.cast(pa.string()).chunks, *of_block.cast(pa.string()).chunks], pa.string())
    encoded = both.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    number = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    events = len(of_event)
    return Texts(
        np.concatenate([_of_events(number[:events], taken, -1), number[events:]]), encoded.dictionary.to_pylist()
    )


def _totals(events: pa.Table, name: str, size: Int64s, before: Int64s) -> Int64s:
    """Allocated bytes after each event: as recorded, else counted from what existed before."""
    if _has_totals(events, name):
        return _numbers(events, name)
    counted: Int64s = int(before.sum()) + np.cumsum(size)
    # More is freed than was seen to be allocated: at least this much existed before.
    return counted - min(0, int(counted.min(initial=0)))


def _has_totals(events: pa.Table, name: str) -> bool:
    """Whether a total was recorded with each event; recorders write 0 if they have none."""
    column = events[name]
    return bool(len(column)) and not column.null_count and int(column.to_numpy().max()) > 0


def _states(after: Int64s, size: Int64s, of_blocks: int) -> Int64s:
    """Allocated bytes in each state, including the one before the first event."""
    if not len(after):
        return np.array([of_blocks], np.int64)
    return np.concatenate([after[:1] - size[:1], after])


def _reserved(events: pa.Table, at_end: int | None) -> Int64s | None:
    if not len(events) and at_end is not None:
        return np.array([at_end], np.int64)
    if not _has_totals(events, "reserved"):
        return None
    after = _numbers(events, "reserved")
    return np.concatenate([after[:1], after])


def _steps(recorded: list[dict[str, Any]], marks: list[dict[str, Any]], time_ns: Int64s) -> list[Step]:
    """The steps of these memory events: those of the rank's traces, else by annotations."""
    if not len(time_ns):
        return []
    first, last = int(time_ns[0]), int(time_ns[-1])
    steps = [Step(row["step"], row["start_ns"], row["end_ns"]) for row in recorded]
    inside = [row for row in steps if row.end_ns > first and row.start_ns <= last]
    if inside:
        return inside
    opened: dict[str, int] = {}
    named: list[Step] = []
    ends: list[int] = []
    for mark in marks:
        if mark["stage"] == "START":
            opened[mark["name"]] = mark["time_ns"]
        elif mark["stage"] == "END" and mark["name"] in opened:
            match = _PROFILER_STEP.match(mark["name"])
            if match is not None:
                named.append(Step(int(match[1]), opened.pop(mark["name"]), mark["time_ns"]))
            elif _OPTIMIZER_STEP.match(mark["name"]):
                ends.append(mark["time_ns"])
    if named:
        apart: list[Step] = []
        for step in sorted(named, key=lambda step: step.start_ns):
            if not apart or step.start_ns >= apart[-1].end_ns:
                apart.append(step)
        return apart
    edges = [first, *(end + 1 for end in ends)]
    return [Step(n, *edge) for n, edge in enumerate(pairwise(edges))]
