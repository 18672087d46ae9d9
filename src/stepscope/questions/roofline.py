"""`roofline`: how close operators, kernels and modules came to the device's limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.analysis.attribution import NO_MODULE
from stepscope.analysis.operators.attainable import CAUSAL, LIMITS, NO_PEAK, conventions, roofs_of
from stepscope.analysis.operators.totals import over, totals
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.operators.attainable import Roofs
    from stepscope.analysis.operators.totals import Totals
    from stepscope.analysis.operators.work import DeviceWork, Part

ABOVE = "above 100 % of the peak: these limits are not this device's, or the work is counted wrong"
CACHED = "faster than the memory: part of it came from a cache"
CACHED_OR_NOT_MOVED = "faster than the memory: it came from a cache, or was counted and not moved"
NOT_MOVED = "more than memory and a full cache give in that time: bytes are counted that were not moved"
ABOVE_LINK = "above 100 % of the link: these limits are not this machine's, or the bytes are counted wrong"
HELPER = "work is counted with the kernels that it helps"

_COLUMNS = (
    Column("priority", "float", "0 to 100: 100 is the kernel most worth making faster"),
    Column("name", "text", "operator, kernel or module"),
    Column("class", "text", "class of the kernel's work"),
    Column("operator", "text", "operator that spends most time in the kernel"),
    Column("input_dims", "text", "shapes of the operator's inputs, as a JSON list"),
    Column("input_types", "text", "types of the operator's inputs, as a JSON list", visible=False),
    Column("dtype", "text", "element type whose peak bounds the arithmetic"),
    Column("count", "int", "calls of the operator; runs of the kernel", "count"),
    Column("device_ns", "int", "summed duration of its kernels, copies and fills"),
    Column("share_ratio", "float", "fraction of all device work"),
    Column("occupancy_ratio", "float", "achieved occupancy by counters, else as estimated by the recorder"),
    Column("bound", "text", "what limits it: compute, memory, link or host link; or that no peak is known"),
    Column("attainable_ratio", "float", "attainable time as a fraction of device time", sums=True),
    Column("attainable_ns", "int", "time that the same work takes at the limit", visible=False),
    Column("saving_ns", "int", "time that would go if it ran at the limit", sums=True),
    Column("limiter", "text", "part of the device that counters show closest to its peak", visible="varying"),
    Column("limiter_ratio", "float", "how close, as a fraction of its peak", visible="varying"),
    Column("basis", "text", "what the priority is based on: limit, counters, occupancy or only time"),
    Column("flops", "float", "operations (a multiply-add is 2)", "flop"),
    Column("moved_bytes", "float", "minimum of bytes to read and write", visible=False),
    Column("intensity", "float", "operations a byte"),
    Column("flop_per_s", "float", "operations a second of device time"),
    Column("bytes_per_s", "float", "bytes a second of device time"),
    Column("peak_flop_per_s", "float", "the device's peak for the type", visible=False),
    Column("peak_bytes_per_s", "float", "bandwidth of what bounds its bytes", visible=False),
    Column("counted_ratio", "float", "fraction of its time whose work is counted", visible=False),
    Column("device_name", "text", "device that it ran on", visible=False),
    Column("counted_flops", "float", "operations of its kernels by hardware counters", "flop"),
    Column("counted_dram_bytes", "float", "bytes of device memory by counters"),
    Column("counted_l2_bytes", "float", "bytes of L2 by counters"),
    Column("counted_l1_bytes", "float", "bytes of L1 by counters"),
    Column("measured_ratio", "float", "fraction of its time in measured kernels, which the counters cover"),
    Column("flops_of_model", "float", "counted operations over those of the formula, where all its time was measured"),
    Column("bytes_of_model", "float", "counted bytes of device memory over the formula's minimum, likewise"),
    Column("note", "text", "what to know about these numbers"),
)
_COUNTERS = ("flops", "dram_bytes", "l2_bytes", "l1_bytes")
_PRIORITY = (
    "priority", "name", "class", "operator", "count", "device_ns", "share_ratio", "occupancy_ratio", "bound",
    "attainable_ratio", "saving_ns", "limiter", "limiter_ratio", "basis",
)  # fmt: skip
_ONLY_PRIORITY = {"priority", "class", "operator", "occupancy_ratio", "saving_ns", "limiter", "limiter_ratio", "basis"}
_MEASURED = (*(f"counted_{name}" for name in _COUNTERS), "measured_ratio", "flops_of_model", "bytes_of_model")
"""Columns of hardware counters, in the order of `Counted`."""
_OF_KERNELS = "A row is a kernel: counters know of no operators and modules."
_COUNTED_ALONE = (
    "No recording lies beside the counters: operations and bytes of device memory are those that they counted, times "
    "those of the measurement, peaks those of its clocks."
)
_ALL = 0.99
"""Counters must cover this share of a row's time to be compared with its formula."""
MORE_FLOPS, FEWER_FLOPS = 1.25, 0.8
"""Ratios of counted operations to the formula's beyond which the difference is explained."""
MORE_BYTES, FEWER_BYTES = 1.5, 0.67
"""The same for device memory."""


@question(
    "roofline",
    "How close did each operator and kernel run to what the device can do?",
    _COLUMNS,
    group="limits",
    rests_on=LAUNCHED_WORK,
    about="events",
    parameters=(
        by_form(
            "what a row is; `priority`: the kernels most worth making faster",
            "operator",
            "kernel",
            "module",
            "priority",
        ),
        LIMITS,
        CAUSAL,
        Parameter("measured", "bool", "add the operations and bytes that hardware counters counted", False),
    ),
    needs="device",
    drawing="roofline",
    fills="Record with record_shapes=True: without shapes no work can be counted.",
)
def roofline(
    scope: Scope, by: str = "operator", limits: str = "datasheet", causal: str = "masked", measured: bool = False
) -> ArrowTable:
    """Operations and bytes of each call come from its name and its recorded inputs, by the formulas of
    `stepscope.costs`; counters are used only with `--measured`. A multiply-add is 2 operations; causal attention counts
    the pairs that the mask allows (`--causal full` counts all, as torch's FlopCounterMode does); bytes are the minimum
    that must move, every input read once and every result written once.

    **Attainable time** is the roofline's: operations over the device's peak for their type, or bytes over the memory's
    bandwidth, whichever is longer; that also names the **bound**. Products are compared with the tensor cores' peak of
    their type, float32 with TF32's if the kernel's name shows that it ran there; a collective with the link between
    devices, a copy from or to the host with the host's link. `attainable_ratio` is attainable time over device time, of
    the calls that have both: 100 % is as fast as the device can be. A row bound by compute or by a link never reaches
    more: such a ratio is not shown and the note says so. A row bound by memory can, if its data lay in a cache; if not
    even a full cache explains it, the formula counts bytes that were not moved, and the ratio is not shown. With a
    device that is in no table nothing is compared.

    Each kernel is charged to the innermost operator with a formula that encloses its launch, so that no work counts
    twice, and device times add up to all device work. A row without a formula or recorded inputs says so and has its
    time: `counted_ratio` is the counted fraction. With `--by kernel` a call's work goes to its kernels of the right
    kind, shared by duration; a kernel that only helps (a change of layout) has none. With `--by module` a row is a
    module without the modules below it.

    **Measured.** If a report of Nsight Compute or nvprof is given with the trace, `--measured` adds what counters
    counted in the same kernels (`metrics` explains how they are joined): operations of float16, float32 and float64, a
    multiply-add as 2, and bytes that device memory, L2 and L1 moved. Operations on tensor cores are known only from
    metrics of their own (`sm__ops_path_tensor_src_fp16_dst_fp32.sum` and similar, of newer versions of Nsight Compute).
    `flops_of_model` and `bytes_of_model` compare with the formula's values; the note explains large differences: more
    bytes are read again or left unused in their sectors, fewer stayed in a cache. The picture draws a kernel's
    intensities at the three memories. A kernel was measured alone, with empty caches unless the profiler was configured
    otherwise. Such a report without a trace gives rows of kernels with only counted values, under the peaks of the
    clocks at which it was measured.

    TraceLens, for the same trace, adds one operation for each element of a biased product, leaves out the logarithms
    that attention stores for backward, counts 8 operations for each element of a normalisation, and has no formula for
    many operators listed here. Its times are unions of a call's kernels, these are sums.

    **Priority.** NVIDIA's Visual Profiler orders kernels by "optimization importance, based on execution time and
    achieved occupancy", from 100 down. `--by priority` uses the distance from the limit first: a kernel's importance is
    its device time multiplied by the fraction of it that could be saved, and `priority` is that in per cent of the
    largest:

    * if its work is counted and the device's limits are known (`limit`), everything above the attainable time;
    * else, if it has hardware counters (`counters`), the distance to the peak of the part of the device that is closest
      to its peak, `limiter`;
    * else, if its occupancy is known and below seven tenths (`occupancy`), 1 minus the occupancy, which ranks and
      promises nothing;
    * else (`time`), three tenths, TraceLens' estimate for operators of unknown efficiency: a full device may still be
      slow.

    A limit comes before counters because a kernel at the peak of a memory may move more than it must. `saving_ns` is
    given only for the first kind: the time saved at 100 % of the limit, an upper bound and a sum of kernel durations;
    if kernels overlap or the host is late, the step gains less. Copies, fills and communication are not kernels to
    optimise: `copies` and the other forms have them.

    `--plot FILE.svg` on the command line draws the roofline.
    """
    from stepscope.analysis.kernels.measured import joined_note
    from stepscope.analysis.operators.priority import priority_rows
    from stepscope.analysis.operators.work import device_work_of

    counting = conventions(causal)
    if counters_only := by != "priority" and _has_counters_alone(scope):
        note = _COUNTED_ALONE if by == "kernel" else f"{_COUNTED_ALONE} {_OF_KERNELS}"
        by = "kernel"
    left_out = _ONLY_PRIORITY | (set() if by == "operator" else {"input_dims", "input_types"})
    left_out |= set() if measured else set(_MEASURED)
    names = [c.name for c in _COLUMNS if c.name not in left_out]
    if counters_only:
        return noted(answer_dicts(_COLUMNS, _rows_of_counters(scope), names), note)
    work = device_work_of(scope, counting)
    roofs = roofs_of(work.variants, limits, counting)
    if by == "priority":
        names, rows = list(_PRIORITY), priority_rows(scope, work, roofs)
    else:
        groups = _groups(work, roofs, by)
        rows = [_row(group, parts, work, roofs, by, measured=measured) for group, parts in groups.items()]
        rows.sort(key=lambda row: (-row["device_ns"], row["name"]))
    of_counters = joined_note(scope) if measured or by == "priority" else ""
    if measured and by != "priority":
        of_counters = of_counters or NOT_MEASURED
    note = " ".join(filter(None, (work.not_recorded, roofs.note, of_counters)))
    return noted(answer_dicts(_COLUMNS, rows, names), note)


def _has_counters_alone(scope: Scope) -> bool:
    if scope.has_none("kernel_metric"):
        return False
    tables = (scope.unfiltered("device_event"), "kernel_metric")
    events, counters = (scope.value(f"SELECT count(*) FROM {table}") for table in tables)
    return bool(counters) and not events


def _rows_of_counters(scope: Scope) -> list[dict[str, Any]]:
    from stepscope.analysis.kernels.roofline import counted_kernels

    kernels = counted_kernels(scope)
    total_ns = sum(kernel.device_ns or 0 for kernel in kernels)
    rows = []
    for kernel in kernels:
        row = {name: getattr(kernel, name) for name in ("name", "dtype", "device_ns", "flops", "device_name")}
        if kernel.device_ns is not None:
            row |= {
                "share_ratio": over(kernel.device_ns, total_ns),
                "attainable_ratio": over(kernel.attainable_ns, kernel.device_ns),
                "flop_per_s": over(kernel.flops, kernel.device_ns, 1e9),
                "bytes_per_s": over(kernel.dram_bytes, kernel.device_ns, 1e9),
            }
        row |= {f"counted_{name}": getattr(kernel, name) for name in _COUNTERS} | {
            "count": kernel.launches,
            "bound": kernel.bound or None,
            "attainable_ns": None if kernel.attainable_ns is None else round(kernel.attainable_ns),
            "moved_bytes": kernel.dram_bytes,
            "intensity": None if kernel.dram_bytes is None else over(kernel.flops, kernel.dram_bytes),
            "peak_flop_per_s": kernel.peak,
            "peak_bytes_per_s": kernel.bandwidth,
            "counted_ratio": 0.0 if kernel.flops is None else 1.0,
            "measured_ratio": 1.0,
            "note": kernel.note or None,
        }
        rows.append(row)
    return rows


class _Group(NamedTuple):
    name: str
    input_dims: str | None
    input_types: str | None
    dtype: str | None
    device_name: str | None


def _groups(work: DeviceWork, roofs: Roofs, by: str) -> dict[_Group, list[Part]]:
    from stepscope.analysis.operators.calls import Codes, distinct_rows

    column = {"operator": "variant", "kernel": "kernel", "module": "module"}[by]
    pairs, which = distinct_rows(work.rows["variant"], work.rows[column])

    def group(variant: int, other: int) -> _Group:
        call = work.variants[variant]
        dtype, device = roofs.of[variant].dtype, call.device.name
        if by == "operator":
            return _Group(call.name, call.dims, call.types, dtype, device)
        if by == "kernel":
            return _Group(work.kernels[other], None, None, dtype, device)
        name = work.modules[other] if other >= 0 else NO_MODULE
        return _Group(name, None, None, None, device)

    codes = Codes()
    return work.by_key(codes, codes.all(group(*pair) for pair in pairs)[which])


class Counted(NamedTuple):
    """What hardware counters counted of parts, None if they did not; `part` of the time is in measured kernels."""

    flops: float | None
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None
    part: float | None
    flops_of_model: float | None
    bytes_of_model: float | None
    notes: tuple[str, ...]


def counted(parts: list[Part], total: Totals) -> Counted:
    """What counters counted of parts, beside the formulas' values."""
    device_ns = sum(part.device_ns for part in parts)
    sums: list[float | None] = []
    covered: list[float] = []
    for counter in _COUNTERS:
        ns = sum(getattr(part, f"counted_{counter}_ns") for part in parts)
        covered.append(ns / device_ns if device_ns else 0.0)
        sums.append(sum(getattr(part, f"counted_{counter}") for part in parts) if ns else None)
    flops, dram, l2, l1 = sums
    of_flops = flops / total.flops if flops is not None and total.flops and covered[0] >= _ALL else None
    of_bytes = dram / total.moved if dram is not None and total.moved and covered[1] >= _ALL else None
    notes = []
    if of_flops is not None and of_flops > MORE_FLOPS:
        notes.append(f"{of_flops:.1f} times the formula's operations: padding, or work done again")
    elif of_flops is not None and of_flops < FEWER_FLOPS:
        notes.append(
            f"{of_flops:.2f} times the formula's operations: fewer by its algorithm, in integers or tensor cores"
        )
    if of_bytes is not None and of_bytes > MORE_BYTES:
        again = " and of L2 little more" if l2 and dram and l2 < 1.5 * dram else ""
        notes.append(
            f"{of_bytes:.1f} times the least bytes of device memory{again}: read again, spilled, or sectors in "
            "part unused"
        )
    elif of_bytes is not None and of_bytes < FEWER_BYTES:
        notes.append(f"{of_bytes:.2f} times the least bytes of device memory: the rest stayed in L2")
    covered_ratio = max(covered) if any(value is not None for value in sums) else None
    return Counted(flops, dram, l2, l1, covered_ratio, of_flops, of_bytes, tuple(notes))


NOT_MEASURED = (
    "No hardware counters of its kernels lie beside the recording: stepscope launch --tool ncu measures some."
)


def _row(
    group: _Group, parts: list[Part], work: DeviceWork, roofs: Roofs, by: str, *, measured: bool
) -> dict[str, Any]:
    device_ns = sum(part.device_ns for part in parts)
    total = totals(parts, roofs)
    count = sum(part.events for part in parts)
    if by == "operator":
        count = round(sum(part.weight for part in parts if work.variants[part.variant].first))
    notes = [roofs.of[part.variant].note for part in parts]
    weights: dict[str, float] = {}
    for part in parts:
        roof = roofs.of[part.variant]
        if roof.bound:
            time = roof.attainable_ns * part.weight
            weights[roof.bound] = weights.get(roof.bound, 0.0) + time
    ratio = total.attained
    bound = max(weights, key=lambda name: weights[name]) if weights else None
    if ratio is not None and ratio > 1:
        why = _why_above(bound, total)
        # Data from a cache may really be faster than the memory. Any other ratio does not measure how close it is.
        ratio = ratio if why in (CACHED, CACHED_OR_NOT_MOVED) else None
        notes = notes if bound == "compute" and total.inexact else [why, *notes]
    helps = total.flops is None and any(roofs.counted[part.variant] for part in parts)
    if helps:
        bound, notes = None, [HELPER, *notes]
    measurement = counted(parts, total)
    notes = [*measurement.notes, *notes] if measured else notes
    first = roofs.of[parts[0].variant]
    if bound is None and first.note.startswith(NO_PEAK):
        bound = NO_PEAK
    counted_ns = sum(part.device_ns for part in parts if roofs.counted[part.variant])
    return {
        **group._asdict(),
        "count": count,
        "device_ns": device_ns,
        "share_ratio": device_ns / work.device_ns if work.device_ns else None,
        "bound": bound,
        "attainable_ratio": ratio,
        "attainable_ns": None if total.attainable_ns is None else round(total.attainable_ns),
        "flops": None if total.flops is None else float(round(total.flops)),
        "moved_bytes": None if total.moved is None else float(round(total.moved)),
        "intensity": over(total.flops, total.moved),
        "flop_per_s": over(total.flops, total.counted_ns, 1e9),
        "bytes_per_s": over(total.moved, total.moved_ns, 1e9),
        "peak_flop_per_s": first.peak,
        "peak_bytes_per_s": first.bandwidth,
        "counted_ratio": counted_ns / device_ns if device_ns else None,
        **dict(zip(_MEASURED, measurement, strict=False)),
        "note": "; ".join(dict.fromkeys(note for note in notes if note)) or None,
    }


def _why_above(bound: str | None, total: Totals) -> str:
    if bound != "memory":
        return ABOVE if bound == "compute" else ABOVE_LINK
    if total.uncached_ns is None:
        return CACHED_OR_NOT_MOVED
    return CACHED if total.uncached_ns <= total.bounded_ns else NOT_MOVED
