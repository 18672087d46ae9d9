"""Sorts the waits of a device for its host: many short ones, few long ones, and those in which the host itself waits. A
wait has one sort only. In the longest, it looks for the runtime call, operator, frame or range that fills each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.recording import every_step
from stepscope.analysis.steps.parts import IDLE_PARTS, WAITING
from stepscope.base.grouping import grouped
from stepscope.base.quoting import sql_literal

if TYPE_CHECKING:
    from stepscope.analysis.overview import Times
    from stepscope.analysis.recording import Array
    from stepscope.analysis.steps.breakdown import Breakdown
    from stepscope.analysis.steps.breakdown import HostWaits as Waits
    from stepscope.query.scope import Scope

Row = dict[str, Any]

_SLOW_NS = 1_000_000
_SLOWER = 100
"""A first use takes at least this time, and this many times the median of its name."""


class Gap(NamedTuple):
    """A gap of a recording's devices (ns); `step` is None if none is marked."""

    rank: int
    span: int
    step: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Filler:
    """What fills most of a gap.

    Args:
        kind: runtime, operator, annotation, python or overhead.
        name: of the calls or of the event.
        calls: how many calls; 1 for any other event.
        covered_ns: how much of the gap they cover (ns).
        dur_ns: their duration, including time before and after the gap (ns).
        operator: innermost operator around a runtime call, if recorded.
        frame: innermost Python frame or range around a call or operator, if recorded.
        is_first_use: whether nothing of this name took as long again.
    """

    kind: str
    name: str
    calls: int
    covered_ns: int
    dur_ns: int
    operator: str | None
    frame: str | None
    is_first_use: bool


_GAPS = "gap (gap, rank, span, start_ns, end_ns) AS (VALUES {gaps})"
_OVERLAP = "least(event.start_ns + event.dur_ns, gap.end_ns) - greatest(event.start_ns, gap.start_ns)"
_INSIDE = """
    FROM gap JOIN (SELECT * FROM host_event
        WHERE start_ns < {last} AND start_ns + dur_ns > {first} AND {chosen}) AS event
    ON event.rank = gap.rank AND event.span = gap.span
        AND event.start_ns < gap.end_ns AND event.start_ns + event.dur_ns > gap.start_ns
"""
_CALLS = f"""
    WITH {_GAPS}
    SELECT gap.gap, event.kind, event.name, event.role, count(*) AS calls,
        sum({_OVERLAP})::BIGINT AS covered_ns, sum(event.dur_ns)::BIGINT AS dur_ns, max(event.dur_ns) AS max_ns,
        arg_max(event.id, event.dur_ns) AS id, arg_max(event.thread, event.dur_ns) AS thread,
        arg_max(event.start_ns, event.dur_ns) AS start_ns
    {_INSIDE.replace("{chosen}", "kind = 'runtime'")}
    GROUP BY ALL HAVING 2 * sum({_OVERLAP}) >= any_value(gap.end_ns - gap.start_ns)
"""
_EVENTS = f"""
    WITH {_GAPS}
    SELECT gap.gap, event.kind, event.name, event.role, 1 AS calls, {_OVERLAP} AS covered_ns,
        event.dur_ns, event.dur_ns AS max_ns, event.id, event.thread, event.start_ns
    {_INSIDE.replace("{chosen}", "kind IN ('operator', 'annotation', 'python', 'overhead')")}
    WHERE 2 * ({_OVERLAP}) >= gap.end_ns - gap.start_ns AND event.role IS DISTINCT FROM 'step'
    ORDER BY gap.gap, event.dur_ns, event.depth DESC
"""
_ENDED_BY = f"""
    WITH {_GAPS}
    SELECT DISTINCT gap.gap, launch.thread
    FROM gap JOIN device_event AS work
        ON work.rank = gap.rank AND work.span = gap.span AND work.start_ns = gap.end_ns
    JOIN host_event AS launch ON launch.rank = work.rank AND launch.id = work.launch_id
"""
_SAME_NAME = """
    WITH slow (gap, rank, span, kind, name, max_ns) AS (VALUES {fillers})
    SELECT gap, count(id) AS calls, median(dur_ns) AS median_ns, min(start_ns) AS first_ns,
        count(DISTINCT coalesce(step, -1)) FILTER (2 * dur_ns >= max_ns) AS steps
    FROM slow LEFT JOIN host_event USING (rank, span, kind, name) GROUP BY gap
"""
_LAUNCHED_BEFORE = """
    SELECT EXISTS (
        SELECT 1 FROM device_event AS work JOIN device_event AS before USING (rank, span, name)
        WHERE work.rank = $rank AND work.launch_id = $id AND before.start_ns < work.start_ns
    )
"""


def find_fillers(scope: Scope, gaps: Sequence[Gap]) -> dict[Gap, Filler]:
    """Finds what fills each gap: runtime calls of one name that cover half of it, otherwise the innermost event that
    does, on the thread that launched the work after it, or on any other. A gap has no filler if nothing covers half of
    it.
    """
    if not gaps:
        return {}
    parameters = {
        "gaps": ", ".join(f"({n}, {gap.rank}, {gap.span}, {gap.start_ns}, {gap.end_ns})" for n, gap in enumerate(gaps)),
        "first": min(gap.start_ns for gap in gaps),
        "last": max(gap.end_ns for gap in gaps),
    }
    calls, events, ended = (
        grouped(scope.sql(query.format(**parameters)).to_pylist(), itemgetter("gap"))
        for query in (_CALLS, _EVENTS, _ENDED_BY)
    )
    chosen = {
        n: _chosen(calls.get(n, []), events.get(n, []), ended.get(n, []))
        for n in range(len(gaps))
        if n in calls or n in events
    }
    slow = {
        n: (gaps[n], row)
        for n, row in chosen.items()
        if row["max_ns"] >= _SLOW_NS and row["role"] not in ("synchronize", "copy")
    }
    first = _first_uses(scope, slow)
    return {
        gaps[n]: _filler(row, bool(calls.get(n)), events.get(n, []), is_first_use=n in first)
        for n, row in chosen.items()
    }


def _chosen(calls: list[Row], events: list[Row], ended: list[Row]) -> Row:
    if calls:
        return max(calls, key=lambda call: call["covered_ns"])
    threads = {row["thread"] for row in ended}
    return next((event for event in events if event["thread"] in threads), events[0])


def _filler(row: Row, is_call: bool, events: list[Row], *, is_first_use: bool) -> Filler:
    around = [event for event in events if event["thread"] == row["thread"] and event["max_ns"] >= row["max_ns"]]
    operator = frame = None
    if is_call:
        operator = next((event["name"] for event in around if event["kind"] == "operator"), None)
    if row["kind"] in ("runtime", "operator"):
        frames = ("python", "annotation")
        frame = next((event["name"] for event in around if event["kind"] in frames), None)
    return Filler(
        kind=row["kind"],
        name=row["name"],
        calls=row["calls"],
        covered_ns=row["covered_ns"],
        dur_ns=row["dur_ns"],
        operator=operator,
        frame=frame,
        is_first_use=is_first_use,
    )


def _first_uses(scope: Scope, slow: Mapping[int, tuple[Gap, Row]]) -> set[int]:
    """Finds events that took long only once: a call that allocates or loads in no other step; the first launch of a
    kernel, or call of a name, that takes far longer than the others."""
    if not slow:
        return set()
    fillers = ", ".join(
        f"({n}, {gap.rank}, {gap.span}, {sql_literal(row['kind'])}, {sql_literal(row['name'])}, {row['max_ns']})"
        for n, (gap, row) in slow.items()
    )
    similar = scope.sql(_SAME_NAME.format(fillers=fillers)).to_pylist()
    return {row["gap"] for row in similar if _is_first_use(scope, *slow[row["gap"]], row)}


def _is_first_use(scope: Scope, gap: Gap, row: Row, similar: Row) -> bool:
    slower = similar["calls"] > 2 and row["max_ns"] >= _SLOWER * similar["median_ns"]
    if row["role"] in ("launch", "graph_launch"):
        launch = {"rank": gap.rank, "id": row["id"]}
        return slower and not scope.value(_LAUNCHED_BEFORE, launch)
    if row["kind"] == "runtime":
        return bool(similar["steps"] <= 1)
    return bool(slower and row["start_ns"] == similar["first_ns"])


LARGEST = 5
FEW, EACH, LONG_NS = 0.5, 0.05, 100_000
"""If this many longest gaps of a step contain this share of its waits, those with at least this share and length are
single ones (`single-gaps` names the source of the numbers)."""

_LOOKED_INTO = 32
"""Up to this many single gaps, the longest, are looked into for host events; a training loop repeats them."""

_COLUMNS = [IDLE_PARTS.index(part) for part in WAITING]
_MANY, _SINGLE, _BLOCKED = range(3)


@dataclass(frozen=True, slots=True)
class Wait:
    """A long wait of a device for its host, and what the host did.

    Args:
        gap: where it is.
        time_ns: how much of the gap counts as waiting for the host (the DataLoader is another loss).
        filler: what the host did; None for gaps that were not looked into.
        blocked: whether the host itself waited for the device.
    """

    gap: Gap
    time_ns: int
    filler: Filler | None
    blocked: bool

    @property
    def key(self) -> tuple[int, int, int]:
        """Identifies the gap within a recording, as in `Finding.gaps`."""
        return self.gap.rank, self.gap.span, self.gap.start_ns

    @property
    def is_cold_start(self) -> bool:
        """Whether the host did something that takes this long only once."""
        return not self.blocked and self.filler is not None and self.filler.is_first_use


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Waits for the host in a mean step, each of one sort.

    Args:
        many: what the host did (ns) in the short ones, by part of the step.
        long: the long ones, of all steps, the longest first.
        steps: the number of steps, or, without marked steps, of recordings.
    """

    many: dict[str, int]
    long: tuple[Wait, ...]
    steps: int

    @property
    def many_ns(self) -> int:
        """Time of the many short ones in a mean step (ns)."""
        return sum(self.many.values())

    def sort(self, *, blocked: bool = False, cold: bool = False) -> list[Wait]:
        """The long ones in which the host itself waits, those of cold starts, or the others."""
        return [wait for wait in self.long if wait.blocked == blocked and wait.is_cold_start == cold]

    def mean_ns(self, waits: Iterable[Wait]) -> int:
        """Time of long ones in a mean step (ns)."""
        return round(sum(wait.time_ns for wait in waits) / self.steps)


class _LongGap(NamedTuple):
    gap: Gap
    parts_ns: list[int]
    blocked: bool


def waiting_parts(waits: Waits) -> Array:
    """What the host did in each gap (ns): a row for each gap, without the DataLoader and communication, which are other
    losses."""
    return np.asarray(waits.parts_ns[:, _COLUMNS])


def sort_waits(scope: Scope, times: Times, all_waits: dict[str, int]) -> HostWaits:
    """Sorts the waits of a recording; `all_waits` is the time of all in a mean step (ns), by what the host did."""
    long_gaps = [gap for broken in times.broken for gap in _long(broken, marked=times.marked)]
    steps = times.idle_over
    if not all_waits or not long_gaps:
        return HostWaits(all_waits, (), steps)
    long_gaps.sort(key=lambda gap: -sum(gap.parts_ns))
    with every_step(scope) as all_steps:
        fillers = find_fillers(all_steps, [gap.gap for gap in long_gaps[:_LOOKED_INTO]])
    long = tuple(Wait(gap.gap, sum(gap.parts_ns), fillers.get(gap.gap), gap.blocked) for gap in long_gaps)
    taken = np.sum([gap.parts_ns for gap in long_gaps], axis=0) / steps
    many = {part: max(0, all_waits[part] - round(float(ns))) for part, ns in zip(WAITING, taken, strict=True)}
    return HostWaits(many, long, steps)


def _long(broken: Breakdown, *, marked: bool) -> Iterator[_LongGap]:
    """The gaps of a recording that are not one of many short waits."""
    waits = broken.waits
    if waits is None:
        return
    parts_ns = waiting_parts(waits)
    sorts = _sorts(parts_ns.sum(axis=1), waits.blocked_ns, waits.window)
    steps = broken.counted_windows["step"].tolist() if marked else [None]
    for place in np.flatnonzero(sorts != _MANY).tolist():
        step = steps[int(waits.window[place])]
        where = (broken.rank, broken.span, step, int(waits.start[place]), int(waits.end[place]))
        yield _LongGap(Gap(*where), parts_ns[place].tolist(), bool(sorts[place] == _BLOCKED))


def _sorts(time_ns: Array, blocked_ns: Array, window: Array) -> Array:
    """Which of many, single and blocked each gap is."""
    sort = np.full(len(time_ns), _MANY)
    sort[(blocked_ns >= LONG_NS) & (2 * blocked_ns > time_ns)] = _BLOCKED
    others = np.flatnonzero(sort == _MANY)
    others = others[np.lexsort((-time_ns[others], window[others]))]
    step, ns = window[others], time_ns[others]
    place = np.arange(len(step)) - np.searchsorted(step, step)
    total = np.bincount(step, ns, len(step) and int(step[-1]) + 1)
    largest = np.bincount(step, ns * (place < LARGEST), len(total))
    few = largest > FEW * total
    single = few[step] & (ns >= LONG_NS) & (ns >= EACH * total[step])
    sort[others[single]] = _SINGLE
    return sort
