"""Hardware counters of kernel launches, by kind, whatever tool measured them (`formats/counters/kinds.py`).

Values whose parts were counted are computed here: bytes from sectors of 32, operations from additions, multiplications
and multiply-adds, which count twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stepscope.analysis.recording import once
from stepscope.formats.counters.kinds import KINDS, tensor_operations
from stepscope.query.scope import Scope

SECTOR_BYTES = 32
_SCHEDULERS = 4
"""Of a multiprocessor, on all devices that Nsight Compute measures."""
WELL_USED, LATENCY, BALANCED = 80.0, 60.0, 10.0
"""Nsight Compute's rule SOLBottleneck (2022.3), per cent of the peak: above the first the kernel uses the device well,
below the second it waits for latency, within the third compute and memory limit it equally."""
LIMITS = {
    "blocks": "the number of blocks that a multiprocessor takes",
    "registers": "registers",
    "shared_memory": "shared memory",
    "warps": "warps of a block",
    "barriers": "barriers",
}
"""What limits the number of blocks on a multiprocessor, by the kind's ending."""


@dataclass(slots=True)
class Measurement:
    """A measured launch, or the mean of several of one name and shape.

    Args:
        number: its number among the recording's measurements.
        event: the launch's device event; None if the file has no events.
        name: of the kernel, as the tool spells it.
        blocks, grid: in total and as x,y,z; None if unknown. `threads`, `block` likewise.
        dur_ns: duration while measured.
        launches: number of launches that it averages.
        values: by kind, in the kind's unit.
        named: the tool's metric names by kind.
    """

    rank: int
    span: int
    number: int
    event: int | None
    name: str
    blocks: int | None
    grid: str | None
    threads: int | None
    block: str | None
    dur_ns: int | None
    launches: int
    tool: str
    values: dict[str, float] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)


@once
def measurements_of(scope: Scope) -> tuple[Measurement, ...]:
    """The measured launches of the scope, in order."""
    launches = scope.sql(
        """
        SELECT rank, span, measured, id, name, blocks, grid, threads, block, dur_ns, launches, tool
        FROM measured_kernel ORDER BY rank, span, measured
        """
    )
    launches_of = [
        Measurement(*row) for row in zip(*(launches.column(n).to_pylist() for n in launches.column_names), strict=True)
    ]
    if not launches_of:
        return ()
    place = {(launch.rank, launch.span, launch.number): launch for launch in launches_of}
    rows = scope.sql(
        """
        SELECT rank, span, measured, kind, metric, value, unit
        FROM kernel_metric WHERE kind IS NOT NULL AND value IS NOT NULL
        """
    )
    read: dict[tuple[int, int, int], dict[str, dict[str, float]]] = {}
    columns = (rows.column(name).to_pylist() for name in rows.column_names)
    for rank, span, measured, kind, metric, value, unit in zip(*columns, strict=True):
        declared = KINDS.get(kind)
        if declared is not None:
            scaled = value * declared.level if unit is None and metric in declared.nvprof else value
            read.setdefault((rank, span, measured), {}).setdefault(kind, {})[metric] = scaled
    for key, kinds in read.items():
        launch = place[key]
        for kind, metrics in kinds.items():
            if kind.startswith("tensor_operations"):
                path_operations = tensor_operations(metrics)
                if path_operations is not None:
                    launch.values[kind], launch.named[kind] = path_operations, ", ".join(metrics)
            elif KINDS[kind].parts:
                launch.values[kind], launch.named[kind] = sum(metrics.values()), ", ".join(metrics)
            else:
                order = (*KINDS[kind].ncu, *KINDS[kind].nvprof)
                preferred = [metric for metric in order if metric in metrics]
                metric = (preferred or list(metrics))[0]
                launch.values[kind], launch.named[kind] = metrics[metric], metric
    for launch in launches_of:
        launch.values.update(derived(launch.values, launch.dur_ns))
    return tuple(launches_of)


def derived(values: Mapping[str, float], dur_ns: int | None = None) -> dict[str, float]:
    """Computes further values from the measured ones; `dur_ns` is the duration if no counter has it.

    Returns:
        `dram_bytes`, `l2_bytes`, `l1_bytes`, `fp16_operations`, `fp32_operations`, `fp64_operations`, their sum
        `flops`, `ipc`, `global_hit_rate`, `local_hit_rate`, `shared_conflict_ratio`, `excess_sector_ratio`, as far
        as their parts were measured. `flops` includes `tensor_operations`; a kernel whose tensor operations were
        not counted has none.
    """
    known_values = dict(values)
    added: dict[str, float] = {}
    seconds = known_values.get("duration", dur_ns)
    seconds = seconds / 1e9 if seconds else None

    def add(name: str, value: float | None) -> None:
        if value is not None and name not in known_values:
            added[name] = known_values[name] = value

    def of(*names: str) -> list[float] | None:
        present = [known_values[name] for name in names if name in known_values]
        return present if len(present) == len(names) else None

    def rate(name: str) -> float | None:
        return known_values[name] * seconds if name in known_values and seconds else None

    for level in ("dram", "l2", "l1"):
        both = of(f"{level}_read_bytes", f"{level}_write_bytes")
        sectors = of(f"{level}_sectors") or of(f"{level}_read_transactions", f"{level}_write_transactions")
        flows = of(f"{level}_read_throughput", f"{level}_write_throughput")
        add(
            f"{level}_bytes",
            sum(both) if both
            else sum(sectors) * SECTOR_BYTES if sectors
            else rate(f"{level}_bytes_per_s") or (sum(flows) * seconds if flows and seconds else None),
        )  # fmt: skip
    clock = known_values.get("scheduler_hz")
    cycles = clock * seconds if clock and seconds else None
    for bits in (16, 32, 64):
        names = [f"fp{bits}_{part}" for part in ("add", "mul", "fma")]
        parts = of(*names)
        per_cycle = of(*(f"{name}_per_cycle" for name in names))
        if parts is None and per_cycle and cycles:
            parts = [part * cycles for part in per_cycle]
        if parts:
            add(f"fp{bits}_operations", parts[0] + parts[1] + 2 * parts[2])
    if "tensor_operations_per_cycle" in known_values and cycles:
        add("tensor_operations", known_values["tensor_operations_per_cycle"] * cycles)
    counted = [known_values[name] for name in _OPERATIONS if name in known_values]
    if known_values.get("tensor_operations") or (
        "fp32_operations" in known_values and not uses_tensor_cores(known_values)
    ):
        add("flops", sum(counted))
    if "scheduler_ipc" in known_values:
        add("ipc", known_values["scheduler_ipc"] * _SCHEDULERS)
    hits = of("global_hits", "gld_transactions", "gst_transactions")
    if hits:
        touched = hits[1] + hits[2] + known_values.get("global_sectors", 0)
        add("global_hit_rate", 100 * hits[0] / touched if touched else None)
    local = of("local_hits", "local_sectors")
    if local:
        add("local_hit_rate", 100 * local[0] / local[1] if local[1] else None)
    add("shared_conflict_ratio", _conflicts(known_values))
    ideal = of("global_l2_sectors", "global_l2_sectors_ideal")
    if ideal and ideal[0]:
        add("excess_sector_ratio", max(0.0, 1 - ideal[1] / ideal[0]))
    return added


DERIVED = {
    "flops": ("flop", "operations of float16, float32, float64, and of tensor cores where their paths are counted"),
    "shared_conflict_ratio": ("ratio", "passes over shared memory that conflicts of banks made necessary, of all"),
    "excess_sector_ratio": ("ratio", "sectors of L2 that coalesced accesses would not need, of all"),
}
"""Values that are only computed: unit and meaning. The others have those of their kind."""
_OPERATIONS = (*(f"fp{bits}_operations" for bits in (16, 32, 64)), "tensor_operations")


def uses_tensor_cores(values: Mapping[str, float]) -> bool:
    """Whether counters show instructions of the tensor pipe."""
    return bool(values.get("tensor_active") or values.get("tensor_instructions"))


def _conflicts(values: Mapping[str, float]) -> float | None:
    counted, ideal = values.get("shared_wavefronts"), values.get("shared_wavefronts_ideal")
    if counted and ideal is not None:
        return max(0.0, 1 - ideal / counted)
    passes = values.get("shared_load_transactions", 0) + values.get("shared_store_transactions", 0)
    conflicts = [
        values[f"shared_{access}_conflicts"] for access in ("load", "store") if f"shared_{access}_conflicts" in values
    ]
    return min(1.0, sum(conflicts) / passes) if conflicts and passes else None


def occupancy_limit(values: Mapping[str, float]) -> str | None:
    """What limits the blocks of a multiprocessor (`LIMITS`); None if not measured or theoretical occupancy is 100 %."""
    limits = {name: values[f"occupancy_limit_{name}"] for name in LIMITS if f"occupancy_limit_{name}" in values}
    if not limits or values.get("theoretical_occupancy", 0) >= 100:
        return None
    lowest = min(limits.values())
    return ", ".join(LIMITS[name] for name, value in limits.items() if value == lowest)


def verdict(values: Mapping[str, float]) -> str | None:
    """The bottleneck by speed of light: the rule SOLBottleneck of Nsight Compute; None if it was not measured."""
    if "compute_throughput" not in values or "memory_throughput" not in values:
        return None
    compute, memory = values["compute_throughput"], values["memory_throughput"]
    more = "compute" if compute > memory else "memory"
    if max(compute, memory) >= WELL_USED:
        return f"{more} well used: shift work to another unit, or do less of it"
    if max(compute, memory) < LATENCY:
        return "small grid: less than a wave of blocks" if values.get("waves", 1) < 1 else "latency"
    return "balanced" if abs(compute - memory) < BALANCED else more


SOL = {"compute": "compute_throughput", "L1": "l1_throughput", "L2": "l2_throughput", "DRAM": "dram_throughput"}
"""The parts of a device whose use is measured against their peak, and their kinds."""


def limiter(values: Mapping[str, float]) -> tuple[str, float] | None:
    """The part of the device that is closest to its peak, and how close (%)."""
    shares = {name: values[kind] for name, kind in SOL.items() if kind in values}
    if not shares.keys() - {"compute"} and "memory_throughput" in values:
        shares["memory"] = values["memory_throughput"]
    return max(shares.items(), key=lambda pair: pair[1]) if shares else None


def weighted_means(weighted: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Weighted means of values by kind."""
    sums: dict[str, list[float]] = {}
    for values, weight in weighted:
        for kind, value in values.items():
            total = sums.setdefault(kind, [0.0, 0.0])
            total[0] += weight * value
            total[1] += weight
    return {kind: total / weight for kind, (total, weight) in sums.items() if weight}
