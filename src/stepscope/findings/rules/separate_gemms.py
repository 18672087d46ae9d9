"""`separate-gemms`: consecutive matrix products of one shape that could be one."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import count_text
from stepscope.costs import kernel_class
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.merged_rows import merge_rows
from stepscope.findings.sequence import Piece, host_ns

_SHARE = worth("what one product in place of several would save", 0.005)
_FILLS = Threshold(
    "blocks per multiprocessor of one product",
    0.5,
    "ratio",
    "ours: a product that fills more of the device gains nothing beside another",
)


@rule(
    "separate-gemms",
    "Products of one shape in a row that leave most of the device empty, as of one input with several weights.",
    _SHARE,
    _FILLS,
    trade_off="Weights side by side have different names in checkpoints, and parts of the joint output may have to be "
    "copied to be contiguous.",
    rests_on=("stream-order", "device-times"),
)
def separate_gemms(facts: Facts) -> Iterator[Finding]:
    """Four products of one input with four weights are one product with the weights side by side: it
    has four times the blocks and fills a device that each of them leaves nearly empty. The rule looks for
    products of the same operator with the same input shapes that follow each other on a stream of a
    typical step with no other kernel between (if an activation is computed between them, the next
    depends on the last), each with few blocks, in forward only.

    A recording has no addresses, so it is unknown whether they share an input: confidence is low, and nothing is
    certain. At most, n products become one that takes as long as the shortest of them, because a multiprocessor may
    have several blocks at once, and the host launches one. It needs shapes (record_shapes=True) and grids.
    """
    sequence = facts.sequence
    if sequence is None or not facts.enough_work:
        return
    runs = [run for pieces in sequence.streams() for run in _runs(pieces)]
    rows = merge_rows(map(_row, runs), "operator", "input_id", adding=("times_per_step", "time_ns", "saving_ns"))
    for row in rows:
        del row["input_id"]
    ranked = sorted(rows, key=lambda row: -row["saving_ns"])
    saved = sum(row["saving_ns"] for row in ranked)
    if facts.part_of_step(saved) <= _SHARE.value:
        return
    products = sum(row["products_in_a_row"] * row["times_per_step"] for row in ranked)
    time_ns = sum(row["time_ns"] for row in ranked)
    yield of_time(
        title=f"{count_text(products)} small products follow others of the same shape and could be "
        f"fewer, larger ones: {facts.amount(time_ns)}",
        metric="time of small products of one shape in a row, in a typical step",
        time_ns=time_ns,
        saving_ns=saved,
        hidden_ns=facts.hidden(sum(map(host_ns, runs))),
        confidence="low",
        evidence=first(ranked),
        **sequence.place,
        advice="Where they share their input (query, key and value; the gates of a cell), use one "
        "nn.Linear with the weights side by side and split its output; otherwise stack the inputs and "
        "use torch.bmm.",
    )


def _runs(pieces: list[Piece]) -> Iterator[list[Piece]]:
    run: list[Piece] = []
    for piece in pieces:
        continues = _small_product(piece) and (
            not run or (piece.operator, piece.input_id) == (run[0].operator, run[0].input_id)
        )
        if not continues:
            if len({product.operator_id for product in run}) > 1:
                yield run
            run = []
        if _small_product(piece):
            run.append(piece)
    if len({product.operator_id for product in run}) > 1:
        yield run


def _small_product(piece: Piece) -> bool:
    return (
        piece.input_id is not None
        and piece.direction != "backward"
        and piece.blocks_per_sm is not None
        and 0 < piece.blocks_per_sm <= _FILLS.value
        and piece.model is not None
        and piece.model.joins
        and kernel_class(piece.name) == "GEMM"
    )


def _row(run: list[Piece]) -> Row:
    times = [piece.dur_ns for piece in run]
    return {
        "operator": run[0].operator,
        "kernel": run[0].name,
        "products_in_a_row": len(run),
        "times_per_step": 1,
        "time_ns": sum(times),
        "saving_ns": sum(times) - min(times),
        "first_start_ns": run[0].start_ns,
        "input_id": run[0].input_id,
    }
