"""`efficiency`: the share of the device's peak that the model's arithmetic reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.analysis.attribution import NO_MODULE
from stepscope.analysis.operators.attainable import CAUSAL, LIMITS, NO_PEAK, conventions, roofs_of
from stepscope.base.units import ratio_text
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.operators.attainable import Roofs
    from stepscope.analysis.operators.work import DeviceWork, Part

_COLUMNS = (
    RANK,
    SPAN,
    Column("device", "int", "index of the device in its process", visible="varying"),
    STEP,
    Column("module", "text", "module, with all modules below it"),
    Column("time_ns", "int", "duration of the step; device time of the module"),
    Column("device_ns", "int", "summed duration of its device work"),
    Column("mfu_ratio", "float", "model FLOPs utilisation: products' ideal time over time"),
    Column("attainable_ratio", "float", "attainable time as a fraction of device time"),
    Column("coverage_ratio", "float", "FLOP coverage: fraction of device time whose work is counted"),
    Column("finding", "text", "problem with the row, if any"),
    Column("flops", "float", "operations of all counted work", "flop"),
    Column("matrix_flops", "float", "operations of products only", "flop", visible=False),
    Column("flop_per_s", "float", "operations a second of time"),
    Column("dtype", "text", "element type of most operations of the products"),
    Column("peak_flop_per_s", "float", "the device's peak for that type", visible=False),
    Column("device_name", "text", "device that it ran on", visible=False),
    Column("uncounted", "text", "operators that are not counted, with their fraction of device time"),
)


@question(
    "efficiency",
    "What fraction of the device's peak did the model's arithmetic reach?",
    _COLUMNS,
    group="limits",
    rests_on=(*LAUNCHED_WORK, "clocks", "steps"),
    about={"step": "time", "module": "events"},
    parameters=(by_form("what a row is: a step, or a module with all below it", "step", "module"), LIMITS, CAUSAL),
    needs="device",
    fills="Record with record_shapes=True: without shapes no work can be counted.",
)
def efficiency(scope: Scope, by: str = "step", limits: str = "datasheet", causal: str = "masked") -> ArrowTable:
    """**MFU**, model FLOPs utilisation, is the time that all products of matrices (GEMM, convolution, attention) take
    at the device's dense peak of their types, over the elapsed time: a step's duration with all waiting in it, or a
    module's device time. If all products have one type this is the usual definition, their FLOPs per second over the
    peak (Chowdhery et al., "PaLM", appendix B), unless activations are recomputed: operations that ran are counted,
    from recorded shapes and not from the number of parameters, so it is then what they call hardware FLOPs utilisation
    (HFU), and the MFU is lower. float32 is compared with TF32's peak if the kernel's name shows that it ran on tensor
    cores.

    **attainable_ratio** is the roofline's: the time that all counted work takes at the limits of arithmetic or memory,
    over its device time. **FLOP coverage** is the share of the device time whose work is counted; below 100 % the true
    MFU is higher, and `uncounted` lists the operators with the most time that are not. If the recording has hardware
    counters of a kernel without a formula, these give its operations, and its time is covered; the note says how much.
    They are not part of the MFU, which uses products by their formulas.

    A utilisation above 100 % is an error, not a number: it is not shown and `finding` says by how much. Either the
    limits are not this device's, or device work is missing from the recording. Work known only as a lower bound, and
    convolutions by Winograd or FFT, which do less than the formula counts, raise no such error.

    With `--by module`, a module's row includes the modules below it and its backward, over their device time; `(no
    module)` is the rest. Each rank, recording and device has its own rows.
    """
    from stepscope.analysis.operators.calls import Codes
    from stepscope.analysis.operators.work import device_work_of

    counting = conventions(causal)
    work = device_work_of(scope, counting)
    roofs = roofs_of(work.variants, limits, counting)
    codes = Codes()
    keys = zip(*(work.rows[name].tolist() for name in ("rank", "span", "device", by)), strict=True)
    parts = work.by_key(codes, codes.all(keys))
    if by == "step":
        rows = _of_steps(scope, work, roofs, parts)
    else:
        paths = scope.sql("SELECT DISTINCT path FROM module").column("path").to_pylist()
        rows = _of_modules(work, roofs, parts, frozenset(paths))
    names = [c.name for c in _COLUMNS if c.name != ("module" if by == "step" else "step")]
    note = " ".join(filter(None, (work.not_recorded, roofs.note, _counted_note(work, roofs))))
    return noted(answer_dicts(_COLUMNS, rows, names), note)


def _counted_note(work: DeviceWork, roofs: Roofs) -> str:
    import numpy as np

    parts = work.parts(np.zeros(len(work.rows["variant"]), np.int64))
    ns = sum(part.device_ns for part in parts if _is_counted(part, roofs))
    if not ns:
        return ""
    part = ratio_text(ns / work.device_ns)
    return (
        f"Operations of {part} of the device time are those that hardware counters counted, where no formula has them."
    )


def _is_counted(part: Part, roofs: Roofs) -> bool:
    return not roofs.counted[part.variant] and 0 < part.device_ns <= part.counted_flops_ns


def _of_steps(
    scope: Scope, work: DeviceWork, roofs: Roofs, parts: dict[tuple[int, int, int, int], list[Part]]
) -> list[Row]:
    steps = scope.sql("SELECT rank, span, step, end_ns - start_ns AS time_ns FROM step")
    listed = zip(*(steps.column(c).to_pylist() for c in steps.column_names), strict=True)
    times = {(rank, span, step): time for rank, span, step, time in listed}
    return [
        {"rank": rank, "span": span, "device": device, "step": step}
        | _figures(times[rank, span, step], of_step, work, roofs)
        for (rank, span, device, step), of_step in sorted(parts.items())
        if (rank, span, step) in times
    ]


def _of_modules(
    work: DeviceWork, roofs: Roofs, parts: dict[tuple[int, int, int, int], list[Part]], modules: frozenset[str]
) -> list[Row]:
    totals_of: dict[tuple[int, int, int, str], list[Part]] = {}
    for (rank, span, device, module), of_module in sorted(parts.items()):
        path = work.modules[module] if module >= 0 else NO_MODULE
        words = path.split(".")
        above = {".".join(words[:depth]) for depth in range(1, len(words))} & modules
        for name in (path, *above):
            totals_of.setdefault((rank, span, device, name), []).extend(of_module)
    rows = [
        dict(zip(("rank", "span", "device", "module"), key, strict=True))
        | _figures(sum(part.device_ns for part in of_module), of_module, work, roofs)
        for key, of_module in totals_of.items()
    ]

    def place(row: Row) -> tuple[Any, ...]:
        module = row["module"]
        return row["rank"], row["span"], row["device"], module == NO_MODULE, -row["device_ns"], module

    return sorted(rows, key=place)


class _Utilisation(NamedTuple):
    ratio: float | None
    finding: str | None


def utilisation(time_ns: int, parts: list[Part], roofs: Roofs) -> _Utilisation:
    """Model FLOPs utilisation of parts in a time, None if unknown, and what is wrong."""
    products = [p for p in parts if p.weight and roofs.matrix_flops[p.variant] > 0]
    ideal = sum(p.weight * float(roofs.matrix_ns[p.variant]) for p in products)
    if not any(roofs.counted[p.variant] for p in parts):
        return _Utilisation(None, "no work is counted")
    if not products and not all(roofs.counted[p.variant] for p in parts):
        return _Utilisation(None, "no product of matrices is counted")
    if ideal != ideal:  # NaN
        return _Utilisation(None, NO_PEAK)
    if not time_ns:
        return _Utilisation(None, None)
    sure = sum(p.weight * float(roofs.matrix_ns[p.variant]) for p in products if not roofs.inexact[p.variant])
    if sure > time_ns:
        wrong = "the limits are not this device's, or device work is missing from the recording"
        return _Utilisation(None, f"error: {100 * sure / time_ns:.0f} % of the peak is impossible; {wrong}")
    if ideal > time_ns:
        return _Utilisation(None, "the work is not known well enough to tell")
    return _Utilisation(ideal / time_ns, None)


def _figures(time_ns: int, parts: list[Part], work: DeviceWork, roofs: Roofs) -> Row:
    from stepscope.analysis.operators.totals import totals

    device_ns = sum(part.device_ns for part in parts)
    total = totals(parts, roofs)
    used = utilisation(time_ns, parts, roofs)
    by_type: dict[tuple[str | None, int | None], float] = {}
    matrix_flops = 0.0
    uncounted: dict[str, int] = {}
    measured = [part.counted_flops for part in parts if _is_counted(part, roofs)]
    flops = None if total.flops is None and not measured else (total.flops or 0.0) + sum(measured)
    for part in parts:
        if _is_counted(part, roofs):
            continue
        if not roofs.counted[part.variant]:
            name = work.variants[part.variant].name
            uncounted[name] = uncounted.get(name, 0) + part.device_ns
        elif roofs.matrix_flops[part.variant] > 0:
            roof = roofs.of[part.variant]
            of_products = part.weight * float(roofs.matrix_flops[part.variant])
            matrix_flops += of_products
            by_type[roof.dtype, roof.peak] = by_type.get((roof.dtype, roof.peak), 0.0) + of_products
    dtype, peak = max(by_type, key=lambda key: by_type[key]) if by_type else (None, None)
    counted = device_ns - sum(uncounted.values())
    largest = sorted(uncounted.items(), key=lambda item: (-item[1], item[0]))[:3]
    listed = ", ".join(f"{name} {ratio_text(ns / device_ns)}" for name, ns in largest if device_ns)
    return {
        "time_ns": time_ns,
        "device_ns": device_ns,
        "mfu_ratio": used.ratio,
        "attainable_ratio": total.attained if (total.attained or 0) <= 1 else None,
        "coverage_ratio": counted / device_ns if device_ns else None,
        "finding": used.finding,
        "flops": None if flops is None else float(round(flops)),
        "matrix_flops": float(round(matrix_flops)),
        "flop_per_s": None if flops is None or not time_ns else flops / time_ns * 1e9,
        "dtype": dtype,
        "peak_flop_per_s": peak,
        "device_name": work.variants[parts[0].variant].device.name,
        "uncounted": listed or None,
    }
