"""`host-use`, `host-flagged`: processors that are idle, used by others or busy with communication; what APS flags."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import ratio_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts
from stepscope.findings.host_limits import DEVICE_TIMED, HOST_LIMITS, HOST_PARTS

_WHO_WAITS = "A trace of all ranks shows who waits for whom; then send larger messages, less often, and overlap them."
_THREADS = "{sampled} where its threads are"
_METRIC_TITLES = {
    "cpu_utilization": (
        "The job used {part} of the processors that it may use",
        f"{_THREADS}: one works while the others wait, input, or locks. `stepscope host-metrics` has the rest.",
    ),
    "core_utilization": (
        "The job used {part} of the physical cores, by {report}",
        f"{_THREADS}; `stepscope host-metrics` has the rest.",
    ),
    "run_queue_wait": (
        "The machine is overloaded: threads that could run had no processor for {part} of that time",
        "If the job runs more threads than it has processors, run fewer (OMP_NUM_THREADS, torch.set_num_threads, num_workers "
        "of the DataLoader, ranks of the node). Otherwise other jobs on the node, or a limit of its container, take them.",
    ),
    "mpi_time": ("MPI takes {part} of the elapsed time, by {report}", _WHO_WAITS),
    "ccl_time": ("oneCCL takes {part} of the elapsed time, by {report}", _WHO_WAITS),
}


@rule(
    "host-use",
    "Processors that are idle or overcommitted, and time in MPI, by reports on the host.",
    *(limit.threshold for limit in HOST_LIMITS.values()),
)
def host_use(facts: Facts) -> Iterator[Finding]:
    """A metric of the complete run that misses its threshold, the mean of the ranks: from the recorder's own figures or
    a summary of APS. Use of processors is not judged if a device was timed. Such metrics do not show what a step could
    save.
    """
    parts = facts.rows_of("host_metric", HOST_PARTS)
    if not parts:
        return
    on_device = facts.scope.value(DEVICE_TIMED)
    sampled = "`stepscope hotspots` says" if facts.has_rows("stack_sample") else "A sampled run says"
    for row in parts:
        limit = HOST_LIMITS.get(row["kind"])
        if limit is None or row["part"] is None or limit.met(row["part"]):
            continue
        if limit.of_host and on_device:
            continue
        title, advice = _METRIC_TITLES[row["kind"]]
        yield Finding(
            title=title.format(part=ratio_text(row["part"]), report=row["report"]),
            metric=limit.threshold.name,
            value=row["part"],
            unit="ratio",
            evidence=(row,),
            advice=advice.format(sampled=sampled),
            query="stepscope host-metrics SRC",
        )


_FLAGGED = """
    SELECT kind, metric, avg(coalesce(share_ratio, CASE unit WHEN '%' THEN value / 100 END)) AS part,
        any_value(share_of) AS share_of, any_value(advice) AS advice
    FROM host_metric WHERE subject IS NULL AND report = 'APS' AND kind IS NOT NULL AND advice IS NOT NULL
    GROUP BY kind, metric HAVING part IS NOT NULL ORDER BY part DESC, kind, metric
"""
_PART_OF = {
    "cache_stalls": "memory_stalls",
    "dram_stalls": "memory_stalls",
    "dram_bandwidth_bound": "memory_stalls",
    "numa_remote": "memory_stalls",
    "mpi_imbalance": "mpi_time",
}
"""Metrics with a more informative one, which becomes the finding if both are flagged."""
_ON_OUTLIERS = "Some of the individual values contributing to this average metric"
"""How APS's text starts if values of single ranks differ, which is no judgement of the metric."""
_TO_BE_HIGH = ("vectorization", "fpu_utilization")
_OF_THE_HOST = frozenset({*_PART_OF, *_TO_BE_HIGH, "memory_stalls", "openmp_imbalance", "serial_time", "io_bound"})


_MIN_SHARE = Threshold(
    "part of time, slots or accesses from which on it counts", 0.05, "ratio", "ours: below it little can be gained"
)


@rule("host-flagged", "Stalls, imbalance, disk and vectorization that Intel's APS flags.", _MIN_SHARE)
def host_flagged(facts: Facts) -> Iterator[Finding]:
    """A metric in a summary of APS that APS itself flags, by its own thresholds. Metrics that `host-use` judges are
    left out, and so are parts of another flagged metric (cache and DRAM stalls are parts of memory stalls). Such
    metrics do not show what a step could save.
    """
    rows = [row for row in facts.rows_of("host_metric", _FLAGGED) if not row["advice"].startswith(_ON_OUTLIERS)]
    flagged = {row["kind"] for row in rows}
    for row in rows:
        if row["kind"] not in _OF_THE_HOST or _PART_OF.get(row["kind"]) in flagged:
            continue
        if row["kind"] not in _TO_BE_HIGH and row["part"] < _MIN_SHARE.value:
            continue
        of = f" of {row['share_of']}" if row["share_of"] else ""
        yield Finding(
            title=f"APS flags {row['metric']}: {ratio_text(row['part'])}{of}",
            metric=row["metric"],
            value=row["part"],
            unit="ratio",
            evidence=(row,),
            advice="`stepscope host-metrics SRC` lists what to look at next; the evidence has APS's own text.",
            query="stepscope host-metrics SRC",
        )
