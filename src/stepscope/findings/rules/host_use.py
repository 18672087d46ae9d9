"""Rules about the host by itself: its processors, time in MPI, what APS flags, and the primitives of oneDNN."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import plural, ratio_text, time_text
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


_REFERENCE = Threshold(
    "reference implementations, of the time of all primitives", 0.10, "ratio", "ours: below it there is little to win"
)
_REORDERS = Threshold(
    "reorders, of the time of all primitives", 0.20, "ratio", "ours: some reorders are needed at the edges of a model"
)
_PART = """
    SELECT sum(total_ns) FILTER (WHERE {which}) / nullif(sum(total_ns), 0) AS part FROM primitive
"""
_LARGEST = """
    SELECT primitive, implementation, types, shape, sum(executions)::BIGINT AS executions,
        sum(total_ns)::BIGINT AS total_ns
    FROM primitive WHERE ({which}) AND total_ns > 0 GROUP BY ALL ORDER BY total_ns DESC, primitive, implementation, types, shape LIMIT 8
"""
_IS_REFERENCE = "implementation LIKE 'ref%' OR implementation LIKE 'simple%'"
_IS_REORDER = "primitive = 'reorder'"


@rule(
    "reference-primitives",
    "Primitives of oneDNN that run as plain loops, because it has nothing faster for them.",
    _REFERENCE,
)
def reference_primitives(facts: Facts) -> Iterator[Finding]:
    """Time of executions whose implementation is `ref` or `simple`, as a share of all primitives in the log. A log of
    oneDNN does not show their share of a step, nor how fast another implementation would be, so no saving is stated.
    """
    yield from _primitive_share(
        facts,
        _REFERENCE,
        _IS_REFERENCE,
        "run as reference implementations, which are plain loops",
        "`stepscope onednn --by shape` has their types and shapes: other types (float32, or bfloat16 where the processor has it), "
        "memory formats (channels_last) or sizes have faster ones; a newer torch brings a newer oneDNN.",
    )


@rule("layout-reorders", "Primitives of oneDNN that only change the layout or type of tensors.", _REORDERS)
def layout_reorders(facts: Facts) -> Iterator[Finding]:
    """Time of `reorder`, as a share of all primitives in the log. Some reorders are needed where tensors enter and
    leave oneDNN's own layouts, so no saving is stated.
    """
    yield from _primitive_share(
        facts,
        _REORDERS,
        _IS_REORDER,
        "goes into reorders, which only change the layout or type of tensors",
        "`stepscope onednn --by shape` has their sizes: keep tensors in one layout between operators (channels_last for the "
        "model and its input), convert weights once (torch.compile with freezing), and cast once.",
    )


def _primitive_share(facts: Facts, threshold: Threshold, which: str, what: str, advice: str) -> Iterator[Finding]:
    part = facts.scope.value(_PART.format(which=which))
    if part is None or part < threshold.value:
        return
    rows = facts.scope.sql(_LARGEST.format(which=which)).to_pylist()
    heaviest = rows[0]
    yield Finding(
        title=f"{ratio_text(part)} of the time of oneDNN's primitives {what}; the longest takes "
        f"{time_text(heaviest['total_ns'])} in {heaviest['executions']} {plural(heaviest['executions'], 'execution')}",
        metric=threshold.name,
        value=part,
        unit="ratio",
        confidence="high",
        evidence=tuple(rows),
        advice=advice,
        query=_PART.format(which=which).strip(),
    )
