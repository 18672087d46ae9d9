"""`host-metrics`: what a run did with the host, by reports of tools and by the recorder."""

from __future__ import annotations

from operator import itemgetter

from stepscope.base.grouping import grouped
from stepscope.findings.host_limits import DEVICE_TIMED, HOST_LIMITS
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts
from stepscope.query.scope import Scope
from stepscope.query.script import with_script

ASPECTS = {
    "run": "elapsed processor processors",
    "processors": "cpu_utilization core_utilization processors_used user_time system_time frequency",
    "threads": "thread_imbalance busy_threads openmp_imbalance serial_time run_queue_wait involuntary_switches",
    "memory": "peak_memory peak_memory_of_a_child major_faults memory_stalls cache_stalls dram_stalls dram_bandwidth "
    "dram_bandwidth_bound numa_remote",
    "input and output": "io_bound read written",
    "communication": "mpi_time mpi_imbalance ccl_time",
    "arithmetic": "ipc cpi vectorization fpu_utilization single_precision_rate double_precision_rate",
    "device": "gpu_utilization gpu_occupancy",
}

_WHERE_THREADS_ARE = (
    "hotspots, and hotspots --by thread, where stacks were sampled: stepscope record --sample -- train.py"
)
_STALLED = "hotspots of VTune by function: stepscope launch --tool vtune --set memory-access -- python train.py"
_WHO_WAITS = "who waits for whom: stepscope stragglers of a trace of all ranks"
_PLAIN_LOOPS = "which primitives run plain loops: stepscope onednn of a verbose log"
LOOK_NEXT = {
    "cpu_utilization": _WHERE_THREADS_ARE,
    "core_utilization": _WHERE_THREADS_ARE,
    "thread_imbalance": "hotspots --by thread of a sampled run",
    "openmp_imbalance": "fewer threads (OMP_NUM_THREADS), or larger batches for them to share",
    "serial_time": "hotspots of the main thread: hotspots --by thread",
    "run_queue_wait": "fewer threads: OMP_NUM_THREADS, num_workers of the DataLoader, ranks of the node; "
    "more processors for the job",
    "memory_stalls": _STALLED,
    "cache_stalls": _STALLED,
    "dram_stalls": _STALLED,
    "dram_bandwidth_bound": "fewer passes over the data: fused operators, smaller types",
    "numa_remote": "one rank a NUMA node, bound to it by the launcher or numactl",
    "io_bound": "fewer, larger files; a node's own disk",
    "mpi_time": _WHO_WAITS,
    "mpi_imbalance": _WHO_WAITS,
    "ccl_time": _WHO_WAITS,
    "vectorization": _PLAIN_LOOPS,
    "fpu_utilization": _PLAIN_LOOPS,
    "gpu_utilization": "device-time of a trace",
}
"""What to look at if a metric misses its threshold or is flagged."""

_OF_THE_RUN = """
    SELECT kind, report, any_value(unit) AS unit, avg(value) AS value, min(value) AS min, max(value) AS max,
        count(DISTINCT rank) AS ranks, avg(share_ratio) AS share_ratio, any_value(share_of) AS share_of,
        any_value(metric) AS metric, any_value(text) AS text, any_value(advice) AS advice
    FROM host_metric WHERE kind IS NOT NULL AND subject IS NULL GROUP BY kind, report ORDER BY report, kind
"""
_ALL = """
    SELECT rank, report, subject_kind AS of, subject, metric, value, unit, text, host, share_ratio, share_of, advice,
        confirmed
    FROM host_metric
    WHERE ($metric IS NULL OR contains(lower(metric), lower($metric)))
        AND ($subject IS NULL OR contains(lower(subject), lower($subject)))
"""


@question(
    "host-metrics",
    "How did the run use processors, threads, memory and files of the host?",
    (
        Column("rank", "int", "rank of the report, or the rank it lies with", visible="varying"),
        Column("aspect", "text", "what the metric is about"),
        Column("report", "text", "report that states it"),
        Column("of", "text", "what the subject is: Function, Module, Thread, ...", visible="varying"),
        Column("subject", "text", "what is measured; empty for the complete run", visible="varying"),
        Column("metric", "text", "name of the metric, as the tool spells it, with those above it"),
        Column("value", "float", "value; of several ranks the mean"),
        Column("unit", "text", "unit, as the tool spells it"),
        Column("text", "text", "what the report has in place of a number, or behind it", visible="varying"),
        Column("min", "float", "of several ranks the smallest value", visible="varying"),
        Column("max", "float", "of several ranks the largest value", visible="varying"),
        Column("ranks", "int", "ranks with the value", "count", visible="varying"),
        Column("host", "text", "node, where the report names one", visible="varying"),
        Column("share_ratio", "float", "fraction of something else", visible="varying"),
        Column("share_of", "text", "what it is a fraction of", visible=False),
        Column("target", "text", "what it should be, where there is a known threshold"),
        Column("source", "text", "where the threshold comes from", visible=False),
        Column("judged", "text", "met, missed, or flagged where its tool says that it needs a look"),
        Column("next", "text", "what to look at next, where it is missed or flagged", advises=True),
        Column("advice", "text", "the tool's own words on it", visible=False),
        Column("confirmed", "bool", "false if the layout is known from documentation alone", visible="varying"),
    ),
    group="host",
    rests_on=(),
    parameters=(
        by_form("the complete run by `aspect`, or every `metric` under the name its tool gives it", "aspect", "metric"),
        Parameter("metric", "text", "every metric with this in its name, whatever the case"),
        Parameter("subject", "text", "every metric of a subject with this in its name, whatever the case"),
    ),
    drawing="text",
    fills="Record it: stepscope record --phases -- train.py; or give a summary of APS (aps-report DIR), a report of "
    "VTune as CSV, or what perf stat wrote.",
)
def host_metrics(scope: Scope, by: str = "aspect", metric: str | None = None, subject: str | None = None) -> ArrowTable:
    """The overview of Intel's Application Performance Snapshot, from its text summary, from `perf stat`, and from what
    the recorder measured of its process and those below it: elapsed time, processor time and its share of the
    processors, balance of threads, memory, files, and, if counters were read, instructions per cycle, vectorization and
    stalls. What no report states has no row.

    From the recorder: **cpu utilization** is the processor time of the process and all below it, over elapsed time and
    the processors that the process may use (its affinity, or the quota of its control group). **thread imbalance** is 1
    minus the mean over the largest processor time of the threads that ran for at least 5 % of the time, only of the
    recorded process: threads with different work differ, too. **run queue wait** is the share of the time in which
    living threads could run, but no processor was free. Memory is the peak of the process, and of its largest child
    that ended; read and written is what went to storage and not only to the page cache.

    `judged` is the comparison with a threshold, whose `source` is given, or `flagged` if the tool itself advises on the
    metric: `advice` has its words. Utilization of processors is not judged if a device was timed: then the host need
    not be busy.

    `--by metric` has every metric of those reports and of CSV reports of Intel VTune (hot spots, microarchitecture,
    memory access, ...), including those of single functions and threads, in the order of the files. Nothing is computed
    or renamed: the tool defines what a metric means. VTune's CPU time, instructions and cycles of functions are in
    `hotspots`. Reports of VTune other than the function report of hotspots were not tried with real files: compare some
    rows with the report (`confirmed`).
    """
    if by == "metric" or metric is not None or subject is not None:
        return scope.sql(_ALL, {"metric": metric, "subject": subject})
    by_kind = grouped(scope.sql(_OF_THE_RUN).to_pylist(), itemgetter("kind"))
    on_device = bool(scope.value(DEVICE_TIMED)) if by_kind else False
    rows = [
        _row(aspect, row, on_device=on_device)
        for aspect, kinds in ASPECTS.items()
        for kind in kinds.split()
        for row in by_kind.get(kind, ())
    ]
    for row in rows:
        if row["next"] is not None:
            row["next"] = with_script(scope, row["next"])
    names = [column.name for column in host_metrics.columns if column.name not in _OF_EACH]
    return answer_dicts(host_metrics.columns, rows, names)


_OF_EACH = ("rank", "of", "subject", "host", "confirmed")


def _row(aspect: str, measured: Row, *, on_device: bool) -> Row:
    row = measured | {"aspect": aspect}
    if measured["ranks"] == 1:
        row |= {"min": None, "max": None}
    part = row["share_ratio"]
    if part is None and row["unit"] == "%" and row["value"] is not None:
        part = row["value"] / 100
    judged = None
    limit = HOST_LIMITS.get(row["kind"])
    if limit is not None and part is not None and not (limit.of_host and on_device):
        words = "at least" if limit.is_minimum else "at most"
        row["target"] = f"{words} {100 * limit.threshold.value:g} %"
        row["source"] = limit.threshold.source
        judged = "met" if limit.met(part) else "missed"
    if judged != "missed" and row["advice"] and row["report"] == "APS":
        judged = "flagged"
    following = LOOK_NEXT.get(row["kind"]) if judged in ("missed", "flagged") else None
    return row | {"judged": judged, "next": following}
