"""Rooflines from hardware counters alone, without a recording.

Peaks are those at the measured clocks: multiply-adds per cycle of each type and bytes per cycle of memory, as in Nsight
Compute's roofline (sections SpeedOfLight_*RooflineChart of 2022.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.analysis.kernels.counters import Measurement, measurements_of, uses_tensor_cores, weighted_means
from stepscope.query.scope import Scope

TYPES = {16: "float16", 32: "float32", 64: "float64"}
"""Element types by the bits of a counted operation; bfloat16 has no instructions of its own."""
NOT_COUNTED = "its operations were not counted"
NO_BYTES = "its bytes of device memory were not counted"
OF_TENSOR_CORES = "tensor cores worked, whose peak is not taken from a report"
NO_PEAK = "no counter has the peak"


@dataclass(frozen=True, slots=True)
class CountedKernel:
    """The measured launches of kernels of one name.

    Args:
        launches, device_ns: their number and summed duration (None if one has none).
        dtype: type of most operations.
        flops, dram_bytes, l2_bytes, l1_bytes: sums; None if one was not counted.
        peak, bandwidth: operations per second of that type, bytes per second of memory; None if no counter has them.
        attainable_ns: time that the counted work takes at these peaks.
        bound: `compute` or `memory`, whichever takes longer; empty if unknown.
        note: what is unknown.
    """

    name: str
    launches: int
    device_ns: int | None
    dtype: str | None
    flops: float | None
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None
    peak: float | None
    bandwidth: float | None
    attainable_ns: float | None
    bound: str
    device_name: str | None
    note: str


def counted_kernels(scope: Scope) -> list[CountedKernel]:
    """The kernels of a scope whose counters were measured, by name and device, those with the most time first."""
    groups: dict[tuple[str | None, str], list[Measurement]] = {}
    names = _device_names(scope)
    for launch in measurements_of(scope):
        device = names.get((launch.rank, launch.span, launch.number))
        groups.setdefault((device, launch.name), []).append(launch)
    # At the mean clocks of a device, so that its kernels are under one roof.
    roofs = {
        device: _Roof.of(launch for (other, _), launches in groups.items() if other == device for launch in launches)
        for device in {device for device, _ in groups}
    }
    kernels = [_kernel(name, device, launches, roofs[device]) for (device, name), launches in groups.items()]
    return sorted(kernels, key=lambda launch: (-(launch.device_ns or 0), launch.name))


@dataclass(frozen=True, slots=True)
class _Roof:
    """A device's limits: operations per second by the bits of their type, and bytes per second of its memory."""

    peaks: dict[int, float]
    bandwidth: float | None

    @classmethod
    def of(cls, measured: Iterable[Measurement]) -> _Roof:
        means = weighted_means((launch.values, float(launch.launches)) for launch in measured)
        clock = means.get("scheduler_hz")
        peaks = {
            bits: 2 * means[kind] * clock
            for bits in TYPES
            if clock and means.get(kind := f"fp{bits}_peak")  # a multiply-add is two operations
        }
        moved, of_memory = means.get("dram_peak"), means.get("dram_hz")
        return cls(peaks, moved * of_memory if moved and of_memory else None)


def _kernel(name: str, device: str | None, launches: list[Measurement], roof: _Roof) -> CountedKernel:
    def total(kind: str) -> float | None:
        values = [launch.values[kind] * launch.launches for launch in launches if kind in launch.values]
        return sum(values) if len(values) == len(launches) else None

    durations = [launch.values.get("duration", launch.dur_ns) for launch in launches]
    known_ns = [ns * launch.launches for ns, launch in zip(durations, launches, strict=True) if ns is not None]
    operations = {bits: total(f"fp{bits}_operations") or 0.0 for bits in TYPES}
    flops, moved = total("flops"), total("dram_bytes")
    bits = max(operations, key=lambda launch: operations[launch]) if flops else 32
    notes = [NOT_COUNTED] * (flops is None) + [NO_BYTES] * (moved is None)
    computing: float | None = 0.0
    if flops is None:
        computing = None
    elif any(uses_tensor_cores(launch.values) for launch in launches):
        computing, notes = None, [*notes, OF_TENSOR_CORES]
    elif lacking := [TYPES[launch] for launch, done in operations.items() if done and launch not in roof.peaks]:
        computing, notes = None, [*notes, f"{NO_PEAK} of {', '.join(lacking)}"]
    else:
        # Pipes of different types work in parallel: the busiest of them sets the time.
        computing = max((done / roof.peaks[launch] for launch, done in operations.items() if done), default=0.0)
    moving = moved / roof.bandwidth if moved is not None and roof.bandwidth else None
    if moved is not None and moving is None:
        notes.append(f"{NO_PEAK} of device memory")
    attainable = None if computing is None or moving is None else 1e9 * max(computing, moving)
    return CountedKernel(
        name=name,
        launches=sum(launch.launches for launch in launches),
        device_ns=round(sum(known_ns)) if len(known_ns) == len(launches) else None,
        dtype=TYPES[bits] if flops and computing is not None else None,
        flops=flops,
        dram_bytes=moved,
        l2_bytes=total("l2_bytes"),
        l1_bytes=total("l1_bytes"),
        peak=roof.peaks.get(bits) if flops and computing is not None else None,
        bandwidth=roof.bandwidth,
        attainable_ns=attainable,
        bound="" if computing is None or moving is None else "compute" if computing >= moving else "memory",
        device_name=device,
        note="; ".join(notes),
    )


def _device_names(scope: Scope) -> dict[tuple[int, int, int], str]:
    rows = scope.sql(
        """
        SELECT rank, span, measured, device.name AS name
        FROM measured_kernel JOIN device USING (rank, device) WHERE device.name IS NOT NULL
        """
    ).to_pylist()
    return {(row["rank"], row["span"], row["measured"]): row["name"] for row in rows}
