"""`counters`: values of hardware counters and samplers, of kernels, over time and per step."""

from __future__ import annotations

from stepscope.query.declare import RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope

_COUNTERS = """
    SELECT name, pid, counter, count(value) AS samples, sum(value) AS total, avg(value) AS mean, min(value) AS min,
        max(value) AS max
    FROM (
        SELECT 0 AS place, kernel AS name, NULL AS pid, metric AS counter, value FROM kernel_metric
        UNION ALL SELECT 1, track, pid, series, value FROM counter
    )
    GROUP BY place, name, pid, counter ORDER BY place, name, pid, counter
"""
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
_WINDOW = {"metric": "", "step": "step, start_ns, window_ns, ", "time": "start_ns, window_ns, "}


@question(
    "counters",
    "What did counters measure of kernels, devices and network cards?",
    (
        RANK,
        SPAN,
        Column("name", "text", "kernel that was measured, or track of a sampled counter"),
        Column("pid", "text", "of a sampled counter: index of its device, or process", visible=False),
        Column("counter", "text", "name of the counter, as the recorder spells it"),
        Column("device", "text", "index of the device in its process; of a network card name and port"),
        STEP,
        Column("start_ns", "int", "start of the window, since the run's start", moment=True),
        Column("window_ns", "int", "length of the window"),
        Column("metric", "text", "sm_active, tensor_active, dram_read, pcie_send, nvlink_send, ..."),
        Column("unit", "text", "unit of the values: % of what is possible, Hz, bytes/ms, ..."),
        Column("samples", "int", "measured values; by metric, the moments of sampling", "count"),
        Column("total", "float", "sum of the values"),
        Column("mean", "float", "mean value"),
        Column("min", "float", "smallest value"),
        Column("max", "float", "largest value"),
    ),
    group="limits",
    rests_on=(),
    about="time",
    parameters=(
        by_form(
            "a row a counter; or sampled metrics of devices, also by step or in 100 pieces of time", "counter", *_WINDOW
        ),
    ),
    fills="Record metrics of kernels with CUPTI in Kineto (experimental_config with profiler_metrics) or nvprof "
    "--metrics; samples with nsys profile --gpu-metrics-devices=all, nvprof --system-profiling on, CUPTI PM sampling in "
    "Kineto, or stepscope record where nvidia-ml-py or amdsmi is installed.",
)
def counters(scope: Scope, by: str = "counter") -> ArrowTable:
    """By default, counters of all requested ranks together, kernels first, each ordered by name.

    For a kernel they are what CUPTI's range profiler (`cuda_profiler_range`) or Intel's scope profiler measured while
    it ran alone, replayed as often as the counters needed: such a recording's times are not those of an ordinary run.
    If one range covers the complete recording, that is the name. Counters over time are samples of the hardware (of
    Nsight Systems, or of CUPTI PM sampling), memory in use, or whatever a program writes into `C` events. Whether a sum
    or a mean is useful depends on the counter, so both are given. With `--step`, counters of kernels are those of the
    steps; samples belong to no step.

    **Devices and network cards.** The other forms have metrics that were sampled while the job ran, of the kinds that
    StepScope knows, whatever the recorder calls them: `sm_active`, `sm_issue`, `tensor_active`, `compute_active`,
    `compute_warps`, `dram_read` and `dram_write`, `pcie_receive` and `pcie_send`, `nvlink_receive` and `nvlink_send`,
    `clock`, `max_clock`, `memory_clock`, `temperature`, `power`, `fan`, `throttled` (whether the clock is limited, and
    `throttled_by_heat` and `throttled_by_power` by what), `network_receive` and `network_send`. [Nsight
    Systems](../nsight-systems.md#sampled-metrics) lists its names for them, and
    [recording](../recording.md#the-machine-beside-the-phases) what `stepscope record` asks the driver once a second.
    `utilization` estimates from kernels how full a device was, if nothing was sampled.

    A sample is the mean since the one before it, and samples are evenly spaced, so that the mean of samples is that of
    the time. Series that are parts of one direction of a link are added up at each moment. A device is sampled as a
    unit: the values include what other processes did on it. A sample is in a step if it was taken within it. With
    `--step` and by metric, the samples of these steps are combined. With `--by time` the samples' time (or the chosen
    steps, from first to last) is cut into pieces of a power of ten of µs, as in `utilization`.
    """
    if by == "counter":
        return scope.sql(_COUNTERS)
    samples = _in_pieces(scope) if by == "time" else _SAMPLES if by == "metric" and scope.steps is None else _IN_STEPS
    rows = scope.sql(
        f"""
        SELECT rank, span, device, {_WINDOW[by]}metric, unit, count(*) AS samples,
            avg(value) AS mean, min(value) AS min, max(value) AS max
        FROM ({samples})
        GROUP BY ALL ORDER BY ALL
        """
    )
    return noted(rows, "", rests_on=("steps",))


def _in_pieces(scope: Scope) -> str:
    from stepscope.analysis.windows import buckets

    samples = _SAMPLES if scope.steps is None else _IN_STEPS
    (row,) = scope.sql(f"SELECT min(time_ns) AS first, max(time_ns) AS last FROM ({samples})").to_pylist()
    if row["first"] is None:
        return f"SELECT *, 0 AS start_ns, 0 AS window_ns FROM ({_SAMPLES}) WHERE false"
    starts, ends = buckets(row["first"], row["last"] + 1)
    length = int(starts[1] - starts[0]) if len(starts) > 1 else int(ends[0] - starts[0])
    place = f"least((time_ns - {row['first']}) // {length}, {len(starts) - 1})"
    return f"""
        SELECT rank, span, device, metric, unit, time_ns, value, {row["first"]} + {length} * {place} AS start_ns,
            CASE WHEN {place} = {len(starts) - 1} THEN {int(ends[-1] - starts[-1])} ELSE {length} END AS window_ns
        FROM ({samples})
    """
