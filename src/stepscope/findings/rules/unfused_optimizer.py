"""`unfused-optimizer`: an optimizer that launches kernels for each parameter separately."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from stepscope.base.units import count_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.groups import Group, by_kernel
from stepscope.findings.sequence import Sequence, host_ns, typical_step

_KERNELS = Threshold(
    "kernels of the optimizer, in a step that has any, that are not for many tensors",
    50,
    "count",
    "ours: foreach and fused optimizers launch a few dozen",
)
_STEPPING = """
    (rank, span, step) IN (SELECT (rank, span, step) FROM device_event WHERE direction = 'optimizer' AND kind = 'computation')
"""
_SHARE = worth("the optimizer's time on the device", 0.02)
_GAP = Threshold(
    "a gap between two of its kernels that the loop makes", 200_000, "ns", "ours: longer ones have other causes"
)


@rule(
    "unfused-optimizer",
    "Optimizers that loop over parameters.",
    _KERNELS,
    _SHARE,
    _GAP,
    trade_off="foreach=True keeps intermediate results of all parameters at once: about their size in memory.",
    rests_on=("launches",),
    silent_without=("device-work",),
)
def unfused_optimizer(facts: Facts) -> Iterator[Finding]:
    """Kernels launched in `Optimizer.step` and `zero_grad` other than those over many tensors at once
    (`multi_tensor_apply`, `_foreach_...`, `_fused_...`). Their time counts, with the gaps between consecutive ones, in
    a typical one of the steps that have an optimizer's work, times the share of these among all steps: with gradient
    accumulation, not every step has one.

    At most all of it can be saved, as with many small parameters, plus the host's time to launch the kernels while the
    device works; with large parameters a fused Adam still makes a third of the passes over memory, and plain SGD as
    many as before.
    """
    if not facts.has_steps or not facts.enough_work:
        return
    kernels = [g for g in facts.groups if g.direction == "optimizer" and g.kind == "computation"]
    single = [group for group in kernels if not _over_many(group)]
    stepping = _stepping(facts)
    count = sum(group.count for group in single) / max(1, stepping)
    if not stepping or count < _KERNELS.value:
        return
    often = stepping / facts.steps
    sequence = typical_step(facts.scope, f"{facts.counted} AND {_STEPPING}", marked=True)
    if sequence is None:
        return
    kernel_ns, gaps_ns = (often * ns for ns in _time(sequence))
    if facts.part_of_step(kernel_ns + gaps_ns) <= _SHARE.value:
        return
    yield of_time(
        title=f"The optimizer launches {count_text(round(count))} kernels, parameter by parameter"
        + ("" if often == 1 else f", in {ratio_text(often)} of the steps")
        + f": {facts.amount(kernel_ns + gaps_ns)}",
        metric="time of the optimizer's kernels and the gaps between them, in a typical step"
        + ("" if often == 1 else " that has any, times the part of the steps that have"),
        time_ns=kernel_ns + gaps_ns,
        hidden_ns=facts.hidden(often * _launching_ns(sequence), gaps_ns),
        confidence="high",
        evidence=({"kernels_ns": kernel_ns, "gaps_ns": gaps_ns}, *first(by_kernel(facts.steps, single))),
        **sequence.place,
        advice="Give the optimizer fused=True (or foreach=True), and zero_grad(set_to_none=True).",
    )


def _stepping(facts: Facts) -> int:
    """How many of the counted steps have work of the optimizer."""
    (row,) = facts.host(f"SELECT count(*) AS n FROM step WHERE {{counted}} AND {_STEPPING}")
    return int(row["n"])


def _time(sequence: Sequence) -> tuple[int, int]:
    """Duration of the optimizer's kernels, and of the gaps between consecutive ones (ns)."""
    kernel_ns = gaps_ns = 0
    for pieces in sequence.streams():
        for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
            if piece.direction != "optimizer" or piece.kind == "communication":
                continue
            kernel_ns += piece.dur_ns
            if after is not None and after.direction == "optimizer":
                gap = max(0, after.start_ns - piece.end_ns)
                gaps_ns += gap if gap < _GAP.value else 0
    return kernel_ns, gaps_ns


def _launching_ns(sequence: Sequence) -> int:
    """How long the host takes to launch consecutive work of the optimizer (ns)."""
    runs = (
        run
        for pieces in sequence.streams()
        for direction, run in groupby(pieces, key=lambda piece: piece.direction)
        if direction == "optimizer"
    )
    return sum(map(host_ns, runs))


def _over_many(group: Group) -> bool:
    return "multi_tensor" in group.name or (group.model is not None and group.model.over_lists)
