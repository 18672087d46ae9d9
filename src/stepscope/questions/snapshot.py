"""`snapshot`: one page on what a run did with the host: processors, threads, memory, files, vectors, MPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.answers.declare import Column, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.answers.scope import Scope

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a value is compared with.

    Args:
        value: in % of what the metric is a part of.
        least: whether the value should be at least that; else it should be at most that.
        source: where the number comes from.
    """

    value: float
    least: bool
    source: str

    def text(self) -> str:
        """As it is shown."""
        return f"{'at least' if self.least else 'at most'} {self.value:g} %"

    def met(self, value: float) -> bool:
        """Whether a value is as it should be."""
        return value >= self.value if self.least else value <= self.value


_CORES = Target(80, True, "APS: a core utilization below 80 % is flagged")
_LIBRARY = Target(15, False, "Intel's APS guide: more than 15 % of the time needs a look")
_OWN_CORES = Target(
    80, True, "ours: APS' threshold of cores, for the processors that the process may use"
)
_QUEUE = Target(10, False, "ours: beyond it threads are in each other's way")

_WHO_WAITS = (
    "hotspots of a sampled run, and hotspots --by thread: stepscope record --sample -- train.py"
)
_STALLED = "hotspots of VTune by function: stepscope launch --tool vtune --set memory-access"

ASPECTS: tuple[tuple[str, tuple[tuple[str, Target | None, str], ...]], ...] = (
    ("run", (("elapsed", None, ""), ("processor", None, ""), ("processors", None, ""))),
    (
        "processors",
        (
            ("cpu_utilization", _OWN_CORES, _WHO_WAITS),
            ("core_utilization", _CORES, _WHO_WAITS),
            ("processors_used", None, ""),
            ("user_time", None, ""),
            ("system_time", None, ""),
            ("frequency", None, ""),
        ),
    ),
    (
        "threads",
        (
            ("thread_imbalance", None, "hotspots --by thread of a sampled run"),
            ("busy_threads", None, ""),
            (
                "openmp_imbalance",
                None,
                "fewer threads (OMP_NUM_THREADS), or larger batches for them to share",
            ),
            ("serial_time", None, "hotspots of the main thread: hotspots --by thread"),
            (
                "run_queue_wait",
                _QUEUE,
                "fewer threads: OMP_NUM_THREADS, num_workers of the DataLoader, ranks of the node; "
                "more processors for the job",
            ),
            ("involuntary_switches", None, ""),
        ),
    ),
    (
        "memory",
        (
            ("peak_memory", None, ""),
            ("peak_memory_of_a_child", None, ""),
            ("major_faults", None, ""),
            ("memory_stalls", None, _STALLED),
            ("cache_stalls", None, _STALLED),
            ("dram_stalls", None, _STALLED),
            ("dram_bandwidth", None, ""),
            (
                "dram_bandwidth_bound",
                None,
                "fewer passes over the data: fused operators, smaller types",
            ),
            (
                "numa_remote",
                None,
                "one rank a NUMA node, bound to it by the launcher or numactl",
            ),
        ),
    ),
    (
        "input and output",
        (
            ("io_bound", None, "fewer, larger files; a node's own disk"),
            ("read", None, ""),
            ("written", None, ""),
        ),
    ),
    (
        "communication",
        (
            (
                "mpi_time",
                _LIBRARY,
                "who waits for whom: stepscope stragglers of a trace of all ranks",
            ),
            (
                "mpi_imbalance",
                None,
                "who waits for whom: stepscope stragglers of a trace of all ranks",
            ),
            (
                "ccl_time",
                _LIBRARY,
                "who waits for whom: stepscope stragglers of a trace of all ranks",
            ),
        ),
    ),
    (
        "arithmetic",
        (
            ("ipc", None, ""),
            ("cpi", None, ""),
            (
                "vectorization",
                None,
                "which primitives run plain loops: stepscope onednn of a verbose log",
            ),
            (
                "fpu_utilization",
                None,
                "which primitives run plain loops: stepscope onednn of a verbose log",
            ),
            ("single_precision_rate", None, ""),
            ("double_precision_rate", None, ""),
        ),
    ),
    ("device", (("gpu_utilization", None, "device-time of a trace"), ("gpu_occupancy", None, ""))),
)
"""What is shown, in order, with what it is compared with and what to look at next where it is not met."""

_METRICS = """
    SELECT kind, report, any_value(unit) AS unit, avg(value) AS value, min(value) AS least, max(value) AS most,
        count(DISTINCT rank) AS ranks, avg(share_ratio) AS share_ratio, any_value(share_of) AS share_of,
        any_value(metric) AS metric, any_value(text) AS text, any_value(advice) AS advice
    FROM host_metric WHERE kind IS NOT NULL AND subject IS NULL GROUP BY kind, report ORDER BY report, kind
"""
_HAS_DEVICE = "SELECT count(*) FROM phase WHERE device_mean_ns IS NOT NULL"


@question(
    "snapshot",
    "What did the run do with the host, on one page: processors, threads, memory, files, arithmetic?",
    (
        Column("aspect", "text", "what the metric is about"),
        Column("metric", "text", "name of the metric"),
        Column("value", "float", "value, the mean of the ranks"),
        Column("unit", "text", "unit, as the tool spells it"),
        Column("text", "text", "what stands in place of a number or behind it", shown="varying"),
        Column("least", "float", "of several ranks the smallest value", shown="varying"),
        Column("most", "float", "of several ranks the largest value", shown="varying"),
        Column("ranks", "int", "ranks that the value is of", "count", shown="varying"),
        Column("share_ratio", "float", "part that it is of something else", "ratio"),
        Column("share_of", "text", "what it is a part of", shown=False),
        Column("target", "text", "what it should be, where there is a known threshold"),
        Column("source", "text", "where the threshold comes from", shown=False),
        Column("judged", "text", "met, missed, or flagged where its tool says that it needs a look"),
        Column("next", "text", "what to look at next, where it is missed or flagged", advises=True),
        Column("advice", "text", "what the tool itself says on it", shown=False),
        Column("report", "text", "report that states it", shown="varying"),
    ),
    rests_on=(),
    drawing="text",
    fills="Record it: stepscope record --phases -- train.py; or give a summary of APS (aps-report DIR) or what perf "
    "stat wrote.",
)  # fmt: skip
def snapshot(scope: Scope) -> pa.Table:
    """The picture that Intel's Application Performance Snapshot draws, from its text summary, from `perf stat`, and from what
    the recorder measured of its process and those below it: elapsed time, processor time and how much of the processors it
    is, balance of threads, memory, files, and, where counters were read, instructions a cycle, vectorization and stalls.
    What no report states has no row.

    Of the recorder: **cpu utilization** is the processor time of the process and all below it, over elapsed time and the
    processors that the process may use (its affinity, or the quota of its control group). **thread imbalance** is one less the
    mean over the largest processor time of the threads that ran for at least 5 % of the time, of the recorded process
    alone: threads with different work differ, too. **run queue wait** is the part of the time in which living threads could run, and
    no processor was free. Memory is the peak of the process, and of its largest child that ended; read and
    written is what went to storage and not only to the page cache.

    `judged` compares with a threshold, whose `source` says whose it is, or has `flagged` where the tool itself advises
    on the metric: `advice` has its words. Utilization of processors is not judged where a device was timed: there the host
    need not be busy. `host-metrics` has every metric, also of single functions and threads.
    """
    import pyarrow as pa

    by_kind: dict[str, list[Row]] = {}
    for one in scope.sql(_METRICS).to_pylist():
        by_kind.setdefault(one["kind"], []).append(one)
    on_device = bool(scope.value(_HAS_DEVICE)) if by_kind else False
    rows = [
        _row(aspect, found, None if target is _OWN_CORES and on_device else target, look)
        for aspect, kinds in ASPECTS
        for kind, target, look in kinds
        for found in by_kind.get(kind, ())
    ]
    types = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
    return pa.table(
        {
            column.name: pa.array([row.get(column.name) for row in rows], types[column.type])
            for column in snapshot.columns
        }
    )


def _row(aspect: str, found: Row, target: Target | None, look: str) -> Row:
    several = found["ranks"] > 1
    row = found | {
        "aspect": aspect,
        "least": found["least"] if several else None,
        "most": found["most"] if several else None,
    }
    share = found["share_ratio"]
    value = 100 * share if share is not None else found["value"] if found["unit"] == "%" else None
    judged = None
    if target is not None and value is not None:
        row |= {"target": target.text(), "source": target.source}
        judged = "met" if target.met(value) else "missed"
    if judged != "missed" and found["advice"] and found["report"] == "APS":
        judged = "flagged"
    return row | {
        "judged": judged,
        "next": look if look and judged in ("missed", "flagged") else None,
    }
