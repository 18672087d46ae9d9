"""How long launch calls, queueing and kernels take, and how far the host is ahead of the device."""

from __future__ import annotations

from stepscope.query.declare import DEVICE, RANK, SPAN, STEP, Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS

_OF_LAUNCHES = (
    RANK,
    Column("name", "text", "name of the kernel; of a launch of several, the one that started first", kernels=True),
    Column("call", "text", "name of the runtime or driver call that launched"),
    Column("kernels", "int", "kernels whose launch is known", "count", sums=True),
    Column("launches", "int", "calls that launched them", "count"),
    Column("api_ns", "int", "A: summed duration of the launch calls"),
    Column("api_mean_ns", "float", "A: mean"),
    Column("api_median_ns", "float", "A: median", visible=False),
    Column("queued", "int", "launches whose first kernel started after the call had ended", "count"),
    Column("queue_ns", "int", "Q: summed time from the end of those calls to the first kernel"),
    Column("queue_mean_ns", "float", "Q: mean over those launches"),
    Column("queue_median_ns", "float", "Q: median over those launches", visible=False),
    Column("kernel_ns", "int", "K: summed duration of the kernels"),
    Column("kernel_mean_ns", "float", "K: mean"),
    Column("kernel_median_ns", "float", "K: median", visible=False),
    Column("total_ns", "int", "T: summed time from the call's start to the end of call and kernels", sums=True),
    Column("total_mean_ns", "float", "T: mean"),
    Column("total_median_ns", "float", "T: median", visible=False),
    Column("short_kernels", "int", "launches of at most 50 µs that take longer than their kernels", "count"),
    Column("slow_calls", "int", "launch calls longer than 50 µs", "count"),
    Column("late_starts", "int", "launches whose kernel started more than 100 µs after the call", "count"),
    Column("unlinked", "int", "work of unknown launch; by kernel, call and rank in no other column", "count"),
)
_OF_THE_QUEUE = (
    RANK,
    SPAN,
    DEVICE,
    Column("stream", "int", "stream; empty for all streams of the device together"),
    STEP,
    Column("start_ns", "int", "start of the window, since the run's start", moment=True),
    Column("window_ns", "int", "length of the window"),
    Column("started", "int", "kernels, copies and fills that started in the window", "count"),
    _OF_LAUNCHES[-1],
    Column("mean_queued", "float", "mean number of pieces of work in the queue", "count"),
    Column("max_queued", "int", "most pieces of work in the queue at one time", "count"),
    Column("max_launches", "int", "most launches outstanding on a stream; a graph is one", "count", visible=False),
    Column("blocked_ns", "int", "launches outstanding on a stream had reached the limit"),
    Column("queued_ns", "int", "at least one piece of work was in the queue"),
    Column("running_ns", "int", "the queue was empty, and work was running"),
    Column("starved_ns", "int", "the queue was empty, and nothing was running", sums=True),
    Column("empty_ratio", "float", "fraction of the window in which the queue was empty", sums=True),
)
_WINDOWS = {"stream": (), "step": ("step", "start_ns"), "time": ("start_ns",)}

_QUERY = """
    WITH kernel AS (
        SELECT work.rank, work.name, work.start_ns, work.dur_ns, work.start_ns + work.dur_ns AS end_ns,
            launch.id AS launch_id, launch.name AS call, launch.start_ns AS call_start_ns, launch.dur_ns AS call_ns
        FROM {work} AS work LEFT JOIN {host} AS launch ON work.rank = launch.rank AND work.launch_id = launch.id
        WHERE work.{kernels}
    ),
    launched AS (
        SELECT rank, any_value(call) AS call, arg_min(name, (start_ns, end_ns, name)) AS name,
            any_value(call_ns) AS a, min(start_ns) - any_value(call_start_ns + call_ns) AS q,
            greatest(max(end_ns), any_value(call_start_ns + call_ns)) - any_value(call_start_ns) AS t,
            sum(dur_ns) AS k
        FROM kernel WHERE launch_id IS NOT NULL GROUP BY rank, launch_id
    ),
    by_launch AS (
        SELECT {key}, count(*) AS launches,
            sum(a) AS api_ns, avg(a) AS api_mean_ns, median(a) AS api_median_ns,
            count(*) FILTER (q > 0) AS queued, coalesce(sum(q) FILTER (q > 0), 0) AS queue_ns,
            avg(q) FILTER (q > 0) AS queue_mean_ns, median(q) FILTER (q > 0) AS queue_median_ns,
            sum(t) AS total_ns, avg(t) AS total_mean_ns, median(t) AS total_median_ns,
            count(*) FILTER (a <= {slow_call_ns} AND k < a) AS short_kernels,
            count(*) FILTER (a > {slow_call_ns}) AS slow_calls,
            count(*) FILTER (q > {late_start_ns}) AS late_starts
        FROM launched GROUP BY {key}
    ),
    by_kernel AS (
        SELECT {key}, count(launch_id) AS kernels, count(*) FILTER (launch_id IS NULL) AS unlinked,
            sum(dur_ns) FILTER (launch_id IS NOT NULL) AS kernel_ns,
            avg(dur_ns) FILTER (launch_id IS NOT NULL) AS kernel_mean_ns,
            median(dur_ns) FILTER (launch_id IS NOT NULL) AS kernel_median_ns
        FROM kernel GROUP BY {key}
    )
    SELECT {columns}
    FROM by_kernel AS kernels LEFT JOIN by_launch AS calls ON kernels.{key} IS NOT DISTINCT FROM calls.{key}
    ORDER BY total_ns DESC NULLS LAST, kernels.{key} NULLS LAST
"""
"""One row for each kernel, then one for each launch: a launch is counted once, however many kernels it has."""

_QUEUE_EVIDENCE = ("devices", "device-work", "device-times", "launches", "own-launches", "clocks", "steps")
_SLOW_CALL_NS = 50_000
_LATE_START_NS = 100_000
_KEYS = {"kernel": "name", "call": "call", "rank": "rank"}
_OF_KERNELS = ("kernels", "kernel_ns", "kernel_mean_ns", "kernel_median_ns", "unlinked")


@question(
    "launches",
    "How long do launches take, and how far ahead of the device is the host?",
    (*_OF_THE_QUEUE[:7], *_OF_LAUNCHES[1:-1], *_OF_THE_QUEUE[7:]),
    group="operators and kernels",
    rests_on=("host-times", "devices", "device-work", "device-times", "launches", "own-launches", "clocks"),
    about={"kernel": "events", "call": "events", "rank": "events", "stream": "time", "step": "time", "time": "time"},
    parameters=(
        by_form("group launches by this; `stream`, `step` and `time`: the queue of launched work", *_KEYS, *_WINDOWS),
        Parameter("limit", "int", "launches outstanding on a stream at which a further launch call waits", 1_024),
    ),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def launches(scope: Scope, by: str = "kernel", limit: int = 1_024) -> ArrowTable:
    """The phases of a kernel's launch, as Nsight Systems defines them (`cuda_kern_exec_sum`):

    * **A** (API): the launch call on the host, from its start to its end.
    * **Q** (queue): from the end of the call to the start of the kernel; launches whose kernel started during the call
      have no Q and are not in its statistics.
    * **K** (kernel): the kernel on the device.
    * **T** (total): from the call's start to the later of the call's and the kernel's end. It is not A + Q + K.

    A launch call that starts many kernels (a graph) is one launch: its A, Q and T count once, Q up to its first kernel
    and T up to the end of its last; by kernel name they are listed with the kernel that started first, so that a sum
    over all names is right. Copies and fills are not included, and kernels of unknown launch are counted in `unlinked`
    alone. With `--window` a launch counts in full if a kernel of it runs in the window.

    Time in the queue is not bad: it shows that the host is ahead of the device. If *no* launch has queued, the device
    starves for work.

    Unusual launches are counted with the thresholds of Holistic Trace Analysis: short kernels (the call takes up to 50
    µs, and longer than what it launches), slow calls (above 50 µs), late starts (Q above 100 µs). That tool reads only
    `cudaLaunchKernel` and similar calls; driver calls (Triton) and graphs count here.

    **The queue** (`--by stream`, `step`, `time`). A kernel, copy or fill is in its stream's queue from the end of the
    call that launched it until it starts; a copy from the start of its call, which may wait for the copy; a graph's
    kernels from the end of the graph's launch. It also counts as queued while it waits for another stream or for an
    event. Time in the launch call is not queueing: a first launch that loads its module takes seconds, and the device
    starves meanwhile. Work of unknown launch is never in the queue, but counts as running; a stream without any known
    launch has no values of the queue.

    The window is divided completely: at least one piece of work was queued (`queued_ns`); none was, but work was still
    running (`running_ns`); neither (`starved_ns`). A queue that is often empty and a device that starves show that the
    host is too slow. A stream that is used now and then starves too, at no cost while others run: read the device's
    rows first, those without a stream. A device's queue is that of all its streams together.

    `blocked_ns` is the time in which `--limit` launches or more were outstanding on a stream (for a device, on any of
    its streams), including calls under way: CUDA keeps about 1024 launches, and a further call waits until one starts.
    `mean_queued` times `window_ns` is the total time of all pieces of work in the queue (Little's law).

    The window is all steps that count in means, without the time between two of them; with `--step` it is the chosen
    steps. With `--by step` every step is a window, and with `--by time` pieces of time as in `utilization`. Holistic
    Trace Analysis counts pieces from the start of the launch call and only those launched by runtime calls; its
    statistics are over the changes of the queue's length, ours over time.
    """
    if by in _WINDOWS:
        return _queue(scope, by, limit)
    key = _KEYS[by]
    names = [c.name for c in _OF_LAUNCHES if c.name not in _KEYS.values() or c.name == key]
    columns = ", ".join(_source_of(name) for name in names)
    in_part = "SEMI JOIN device_event USING (rank, id)" if scope.part else ""
    return scope.sql(
        _QUERY.format(
            kernels=KERNELS,
            key=key,
            columns=columns,
            work=f"(FROM {scope.unfiltered('device_event')} {in_part})" if in_part else "device_event",
            host=scope.unfiltered("host_event"),
            slow_call_ns=_SLOW_CALL_NS,
            late_start_ns=_LATE_START_NS,
        )
    )


def _source_of(column: str) -> str:
    if column in _KEYS.values() or column in _OF_KERNELS:
        return f"kernels.{column}"
    if column in ("launches", "queued", "short_kernels", "slow_calls", "late_starts"):
        return f"coalesce(calls.{column}, 0) AS {column}"
    return f"calls.{column}"


def _queue(scope: Scope, by: str, limit: int) -> ArrowTable:
    from stepscope.analysis.counted import left_out_of_means
    from stepscope.analysis.steps.queue import queue_rows

    left_out = {"step", "start_ns"} - set(_WINDOWS[by])
    names = [column.name for column in _OF_THE_QUEUE if column.name not in left_out]
    answer = answer_dicts(_OF_THE_QUEUE, queue_rows(scope, by, limit), names)
    together = by == "stream" and scope.steps is None
    return noted(answer, left_out_of_means(scope) if together else "", rests_on=_QUEUE_EVIDENCE)
