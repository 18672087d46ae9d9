"""Scaled dot-product attention: flash, memory-efficient, cuDNN and composite, forward and backward.

For each visible pair of a query and a key, the forward computes one product of length d (the score) and one of length
d_v (the weighted value): 2·d + 2·d_v operations. The backward of a fused kernel computes five: the score again, the
gradients of value and of the probabilities (length d_v each), and those of query and key (length d each): 6·d + 4·d_v.
Every query head counts, even if heads share keys and values (grouped-query attention): sharing saves bytes, not
products. The softmax between the products is not counted. Source: Dao et al., FlashAttention-2 (2023), section 4;
torch's FlopCounterMode counts the same products, always over all pairs. A causal mask leaves about half of the pairs.
The convention `masked` counts exactly those, even if there are more keys than queries; `full` counts all.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from stepscope.costs.call import Call, Scalar, Tensor
from stepscope.costs.dtype import accumulate_type
from stepscope.costs.work import Conventions, Models, Work, dense, sized, stored, total

MODELS = Models()

Corner = Literal["top", "bottom"]


class _Layout(NamedTuple):
    """Positions and layout of an operator's arguments. `heads_first` means [B, H, N, d], else [B, N, H, d]. `lengths`
    are positions of the sequences' starts (queries, keys) and longest lengths, `corner` where the mask's diagonal lies.
    With `causal_type` a number chooses the mask: 0 none, 1 causal from the top, 2 from the bottom."""

    heads_first: bool
    causal: int
    mask: int | None = None
    lengths: tuple[int, int, int, int] | None = None
    window: tuple[int, int] | None = None
    corner: Corner = "top"
    causal_type: bool = False
    log_sum: int | bool = True
    out: tuple[int, ...] = ()


_FORWARD: dict[str, _Layout] = {
    "aten::scaled_dot_product_attention": _Layout(True, 5, mask=3, log_sum=False),
    "aten::_scaled_dot_product_attention_math": _Layout(True, 5, mask=3, log_sum=False),
    "aten::_scaled_dot_product_flash_attention": _Layout(True, 4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _Layout(True, 4, mask=5),
    "aten::_scaled_dot_product_efficient_attention": _Layout(True, 6, mask=3, log_sum=4),
    "aten::_scaled_dot_product_cudnn_attention": _Layout(True, 6, mask=3, log_sum=4),
    "aten::_scaled_dot_product_fused_attention_overrideable": _Layout(True, 5, mask=3),
    "aten::_flash_attention_forward": _Layout(False, 8, lengths=(3, 4, 5, 6), window=(11, 12), corner="bottom"),
    "aten::_efficient_attention_forward": _Layout(False, 9, mask=3, lengths=(4, 5, 6, 7), causal_type=True, log_sum=10),
    "aten::_cudnn_attention_forward": _Layout(True, 10, mask=3, lengths=(4, 5, 6, 7), log_sum=8),
    "flash_attn::_flash_attn_forward": _Layout(False, 5, window=(6, 7), corner="bottom"),
    "flash_attn::_flash_attn_varlen_forward": _Layout(False, 9, lengths=(3, 4, 5, 6), window=(10, 11), corner="bottom"),
}
"""Operators whose first three arguments are query, key and value."""

_BACKWARD: dict[str, _Layout] = {
    "aten::_scaled_dot_product_flash_attention_backward": _Layout(True, 11, lengths=(6, 7, 8, 9), out=(4, 5)),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _Layout(True, 7, mask=8, out=(4, 5)),
    "aten::_scaled_dot_product_efficient_attention_backward": _Layout(True, 11, mask=4, out=(5, 6)),
    "aten::_scaled_dot_product_cudnn_attention_backward": _Layout(
        True, 14, mask=8, lengths=(9, 10, 11, 12), out=(4, 5)
    ),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _Layout(
        True, 13, mask=4, lengths=(8, 9, 10, 11), out=(6, 7)
    ),
    "aten::_flash_attention_backward": _Layout(
        False, 11, lengths=(6, 7, 8, 9), window=(15, 16), corner="bottom", out=(4, 5)
    ),
    "aten::_efficient_attention_backward": _Layout(
        False, 14, mask=4, lengths=(6, 7, 8, 9), causal_type=True, out=(5, 10)
    ),
    "aten::_cudnn_attention_backward": _Layout(True, 14, mask=8, lengths=(9, 10, 11, 12), out=(4, 5)),
    "flash_attn::_flash_attn_backward": _Layout(False, 11, window=(12, 13), corner="bottom", out=(4, 5)),
    "flash_attn::_flash_attn_varlen_backward": _Layout(
        False, 15, lengths=(9, 10, 11, 12), window=(16, 17), corner="bottom", out=(4, 5)
    ),
}
"""Operators whose first four arguments are the output's gradient, query, key and value."""


def visible_pairs(
    queries: int, keys: int, *, causal: bool, corner: Corner = "top", left: int | None = None, right: int | None = None
) -> int:
    """Counts the query-key pairs that a causal mask and a window leave.

    Args:
        corner: `top`: query i is at key i; `bottom`: the last query is at the last key.
        left, right: how many keys before and after its position a query sees; None for all.

    >>> visible_pairs(3, 3, causal=True), visible_pairs(2, 4, causal=True, corner="bottom")
    (6, 7)
    """
    if causal:
        right = 0 if right is None else min(right, 0)
    shift = keys - queries if corner == "bottom" else 0
    reached = queries * keys if right is None else _clipped_sum(shift + right + 1, queries, keys)
    passed = 0 if left is None else _clipped_sum(shift - left, queries, keys)
    return max(0, reached - passed)


def _clipped_sum(start: int, count: int, high: int) -> int:
    """Sum of start + i, kept within 0 and high, over i from 0 to count - 1."""
    below = min(count, max(0, -start))
    above = min(count - below, max(0, start + count - 1 - high))
    middle = count - below - above
    return above * high + middle * (start + below) + middle * (middle - 1) // 2


class _Extent(NamedTuple):
    """The sizes that determine the number of products: independent heads, queries and keys of each."""

    heads: int
    queries: int
    keys: int
    width: int
    value_width: int


def _extent(call: Call, layout: _Layout, q: Tensor, k: Tensor, v: Tensor) -> _Extent | None:
    width, value_width = q.shape[-1:], v.shape[-1:]
    if not width or not value_width or k.shape[-1:] != width:
        return None
    starts = call.tensor(layout.lengths[0]) if layout.lengths is not None else None
    if starts is not None and starts.elements > 1:
        return _packed_extent(call, layout, starts.elements - 1, q, k, v)
    if layout.heads_first:
        if min(len(q.shape), len(k.shape), len(v.shape)) < 2 or k.shape[-2] != v.shape[-2]:
            return None
        heads = math.prod(q.shape[:-2])
        return _Extent(heads, q.shape[-2], k.shape[-2], width[0], value_width[0])
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4 or k.shape[1] != v.shape[1]:
        return None
    return _Extent(q.shape[0] * q.shape[2], q.shape[1], k.shape[1], width[0], value_width[0])


def _packed_extent(call: Call, layout: _Layout, batch: int, q: Tensor, k: Tensor, v: Tensor) -> _Extent | None:
    if layout.lengths is None or len(q.shape) < 3 or len(k.shape) < 3:
        return None
    longest_q, longest_k = call.integer(layout.lengths[2]), call.integer(layout.lengths[3])
    tokens_q, tokens_k = q.shape[-3], k.shape[-3]
    if batch == 1:
        longest_q, longest_k = tokens_q, tokens_k
    if longest_q is None or longest_k is None:
        return None
    if tokens_q != batch * longest_q or tokens_k != batch * longest_k:
        return None
    return _Extent(batch * q.shape[-2], longest_q, longest_k, q.shape[-1], v.shape[-1])


def _pairs(call: Call, layout: _Layout, extent: _Extent, conventions: Conventions) -> tuple[int, str | None]:
    """Count the pairs of one head, with a note if what determines them was not recorded."""
    if conventions.causal == "full":
        return extent.queries * extent.keys, None
    position = layout.causal
    if call.name == "aten::_scaled_dot_product_flash_attention" and not isinstance(call.argument(3), Scalar):
        position += 3  # the overload for 8-bit inputs has three scales before
    corner = layout.corner
    if layout.causal_type:
        kind = call.integer(position)
        causal = None if kind is None else kind != 0
        corner = "bottom" if kind == 2 else "top"
    else:
        causal = call.flag(position)
    window = _window(call, layout)
    note = None
    if causal is None and isinstance(call.argument(position), Scalar):
        causal = True
        note = "whether it is causal is not recorded: counted as causal, a lower bound"
    pairs = visible_pairs(
        extent.queries, extent.keys, causal=bool(causal), corner=corner, left=window[0], right=window[1]
    )
    return pairs, note


def _window(call: Call, layout: _Layout) -> tuple[int | None, int | None]:
    if layout.window is None:
        return None, None
    shift = 3 if layout.window[0] == 11 and isinstance(call.argument(10), Tensor) else 0
    left, right = (call.integer(position + shift) for position in layout.window)
    return (left if left is not None and left >= 0 else None, right if right is not None and right >= 0 else None)


def _mask(call: Call, layout: _Layout) -> Tensor | None:
    return None if layout.mask is None else call.tensor(layout.mask)


@MODELS.add(
    "attention.forward",
    tuple(_FORWARD),
    composites="scaled_dot_product_attention _scaled_dot_product_attention_math "
    "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention",
)
def forward(call: Call, conventions: Conventions) -> Work | None:
    """Attention's forward: (2·d + 2·d_v) for each visible pair of each query head. Reads query, key, value and mask;
    writes the output and, if the operator keeps it for the backward, one log-sum-exp (float32) for each query. Packed
    sequences of unequal length are not counted, since recorders omit the lengths."""
    layout = _FORWARD[call.name]
    q, k, v = call.given(0, 1, 2)
    if call.name == "aten::_flash_attention_forward" and isinstance(call.argument(13), Tensor):
        return None  # the number of used keys depends on data
    extent = _extent(call, layout, q, k, v)
    if extent is None:
        return None
    pairs, note = _pairs(call, layout, extent, conventions)
    rows = extent.heads * extent.queries
    keeps = layout.log_sum if isinstance(layout.log_sum, bool) else call.flag(layout.log_sum)
    statistics = sized(rows, accumulate_type(q.dtype)) if keeps else 0
    return Work(
        "attention.forward",
        flops=2 * extent.heads * pairs * (extent.width + extent.value_width),
        bytes_read=stored(q, k, v, _mask(call, layout)),
        bytes_written=total(sized(rows * extent.value_width, v.dtype), statistics),
        dtype=q.dtype,
        unit="matrix",
        bound="exact" if note is None else "lower",
        notes=() if note is None else (note,),
    )


@MODELS.add(
    "attention.backward",
    tuple(_BACKWARD),
    composites="_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward",
)
def backward(call: Call, conventions: Conventions) -> Work | None:
    """Attention's backward: (6·d + 4·d_v) for each visible pair of each query head. Reads the output's gradient, query,
    key, value, output, the kept log-sum-exps and the mask; writes the gradients of query, key and value."""
    layout = _BACKWARD[call.name]
    grad, q, k, v = call.given(0, 1, 2, 3)
    extent = _extent(call, layout, q, k, v)
    if extent is None:
        return None
    pairs, note = _pairs(call, layout, extent, conventions)
    saved = [call.tensor(position) for position in layout.out]
    return Work(
        "attention.backward",
        flops=extent.heads * pairs * (6 * extent.width + 4 * extent.value_width),
        bytes_read=stored(grad, q, k, v, *saved, _mask(call, layout)),
        bytes_written=dense(q, k, v),
        dtype=q.dtype,
        unit="matrix",
        bound="exact" if note is None else "lower",
        notes=() if note is None else (note,),
    )
