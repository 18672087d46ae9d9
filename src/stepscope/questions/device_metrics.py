"""`device-metrics`: hardware samples of devices and network cards, over time and per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.query.declare import RANK, SPAN, STEP, Column, by_form, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

_SAMPLES = """
    SELECT rank, span, pid AS device, kind AS metric, unit, time_ns, sum(value) AS value
    FROM counter WHERE kind IS NOT NULL AND value IS NOT NULL
    GROUP BY ALL
"""
"""One value for each metric and moment: several series may be parts of a link, which add up to its use."""

_IN_STEPS = f"""
    SELECT sample.*, step.step, step.start_ns, step.end_ns - step.start_ns AS window_ns
    FROM ({_SAMPLES}) AS sample ASOF JOIN step
        ON (step.rank, step.span) = (sample.rank, sample.span) AND sample.time_ns >= step.start_ns
    WHERE sample.time_ns < step.end_ns
"""
_KEYS = {"metric": "", "step": "step, start_ns, window_ns, ", "time": "start_ns, window_ns, "}


@question(
    "device-metrics",
    "How busy were multiprocessors, tensor cores, memory and links in samples of the hardware?",
    (
        RANK,
        SPAN,
        Column("device", "text", "index of the device in its process; of a network card name and port"),
        STEP,
        Column("start_ns", "int", "start of the window, since the run's start", moment=True),
        Column("window_ns", "int", "length of the window"),
        Column("metric", "text", "sm_active, tensor_active, dram_read, pcie_send, nvlink_send, ..."),
        Column("unit", "text", "unit of the values: % of what is possible, Hz, bytes/ms, ..."),
        Column("samples", "int", "moments at which it was sampled", "count"),
        Column("mean", "float", "mean value"),
        Column("min", "float", "smallest value"),
        Column("max", "float", "largest value"),
    ),
    rests_on=("steps",),
    about="time",
    parameters=(
        by_form(
            "`metric` for a row a metric, `step` for one a step, too, `time` for at most 100 pieces of time", *_KEYS
        ),
    ),
    fills="Record with nsys profile --gpu-metrics-devices=all, with nvprof --system-profiling on, with CUPTI "
    "PM sampling in Kineto, or with stepscope record where nvidia-ml-py or amdsmi is installed.",
)
def device_metrics(scope: Scope, by: str = "metric") -> pa.Table:
    """Metrics of devices and network cards that were sampled while the job ran, of the kinds that StepScope knows,
    whatever the recorder calls them: `sm_active`, `sm_issue`, `tensor_active`, `compute_active`, `compute_warps`,
    `dram_read` and `dram_write`, `pcie_receive` and `pcie_send`, `nvlink_receive` and `nvlink_send`, `clock`,
    `max_clock`, `memory_clock`, `temperature`, `power`, `fan`, `throttled` (whether the clock is limited, and
    `throttled_by_heat` and `throttled_by_power` by what), `network_receive` and `network_send`.
    [Nsight Systems](../nsight-systems.md#sampled-metrics) lists its names for them, and
    [recording](../recording.md#the-machine-beside-the-phases) what `stepscope record` asks the driver once a second.
    `counters` lists every counter under its own name, including those of kernels; `utilization` estimates from kernels
    how full a device was, if nothing was sampled.

    A sample is the mean since the one before it, and samples are evenly spaced, so that the mean of samples is
    that of the time. Series that are parts of one direction of a link are added up at each moment. A
    device is sampled as a unit: the values include what other processes did on it.

    A sample is in a step if it was taken within it; `steps` defines steps. With `--step` and
    by metric, the samples of these steps are combined. With `--by time` the samples' time (or the
    chosen steps, from first to last) is cut into pieces of a power of ten of µs, as in `utilization`.
    """
    samples = _SAMPLES if by == "metric" and scope.steps is None else _IN_STEPS
    if by == "time":
        samples = _in_pieces(scope)
    return scope.sql(
        f"""
        SELECT rank, span, device, {_KEYS[by]}metric, unit, count(*) AS samples,
            avg(value) AS mean, min(value) AS min, max(value) AS max
        FROM ({samples})
        GROUP BY ALL ORDER BY ALL
        """
    )


def _in_pieces(scope: Scope) -> str:
    """SQL of the samples, each with the piece of time that contains it."""
    from stepscope.analysis.windows import buckets

    asked = _SAMPLES if scope.steps is None else _IN_STEPS
    edges = scope.sql(f"SELECT min(time_ns) AS first, max(time_ns) AS last FROM ({asked})")
    (row,) = edges.to_pylist()
    if row["first"] is None:
        return f"SELECT *, 0 AS start_ns, 0 AS window_ns FROM ({_SAMPLES}) WHERE false"
    starts, ends = buckets(row["first"], row["last"] + 1)
    length = int(starts[1] - starts[0]) if len(starts) > 1 else int(ends[0] - starts[0])
    place = f"least((time_ns - {row['first']}) // {length}, {len(starts) - 1})"
    return f"""
        SELECT rank, span, device, metric, unit, time_ns, value,
            {row["first"]} + {length} * {place} AS start_ns,
            CASE WHEN {place} = {len(starts) - 1} THEN {int(ends[-1] - starts[-1])} ELSE {length} END
                AS window_ns
        FROM ({asked})
    """
