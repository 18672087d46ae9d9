"""`annotations`: what the named ranges cost, on the host and on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.intervals import covered, union
from stepscope.analysis.recording import WORK, Array, Columns, groups
from stepscope.answers.declare import Column, Parameter, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.answers.scope import Scope

_RANGES = """
    SELECT rank, span, thread, id, start_ns, start_ns + dur_ns AS end_ns, first_ns, last_ns, self_ns,
        NOT recursive AS outermost, name
    FROM {ranges} WHERE {chosen}
"""
_RECORDED = "(SELECT *, start_ns AS first_ns, start_ns + dur_ns AS last_ns FROM host_event)"
_CUT = """
    host_event JOIN (
        SELECT rank, id, start_ns AS first_ns, start_ns + dur_ns AS last_ns FROM {every}
    ) USING (rank, id)
"""
"""The ranges with their ends as recorded, between which work was launched, beside those of the window."""
_FARTHEST = 2**62
"""Times are moved no farther than this (ns), to stay within 64 bits."""


@question(
    "annotations",
    "What do the named ranges cost on host and device?",
    (
        Column("name", "text", "name of the range"),
        Column(
            "calls", "int", "number of ranges, those inside another of the name included", "count"
        ),
        Column("host_total_ns", "int", "time on the host, with all that ran inside it", "ns"),
        Column("host_self_ns", "int", "time on the host, less all that ran inside it", "ns"),
        Column("host_mean_ns", "float", "mean duration of a range on the host", "ns"),
        Column(
            "device_busy_ns",
            "int",
            "time during which a device ran work that was launched inside it",
            "ns",
        ),
        Column(
            "device_total_ns",
            "int",
            "summed duration of that work; work that overlaps counts as often as it does",
            "ns",
        ),
        Column(
            "projected_ns",
            "int",
            "first start to last end of that work, summed over the ranges, gaps included",
            "ns",
        ),
        Column("device_events", "int", "kernels, copies and fills launched inside it", "count"),
    ),
    rests_on=("host-times", "device-work", "device-times", "stream-order", "launches"),
    about="events",
    parameters=(Parameter("all", "bool", "also the ranges that mark the steps", default=False),),
    fills="Mark code with torch.profiler.record_function and record with ProfilerActivity.CPU.",
)
def named_ranges(scope: Scope, all: bool = False) -> pa.Table:  # noqa: A002  # the option is --all
    """Ranges that the program or a library named on the host (`record_function`, the data
    loader's and the optimizer's ranges, a framework's), by name, over all asked ranks together;
    those that kept the device busiest first. The ranges that mark steps are left out unless
    `--all` is given: see `steps`.

    Work belongs to a range if the call that launched it starts inside the range **on the same
    thread**, as in Nsight Systems' NVTX projection. The backward pass is launched by a thread
    of autograd, so its work is in no range of the main thread: `modules` ties it to the
    forward. Work whose launch is not known belongs to no range.

    **projected** is Nsight's: from the start of the first to the end of the last piece of work
    of a range, whatever lies between. **busy** leaves the gaps out, and time is counted once
    per device however many kernels run, also when they come from two ranges of the name. So
    busy is never more than the sum, `device_total_ns`.

    With `--window` it is the work of those ranges that ran in the window, whenever it was launched.

    A range inside another of the same name adds to calls and to host self time, and to nothing
    else. Ranges that the recorder itself draws on the device's tracks (`gpu_user_annotation`)
    are neither work nor ranges here.
    """
    import pyarrow as pa

    chosen = "kind = 'annotation'" + ("" if all else " AND role IS DISTINCT FROM 'step'")
    every = scope.every("host_event")
    ranges = _RECORDED if scope.part.window is None else _CUT.format(every=every)
    rows = scope.sql(_RANGES.format(ranges=ranges, chosen=chosen))
    names = rows.column("name").combine_chunks().dictionary_encode()
    found = {name: rows.column(name).to_numpy() for name in rows.column_names[:-1]}
    found["name"] = names.indices.to_numpy()
    measured = {
        **_host_time(found, len(names.dictionary)),
        **_device_time(scope, found, len(names.dictionary)),
    }
    answer = pa.table({"name": names.dictionary, **measured})
    return answer.sort_by(
        [("device_busy_ns", "descending"), ("host_total_ns", "descending"), ("name", "ascending")]
    )


def _host_time(ranges: Columns, names: int) -> dict[str, Array]:
    duration, outermost = ranges["end_ns"] - ranges["start_ns"], ranges["outermost"]
    calls = np.bincount(ranges["name"], minlength=names)
    return {
        "calls": calls,
        "host_total_ns": _summed(ranges["name"][outermost], duration[outermost], names),
        "host_self_ns": _summed(ranges["name"], ranges["self_ns"], names),
        "host_mean_ns": _summed(ranges["name"], duration, names) / calls,
    }


def _device_time(scope: Scope, ranges: Columns, names: int) -> dict[str, Any]:
    """The device columns by number of the name; without known launches nothing was measured."""
    columns = ("device_busy_ns", "device_total_ns", "projected_ns", "device_events")
    work = _launched_work(scope) if names else {}
    if not len(work.get("start_ns", ())):
        import pyarrow as pa

        return {column: pa.nulls(names, pa.int64()) for column in columns}
    range_of, work_of = _work_inside(ranges, work)
    name_of = ranges["name"][range_of]
    start, end = work["start_ns"][work_of], work["end_ns"][work_of]
    first = np.flatnonzero(np.diff(range_of, prepend=-1))  # pairs of one range stand together
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
    """Work whose launch is known: when it ran, where (`place` numbers recording and device), and
    the start and thread of its launch.
    """
    work = scope.numpy(
        f"""
        SELECT
            work.rank, work.span, launch.thread, work.device, launch.start_ns AS launch_ns,
            work.start_ns, work.start_ns + work.dur_ns AS end_ns
        FROM (SELECT * FROM {scope.every("device_event")} WHERE {WORK}) AS work
        JOIN {scope.every("host_event")} AS launch
            ON launch.rank = work.rank AND launch.id = work.launch_id
        """
    )
    if scope.part.window is not None:
        for edge in ("start_ns", "end_ns"):
            work[edge] = np.clip(work[edge], *scope.part.window)
        inside = work["start_ns"] < work["end_ns"]
        work = {name: values[inside] for name, values in work.items()}
    work["place"] = np.zeros(len(work["rank"]), dtype=np.int64)
    for column in ("rank", "span", "device"):
        values = np.unique(work[column])
        if len(values) > 1:
            place = np.searchsorted(values, work[column])
            work["place"] = work["place"] * len(values) + place
    return work


def _work_inside(ranges: Columns, work: Columns) -> tuple[Array, Array]:
    """Pairs of an outermost range and a piece of work launched inside it, as two arrays of rows."""
    here = {**ranges, "row": np.arange(len(ranges["id"]))}
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
    nothing = np.zeros(0, dtype=np.int64)
    return np.concatenate([nothing, *range_rows]), np.concatenate([nothing, *work_rows])


def _busy(name_of: Array, place: Array, start: Array, end: Array, names: int) -> Array:
    """Union per name and place, summed over the places of a name.

    All are one union: each name and place gets a stretch of time of its own, one after the other.
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
    """Exact sums of the values by number of the name."""
    sums = np.zeros(names, dtype=np.int64)
    np.add.at(sums, name_of, values)
    return sums
