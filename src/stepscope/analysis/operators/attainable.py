"""The roofline's arithmetic: the time that work would take at a device's limits, and which limit applies.

A call takes at least its operations over the peak of their type and its bytes over the memory's bandwidth; the longer
is the *attainable time* (Williams, Waterman and Patterson, "Roofline", 2009). A collective takes at least the bytes on
its busiest link over the link's bandwidth; host copies likewise. Nothing is assumed for a device without known limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.operators.work import Device, Variant
from stepscope.analysis.recording import Array
from stepscope.costs import Conventions, Limits, arithmetic_type, known_devices, tensor_core_use
from stepscope.query.declare import Parameter

LIMITS = Parameter(
    "limits",
    "text",
    "peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured",
    default="datasheet",
    choices=("datasheet", "measured"),
)
CAUSAL = Parameter(
    "causal",
    "text",
    "pairs that causal attention is counted for: those that its mask allows, or all of them",
    default="masked",
    choices=("masked", "full"),
)
NO_PEAK = "no peak known"
FEWER = "Winograd or FFT: fewer operations than the formula counts"
_HOST_COPIES = ("HtoD", "DtoH")
_HALVES = ("float16", "bfloat16")


def conventions(causal: str) -> Conventions:
    """The conventions for a value of `--causal`."""
    return Conventions(causal="full" if causal == "full" else "masked")


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of a call; NaN and None if unknown.

    Args:
        dtype: type whose peak bounds the arithmetic (`tf32` for float32 on tensor cores).
        peak, bandwidth: operations, and bytes of the bounding memory or link, per second.
        compute_ns, attainable_ns: time for its operations at the peak; the roofline's time.
        bound: `compute`, `memory`, `link`, `host link`; empty if unknown.
        note: what a reader must know.
        uncached_ns: memory time for the bytes that even a full cache cannot have held.
    """

    dtype: str | None
    peak: int | None
    bandwidth: int | None
    compute_ns: float
    attainable_ns: float
    bound: str
    note: str = ""
    uncached_ns: float = float("nan")


class Limiter:
    """Finds the limits of devices; raises UsageError for measured limits if there are none."""

    def __init__(self, limits: str) -> None:
        self._hardware = known_devices(limits)
        self._limits_of: dict[Device, Limits | None] = {}

    def of(self, device: Device) -> Limits | None:
        """The limits of a kind of device, or None."""
        if device not in self._limits_of:
            self._limits_of[device] = self._hardware.find(device.name, device.sm_count)
        return self._limits_of[device]

    def note(self, counted_by: Conventions) -> str:
        """Describes the conventions and limits behind answers, for people."""
        known_limits = [limits for limits in self._limits_of.values() if limits is not None]
        sources = dict.fromkeys(f"{limits.name} ({limits.source})" for limits in known_limits)
        unknown = sorted({d.name or "a device without name" for d, x in self._limits_of.items() if not x})
        lines = [f"Conventions: {counted_by.describe()}."]
        lines += [f"Limits: {'; '.join(sources)}."] if sources else []
        lines += [f"No peak known: {', '.join(unknown)}."] if unknown else []
        return " ".join(lines)

    def roof(self, variant: Variant) -> Roof:
        """Computes the limits of a call."""
        work, limits = variant.work, self.of(variant.device)
        nan = float("nan")
        if work is None:
            return Roof(None, None, None, nan, nan, "", variant.why)
        use = tensor_core_use(variant.kernel, work.dtype)
        dtype = arithmetic_type(work.dtype, use) if work.unit == "matrix" else work.dtype
        if limits is None:
            return Roof(dtype, None, None, nan if work.flops else 0.0, nan, "", NO_PEAK)
        notes = list(work.notes)
        if work.bound == "lower":
            notes.append("only part of the work is recorded")
        if variant.transformed:
            notes.append(FEWER)
        peak = limits.peak(dtype, work.unit)
        if peak is None and work.unit == "vector" and dtype in _HALVES:
            peak = limits.peak("float32", "vector")  # torch computes such elements in float32
        compute = work.flops / peak * 1e9 if peak else (nan if work.flops else 0.0)
        if work.flops and not peak:
            notes.insert(0, NO_PEAK if dtype is None else f"{NO_PEAK} for {dtype}")
        name, bandwidth, amount = "memory", limits.memory_bytes_per_s, work.bytes
        if work.family == "communication":
            name, bandwidth, amount = "link", limits.link_bytes_per_s, work.link_bytes
        elif variant.copy_kind in _HOST_COPIES:
            name, bandwidth = "host link", limits.host_bytes_per_s
            amount = work.bytes_written
        if bandwidth is None:
            notes.insert(0, f"no bandwidth of the {name} known")
        elif amount is None:
            notes.insert(0, "bytes not known")
        moving = amount / bandwidth * 1e9 if bandwidth and amount is not None else nan
        attainable = max(compute, moving) if compute == compute and moving == moving else nan
        bound = "" if attainable != attainable else "compute" if compute >= moving else name
        uncached = nan
        if bound == "memory" and limits.cache_bytes is not None:
            uncached = moving * max(0.0, 1 - limits.cache_bytes / amount) if amount else 0.0
        note = "; ".join(notes)
        return Roof(dtype, peak, bandwidth, compute, attainable, bound, note, uncached)


@dataclass(frozen=True, slots=True)
class Roofs:
    """The limits of each variant, as columns; NaN if unknown.

    `inexact` variants may have done other work than is counted (partly recorded, convolutions by transforms): they
    cannot disprove a limit.
    """

    of: tuple[Roof, ...]
    note: str
    flops: Array
    matrix_flops: Array
    bytes: Array
    compute_ns: Array
    matrix_ns: Array
    attainable_ns: Array
    uncached_ns: Array
    counted: Array
    inexact: Array


def roofs_of(variants: tuple[Variant, ...], limits: str, counted_by: Conventions) -> Roofs:
    """The roofs of variants, counted by conventions, in their order; uncounted work is NaN in every column but
    `counted`.

    Raises:
        UsageError: measured limits are requested and there are none.
    """
    limiter = Limiter(limits)
    roofs = tuple(limiter.roof(variant) for variant in variants)
    works = [variant.work for variant in variants]
    nan = float("nan")
    columns = {name: np.full(len(works), nan) for name in ("flops", "matrix_flops", "bytes", "matrix_ns")}
    inexact = np.zeros(len(works), bool)
    for row, (variant, roof) in enumerate(zip(variants, roofs, strict=True)):
        if (work := variant.work) is None:
            continue
        matrix = work.unit == "matrix"
        columns["flops"][row], columns["matrix_flops"][row] = work.flops, work.flops * matrix
        columns["bytes"][row] = nan if work.bytes is None else work.bytes
        columns["matrix_ns"][row] = roof.compute_ns if matrix else 0.0
        inexact[row] = work.bound == "lower" or variant.transformed
    return Roofs(
        of=roofs,
        note=limiter.note(counted_by) if variants else "",
        compute_ns=np.array([roof.compute_ns for roof in roofs], np.float64),
        attainable_ns=np.array([roof.attainable_ns for roof in roofs], np.float64),
        uncached_ns=np.array([roof.uncached_ns for roof in roofs], np.float64),
        counted=np.array([work is not None for work in works], bool),
        inexact=inexact,
        **columns,
    )
