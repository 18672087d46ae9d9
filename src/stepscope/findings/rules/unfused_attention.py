"""`unfused-attention`: attention that runs as a product, a softmax and another product."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod

from stepscope.base.grouping import merge_rows
from stepscope.base.units import plural, ratio_text
from stepscope.costs import work
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.sequence import Piece, Sequence, host_ns

_SHARE = worth("all kernels of such attention", 0.05)
_BETWEEN = Threshold(
    "kernels between the softmax and either product, at most", 12, "count", "ours: scale, mask, casts, dropout"
)
_CAUSAL = Threshold(
    "operations of the products that a fused kernel has to do",
    0.5,
    "ratio",
    "Dao et al., FlashAttention-2 (2023), section 3.1: a causal mask leaves half of the blocks",
)

_SCORES = frozenset({"elementwise", "copy", "fill", "dropout", "random", "indexing", "reduction"})
"""Families of operations on the scores between the products."""
_MATH = """
    SELECT count(*) FROM host_event
    WHERE name = 'aten::_scaled_dot_product_attention_math' AND device_ns > 0 AND {counted}
"""
_FUSED = (
    "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., is_causal=...) does it in "
    "fused kernels that never write the matrix of scores."
)
_FALLEN_BACK = (
    "scaled_dot_product_attention is called and takes its math path. Under "
    "torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]) it warns "
    "which argument keeps it off the fused kernels: float64, a head too large, a mask that needs a "
    "gradient, strides."
)


@dataclass(frozen=True, slots=True)
class _Attention:
    """One attention's forward: its work, and the host's time from the first product's call to the last's."""

    products: tuple[Piece, ...]
    between: tuple[Piece, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.products + self.between

    @property
    def calls_ns(self) -> tuple[int, int]:
        calls = [piece.called_ns for piece in self.products if piece.called_ns is not None]
        return min(calls), max(calls)


@rule(
    "unfused-attention",
    "Attention written as a batched product, a softmax and another batched product.",
    _SHARE,
    _BETWEEN,
    _CAUSAL,
    trade_off="The attention weights cannot be read then, and results differ in their last bits.",
    rests_on=("stream-order", "device-times", "launches"),
)
def unfused_attention(facts: Facts) -> Iterator[Finding]:
    """The rule looks for a softmax on a stream of a typical step with a batched product (`aten::bmm`, `aten::baddbmm`)
    before and after it, and only operations on scores between them: scaling, masks, casts, dropout, and what
    `aten::_safe_softmax` adds. If shapes are recorded, the scores that the first product makes must be those that the
    softmax and the second product take. Its backward is the work whose forward operator, by autograd's numbers, is one
    of these.

    All of their work counts, forward and backward. At most all of it can be saved except the time that half of the
    products' operations need at the device's peak: the work between the products goes, and products that neither write
    nor read the matrix of scores are faster, too (Dao et al., FlashAttention, 2022, figure 1); plus the host's time to
    launch it. If shapes or the device are unknown, nothing is subtracted.
    """
    sequence = facts.sequence
    if sequence is None or not facts.enough_work:
        return
    inputs = _Inputs(facts, sequence)
    attentions = [attention for pieces in sequence.streams() for attention in _attentions(pieces, inputs)]
    if not attentions:
        return
    of_backward = _backward(attentions, sequence)
    backward = [*chain.from_iterable(of_backward)]
    launching_ns = sum(host_ns(attention.pieces) for attention in attentions) + sum(map(host_ns, of_backward))
    pieces = [*chain.from_iterable(attention.pieces for attention in attentions), *backward]
    time_ns = sum(piece.dur_ns for piece in pieces)
    if facts.part_of_step(time_ns) <= _SHARE.value:
        return
    products = [piece for piece in pieces if _is_product(piece)]
    between_ns = time_ns - sum(piece.dur_ns for piece in products)
    shapes = merge_rows(
        ({"scores": inputs.scores(attention), "attentions": 1} for attention in attentions),
        "scores",
        adding=("attentions",),
    )
    math = facts.scope.value(facts.to_repeat(_MATH)) / facts.steps
    calls = f"{len(attentions)} {plural(len(attentions), 'call')}"
    yield of_time(
        title=f"Attention made of separate kernels takes {facts.amount(time_ns)} in {calls}"
        + (", backward included" if backward else "")
        + f", {ratio_text(between_ns / time_ns)} of it between the products",
        metric="time of attention's products and of all between them, in a typical step",
        time_ns=time_ns,
        saving_ns=time_ns - inputs.min_product_ns(products),
        hidden_ns=facts.hidden(launching_ns),
        confidence="high" if all(row["scores"] for row in shapes) else "medium",
        evidence=(*first(shapes, 3), *first(_by_operator(pieces), 8)),
        **sequence.place,
        advice=_FALLEN_BACK if 2 * math >= len(attentions) else _FUSED,
    )


class _Inputs:
    """The recorded inputs of the operators of a step."""

    def __init__(self, facts: Facts, sequence: Sequence) -> None:
        self._limits = facts.limits
        input_ids = {piece.input_id for piece in sequence.pieces if _is_softmax(piece) or _is_product(piece)}
        self._rows: dict[int, Row] = {}
        if numbers := sorted(number for number in input_ids if number is not None):
            rows = facts.scope.sql(
                'SELECT input_id, dims, types, strides, "values" FROM operator_input '
                "WHERE rank = $rank AND span = $span AND list_contains($numbers, input_id)",
                {"rank": sequence.rank, "span": sequence.span, "numbers": numbers},
            )
            self._rows = {row.pop("input_id"): row for row in rows.to_pylist()}

    def shapes(self, piece: Piece) -> list[list[int]]:
        """Shapes of its operator's tensors; empty if they were not recorded."""
        row = self._rows.get(piece.input_id) if piece.input_id is not None else None
        dims = [] if row is None else json.loads(row["dims"])
        return [shape for shape in dims if shape and all(isinstance(size, int) for size in shape)]

    def scores(self, attention: _Attention) -> str | None:
        """The shape of the softmax, in words."""
        softmax = next(piece for piece in attention.between if _is_softmax(piece))
        shapes = self.shapes(softmax)
        return " × ".join(map(str, shapes[0])) if shapes else None

    def agree(self, before: Piece, softmax: Piece, after: Piece) -> bool:
        """Whether the softmax and the second product take the first product's result."""
        product, taken, read = (self.shapes(piece) for piece in (before, softmax, after))
        operands = [shape for shape in product if len(shape) == 3][-2:]
        if not taken or len(operands) < 2 or not read:
            return not (taken and product and read)
        (batch, rows, _), (_, _, columns) = operands
        scores = prod(taken[0])
        return batch * rows * columns == scores and scores in [prod(shape) for shape in read]

    def min_product_ns(self, products: Iterable[Piece]) -> float:
        """Time of the products' operations at the device's peak, if a causal mask leaves half."""
        calls = {piece.operator_id: piece for piece in products}
        return _CAUSAL.value * sum(self._at_peak_ns(piece) for piece in calls.values())

    def _at_peak_ns(self, piece: Piece) -> float:
        row = None if piece.input_id is None else self._rows.get(piece.input_id)
        if row is None or self._limits is None or piece.operator is None:
            return 0.0
        done = work(piece.operator, **row)
        if done is None or done.dtype is None:
            return 0.0
        types = [done.dtype, "tf32"] if done.dtype == "float32" else [done.dtype]
        peaks = [of.get(dtype, 0) for dtype in types for of in (self._limits.matrix, self._limits.vector)]
        return done.flops * 1e9 / max(peaks) if max(peaks) else 0.0


def _attentions(pieces: list[Piece], inputs: _Inputs) -> Iterator[_Attention]:
    past = -1
    for place, piece in enumerate(pieces):
        if place <= past or not _is_softmax(piece) or "backward" in (piece.operator or ""):
            continue
        before, first_product = _to_product(pieces, place, -1)
        after, last_product = _to_product(pieces, place, 1)
        if not first_product or not last_product:
            continue
        if inputs.agree(first_product[0], piece, last_product[0]):
            past = place + len(after)
            yield _Attention((*first_product, *last_product), (*before, piece, *after))


def _to_product(pieces: list[Piece], place: int, way: int) -> tuple[list[Piece], list[Piece]]:
    """The operations on the scores from here to the next product, and the work of this product."""
    between: list[Piece] = []
    place += way
    while 0 <= place < len(pieces) and _of_scores(pieces[place]):
        between.append(pieces[place])
        place += way
    product: list[Piece] = []
    while 0 <= place < len(pieces) and _is_product(pieces[place]):
        if product and pieces[place].operator_id != product[0].operator_id:
            break
        product.append(pieces[place])
        place += way
    return between, product if len(between) <= _BETWEEN.value else []


def _backward(attentions: list[_Attention], sequence: Sequence) -> list[list[Piece]]:
    """The work of the backward of each attention's operators."""
    backward: list[list[Piece]] = [[] for _ in attentions]
    calls = sorted(attention.calls_ns for attention in attentions)
    starts = [start for start, _ in calls]
    forward = {id(piece) for attention in attentions for piece in attention.pieces}
    for piece in sequence.pieces:
        if piece.forward_called_ns is None or id(piece) in forward or piece.kind == "communication":
            continue
        place = bisect_right(starts, piece.forward_called_ns) - 1
        if place >= 0 and piece.forward_called_ns <= calls[place][1]:
            backward[place].append(piece)
    return backward


def _by_operator(pieces: Iterable[Piece]) -> list[Row]:
    rows = (
        {"operator": piece.operator, "direction": piece.direction, "kernels": 1, "time_ns": piece.dur_ns}
        for piece in pieces
    )
    by_operator = merge_rows(rows, "operator", "direction", adding=("kernels", "time_ns"))
    return sorted(by_operator, key=lambda row: -row["time_ns"])


def _is_product(piece: Piece) -> bool:
    model = piece.model
    return model is not None and model.formula in ("gemm.bmm", "gemm.baddbmm")


def _is_softmax(piece: Piece) -> bool:
    model = piece.model
    return model is not None and model.family == "softmax" and "log_softmax" not in (piece.operator or "")


def _of_scores(piece: Piece) -> bool:
    if piece.kind == "communication":
        return False
    if _is_softmax(piece):  # its second kernel
        return True
    model = piece.model
    return model.family in _SCORES if model is not None else piece.label == "element-wise"
