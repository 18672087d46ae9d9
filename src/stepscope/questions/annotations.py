"""`annotations`: the time of named ranges, on the host and on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.recording import Array, Columns, groups
from stepscope.analysis.tree import listed
from stepscope.formats.consecutive import run_starts
from stepscope.link.intervals import covered, union
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_RANGES = """
    SELECT recorded.rank, recorded.span, recorded.thread, least(recorded.depth, 7) AS depth,
        recorded.start_ns AS first_ns, recorded.start_ns + recorded.dur_ns AS last_ns,
        chosen.id IS NOT NULL AS in_part, coalesce(chosen.start_ns, 0) AS start_ns,
        coalesce(chosen.start_ns + chosen.dur_ns, 0) AS end_ns, coalesce(chosen.self_ns, 0) AS self_ns,
        recorded.name, coalesce(json_extract_string(recorded.other_args, '$.domain'), '') AS domain,
        coalesce(json_extract_string(recorded.other_args, '$.category'), '') AS category
    FROM (SELECT * FROM {unfiltered} WHERE {chosen}) AS recorded
    LEFT JOIN (SELECT * FROM host_event WHERE {chosen}) AS chosen
        ON (chosen.rank, chosen.id) = (recorded.rank, recorded.id)
    ORDER BY recorded.rank, recorded.id
"""
"""All ranges with their recorded ends, between which work was launched, and those of the requested part,
as its window cuts them."""
_KEY = ("name", "domain", "category")
_FORMS = ("name", "path")
_LONGEST_PATH = 2000
_BACKWARD = "SELECT EXISTS (SELECT 1 FROM device_event WHERE direction = 'backward')"
_OF_AUTOGRAD = (
    "Threads of autograd launch the backward pass: its work is in no range of another thread, also where that encloses "
    "loss.backward(). `stepscope modules` and `stepscope classes` have it."
)
_FARTHEST = 2**62
"""Times are shifted by no more than this (ns), to stay within 64 bits."""


@question(
    "annotations",
    "What do the named ranges cost on host and device?",
    (
        Column("name", "text", "name of the range"),
        Column("domain", "text", "NVTX domain that it belongs to", visible="varying"),
        Column("category", "text", "NVTX category that it was given", visible="varying"),
        Column("path", "text", "names of the enclosing ranges and its name, outermost first", visible=False),
        Column("depth", "int", "number of ranges around it", visible=False),
        Column("calls", "int", "number of ranges, nested ones of the name included", "count"),
        Column("host_total_ns", "int", "host time, including all that ran inside it"),
        Column("host_exclusive_ns", "int", "host time, without the ranges inside it"),
        Column("host_self_ns", "int", "host time, without all that ran inside it"),
        Column("host_mean_ns", "float", "mean duration of a range on the host"),
        Column("device_busy_ns", "int", "time during which a device ran work that was launched inside it"),
        Column("device_total_ns", "int", "summed duration of that work; overlapping work counts repeatedly"),
        Column("projected_ns", "int", "first start to last end of that work, summed over the ranges, gaps included"),
        Column("device_events", "int", "kernels, copies and fills launched inside it", "count"),
    ),
    group="operators and kernels",
    rests_on=("host-times", "device-work", "device-times", "stream-order", "launches"),
    about="events",
    parameters=(
        by_form("what a row is: a name, or a path through the ranges around it", *_FORMS),
        Parameter("all", "bool", "also the ranges that mark the steps", default=False),
    ),
    drawing="tree",
    fills="Mark code with torch.profiler.record_function and record with ProfilerActivity.CPU, or with NVTX "
    "ranges and record under nvprof or nsys --trace=nvtx.",
)
def named_ranges(scope: Scope, by: str = "name", all: bool = False) -> ArrowTable:  # noqa: A002  # the option is --all
    """Ranges that the program or a library named on the host (`record_function`, NVTX ranges of any domain, the data
    loader's and the optimizer's ranges, a framework's), over all requested ranks together. By name, those with most
    device time come first; a name in two NVTX domains or categories is two rows. With `--by path` a row is a node in
    the tree of ranges, below the one that encloses it on its thread, whatever their domains. Ranges that mark steps are
    left out unless `--all` is given: see `steps`.

    **exclusive** is the time of a range on the host minus that of the ranges inside it, as in the `nvtx_pushpop_sum` of
    Nsight Systems; **self** excludes everything that ran inside, including operators and calls.

    Work belongs to a range if the call that launched it starts inside the range **on the same thread**, as in Nsight
    Systems' NVTX projection. The backward pass is launched by a thread of autograd, so its work is in no range of the
    main thread: `modules` attributes it to the forward. Work whose launch is unknown belongs to no range.

    **projected** is Nsight's: from the start of the first to the end of the last piece of work of a range, including
    gaps. **busy** excludes the gaps, and time is counted once per device however many kernels run, even if they come
    from two ranges of the name. So busy is never more than the sum, `device_total_ns`.

    With `--window` it is the work of those ranges that ran in the window, whenever it was launched.

    By name, a range inside another of its row adds to calls, exclusive and self time, and to nothing else. Ranges that
    the recorder itself draws on the device's tracks (`gpu_user_annotation`) count neither as work nor as ranges.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    chosen = "kind = 'annotation'" + ("" if all else " AND role IS DISTINCT FROM 'step'")
    rows = scope.sql(_RANGES.format(unfiltered=scope.unfiltered("host_event"), chosen=chosen))
    ranges, first, above = _nested(rows, scope.part.window, by)
    count = len(first)
    columns: dict[str, Any] = {}
    for name in _KEY:
        texts = rows.column(name).take(first).combine_chunks()
        empty = pc.and_(pc.equal(texts, ""), name != "name")
        columns[name] = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    if by == "path":
        columns["path"], columns["depth"] = _places(rows.column("name").take(first), above)
    requested = {name: values[ranges["in_part"]] for name, values in ranges.items()}
    columns |= _host_time(requested, count) | _device_time(scope, requested, count)
    answer = pa.table(columns)
    largest = [("device_busy_ns", "descending"), ("host_total_ns", "descending")]
    order = pc.sort_indices(answer, sort_keys=[*largest, *((name, "ascending") for name in _KEY)])
    if by == "path":
        order, _ = listed(order.to_numpy(), above)
    answer = answer.take(order)
    answer = answer.filter(pc.greater(answer.column("calls"), 0))
    return noted(answer, _OF_AUTOGRAD) if len(answer) and scope.value(_BACKWARD) else answer


def _nested(rows: ArrowTable, window: tuple[int, int] | None, by: str) -> tuple[Columns, Array, Array]:
    """The ranges, nested; the index of one range of each row of the answer; and the parent of each row, or -1.

    Rows of the answer are numbered (`group`), those of paths from the roots down. A range is `outermost` if no range of
    its row encloses it.
    """
    from stepscope.analysis.operators.calls import coded, distinct_rows
    from stepscope.formats.nesting import climb, nest

    ranges = {name: rows.column(name).to_numpy() for name in rows.column_names if name not in _KEY}
    start, end = ranges["first_ns"], ranges["last_ns"]
    if window is not None:
        start, end = np.clip(start, *window), np.clip(end, *window)
    _, thread = distinct_rows(ranges["rank"], ranges["span"], ranges["thread"])
    nesting = nest(thread, start, end - start, ranges.pop("depth"))
    ranges = {name: values[nesting.row] for name, values in ranges.items()}
    ranges["exclusive_ns"] = nesting.self_ns
    _, key = distinct_rows(*(coded(rows.column(name))[0][nesting.row] for name in _KEY))
    group = key
    if by == "path":
        group = np.zeros(len(key), dtype=np.int64)
        count = 0
        for low, high in zip(nesting.level[:-1], nesting.level[1:], strict=True):
            level = nesting.by_depth[low:high]
            distinct, which = distinct_rows(np.append(group, -1)[nesting.parent[level]], key[level])
            group[level] = count + which
            count += len(distinct)
    ranges["group"] = group
    _, first = np.unique(group, return_index=True)
    above = np.append(group, -1)[nesting.parent[first]]
    enclosing = climb(nesting.parent.copy(), nesting.parent, lambda row, at: group[at] == group[row])
    ranges["outermost"] = enclosing < 0
    return ranges, nesting.row[first], above


def _places(names: Any, above: Array) -> tuple[list[str], list[int]]:
    paths: list[str] = []
    depths: list[int] = []
    for name, parent in zip(names.to_pylist(), above.tolist(), strict=True):
        # Each path contains all of its parents: ranges nested by thousands would fill the memory.
        paths.append(name if parent < 0 else f"{paths[parent][-_LONGEST_PATH:]}/{name}")
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return paths, depths


def _host_time(ranges: Columns, count: int) -> dict[str, Array]:
    duration, outermost = ranges["end_ns"] - ranges["start_ns"], ranges["outermost"]
    calls = np.bincount(ranges["group"], minlength=count)
    total = _summed(ranges["group"], duration, count)
    return {
        "calls": calls,
        "host_total_ns": _summed(ranges["group"][outermost], duration[outermost], count),
        "host_exclusive_ns": _summed(ranges["group"], ranges["exclusive_ns"], count),
        "host_self_ns": _summed(ranges["group"], ranges["self_ns"], count),
        "host_mean_ns": total / np.maximum(calls, 1),
    }


def _device_time(scope: Scope, ranges: Columns, names: int) -> dict[str, Any]:
    """The device columns by number of the name; without known launches nothing was measured."""
    columns = ("device_busy_ns", "device_total_ns", "projected_ns", "device_events")
    work = _launched_work(scope) if names else {}
    if not len(work.get("start_ns", ())):
        import pyarrow as pa

        return {column: pa.nulls(names, pa.int64()) for column in columns}
    range_of, work_of = _work_inside(ranges, work)
    name_of = ranges["group"][range_of]
    start, end = work["start_ns"][work_of], work["end_ns"][work_of]
    first = np.flatnonzero(run_starts(range_of))  # pairs of one range are adjacent
    projected = np.zeros(0, dtype=np.int64)
    if len(first):
        projected = np.maximum.reduceat(end, first) - np.minimum.reduceat(start, first)
    return {
        "device_busy_ns": _busy(name_of, work["place"][work_of], start, end, names),
        "device_total_ns": _summed(name_of, end - start, names),
        "projected_ns": _summed(name_of[first], projected, names),
        "device_events": np.bincount(name_of, minlength=names),
    }


def _launched_work(scope: Scope) -> Columns:
    """Work whose launch is known: when and where it ran (`place`: recording and device), start and thread of its launch."""
    from stepscope.analysis.operators.calls import distinct_rows

    work = scope.numpy(
        f"""
        SELECT work.rank, work.span, launch.thread, work.device, launch.start_ns AS launch_ns,
            work.start_ns, work.start_ns + work.dur_ns AS end_ns
        FROM (SELECT * FROM {scope.unfiltered("device_event")} WHERE {WORK}) AS work
        JOIN {scope.unfiltered("host_event")} AS launch ON (launch.rank, launch.id) = (work.rank, work.launch_id)
        """
    )
    if scope.part.window is not None:
        for edge in ("start_ns", "end_ns"):
            work[edge] = np.clip(work[edge], *scope.part.window)
        inside = work["start_ns"] < work["end_ns"]
        work = {name: values[inside] for name, values in work.items()}
    _, work["place"] = distinct_rows(work["rank"], work["span"], work["device"])
    return work


def _work_inside(ranges: Columns, work: Columns) -> tuple[Array, Array]:
    """Pairs of an outermost range and a piece of work launched inside it, as two arrays of rows."""
    here = {**ranges, "row": np.arange(len(ranges["group"]))}
    here = {name: values[ranges["outermost"]] for name, values in here.items()}
    threads = groups({**work, "row": np.arange(len(work["place"]))}, "rank", "span", "thread")
    range_rows, work_rows = [], []
    for thread, inside in groups(here, "rank", "span", "thread").items():
        if thread in threads:
            launched = threads[thread]
            order = np.argsort(launched["launch_ns"], kind="stable")
            launch_ns = launched["launch_ns"][order]
            low = np.searchsorted(launch_ns, inside["first_ns"], side="left")
            high = np.searchsorted(launch_ns, inside["last_ns"], side="left")
            count = high - low
            before = np.cumsum(count) - count
            range_rows.append(np.repeat(inside["row"], count))
            position = np.arange(int(count.sum())) - np.repeat(before - low, count)
            work_rows.append(launched["row"][order[position]])
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *range_rows]), np.concatenate([empty, *work_rows])


def _busy(name_of: Array, place: Array, start: Array, end: Array, names: int) -> Array:
    """Union per name and place, summed over the places of a name.

    All are computed as one union: each name and place gets its own stretch of time, one after the other.
    """
    busy = np.zeros(names, dtype=np.int64)
    if len(start) == 0:
        return busy
    places = int(place.max()) + 1
    present = np.bincount(name_of * places + place, minlength=names * places) > 0
    keys = np.flatnonzero(present)
    group = (np.cumsum(present) - 1)[name_of * places + place]
    origin = int(start.min())
    stretch = int(end.max()) - origin + 1
    at_once = max(1, _FARTHEST // stretch)
    for first in range(0, len(keys), at_once):
        chosen = (group >= first) & (group < first + at_once)
        moved = (group[chosen] - first) * stretch - origin
        stretches = np.arange(min(at_once, len(keys) - first)) * stretch
        together = union(start[chosen] + moved, end[chosen] + moved)
        in_group = covered(together, stretches, stretches + stretch)
        np.add.at(busy, keys[first : first + at_once] // places, in_group)
    return busy


def _summed(name_of: Array, values: Array, names: int) -> Array:
    sums = np.zeros(names, dtype=np.int64)
    np.add.at(sums, name_of, values)
    return sums
