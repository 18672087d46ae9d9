"""`tensor-cores`: which work could run on tensor cores, which does, and why the rest does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.base.units import ratio_text
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import DEVICE, RANK, Column, by_form, question
from stepscope.query.rank_exclusion import damaged_ranks, ranks_text
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.analysis.operators.work import DeviceWork, Variant
    from stepscope.costs import Hardware, TensorCoreUse

_GENERATIONS = ("Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell")
HELPERS = "helper kernels that multiply nothing (layout, reduction of parts)"
UNKNOWN_BY_NAME = "the kernel's name does not tell"
NONE_THERE = "the device has none"

_COLUMNS = (
    RANK,
    DEVICE,
    Column("device_name", "text", "device that it ran on"),
    Column("operator", "text", "operator that launched the kernels"),
    Column("input_dims", "text", "shapes of its inputs, as a JSON list"),
    Column("kernel", "text", "name of the kernel", kernels=True),
    Column("kernel_ns", "int", "summed duration of kernels"),
    Column("share_ratio", "float", "fraction of kernel time without damaged ranks; NULL for one"),
    Column("eligible_ns", "int", "time of kernels that could use tensor cores"),
    Column("eligible_ratio", "float", "fraction of kernel time"),
    Column("used_ns", "int", "time of kernels that do use them", sums=True),
    Column("used_ratio", "float", "fraction of kernel time", sums=True),
    Column("unknown_ns", "int", "eligible time of kernels whose names do not show it", visible=False),
    Column("generation", "text", "GPU generation whose instructions the kernel uses"),
    Column("dtype", "text", "element type of the operator's inputs", visible=False),
    Column("why_not", "text", "why eligible time is not on tensor cores, the longest first"),
    Column("slowed_by", "text", "what slows the used tensor cores"),
)
_FORMS = {
    "device": ("rank", "device", "device_name"),
    "operator": ("operator", "input_dims", "dtype", "device_name"),
    "kernel": ("kernel", "generation", "dtype", "device_name"),
}


@question(
    "tensor-cores",
    "Which work could run on tensor cores, which does, and why does the rest not?",
    _COLUMNS,
    group="limits",
    rests_on=LAUNCHED_WORK,
    about="events",
    parameters=(
        by_form("what a row is: a device, an eligible operator with its shapes, or one of their kernels", *_FORMS),
    ),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CPU and CUDA, and record_shapes=True.",
)
def tensor_cores(scope: Scope, by: str = "device") -> ArrowTable:
    """A kernel is *eligible* if it was launched by an operator whose work tensor cores could do (products of matrices,
    convolutions, attention, recurrent cells), or uses them. It *uses* them if its name shows it, by the conventions of
    its library, from Volta to Blackwell, and AMD's matrix cores likewise; without an operator, as in the replay of a
    CUDA graph, or with an unknown one, as in code of torch.compile, a kernel whose name shows that it multiplies
    matrices is eligible. Shares are of the time of all kernels, without copies.

    The TensorBoard plugin has the same two shares; its list of operators lacks attention and its list of kernels flash
    attention, cuBLASLt's `nvjet` and everything from Hopper on.

    **why_not** says for eligible time that is not on tensor cores what prevents it:

    * the element type: float32 without TF32 (if the device has it) or mixed precision, float64;
    * sizes that are not a multiple of 16 bytes in memory: 8 elements of 16 bits, 4 of float32;
    * a kernel without tensor cores although one with them exists: a product with a vector or a very small one, or a
      library's choice;
    * helper kernels of an eligible operator, which multiply nothing: layouts, the sum of a product's parts (split-K);
    * a device without tensor cores: all before Volta, GeForce GTX 16 and similar.

    **slowed_by** names what is on tensor cores but below their speed: kernels whose operands are aligned to a single
    element, as odd sizes require (an odd sequence length in attention written as `bmm`), and kernels of an older
    generation than the device.
    """
    from stepscope.analysis.operators.work import device_work_of

    work = device_work_of(scope)
    damaged = damaged_ranks(scope, LAUNCHED_WORK) if by == "device" else ()
    names = [c.name for c in _COLUMNS if c.name in _FORMS[by] or c.name not in _KEYS]
    groups: dict[tuple[Any, ...], _Sum] = {}
    total_ns = 0
    for key, piece, ns in _pieces(work, by):
        total_ns += 0 if key[0] in damaged else ns
        if by == "device" or piece.eligible:
            groups.setdefault(key, _Sum()).add(piece, ns)
    listed = sorted(groups.items(), key=lambda item: (-item[1].eligible, str(item[0])))
    if by == "device":
        listed = sorted(groups.items())
    rows = [_row(key, total, by, 0 if key[0] in damaged else total_ns) for key, total in listed]
    answered = answer_dicts(_COLUMNS, rows, names)
    if by != "device" or not rows:
        return answered
    reasons = _reasons(total for key, total in listed if key[0] not in damaged)
    if damaged:
        reasons += f"\nShares of all kernels' time, and these reasons, leave out {ranks_text(damaged)}: damaged."
    return noted(answered, reasons.strip())


def _reasons(sums: Iterable[_Sum]) -> str:
    """Says why eligible time is not on tensor cores, and why some of what is there is slow, for all devices."""
    total = _Sum()
    for part in sums:
        total.eligible += part.eligible
        for target, reasons in ((total.why, part.why), (total.slow, part.slow)):
            for reason, ns in reasons.items():
                target[reason] = target.get(reason, 0) + ns
    lines = (
        (total.why, "Eligible and not on tensor cores, of the eligible time"),
        (total.slow, "On tensor cores and below their speed, of the eligible time"),
    )
    listed = ((words, _listed(reasons, total.eligible, "device")) for reasons, words in lines)
    return "\n".join(f"{words}: {listed_reasons}." for words, listed_reasons in listed if listed_reasons)


_KEYS = frozenset(name for names in _FORMS.values() for name in names)


class _Piece(NamedTuple):
    eligible: bool
    used: bool | None
    why: str
    slow: str


class _Sum:
    def __init__(self) -> None:
        self.kernel = self.eligible = self.used = self.unknown = 0
        self.why: dict[str, int] = {}
        self.slow: dict[str, int] = {}

    def add(self, piece: _Piece, ns: int) -> None:
        self.kernel += ns
        if not piece.eligible:
            return
        self.eligible += ns
        if piece.used:
            self.used += ns
        elif piece.used is None and piece.why == UNKNOWN_BY_NAME:
            self.unknown += ns
        if piece.why:
            self.why[piece.why] = self.why.get(piece.why, 0) + ns
        if piece.slow:
            self.slow[piece.slow] = self.slow.get(piece.slow, 0) + ns


def _pieces(work_of: DeviceWork, by: str) -> list[tuple[tuple[Any, ...], _Piece, int]]:
    import numpy as np

    from stepscope.analysis.operators.calls import distinct_rows
    from stepscope.costs import known_devices, tensor_core_use

    rows = work_of.rows
    kernels = rows["work"] < 2
    zero = np.zeros(int(kernels.sum()), np.int64)
    rank, device = (rows[name][kernels] if by == "device" else zero for name in ("rank", "device"))
    columns = [rank, device, rows["variant"][kernels], rows["kernel"][kernels]]
    distinct, which = distinct_rows(*columns)
    times = np.bincount(which, weights=rows["device_ns"][kernels], minlength=len(distinct))
    hardware, result = known_devices(), []
    for (in_rank, on, number, kernel), ns in zip(distinct, times.tolist(), strict=True):
        variant, name = work_of.variants[number], work_of.kernels[kernel]
        dtype = None if variant.work is None else variant.work.dtype
        use = tensor_core_use(name, dtype)
        device_name = variant.device.name
        key: tuple[Any, ...] = (in_rank, on, device_name)
        if by == "operator":
            key = (variant.name, variant.dims, dtype, device_name)
        elif by == "kernel":
            key = (name, use.generation, dtype, device_name)
        result.append((key, _judge(variant, name, use, hardware), round(ns)))
    return result


def _judge(variant: Variant, kernel: str, use: TensorCoreUse, hardware: Hardware) -> _Piece:
    from stepscope.costs import PRODUCTS, kernel_class, lacks_tensor_cores, model_of, product_type

    work, model = variant.work, model_of(variant.name)
    by_operator = model is not None and model.is_eligible
    by_name = model is None and kernel_class(kernel) in PRODUCTS
    if not (by_operator or by_name or use.used):
        return _Piece(False, use.used, "", "")
    if use.used:
        return _Piece(True, True, "", _slowness(variant, kernel, use, hardware))
    if use.rule == "helpers that multiply nothing" or (use.used is None and kernel_class(kernel) not in PRODUCTS):
        return _Piece(True, False, HELPERS, "")
    if lacks_tensor_cores(variant.device.name):
        return _Piece(True, False, NONE_THERE, "")
    dtype = product_type(kernel) if work is None else work.dtype
    if dtype in ("float32", "complex64"):
        limits = hardware.find(variant.device.name, variant.device.sm_count)
        has = limits is not None and "tf32" in limits.matrix
        if has and use.used is None:  # TF32 is a switch, which inputs do not show
            return _Piece(True, None, UNKNOWN_BY_NAME, "")
        cure = "neither TF32 nor mixed precision" if has else "mixed precision is off"
        return _Piece(True, use.used, f"{dtype}: {cure}", "")
    if dtype in ("float64", "complex128"):
        return _Piece(True, use.used, f"{dtype}", "")
    if use.used is None:
        return _Piece(True, None, UNKNOWN_BY_NAME, "")
    if odd := _odd_sizes(variant):
        return _Piece(True, False, odd, "")
    if use.rule == "matrix times vector and other small products":
        return _Piece(True, False, "product with a vector, or a very small one", "")
    return _Piece(True, False, "the library chose a kernel without", "")


def _odd_sizes(variant: Variant) -> str:
    from stepscope.costs import misaligned

    wrong = misaligned(variant.name, variant.dims, variant.types, variant.strides)
    sizes = ", ".join(f"{w.dimension} = {w.size}" for w in wrong)
    return f"{sizes}: not a multiple of {wrong[0].multiple}" if wrong else ""


def _slowness(variant: Variant, kernel: str, use: TensorCoreUse, hardware: Hardware) -> str:
    from stepscope.costs import alignment

    if alignment(kernel) == 1:
        odd = _odd_sizes(variant)
        return f"operands aligned to one element{f' ({odd})' if odd else ''}"
    generation = hardware.generation(variant.device.name)
    if generation in _GENERATIONS and use.generation in _GENERATIONS:
        behind = _GENERATIONS.index(generation) - _GENERATIONS.index(use.generation)
        # Ada has Ampere's instructions, with FP8 in addition.
        if behind > 0 and (use.generation, generation) != ("Ampere", "Ada"):
            return f"kernel made for {use.generation}, device is {generation}"
    return ""


def _row(key: tuple[Any, ...], total: _Sum, by: str, total_ns: int) -> dict[str, Any]:
    base = total.kernel if by == "device" else total_ns
    return dict(zip(_FORMS[by], key, strict=True)) | {
        "kernel_ns": total.kernel,
        "share_ratio": total.kernel / total_ns if total_ns else None,
        "eligible_ns": total.eligible,
        "eligible_ratio": total.eligible / base if base else None,
        "used_ns": total.used,
        "used_ratio": total.used / base if base else None,
        "unknown_ns": total.unknown,
        "why_not": _listed(total.why, total.eligible, by),
        "slowed_by": _listed(total.slow, total.eligible, by),
    }


def _listed(reasons: dict[str, int], total_ns: int, by: str) -> str | None:
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:4]
    if by != "device" and len(ranked) == 1:
        return ranked[0][0]
    return "; ".join(f"{why} ({ratio_text(ns / total_ns)})" for why, ns in ranked if total_ns) or None
