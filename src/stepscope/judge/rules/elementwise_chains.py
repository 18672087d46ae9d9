"""`elementwise-chains`: element-wise kernels in a row that could be one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from stepscope.floor.units import count_text
from stepscope.judge.declare import Finding, Threshold, of_time, rule, worth
from stepscope.judge.facts import Facts, Row, first
from stepscope.judge.merged_rows import merged
from stepscope.judge.sequence import Piece, host_ns

_SHARE = worth("what fusing would save", 0.02)
_LENGTH = Threshold(
    "kernels in a chain", 3, "count", "TraceLens calls three kernels that are no products a chain of element-wise work"
)
_LONGEST = Threshold(
    "kernels in a chain, at most",
    15,
    "count",
    "TraceLens: longer rows are no candidates; they are loops over many tensors",
)
_LEFT = Threshold(
    "what fusing leaves of all kernels but the longest, for that",
    0.15,
    "ratio",
    "TraceLens: fused time = longest + 15 % of the rest",
)


@rule(
    "elementwise-chains",
    "Three and more element-wise kernels in a row.",
    _SHARE,
    _LENGTH,
    _LONGEST,
    _LEFT,
    trade_off="torch.compile takes its time at the start and for each new shape.",
    rests_on=("stream-order", "device-times"),
)
def elementwise_chains(facts: Facts) -> Iterator[Finding]:
    """Element-wise kernels that follow each other on a stream of a typical step, by operator and
    kernel; rows of one and the same kernel are loops over unrelated tensors, and do not count. Optimizers have a rule of their own, and kernels that Triton made are fused already.

    At most all of a chain but its shortest kernel can be saved, since one kernel reads no less than the first and writes no
    less than the last, and what the host takes to launch the chain. At least, nothing: neighbours need not read what the
    one before wrote.
    """
    sequence = facts.sequence
    if sequence is None or not facts.enough_work:
        return
    chains = [chain for pieces in sequence.streams() for chain in _chains(pieces)]
    rows = merged(map(_row, chains), "chain", adding=("times_per_step", "time_ns", "saving_ns"))
    ranked = sorted(rows, key=lambda row: -row["saving_ns"])
    if facts.part_of_step(sum(map(_fused_ns, chains))) <= _SHARE.value:
        return
    kernels = sum(row["kernels"] * row["times_per_step"] for row in ranked)
    time_ns = sum(row["time_ns"] for row in ranked)
    yield of_time(
        title=f"{count_text(kernels)} element-wise kernels run in chains of three or more: {facts.amount(time_ns)}",
        metric="time of element-wise kernels in chains, in a typical step",
        time_ns=time_ns,
        saving_ns=sum(row["saving_ns"] for row in ranked),
        hidden_ns=facts.hidden(sum(map(host_ns, chains))),
        evidence=first(ranked),
        **sequence.place,
        advice="torch.compile the module that runs them, or write the expression as one Triton kernel.",
    )


def _fused_ns(chain: list[Piece]) -> float:
    times = [piece.dur_ns for piece in chain]
    return (1 - _LEFT.value) * (sum(times) - max(times))


def _row(chain: list[Piece]) -> Row:
    times = [piece.dur_ns for piece in chain]
    return {
        "chain": " → ".join((piece.operator or piece.name[:60]) for piece in chain[:8]),
        "kernels": len(chain),
        "times_per_step": 1,
        "time_ns": sum(times),
        "saving_ns": sum(times) - min(times),
        "first_start_ns": chain[0].start_ns,
    }


def _chains(pieces: list[Piece]) -> Iterator[list[Piece]]:
    for fusible, group in groupby(pieces, key=_fusible):
        chain = list(group)
        if not fusible or not _LENGTH.value <= len(chain) <= _LONGEST.value:
            continue
        if len({piece.name for piece in chain}) > 1:
            yield chain


def _fusible(piece: Piece) -> bool:
    return (
        piece.kind == "computation"
        and piece.direction != "optimizer"
        and not piece.name.startswith("triton_")
        and "multi_tensor_apply" not in piece.name
        and piece.label == "element-wise"
    )
