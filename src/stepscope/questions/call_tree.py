"""`call-tree`: where the time goes, by calls and their callers."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.call_tree import CallTree, call_tree, from_below, heaviest
from stepscope.analysis.host_time import Thread, waiting_text, waiting_threads
from stepscope.analysis.recording import Array, rank_batches
from stepscope.analysis.tree import listed
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_NAME_OF_CALL = "CASE WHEN role = 'step' THEN '(step)' ELSE name END AS called"
"""Steps have numbered names, and are merged into one node."""
_NAMES = f"SELECT DISTINCT {_NAME_OF_CALL}, kind FROM host_event ORDER BY ALL"
_THREADS = """
    SELECT rank, span, thread,
        concat('rank ', rank, ', thread ', coalesce(tid, thread::VARCHAR), ', ' || thread_name) AS name
    FROM (SELECT DISTINCT rank, span, thread FROM host_event) LEFT JOIN thread USING (rank, span, thread)
    ORDER BY name, rank, span, thread
"""
_CALLS = f"""
    WITH
    named AS (SELECT called, kind, row_number() OVER (ORDER BY called, kind) - 1 AS code FROM ({_NAMES})),
    charged AS (
        -- a launch call is not part of the program: its work belongs to its caller
        SELECT launch.rank, sum(work.device_ns)::BIGINT AS device_ns,
            CASE WHEN launch.kind = 'runtime' THEN coalesce(launch.parent_id, launch.id) ELSE launch.id END AS id
        FROM (
            SELECT rank, launch_id AS id, sum(dur_ns) AS device_ns
            FROM device_event WHERE {WORK} AND launch_id IS NOT NULL AND {{ranks}} GROUP BY ALL
        ) AS work JOIN host_event AS launch USING (rank, id) GROUP BY ALL
    )
    SELECT rank, span, thread, id, coalesce(parent_id, -1) AS parent_id, code,
        self_ns, coalesce(charged.device_ns, 0) AS device_ns
    FROM (SELECT *, {_NAME_OF_CALL} FROM host_event)
    JOIN named USING (called, kind)
    LEFT JOIN charged USING (rank, id)
    WHERE {{ranks}} AND (rank, span, thread) NOT IN (SELECT (rank, span, thread) FROM thread WHERE kind = 'track') {{but}}
    ORDER BY rank, id
"""
_LAUNCHES = f"""
    SELECT DISTINCT rank, span, thread FROM host_event
    WHERE (rank, id) IN (SELECT (rank, launch_id) FROM device_event WHERE {WORK} AND launch_id IS NOT NULL)
"""
_CALL, _HOST, _DEVICE = range(3)
_FORMS = ("top-down", "bottom-up", "thread")


@question(
    "call-tree",
    "Which calls does the time go to, and what leads to them?",
    (
        Column("name", "text", "operator, range, Python function or runtime call"),
        Column("kind", "text", "operator, annotation, runtime, python, overhead, other, or thread"),
        Column("depth", "int", "number of rows above it", visible=False),
        Column("id", "int", "number of the row", visible=False),
        Column("parent", "int", "number of the row above it", visible=False),
        Column("calls", "int", "number of calls", "count"),
        Column("host_total_ns", "int", "host time, including all rows below it", sums=True),
        Column("host_share_ratio", "float", "fraction of the time of all listed threads"),
        Column("host_self_ns", "int", "host time without the rows below it"),
        Column("device_total_ns", "int", "summed duration of the device work launched in it and below"),
        Column("device_share_ratio", "float", "fraction of all such work"),
        Column("device_self_ns", "int", "the same without the rows below it"),
    ),
    group="operators and kernels",
    rests_on=("host-times", "device-work", "device-times", "stream-order", "launches"),
    about="events",
    parameters=(
        by_form(
            "from the outermost call down, from each function to its callers, or top-down for each thread", *_FORMS
        ),
        Parameter("max_nodes", "int", "rows to list at most: those with most time", 1000, within=(1, 1_000_000)),
    ),
    drawing="tree",
    fills="Record the host's side with ProfilerActivity.CPU; with_stack=True adds Python functions.",
)
def calls(scope: Scope, by: str = "top-down", max_nodes: int = 1000) -> ArrowTable:
    """Operators, named ranges, Python functions and runtime calls of all requested ranks and threads, merged if their
    names and those of all their callers are the same.

    **Host total** is the time between starts and ends, each moment of a thread counted once, for the innermost call: it
    includes waiting. **Device total** is the summed duration of the work that was launched in the call or below it;
    work of unknown launch belongs to no call, and that of a runtime call (`cudaLaunchKernel`) to its caller. The
    backward is launched by threads of autograd, and so is in none of the calls of the main thread: `modules` attributes
    it to the forward.

    Traced threads that spend 99 % of their time in Python's own waits while another works, and launch nothing, are left
    out, and counted, as in `hotspots`; `--by thread` includes them.

    With `--by bottom-up` the rows at the top are functions, with their self times over all of their callers, and below
    each its callers, theirs, and so on: a row's total is the part of the function's self time that was spent in this
    chain of callers, and its self time the part of it without a further caller.

    A recording of Python frames has very many nodes: the listed rows are those with most host or device time
    (`--max-nodes`; bottom-up a row counts less the more callers it is away). A row with more time than its parts and
    its self time has others below it that are not listed.
    """
    import pyarrow as pa

    names = scope.sql(_NAMES)
    texts, kinds = names.column("called").to_pylist(), names.column("kind").to_pylist()
    threads: dict[tuple[int, int, int], int] = {}
    if by == "thread":
        for row in scope.sql(_THREADS).to_pylist():
            # A name with several spans is one node; the rows are ordered by name.
            if len(texts) == names.num_rows or texts[-1] != row["name"]:
                texts.append(row["name"])
                kinds.append("thread")
            threads[row["rank"], row["span"], row["thread"]] = len(texts) - 1
    waiting = waiting_threads(scope) if by != "thread" else set()
    if waiting:
        waiting -= {Thread(**row) for row in scope.sql(_LAUNCHES).to_pylist()}
    tree = scope.cached((__name__, by == "thread"), lambda: _tree(scope, threads, waiting))
    if by == "bottom-up":
        tree = from_below(tree)
    if not len(tree.parent):
        return pa.table({"name": pa.array([], pa.string())})
    total, depth = tree.totals, tree.depth
    sums = total[tree.parent < 0].sum(axis=0)
    weights = np.maximum(*(total[:, value] / max(int(sums[value]), 1) for value in (_HOST, _DEVICE)))
    if by == "bottom-up":
        # Otherwise the chains above a few functions would leave no room for the others.
        weights /= depth + 1
    listed_nodes = np.flatnonzero(heaviest(weights, depth, max_nodes))
    rows, above = listed(listed_nodes[np.lexsort((listed_nodes, -total[listed_nodes, _HOST]))], tree.parent)
    is_thread = tree.code[rows] >= names.num_rows
    empty = [None] * len(rows)
    columns: dict[str, Any] = {
        "name": [texts[code] for code in tree.code[rows].tolist()],
        "kind": [kinds[code] for code in tree.code[rows].tolist()],
        "depth": depth[rows],
        "id": np.arange(len(rows)),
        "parent": pa.array([value if value >= 0 else None for value in above], pa.int64()),
        "calls": pa.array((total if by == "bottom-up" else tree.self_values)[rows, _CALL], mask=is_thread),
    }
    for name, value in (("host", _HOST), ("device", _DEVICE)):
        measured = name == "host" or bool(sums[value])
        shares = total[rows, value] / sums[value] if sums[value] else None
        columns |= {
            f"{name}_total_ns": total[rows, value] if measured else empty,
            f"{name}_share_ratio": empty if shares is None else shares,
            f"{name}_self_ns": tree.self_values[rows, value] if measured else empty,
        }
    answer = pa.table(columns)
    notes = [waiting_text(len(waiting))]
    if len(rows) < len(tree.parent):
        notes.append(f"The {len(rows)} of {len(tree.parent)} rows with most time; --max-nodes lists more.")
    return noted(answer, " ".join(filter(None, notes)))


def _tree(scope: Scope, threads: dict[tuple[int, int, int], int], waiting: set[Thread]) -> CallTree:
    """The calls of all requested ranks, from the top, without those of `waiting`; below their threads if given."""
    those = ", ".join(str(tuple(thread)) for thread in sorted(waiting))
    but = f"AND (rank, span, thread) NOT IN ({those})" if waiting else ""
    queries = (_CALLS.format(ranks=ranks, but=but) for ranks in rank_batches(scope))
    return _together([_tree_of(scope.numpy(query), threads) for query in queries])


def _tree_of(calls: dict[str, Array], threads: dict[tuple[int, int, int], int]) -> CallTree:
    ranks, ids = calls["rank"], calls["id"]
    parent = np.full(len(ids), -1, dtype=np.int64)
    starts = np.unique(ranks, return_index=True)[1]
    for first, last in zip(starts, [*starts[1:], len(ranks)], strict=False):
        self_values = ids[first:last]
        above = calls["parent_id"][first:last]
        at = np.minimum(np.searchsorted(self_values, above), len(self_values) - 1)
        parent[first:last] = np.where(self_values[at] == above, first + at, -1)
    self_values = np.stack([np.ones_like(ids), calls["self_ns"], calls["device_ns"]], axis=1)
    code = calls["code"].astype(np.int64)
    if threads:
        named = [calls[name].tolist() for name in ("rank", "span", "thread")]
        roots = np.flatnonzero(parent < 0)
        of_thread = [threads[named[0][row], named[1][row], named[2][row]] for row in roots]
        parent[roots] = len(ids) + np.arange(len(roots))
        parent = np.concatenate([parent, np.full(len(roots), -1)])
        code = np.concatenate([code, of_thread])
        self_values = np.concatenate([self_values, np.zeros((len(roots), self_values.shape[1]), dtype=np.int64)])
    return call_tree(parent, code, self_values)


def _together(parts: list[CallTree]) -> CallTree:
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.parent) for part in parts)])
    parent = [
        np.where(part.parent >= 0, part.parent + start, -1) for part, start in zip(parts, starts[:-1], strict=True)
    ]
    return call_tree(
        np.concatenate(parent),
        np.concatenate([part.code for part in parts]),
        np.concatenate([part.self_values for part in parts]),
    )
