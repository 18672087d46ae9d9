"""Rules about hardware counters of kernels, if a counting profiler's report was recorded too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepscope.analysis.kernels.counters import LATENCY, LIMITS, limiter, uses_tensor_cores
from stepscope.base.quoting import sql_literal
from stepscope.findings.declare import Confidence, Finding, Rule, Threshold, kernel_rule, of_time, worth
from stepscope.findings.facts import Facts, first

if TYPE_CHECKING:
    from stepscope.analysis.kernels.measured import MeasuredKernel

_WASTED = Threshold(
    "sectors of global memory that coalesced accesses would not need",
    0.5,
    "ratio",
    "NVIDIA, CUDA C++ Best Practices Guide: coalesced access is the first recommendation; a half: ours",
)
_CONFLICTS = Threshold(
    "passes over shared memory that conflicts of banks make necessary",
    0.25,
    "ratio",
    "NVIDIA, CUDA C++ Best Practices Guide: n-way conflicts take n passes; a quarter: ours",
)
_LOCAL = Threshold(
    "sectors of local memory, of those of global and local memory", 0.1, "ratio", "ours: NVIDIA names none"
)
_MEASURED_OCCUPANCY = Threshold(
    "achieved occupancy, measured", 0.25, "ratio", "as for the estimated one of `low-occupancy`"
)
_LOST = worth("time that counters show as lost", 0.05)


_SHAPED = """
    SELECT kernel, calls_per_step, time_ns, part * time_ns AS lost_ns{evidence} FROM (
        SELECT name AS kernel, grid, block, rank, count(*) / {steps} AS calls_per_step,
            sum(dur_ns) / {steps} AS time_ns
        FROM (
            SELECT *, coalesce(grid_x, 0) || ',' || coalesce(grid_y, 1) || ',' || coalesce(grid_z, 1) AS grid,
                coalesce(block_x, 0) || ',' || coalesce(block_y, 1) || ',' || coalesce(block_z, 1) AS block
            FROM device_event WHERE kind = 'computation' AND {counted}
        ) GROUP BY ALL
    ) JOIN (VALUES {measured}) AS measured(rank, kernel, grid, block, part{columns})
        USING (rank, kernel, grid, block)
"""


Lost = Callable[[dict[str, float]], "float | None"]


def counter_rule(
    id: str,  # noqa: A002  # as in `rule`
    looks_for: str,
    *thresholds: Threshold,
    trade_off: str,
    title: str,
    metric: str,
    advice: str,
    shows: tuple[str, ...],
    confidence: Confidence = "medium",
) -> Callable[[Lost], Rule]:
    """Declares a rule by the largest share of a measured kernel's time that its counters, by kind, show as lost.

    `title` has `{}` for that time; `shows` are counters that are evidence, NULL if a kernel lacks one.
    """

    def declare(lost: Lost) -> Rule:
        def find(facts: Facts) -> Iterator[Finding]:
            chosen = [(kernel, part) for kernel in facts.measured if (part := lost(kernel.values))]
            if not chosen or not facts.enough_work:
                return
            rows = ", ".join(_literal(kernel, part, shows) for kernel, part in chosen)
            listed = "".join(f", {kind}" for kind in shows)
            text = _SHAPED.format(
                evidence=listed, columns=listed, steps=facts.steps, counted="{counted}", measured=rows
            )
            rows_lost = facts.host(f"{text} ORDER BY lost_ns DESC, kernel")
            lost_ns = sum(row["lost_ns"] for row in rows_lost)
            if facts.part_of_step(lost_ns) <= _LOST.value:
                return
            yield of_time(
                title=title.format(facts.amount(lost_ns)),
                metric=metric,
                time_ns=lost_ns,
                confidence=confidence,
                evidence=first(rows_lost),
                advice=advice,
                query=facts.to_repeat(f"SELECT sum(lost_ns) FROM ({text})"),
            )

        find.__doc__ = lost.__doc__
        return kernel_rule(id, looks_for, *thresholds, _LOST, trade_off=trade_off)(find)

    return declare


def _literal(kernel: MeasuredKernel, part: float, shows: tuple[str, ...]) -> str:
    """A kernel with its counters as a row of SQL's VALUES."""
    shape = (sql_literal(kernel.name), sql_literal(kernel.grid or ""), sql_literal(kernel.block or ""))
    counters = (f"{kernel.values[kind]:.6g}" if kind in kernel.values else "NULL" for kind in shows)
    return f"({', '.join((str(kernel.rank), *shape, *(f'{number}::DOUBLE' for number in (f'{part:.6g}', *counters))))})"


def _bound_by_compute(values: dict[str, float]) -> bool:
    """Whether a kernel is closer to the peak of compute than to that of memory."""
    return values.get("compute_throughput", 0.0) > values.get("memory_throughput", 100.0)


@counter_rule(
    "uncoalesced-access",
    "Kernels whose threads use few of the bytes that their accesses to global memory move (counters).",
    _WASTED,
    trade_off="Another layout of data may cost a copy, or make other kernels' accesses worse.",
    title="Uncoalesced accesses to global memory lose up to {}",
    metric="kernels' time times the part of their sectors that coalesced accesses would not need, per step",
    advice="Let neighbouring threads access neighbouring words: contiguous tensors (torch.Tensor.contiguous, "
    "channels_last), structures of arrays, or tiles in shared memory.",
    shows=("excess_sector_ratio", "gld_efficiency", "gst_efficiency", "memory_throughput"),
)
def uncoalesced_access(values: dict[str, float]) -> float | None:
    """Memory moves in sectors of 32 bytes. The rule counts the sectors that global accesses need beyond those needed if
    neighbouring threads accessed neighbouring words: `excess_sector_ratio` of the source counters, or what
    `gld_efficiency` and `gst_efficiency` leave, each weighted by its transactions. Kernels that are closer to the peak
    of compute than to that of memory do not count.

    At most that share of the kernels' time can be saved; caches serve some of it.
    """
    if _bound_by_compute(values):
        return None
    wasted = values.get("excess_sector_ratio")
    if wasted is None:
        parts = [
            (1 - values[f"{access}_efficiency"] / 100, values.get(f"{access}_transactions"))
            for access in ("gld", "gst")
            if f"{access}_efficiency" in values
        ]
        sectors = [count for _, count in parts if count is not None]
        if not parts or len(sectors) < len(parts) or not sum(sectors):
            return None
        wasted = sum(part * (count or 0) for part, count in parts) / sum(sectors)
    return wasted if wasted >= _WASTED.value else None


@counter_rule(
    "bank-conflicts",
    "Kernels bound by L1 and shared memory whose threads want different words of one bank (counters).",
    _CONFLICTS,
    trade_off="Padding takes shared memory, and so may lower occupancy.",
    title="Bank conflicts in shared memory lose up to {}",
    metric="kernels' time times the part of passes over shared memory that conflicts cause, per step",
    advice="In your own kernels, pad rows of shared memory by a word or swizzle them; otherwise update the library.",
    shows=("shared_conflict_ratio", "shared_load_conflicts", "shared_store_conflicts", "l1_throughput"),
)
def bank_conflicts(values: dict[str, float]) -> float | None:
    """The share of passes over shared memory that bank conflicts caused, in kernels for which L1 and shared memory are
    closest to their peak; elsewhere other work hides them.

    At most that share of the kernels' time can be saved.
    """
    part, closest = values.get("shared_conflict_ratio"), limiter(values)
    if part is None or part < _CONFLICTS.value or closest is None or closest[0] != "L1":
        return None
    return part


@counter_rule(
    "register-spills",
    "Kernels whose threads keep much of their own data in memory (counters).",
    _LOCAL,
    trade_off="More registers a thread mean fewer threads on a multiprocessor.",
    title="Local memory, for spilled registers or arrays indexed at run time, takes up to {}",
    metric="kernels' time times the part of their sectors that are of local memory, per step",
    advice="In your own kernels, give a thread more registers (__launch_bounds__, smaller tiles, fewer stages) and "
    "index arrays by constants; try other configurations of Triton's autotuner.",
    shows=("local_sectors", "gld_transactions", "gst_transactions", "registers_per_thread"),
)
def register_spills(values: dict[str, float]) -> float | None:
    """Local memory holds values for which a thread has no registers, and arrays that it indexes at run time; it lies in
    device memory, behind L1 and L2. The rule takes the share of local accesses among the sectors of global and local
    accesses, in kernels that are not bound by compute.

    At most that share of the kernels' time can be saved.
    """
    local, loads, stores = (values.get(name) for name in ("local_sectors", "gld_transactions", "gst_transactions"))
    if local is None or loads is None or stores is None or _bound_by_compute(values):
        return None
    total = local + loads + stores
    return local / total if total and local / total >= _LOCAL.value else None


@counter_rule(
    "occupancy-limit",
    "Kernels that wait for latency because registers, shared memory or blocks keep warps out (counters).",
    _MEASURED_OCCUPANCY,
    trade_off="Threads with fewer registers and less shared memory may go to memory more often.",
    title="Occupancy limited by the launch leaves kernels waiting for latency, up to {}",
    metric="kernels' time times what is left to the peak of compute or memory, per step",
    advice="See which limit is least (registers, shared memory, blocks or warps of `stepscope metrics`): smaller "
    "tiles or fewer stages, __launch_bounds__, or other block sizes.",
    shows=("achieved_occupancy", "theoretical_occupancy", *(f"occupancy_limit_{limit}" for limit in LIMITS)),
    confidence="low",
)
def occupancy_limit(values: dict[str, float]) -> float | None:
    """Kernels with a measured occupancy below a quarter that their launch limits (a theoretical occupancy of at most a
    half), below 60 % of the peak of compute and of memory, with at least a wave of blocks, and not on tensor cores,
    which need few warps. The evidence has the blocks that fit a multiprocessor by each of its limits: the smallest one
    limits occupancy. `low-occupancy` has the kernels that were not measured.

    At most the distance to the peak of compute or memory can be saved.
    """
    occupancy, possible = values.get("achieved_occupancy"), values.get("theoretical_occupancy")
    if occupancy is None or possible is None or uses_tensor_cores(values):
        return None
    peaks = (values.get("compute_throughput", 100.0), values.get("memory_throughput", 100.0))
    low = occupancy < 100 * _MEASURED_OCCUPANCY.value
    if not low or possible > 50 or max(peaks) >= LATENCY or values.get("waves", 1.0) < 1:
        return None
    return 1 - max(peaks) / 100
