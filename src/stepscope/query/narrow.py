"""Finds the events of a part of a recording, and cuts them to a time window.

The kept events are found once for each scope, rank by rank, and stored in two small temporary tables,
which views join with the recording's own. An event keeps its numbers, and its times unless the window
cuts it. Its parent becomes the nearest enclosing event that is also kept; depth and recursion are
recomputed. Device work keeps its launch, operator, module and step even if these are not kept: they
remain facts about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import numpy as np

from stepscope.base.errors import UsageError
from stepscope.base.known_names import did_you_mean
from stepscope.base.units import plural, time_text
from stepscope.formats.nesting import Forest, climb, levels
from stepscope.link.columns import places
from stepscope.link.device_time import DeviceTime, summed_up
from stepscope.link.recursion import inside_same_key
from stepscope.query.event_filter import EventFilter, matching, window_text
from stepscope.schema.device_work import WORK
from stepscope.schema.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.store.open import Store

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

HOST, DEVICE = "part_host", "part_device"
"""Names of the temporary tables with the kept events."""

CUT_BY_WINDOW = "cut_by_window"
"""The check that becomes a note if a window cuts steps."""

_UNMEASURED = -1
_MAX_NAMES = 20_000
"""The most names among which similar ones to an unknown name are searched."""

_NAMED_EVENTS = """
    SELECT kind, role, name FROM {host_event} UNION ALL SELECT kind, role, name FROM {captured_event}
"""
_KINDS = {
    "module": "SELECT DISTINCT path AS name FROM {module} WHERE true",
    "operator": f"SELECT DISTINCT name FROM ({_NAMED_EVENTS}) WHERE kind = 'operator'",
    "range": f"""
        SELECT DISTINCT name FROM ({_NAMED_EVENTS})
        WHERE kind = 'annotation' AND role IS DISTINCT FROM 'module'
    """,
}
"""What `--under` may name, and where the names are."""


class Complete(Protocol):
    """The methods of a `Scope` used here; `unfiltered` finds the rows of all events."""

    part: EventFilter
    ranks: tuple[int, ...]
    store: Store

    def sql(self, text: str) -> pa.Table:
        """Returns the rows of a query."""

    def value(self, text: str) -> Any:
        """Returns the value of a query of one row and one column."""

    def numpy(self, text: str) -> Columns:
        """Returns the columns of a query."""

    def unfiltered(self, table: str) -> str:
        """Names the complete rows of a table."""

    def complete_rows(self, table: str, ranks: Iterable[int]) -> str:
        """Writes the SELECT that reads the complete rows of some ranks."""


def selected_tables(scope: Complete, part: EventFilter) -> dict[str, pa.Table]:
    """Finds the kept events of a scope, by name of the temporary table.

    Raises:
        UsageError: a pattern is invalid, `under` names several kinds of thing, or nothing lies in the window.
    """
    import pyarrow as pa

    for pattern in filter(None, (part.name, part.under)):
        _check_pattern(scope, pattern)
    under = _Under(scope, part.under) if part.under is not None else None
    host: list[Columns] = []
    device: list[Columns] = []
    for rank in scope.ranks:
        selection = _OfRank(scope, rank, part, under)
        host.append(selection.host())
        device.append(selection.device())
    if part.window is not None and not any(len(columns["id"]) for columns in (*host, *device)):
        _check_window(scope, part.window)
    return {
        HOST: pa.table(_joined(host, ("parent_id", "device_ns", "device_self_ns"))),
        DEVICE: pa.table(_joined(device, ())),
    }


def narrowing_views(scope: Complete, part: EventFilter) -> dict[str, str]:
    """The rows of each table that a part narrows, as SQL over its complete rows and the temporary tables. In creation
    order: later views use earlier ones.

    The bytes of what the window cuts are divided in proportion to time. A module is kept if something in it or in its
    parts is kept.
    """
    times = "selected.start_ns AS start_ns, selected.dur_ns AS dur_ns"
    views = {
        "host_event": f"""
            SELECT e.* REPLACE ({times}, selected.self_ns AS self_ns, selected.parent_id AS parent_id,
                selected.depth AS depth, selected.recursive AS recursive, selected.device_ns AS device_ns,
                selected.device_self_ns AS device_self_ns)
            FROM {scope.unfiltered("host_event")} AS e JOIN {HOST} AS selected ON (selected.rank, selected.id) = (e.rank, e.id)
        """,
        "device_event": f"""
            SELECT e.* REPLACE ({times}, CASE WHEN selected.dur_ns = e.dur_ns THEN e.bytes
                ELSE (e.bytes::HUGEINT * selected.dur_ns // e.dur_ns)::BIGINT END AS bytes)
            FROM {scope.unfiltered("device_event")} AS e JOIN {DEVICE} AS selected ON (selected.rank, selected.id) = (e.rank, e.id)
        """,
        "module": f"""
            WITH RECURSIVE selected AS (
                SELECT rank, span, module_id FROM host_event WHERE module_id IS NOT NULL
                UNION SELECT rank, span, module_id FROM device_event WHERE module_id IS NOT NULL
                UNION SELECT rank, span, parent_id FROM {scope.unfiltered("module")} JOIN selected
                    USING (rank, span, module_id) WHERE parent_id IS NOT NULL
            )
            FROM {scope.unfiltered("module")} SEMI JOIN selected USING (rank, span, module_id)
        """,
    }
    for name in scope.store.filled():
        table, conditions = TABLES[name], []
        if table.describes:
            conditions.append(table.describing("SELECT (rank, id) FROM {events}"))
        if part.window is not None and "time_ns" in table.column_names:
            conditions.append(f"time_ns >= {part.window[0]} AND time_ns < {part.window[1]}")
        if name == "memory_event" and (part.name is not None or part.under is not None):
            conditions.append(f"(rank, operator_id) IN (SELECT (rank, id) FROM {HOST})")
        if conditions:
            views[name] = f"FROM {scope.unfiltered(name)} WHERE {' AND '.join(conditions)}"
    if part.window is not None:
        views |= _steps_in(scope, *part.window)
    return views


def named_nothing(scope: Complete) -> UsageError | None:
    """The error for a name that the recording does not have, on any rank or in any step; None if it has
    all that is named.
    """
    part = scope.part
    searched = ("module", "host_event", "device_event", "captured_event")
    scope.store.check_files(", ".join(searched), scope.store.ranks)
    tables = {name: f"({scope.store.select_text(TABLES[name], scope.store.ranks)})" for name in searched}
    if part.under is not None:
        kinds, pattern = _kinds_under(part.under)
        names = " UNION ALL ".join(query.format(**tables) for query in kinds.values())
        what = f"{_any_of(list(kinds))} {pattern!r}"
        if not _matches_any(scope, pattern, names):
            return _named_nothing(scope, what, pattern, names, "modules, operators and annotations")
    names = _NAMED.format(**tables)
    if part.name is not None and not _matches_any(scope, part.name, names):
        what = f"event is named {part.name!r}"
        return _named_nothing(scope, what, part.name, names, "operators, kernels and annotations")
    return None


_NAMED = """
    SELECT DISTINCT name FROM {host_event}
    UNION SELECT DISTINCT name FROM {device_event}
    UNION SELECT DISTINCT operator_name FROM {device_event} WHERE operator_name IS NOT NULL
"""
"""What `--name` may name."""


def _matches_any(scope: Complete, pattern: str, names: str) -> bool:
    """Whether the pattern matches one of the names that a query finds."""
    return bool(scope.value(f"SELECT count(*) FROM ({names}) WHERE {matching('name', pattern)}"))


def _named_nothing(scope: Complete, what: str, pattern: str, names: str, listed_by: str) -> UsageError:
    names_in_use = scope.sql(f"SELECT DISTINCT name FROM ({names}) ORDER BY name LIMIT {_MAX_NAMES}")
    near = did_you_mean(pattern.strip("/*?"), names_in_use.column("name").to_pylist())
    after = " " if near.endswith("?") else "; "
    return UsageError(
        f"no {what} in this recording",
        hint=f"{near}{after if near else ''}{listed_by} list the names, * stands for any text",
        slug="named-nothing",
    )


def why_nothing(scope: Complete) -> str:
    """Explains why an answer about a part of a recording is empty."""
    part = scope.part
    if part.name is None and part.under is None:
        return "No matching rows in this part of the recording."
    if not any(scope.value(f"SELECT count(*) FROM {table}") for table in ("host_event", "device_event")):
        return "What is named is in the recording, but not in the ranks, steps or part that were asked for."
    if part.name is None:
        return "No matching rows in this part of the recording."
    return (
        "No matching rows: what has this name is of another kind. --under asks for what ran inside an "
        "operator or range."
    )


def _steps_in(scope: Complete, start: int, end: int) -> dict[str, str]:
    """Cuts steps to a window; if one is cut, adds a note to the answers that use steps."""
    cut = ", ".join(
        f"greatest(least({edge}, {end}), {start}) AS {edge}"
        for edge in ("start_ns", "end_ns", "host_start_ns", "host_end_ns")
    )
    is_cut = f"(start_ns < {start} OR end_ns > {end})"
    inside = f"start_ns < {end} AND (end_ns > {start} OR start_ns = end_ns AND start_ns >= {start})"
    return {
        "step": f"""
            SELECT * REPLACE ({cut}, complete AND NOT {is_cut} AS complete)
            FROM {scope.unfiltered("step")} WHERE {inside}
        """,
        "data_check": f"""
            FROM {scope.unfiltered("data_check")} UNION ALL BY NAME
            SELECT rank, span, '{CUT_BY_WINDOW}' AS "check", 'note' AS severity, count(*) AS count,
                'steps' AS affects, 'the window cuts step '
                || string_agg(step::VARCHAR, ' and ' ORDER BY start_ns)
                || ': times are those of the part inside, and means leave it out where another step is '
                || 'complete' AS explanation
            FROM {scope.unfiltered("step")} WHERE {inside} AND {is_cut} AND rule <> 'whole recording'
            GROUP BY rank, span
        """,
    }


def _joined(parts: list[Columns], nullable: tuple[str, ...]) -> dict[str, Any]:
    """Joins the columns of all ranks; -1 becomes NULL in the nullable ones."""
    import pyarrow as pa

    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {
        name: pa.array(values, mask=values == _UNMEASURED) if name in nullable else pa.array(values)
        for name, values in columns.items()
    }


_MODULES = """
    WITH RECURSIVE chosen AS (
        SELECT rank, span, module_id FROM {module} WHERE {chosen}
        UNION
        SELECT part.rank, part.span, part.module_id FROM {module} AS part JOIN chosen
            ON (part.rank, part.span, part.parent_id) = (chosen.rank, chosen.span, chosen.module_id)
    )
    SELECT rank, span, list(module_id) AS module_ids FROM chosen GROUP BY ALL
"""
"""The modules of some paths with all their parts, by recording."""


class _Under:
    """What `--under` names, and the events below it."""

    def __init__(self, scope: Complete, typed: str) -> None:
        kinds, pattern = _kinds_under(typed)
        tables = {name: scope.unfiltered(name) for name in ("module", "host_event", "captured_event")}
        counts = {
            named_kind: scope.value(
                f"SELECT count(*) FROM ({query.format(**tables)}) WHERE {matching('name', pattern)}"
            )
            for named_kind, query in kinds.items()
        }
        meant = [named_kind for named_kind, count in counts.items() if count]
        if len(meant) > 1:
            raise UsageError(
                f"--under {typed} names {' and '.join(f'{counts[named_kind]} {plural(counts[named_kind], named_kind)}' for named_kind in meant)}",
                hint=f"say which: {' or '.join(f'--under {named_kind}:{pattern}' for named_kind in meant)}",
                slug="several-under",
            )
        self.is_module = meant == ["module"]
        kind = "operator" if meant == ["operator"] else "annotation"
        self.roots = f"(kind = '{kind}' AND {matching('name', pattern)})"
        """SQL: the host events below which events are kept, unless a module is named."""
        self._modules: dict[tuple[int, int], Array] = {}
        if self.is_module:
            self.roots = "false"
            query = _MODULES.format(module=tables["module"], chosen=matching("path", pattern))
            for row in scope.sql(query).to_pylist():
                self._modules[row["rank"], row["span"]] = np.array(row["module_ids"])

    def of_module(self, rank: int, events: Columns) -> Array:
        """Which events of a rank belong to the module or to one of its parts."""
        inside = np.zeros(len(events["id"]), bool)
        for (module_rank, span), modules in self._modules.items():
            if module_rank == rank:
                inside |= (events["span"] == span) & np.isin(events["module_id"], modules)
        return inside


class _OfRank:
    """The kept events of one rank."""

    def __init__(self, scope: Complete, rank: int, part: EventFilter, under: _Under | None) -> None:
        self.rank, self.part, self.under = rank, part, under
        name = part.name
        self._all = scope.numpy(
            f"""
            SELECT id, coalesce(parent_id, -1) AS parent_id, start_ns, dur_ns, self_ns, recursive,
                coalesce(device_ns, -1) AS device_ns, coalesce(device_self_ns, -1) AS device_self_ns,
                kind IN ('operator', 'annotation') AS is_range, kind = 'runtime' AS is_call,
                hash(kind, name) AS likeness,
                {"true" if name is None else matching("name", name)} AS named,
                {"true" if under is None else under.roots} AS under, span,
                coalesce(module_id, -1) AS module_id
            FROM ({scope.complete_rows("host_event", [rank])}) ORDER BY id
            """
        )
        named = (
            "true"
            if name is None
            else f"{matching('name', name)} OR coalesce({matching('operator_name', name)}, false)"
        )
        self._work = scope.numpy(
            f"""
            SELECT id, start_ns, dur_ns, coalesce(launch_id, operator_id, -1) AS origin_id,
                coalesce(launch_id, -1) AS launch_id, coalesce(captured_id, -1) AS captured_id,
                {WORK} AS is_work,
                {named} AS named,
                span, coalesce(module_id, -1) AS module_id
            FROM ({scope.complete_rows("device_event", [rank])}) ORDER BY id
            """
        )
        host, work = self._all, self._work
        self._above = places(host["id"], host["parent_id"])
        self._origin = places(host["id"], work["origin_id"])
        inside, work_inside = host["under"], np.ones(len(work["id"]), bool)
        if under is not None and under.is_module:
            inside, work_inside = (under.of_module(rank, events) for events in (host, work))
        elif under is not None:
            inside = Forest.of(self._above).inherit(inside.copy(), missing=False)
            work_inside = np.where(self._origin >= 0, inside[self._origin], False)
            work_inside |= self._under_captured(scope, under)
        if part.window is not None:
            inside = inside & _overlaps(host, part.window)
            work_inside = work_inside & _overlaps(work, part.window)
        self._selected_work = work_inside & work["named"]
        self._selected = inside & host["named"]
        if name is not None:  # with the calls that launched kept work
            launch = places(host["id"], work["launch_id"])[self._selected_work]
            launch = launch[launch >= 0]
            self._selected[launch] |= inside[launch]

    def _under_captured(self, scope: Complete, under: _Under) -> Array:
        """Which work replayed by a graph was captured under what `--under` names."""
        captured = scope.numpy(
            f"""
            SELECT id, coalesce(parent_id, -1) AS parent_id, {under.roots} AS under
            FROM ({scope.complete_rows("captured_event", [self.rank])}) ORDER BY id
            """
        )
        above = places(captured["id"], captured["parent_id"])
        inside = Forest.of(above).inherit(captured["under"].copy(), missing=False)
        at = places(captured["id"], self._work["captured_id"])
        return np.where(at >= 0, np.append(inside, False)[at], False)

    def host(self) -> Columns:
        """The kept host events: their parents, times and device times."""
        host, above = self._all, self._above
        rows = np.flatnonzero(self._selected)
        parent = climb(above[rows].astype(np.int32), above, lambda _, at: self._selected[at])
        place = np.full(len(above) + 1, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        columns = {name: host[name][rows] for name in ("id", "start_ns", "dur_ns", "self_ns")}
        start, end, cut = _cut(host, self.part.window)
        if cut.any():
            columns["start_ns"], columns["dur_ns"] = start[rows], (end - start)[rows]
            columns["self_ns"] = self._self_times(start, end, cut)[rows]
        total, self_time = host["device_ns"], host["device_self_ns"]
        if self.part.window is not None:
            time = self._device_times(self.part.window)
            total, self_time = time.total, time.self_time
        return {
            "rank": np.full(len(rows), self.rank, np.int32),
            **columns,
            "parent_id": np.where(parent >= 0, host["id"][parent], _UNMEASURED) if len(rows) else columns["id"],
            "depth": np.minimum(levels(place[parent]), (1 << 15) - 1).astype(np.int16),
            "recursive": inside_same_key(place[parent], host["likeness"][rows], host["recursive"][rows]),
            "device_ns": total[rows],
            "device_self_ns": self_time[rows],
        }

    def device(self) -> Columns:
        """The kept device rows, and their times."""
        start, end, _ = _cut(self._work, self.part.window)
        rows = np.flatnonzero(self._selected_work)
        return {
            "rank": np.full(len(rows), self.rank, np.int32),
            "id": self._work["id"][rows],
            "start_ns": start[rows],
            "dur_ns": (end - start)[rows],
        }

    def _self_times(self, start: Array, end: Array, cut: Array) -> Array:
        """Self times after cutting: for a cut event, its time minus what its children cover."""
        self_ns: Array = self._all["self_ns"].copy()
        children = np.flatnonzero((self._above >= 0) & cut[self._above] & (end > start))
        children = children[np.lexsort((start[children], self._above[children]))]
        parents, first = np.unique(self._above[children], return_index=True)
        self_ns[cut] = (end - start)[cut]
        for parent, low, high in zip(
            parents.tolist(), first.tolist(), [*first[1:].tolist(), len(children)], strict=False
        ):
            remaining = children[low:high]
            starts = np.clip(start[remaining], start[parent], end[parent])
            ends = np.clip(end[remaining], start[parent], end[parent])
            reached = np.concatenate([starts[:1], np.maximum.accumulate(ends)[:-1]])
            self_ns[parent] -= int(np.maximum(ends - np.maximum(starts, reached), 0).sum())
        return self_ns

    def _device_times(self, window: tuple[int, int]) -> DeviceTime:
        """Device time within a window, by the host event that launched it. Work launched before the window counts
        for the events around its launch that extend into the window.
        """
        start, end, _ = _cut(self._work, window)
        in_window = _overlaps(self._work, window) & self._work["is_work"]
        linked = np.flatnonzero(in_window & (self._origin >= 0))
        return summed_up(
            Forest.of(self._above),
            self._origin[linked],
            (end - start)[linked],
            is_call=self._all["is_call"],
            is_range=self._all["is_range"],
        )


def _overlaps(events: Columns, window: tuple[int, int]) -> Array:
    """Whether events overlap a window; for those without duration, whether they start in it."""
    start, end = events["start_ns"], events["start_ns"] + events["dur_ns"]
    after: Array = np.where(start == end, start >= window[0], end > window[0])
    return after & (start < window[1])


def _cut(events: Columns, window: tuple[int, int] | None) -> tuple[Array, Array, Array]:
    """Starts and ends of events within a window, and which of the overlapping events are cut."""
    start, end = events["start_ns"], events["start_ns"] + events["dur_ns"]
    if window is None:
        return start, end, np.zeros(len(start), bool)
    first, last = np.clip(start, *window), np.clip(end, *window)
    return first, last, _overlaps(events, window) & ((first != start) | (last != end))


def _check_pattern(scope: Complete, pattern: str) -> None:
    try:
        scope.value(f"SELECT {matching(chr(39) * 2, pattern)}")
    except duckdb.Error as error:
        reason = str(error).splitlines()[0].partition(":")[2].strip()
        raise UsageError(
            f"{pattern} is not a regular expression: {reason}",
            hint="the syntax is RE2's; without slashes it is a name in which * and ? stand for any text",
            slug="bad-pattern",
        ) from None


def _kinds_under(typed: str) -> tuple[dict[str, str], str]:
    """Which kinds of things `--under` names, and the pattern of their names."""
    kind, _, pattern = typed.partition(":")
    if kind in _KINDS and pattern and not pattern.startswith(":"):
        return {kind: _KINDS[kind]}, pattern
    return _KINDS, typed


def _any_of(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _check_window(scope: Complete, window: tuple[int, int]) -> None:
    """Refuses a window in which the requested ranks and steps ran nothing, or, if no events were recorded,
    in which nothing was sampled.

    Raises:
        UsageError: the window is such a one.
    """
    start, end = window
    timed = dict.fromkeys(("host_event", "device_event"), "start_ns, start_ns + dur_ns")
    moments = {name: "time_ns, time_ns" for name, table in TABLES.items() if "time_ns" in table.column_names}
    for tables, what in ((timed, "event"), (moments, "event or sample")):
        rows = " UNION ALL ".join(f"SELECT {of} FROM {scope.unfiltered(table)}" for table, of in tables.items())
        (row,) = scope.sql(
            f"""
            SELECT min(first) AS first_ns, max(last) AS last_ns, bool_or(
                first < {end} AND (last > {start} OR last = first AND first = {start})
            ) AS inside FROM ({rows}) AS recorded(first, last)
            """
        ).to_pylist()
        if row["inside"]:
            return
        if row["first_ns"] is not None:
            ran = f"from {time_text(row['first_ns'])} to {time_text(row['last_ns'])}"
            raise _nothing_in(window, what, f"the asked ranks and steps run {ran}")
    raise _nothing_in(window, what, "the recording has no events and no samples on a clock")


def _nothing_in(window: tuple[int, int], what: str, hint: str) -> UsageError:
    return UsageError(f"no {what} lies in {window_text(window)} of the run", hint=hint, slug="nothing-in-window")
