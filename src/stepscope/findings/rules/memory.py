"""Rules about memory: full, leaking, fragmented, or mostly of one kind at its peak."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.memory.categories import ACTIVATIONS, CATEGORIES, OPTIMIZER_STATE
from stepscope.analysis.memory.replay import Memory
from stepscope.base.units import bytes_text, mean_count_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, first

if TYPE_CHECKING:
    from stepscope.analysis.memory.out_of_memory import Failure

_NEAR_LIMIT = Threshold(
    "allocated memory at its peak, of the device's", 0.90, "ratio", "TensorBoard profiler plugin: peak memory > 90 %"
)

_PEAK = """
    SELECT rank, device, max(total_allocated_bytes) / any_value(memory_bytes) AS share_ratio,
        max(total_allocated_bytes)::BIGINT AS peak_bytes, any_value(memory_bytes)::BIGINT AS memory_bytes
    FROM memory_event JOIN device USING (rank, device)
    WHERE device_kind <> 'cpu' AND memory_bytes > 0 AND total_allocated_bytes IS NOT NULL
    GROUP BY rank, device ORDER BY share_ratio DESC, rank, device
"""


@rule("memory-near-limit", "Devices whose memory is almost full at its peak.", _NEAR_LIMIT)
def memory_near_limit(facts: Facts) -> Iterator[Finding]:
    """Peak of the allocated memory over the device's memory; it needs profile_memory=True. It saves no time, but the
    next larger batch will fail, and an allocator without room returns memory and requests it again.
    """
    rows = facts.rows_of("memory_event", _PEAK)
    if not rows or rows[0]["share_ratio"] <= _NEAR_LIMIT.value:
        return
    worst = rows[0]
    yield Finding(
        title=f"Memory is almost full: {bytes_text(worst['peak_bytes'])} allocated at the peak, "
        f"{ratio_text(worst['share_ratio'])} of the device's",
        metric="allocated memory at its peak, of the device's",
        value=worst["share_ratio"],
        unit="ratio",
        confidence="high",
        evidence=tuple(rows[:8]),
        rank=worst["rank"],
        advice="Mixed precision, activation checkpoints, zero_grad(set_to_none=True), a sharded optimizer (ZeRO, FSDP)."
        if facts.trains
        else "torch.inference_mode(), smaller batches, weights in fewer bits, a model that is sharded over devices.",
        query=facts.to_repeat(f"SELECT share_ratio FROM ({_PEAK}) LIMIT 1"),
    )


_ACTIVATIONS = Threshold(
    "activations at the peak, of what is allocated then", 0.50, "ratio", "ours: more than all else together"
)
_STATE = Threshold(
    "optimizer state at the peak, of what is allocated then",
    0.40,
    "ratio",
    "ours: Adam in 32 bits has half of what stays, 8 of 16 bytes a parameter (ZeRO, section 3.1)",
)
_FILLED = Threshold(
    "allocated memory at its peak, of the device's, where the device's is known",
    0.50,
    "ratio",
    "ours: on a device that is half empty nothing need be saved",
)
_SIZES = "SELECT rank, device, memory_bytes FROM device WHERE memory_bytes > 0"


@rule(
    "activations-at-peak",
    "Memory that is mostly activations at its peak.",
    _ACTIVATIONS,
    _FILLED,
    rests_on=("memory",),
    trade_off="Checkpointed layers compute their forward again in backward: up to a third more computation.",
)
def activations_at_peak(facts: Facts) -> Iterator[Finding]:
    """The share of allocations at a device's peak that were made in the forward pass and are alive when backward
    starts. `memory` explains how that is found; memory of unknown use counts against it. It saves no time.
    """
    yield from _share_at_peak(
        facts,
        ACTIVATIONS,
        _ACTIVATIONS,
        "Checkpoint layers (torch.utils.checkpoint), or smaller batches with gradient accumulation. "
        "`stepscope memory SRC --by operator` for what makes them.",
    )


@rule(
    "optimizer-state-at-peak",
    "Memory of which much is the optimizer's state at its peak.",
    _STATE,
    _FILLED,
    rests_on=("memory",),
    trade_off="Sharded state is communicated; state in fewer bits is less exact.",
)
def optimizer_state_at_peak(facts: Facts) -> Iterator[Finding]:
    """The share of allocations at a device's peak that the optimizer's step made and keeps; memory of unknown use
    counts against it. It saves no time.
    """
    yield from _share_at_peak(
        facts,
        OPTIMIZER_STATE,
        _STATE,
        "Shard it over ranks (ZeroRedundancyOptimizer, FSDP), or keep it in fewer bits. "
        "`stepscope memory SRC --by category` for the rest.",
    )


def _share_at_peak(facts: Facts, part: str, threshold: Threshold, advice: str) -> Iterator[Finding]:
    sizes = {(row["rank"], row["device"]): row["memory_bytes"] for row in facts.scope.sql(_SIZES).to_pylist()}
    rows: list[dict[str, Any]] = []
    for memory in facts.memories:
        state = memory.peak(memory.states_in(None))
        total = int(memory.allocated[state])
        size = sizes.get((memory.rank, memory.device))
        no_peak = memory.kind == "cpu" or not memory.has_history or not total
        if no_peak or (size and total <= _FILLED.value * size):
            continue
        alive = memory.alive(state)
        of_part = alive[memory.category[alive] == CATEGORIES.index(part)]
        used = int(memory.bytes[of_part].sum())
        row: dict[str, Any] = {
            "rank": memory.rank, "device": memory.device, "bytes": used, "peak_bytes": total,
            "share_ratio": used / total, "at_ns": int(memory.at_ns[state]),
        }  # fmt: skip
        if row["share_ratio"] > threshold.value:
            rows.append(row)
    if not rows:
        return
    worst = max(rows, key=lambda row: row["share_ratio"])
    yield Finding(
        title=f"{'Activations are' if part == ACTIVATIONS else 'The optimizer state is'} {ratio_text(worst['share_ratio'])} of "
        f"memory at its peak: {bytes_text(worst['bytes'])} of {bytes_text(worst['peak_bytes'])}",
        metric=threshold.name,
        value=worst["share_ratio"],
        unit="ratio",
        evidence=tuple(rows[:8]),
        rank=worst["rank"],
        advice=advice,
        query="stepscope memory SRC --by category",
    )


_STEPS = Threshold(
    "steps that end with more memory than the one before, and are not the first",
    3,
    "count",
    "ours: caches and state fill in the first step; two in a row may be chance",
)
_STEP_GROWTH = Threshold(
    "growth a step, of the memory at the peak", 0.0005, "ratio", "ours: it would be doubled after some 2,000 steps"
)


@rule(
    "retained-memory",
    "Memory that grows from step to step, of traces and snapshots, with what keeps it.",
    _STEPS,
    _STEP_GROWTH,
    rests_on=("memory", "steps"),
)
def retained_memory(facts: Facts) -> Iterator[Finding]:
    """Memory allocated at the end of each step except the first: it must grow in every one, by the median of these at
    least. Allocations of one of them that are alive at the end of the last are grouped by operator and call stack;
    groups that retain some from each of these steps are candidates for a leak. It saves no time, but the run will run out
    of memory. `growing-memory` examines a run's phases.
    """
    growing = [growth for growth in map(_growth_each_step, facts.memories) if growth is not None]
    if not growing:
        return
    memory, growth, ends = max(growing, key=lambda item: item[1] / item[0].allocated.max())
    sites = _sites(memory, ends)
    title = f"Memory grows by {bytes_text(growth)} a step, in each of {len(ends) - 1} steps"
    explained = sum(growth["bytes_per_step"] for growth in sites)
    if sites:
        title += f"; {_words(sites[0], growth)}"
    yield Finding(
        title=title,
        metric="growth of allocated memory, median of steps",
        value=growth,
        unit="bytes",
        confidence="high" if explained >= growth / 2 else "medium",
        evidence=first(sites) or ({"rank": memory.rank, "device": memory.device, "steps": len(ends)},),
        rank=memory.rank,
        advice="Look for tensors that lists or attributes keep alive: losses and outputs without .detach(), hidden states, "
        "logs. `stepscope memory SRC --by step` for each step.",
        query="stepscope memory SRC --by step",
    )


def _growth_each_step(memory: Memory) -> tuple[Memory, int, list[int]] | None:
    """The median growth of a step, and the last state of each step, if all but the first grow."""
    ends = []
    for step in memory.steps:
        states = memory.states_in([(step.start_ns, step.end_ns)])
        if len(states):
            ends.append(int(states[-1]))
    ends = ends[1:]
    if len(ends) <= _STEPS.value:
        return None
    grown = np.diff(memory.allocated[ends])
    median = int(np.median(grown))
    if (grown <= 0).any() or median < _STEP_GROWTH.value * int(memory.allocated.max()):
        return None
    return memory, median, ends


def _sites(memory: Memory, ends: list[int]) -> list[dict[str, Any]]:
    """What each of the steps retains until the end of the last, by allocation site; the most first."""
    retained: dict[tuple[int, int], list[int]] = {}
    steps = len(ends) - 1
    for place, (start, end) in enumerate(pairwise(ends)):
        allocated = np.flatnonzero((memory.start > start) & (memory.start <= end) & (memory.end > ends[-1]))
        for row in allocated.tolist():
            key = int(memory.operator.number[row]), int(memory.stack.number[row])
            retained.setdefault(key, [0] * steps)[place] += int(memory.bytes[row])
    rows = [
        {
            "rank": memory.rank,
            "device": memory.device,
            "operator": None if operator < 0 else memory.operator.words[operator],
            "stack": None if stack < 0 else memory.stack.words[stack],
            "bytes_per_step": int(np.median(sizes)),
        }
        for (operator, stack), sizes in retained.items()
        if all(sizes)
    ]
    return sorted(rows, key=lambda row: -row["bytes_per_step"])


def _words(site: dict[str, Any], growth: int) -> str:
    share = ratio_text(min(site["bytes_per_step"] / growth, 1.0))
    frame = (site["stack"] or "").partition(";")[0]
    named = " in ".join(filter(None, (site["operator"], frame)))
    return f"{share} of it is allocated by {named}" if named else f"one allocation is {share} of it"


_RUN_GROWTH = Threshold(
    "growth of memory from the first third of the run to the last", 0.02, "ratio", "ours: caches vary by less"
)
_SAMPLES = Threshold("steps after which memory was read", 18, "count", "ours: six in each third of the run")
_GOES_ON = Threshold(
    "growth in the second half of the run, of that in the first", 0.25, "ratio", "ours: a filling cache levels off"
)

_READ = """
    SELECT rank, span, list(step ORDER BY step) AS steps, list(memory_bytes ORDER BY step) AS bytes
    FROM phase_step WHERE phase = 'step' AND memory_bytes IS NOT NULL
    GROUP BY rank, span ORDER BY rank, span
"""


@rule("growing-memory", "Memory that grows on through the run, of a job's own phases.", _RUN_GROWTH, _SAMPLES, _GOES_ON)
def growing_memory(facts: Facts) -> Iterator[Finding]:
    """Medians of the memory in use after a step, over the first, second and last third of the run, on the rank with the
    largest growth. It saves no time, but the run will end out of memory.
    """
    rows = [] if facts.phases is None else facts.scope.sql(_READ).to_pylist()
    grown = [(growth, row) for row in rows if (growth := _growth_of_run(row["bytes"])) is not None]
    if not grown:
        return
    growth, row = max(grown, key=lambda pair: pair[0])
    third = len(row["steps"]) // 3
    steps = median(row["steps"][-third:]) - median(row["steps"][:third])
    yield Finding(
        title=f"Memory in use after a step grew by {bytes_text(round(growth))}, about "
        f"{bytes_text(round(growth / max(steps, 1)))} a step, and does not level off",
        metric="growth of memory from the first third of the run to the last",
        value=growth,
        unit="bytes",
        confidence="high",
        evidence=({"rank": row["rank"], "samples": len(row["steps"]), "steps": steps},),
        rank=row["rank"],
        advice="Look for losses or outputs stored without .detach(), then take a memory snapshot.",
        query="stepscope phases SRC --by step",
    )


def _growth_of_run(samples: list[int]) -> float | None:
    """How much the last third is above the first (bytes), if that is much and continues."""
    if len(samples) < _SAMPLES.value:
        return None
    third = len(samples) // 3
    start, middle, end = (median(part) for part in (samples[:third], samples[third : 2 * third], samples[-third:]))
    goes_on = middle > start and end - middle >= _GOES_ON.value * (middle - start)
    return end - start if start > 0 and goes_on and end - start > _RUN_GROWTH.value * start else None


_IN_PIECES = Threshold(
    "memory cached by the allocator, of what was requested", 1.0, "ratio", "PyTorch, Understanding CUDA Memory Usage"
)


@rule(
    "out-of-memory",
    "Allocations for which the device or the host had too little, of memory snapshots and of memory events in traces.",
    _IN_PIECES,
    rests_on=("memory",),
)
def out_of_memory(facts: Facts) -> Iterator[Finding]:
    """The last time that an allocation failed on a device, with the requested and the free memory. If the allocator had cached that much, but in no piece that was large enough, fragmentation explains the failure, and segments that
    can grow (`expandable_segments:True`) avoid it. Before it fails, the allocator returns entirely unused segments, so
    the remaining free memory lies between blocks in use. It saves no time.
    """
    if facts.scope.has_none("allocator_event"):
        return
    from stepscope.analysis.memory.out_of_memory import failures

    last: dict[tuple[int, int], Failure] = {}
    all_failures = failures(facts.scope, facts.memories)
    for failure in all_failures:
        last[failure.rank, failure.device] = failure
    for failure in last.values():
        yield _finding(failure, sum(other.rank == failure.rank for other in all_failures))


def _finding(failure: Failure, count: int) -> Finding:
    requested = failure.requested_bytes
    fragmented = (
        failure.max_free_block_bytes is not None
        and failure.free_bytes is not None
        and failure.free_bytes >= _IN_PIECES.value * requested
        and failure.max_free_block_bytes < requested
    )
    cached = device = ""
    if failure.free_bytes is not None:
        cached = f", {bytes_text(failure.free_bytes)} cached by the allocator"
    if failure.max_free_block_bytes is not None:
        cached += f", at most {bytes_text(failure.max_free_block_bytes)} in one piece"
    if failure.device_free_bytes is not None:
        device = f", {bytes_text(failure.device_free_bytes)} free on the device"
    title = "Out of memory"
    advice = (
        "`stepscope memory SRC --by category` for what was alive at the peak. Smaller batches, activation "
        "checkpoints, a sharded optimizer (ZeRO, FSDP)."
    )
    if fragmented and not failure.expandable:
        title = "Out of memory, by fragmentation"
        advice = (
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the job starts. "
            "`stepscope memory SRC --by pool` for where free memory lies."
        )
    return Finding(
        title=f"{title}: {bytes_text(requested)} requested{device}{cached}",
        metric="bytes requested when the device had too little",
        value=requested,
        unit="bytes",
        confidence="high",
        severity="high",
        evidence=(failure._asdict() | {"times": count},),
        rank=failure.rank,
        step=failure.step,
        advice=advice,
        query="stepscope memory SRC --by oom",
    )


_COUNT = Threshold("such calls per step", 1, "count", "ours: a caching allocator needs none")
_CALL_TIME = worth("their time on the host", 0.01)

_CALLS = """
    FROM host_event WHERE kind = 'runtime' AND role = 'allocate' AND name NOT LIKE '%Async%'
        AND {counted}
        AND (rank, span, step) NOT IN (SELECT (rank, span, arg_min(step, start_ns)) FROM step GROUP BY rank, span)
"""


@rule(
    "allocation-in-steps",
    "Calls of cudaMalloc, cudaFree, hipMalloc and their likes in steps after the first.",
    _COUNT,
    _CALL_TIME,
    trade_off="A cache that is not emptied, and sizes that are padded, hold more device memory.",
)
def allocation_in_steps(facts: Facts) -> Iterator[Finding]:
    """PyTorch keeps device memory and requests more only in the first steps. Calls in later steps mean that the cache
    is emptied, is too small for changing sizes, or that something else allocates; `cudaFree` also waits for the device.
    The first recorded step does not count.

    At most the calls' time on the host can be saved, and no more than the time in which no kernel computes; the time
    may be hidden behind device work.
    """
    later = sum(int(broken.counted[1:].sum()) for broken in facts.times.broken)
    if not facts.has_steps or not later:
        return
    rows = facts.host(
        f"SELECT name AS call, count(*) / {later} AS calls_per_step, sum(dur_ns) / {later} AS time_ns "
        f"{_CALLS} GROUP BY name ORDER BY time_ns DESC, call"
    )
    count, time_ns = sum(r["calls_per_step"] for r in rows), sum(r["time_ns"] for r in rows)
    if count < _COUNT.value or facts.part_of_step(time_ns) <= _CALL_TIME.value:
        return
    yield of_time(
        title=f"{mean_count_text(count)} device allocations a step take {facts.amount(time_ns)} on the host",
        metric="time of allocating calls, per step after the first",
        time_ns=time_ns,
        saving_ns=facts.hidden(time_ns),
        confidence="high",
        evidence=first(rows),
        advice="Take torch.cuda.empty_cache() out of the step; pad changing sizes to a few; " * facts.in_pytorch
        + "Allocate before the steps, or from a pool (cudaMallocAsync); " * (not facts.in_pytorch)
        + (
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "
            if facts.platform == "cuda" and facts.in_pytorch
            else ""
        )
        + "pin host buffers once.",
        query=facts.to_repeat(f"SELECT sum(dur_ns) / {later} {_CALLS}"),
    )
