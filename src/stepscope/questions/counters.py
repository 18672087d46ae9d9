"""`counters`: hardware metrics of kernels, and values sampled over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.query.declare import Column, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope


@question(
    "counters",
    "What did each counter measure of each kernel, or over time, under its own name?",
    (
        Column("name", "text", "kernel that was measured, or track of a sampled counter"),
        Column("pid", "text", "of a sampled counter: index of its device, or process", shown=False),
        Column("counter", "text", "name of the counter, as the recorder spells it"),
        Column("samples", "int", "values that were measured", "count"),
        Column("total", "float", "sum of the values"),
        Column("mean", "float", "mean value"),
        Column("min", "float", "smallest value"),
        Column("max", "float", "largest value"),
    ),
    rests_on=(),
    about="time",
    fills=(
        "Record CUPTI metrics of kernels (experimental_config with profiler_metrics), or sampled "
        "hardware counters, with Kineto; or with nvprof --metrics, or nsys profile --gpu-metrics-devices=all."
    ),
)
def counters(scope: Scope) -> pa.Table:
    """Counters of all requested ranks together, kernels first, each ordered by name.

    For a kernel they are what CUPTI's range profiler (`cuda_profiler_range`) or Intel's scope profiler
    measured while it ran alone, replayed as often as the counters needed: such a recording's times are
    not those of an ordinary run. If one range covers the complete recording, that is the name.

    Counters over time are samples of the hardware (of Nsight Systems, or of CUPTI PM sampling),
    memory in use, or whatever a program writes into `C` events; `device-metrics` has the
    hardware's counters of known meaning, over time and per step. Whether a sum or a mean is useful depends on the
    counter, so both are given. With `--step`, counters of kernels are those of the steps; samples
    belong to no step.
    """
    return scope.sql(
        """
        SELECT name, pid, counter, count(value) AS samples, sum(value) AS total,
            avg(value) AS mean, min(value) AS min, max(value) AS max
        FROM (
            SELECT 0 AS place, kernel AS name, NULL AS pid, metric AS counter, value FROM kernel_metric
            UNION ALL
            SELECT 1 AS place, track AS name, pid, series AS counter, value FROM counter
        )
        GROUP BY place, name, pid, counter ORDER BY place, name, pid, counter
        """
    )
