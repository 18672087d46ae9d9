"""`metrics-diff`: the counters of each kernel in two recordings, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.base.grouping import grouped
from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import Column, question
from stepscope.query.rank_exclusion import without_damaged_ranks
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.questions.metrics import FILLS

if TYPE_CHECKING:
    from stepscope.analysis.kernels.measured import MeasuredKernel
    from stepscope.query.scope import ComparedRun

_COLUMNS = (
    Column("kernel", "text", "name of the kernel, as the first recording that has it spells it", kernels=True),
    Column("grid", "text", "blocks of the grid, x,y,z; NULL where the two differ", visible="varying"),
    Column("block", "text", "threads of a block, x,y,z; NULL where the two differ", visible="varying"),
    Column("device_before_ns", "int", "summed duration before; NULL for a kernel that was not measured there", visible=False),
    Column("device_after_ns", "int", "summed duration after, likewise", visible=False),
    Column("metric", "text", "what was measured, under one name for all tools"),
    Column("before", "float", "mean value before"),
    Column("after", "float", "mean value after"),
    Column("unit", "text", "unit of the values"),
    Column("change_ratio", "float", "change as a fraction of the value before", sums=True),
)  # fmt: skip


@question(
    "metrics-diff",
    "How do the hardware counters of each kernel differ between two recordings?",
    _COLUMNS,
    group="compare",
    rests_on=(),
    about="recording",
    recordings="two",
    fills=FILLS,
)
def metrics_diff(recordings: Sequence[ComparedRun]) -> ArrowTable:
    """The values of `metrics --by metric` for each kernel, before and after: for a kernel before and after a change of
    its code, for one device and another, for Nsight Compute and nvprof. Kernels with the most time come first, and
    within a kernel the metrics that changed most.

    A kernel is the same in both if tools agree in its name, grid and block; one without such a partner is compared with
    the remaining ones of its name, whatever their shape, if both sides have some. For a kernel that only one of the two
    has, the other side is NULL. Counters vary from run to run, by some per cent if caches decide, and one measurement
    does not show by how much. A rank that is damaged on one side is left out on both.
    """
    with without_damaged_ranks(recordings, same_ranks=True) as (valid, left_out):
        return _compared(valid, left_out)


def _compared(recordings: Sequence[ComparedRun], left_out: str) -> ArrowTable:
    before, after = (_by_key(recording) for recording in recordings)
    pairs = list(_paired(before, after))
    pairs.sort(key=lambda pair: -max(kernel.device_ns or 0 for side in pair for kernel in side))
    notes, joined_to = [], False
    for recording in recordings:
        from stepscope.analysis.kernels.measured import joined_kernels

        joined = joined_kernels(recording.scope)
        joined_to |= bool(joined.ran)
        notes.append(f"{recording.role}: {joined.describe() or 'no counters.'}")
    rows = (row for pair in pairs for row in _rows(*pair))
    answered = answer_rows(_COLUMNS, rows)
    return noted(answered, " ".join(filter(None, (left_out, *notes))), rests_on=DEVICE_WORK if joined_to else ())


def _by_key(recording: ComparedRun) -> dict[Any, list[MeasuredKernel]]:
    from stepscope.analysis.kernels.measured import joined_kernels
    from stepscope.base.kernel_spelling import kernel_key

    kernels = joined_kernels(recording.scope).kernels
    return grouped(kernels, lambda kernel: (kernel_key(kernel.name), kernel.grid, kernel.block))


def _paired(
    before: dict[Any, list[MeasuredKernel]], after: dict[Any, list[MeasuredKernel]]
) -> Iterable[tuple[list[MeasuredKernel], list[MeasuredKernel]]]:
    """Pairs of kernels that are the same on both sides: by name and shape, the rest by name only."""
    left: dict[Any, tuple[list[MeasuredKernel], list[MeasuredKernel]]] = {}
    for key in dict.fromkeys((*before, *after)):
        if key in before and key in after:
            yield before[key], after[key]
        else:
            remaining = left.setdefault(key[0], ([], []))
            remaining[0].extend(before.get(key, ()))
            remaining[1].extend(after.get(key, ()))
    yield from left.values()


def _rows(before: list[MeasuredKernel], after: list[MeasuredKernel]) -> list[list[Any]]:
    from stepscope.analysis.kernels.counters import DERIVED
    from stepscope.formats.counters.kinds import KINDS

    both = (*before, *after)
    shapes = [{getattr(kernel, name) for kernel in both} for name in ("grid", "block")]
    grid, block = (next(iter(values_of_shape)) if len(values_of_shape) == 1 else None for values_of_shape in shapes)
    values = _means(before), _means(after)
    times = [
        sum(kernel.device_ns or 0 for kernel in side) if side and any(kernel.device_ns for kernel in side) else None
        for side in (before, after)
    ]
    rows: list[list[Any]] = []
    for kind in (*KINDS, *DERIVED):
        old, new = (side.get(kind) for side in values)
        if old is None and new is None:
            continue
        unit = KINDS[kind].unit if kind in KINDS else DERIVED[kind][0]
        change = (new - old) / abs(old) if old and new is not None else None
        rows.append([both[0].name, grid, block, *times, kind, old, new, unit or None, change])
    return sorted(rows, key=lambda row: -abs(row[-1]) if row[-1] is not None else 1)


def _means(kernels: list[MeasuredKernel]) -> dict[str, float]:
    from stepscope.analysis.kernels.counters import weighted_means

    return weighted_means((kernel.values, float(kernel.device_ns or 1)) for kernel in kernels)
