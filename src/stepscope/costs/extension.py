"""Operators that are not torch's own but common in traces: vLLM, FBGEMM, causal convolutions.

Only those whose recorded arguments tell their work. A fused mixture of experts or a paged attention
does not say how many experts or keys it met, and has no model.
"""

from __future__ import annotations

from stepscope.costs.call import Call, Tensor
from stepscope.costs.work import Conventions, Model, Work, total


def _bytes(tensor: Tensor | None) -> int | None:
    return 0 if tensor is None else tensor.stored_bytes


def rms_norm(call: Call, _: Conventions) -> Work | None:
    """vLLM's `rms_norm(out, x, weight, eps)`: 4n + 3 for each row; reads x and weight, writes out."""
    out, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    if out is None or x is None or weight is None or not x.shape:
        return None
    rows = x.elements // max(1, x.shape[-1])
    return Work(
        formula="normalisation.vllm_rms_norm",
        flops=4 * x.elements + 3 * rows,
        bytes_read=total(x.stored_bytes, weight.stored_bytes),
        bytes_written=out.bytes,
        dtype=x.dtype,
    )


def fused_add_rms_norm(call: Call, _: Conventions) -> Work | None:
    """vLLM's `fused_add_rms_norm(x, residual, weight, eps)`: 5n + 3 for each row.

    The residual is added first; both x and the residual are read and written.
    """
    x, residual, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    if x is None or residual is None or weight is None or not x.shape:
        return None
    rows = x.elements // max(1, x.shape[-1])
    return Work(
        formula="normalisation.vllm_fused_add_rms_norm",
        flops=5 * x.elements + 3 * rows,
        bytes_read=total(x.stored_bytes, residual.stored_bytes, weight.stored_bytes),
        bytes_written=total(x.bytes, residual.bytes),
        dtype=x.dtype,
    )


def rotary_embedding(call: Call, _: Conventions) -> Work | None:
    """vLLM's `rotary_embedding(positions, query, key, head_size, cache, ...)`: 3 for each element.

    Two products and a sum make each rotated element. Reads positions, query, key and a row of the
    cache for each position, writes query and key.
    """
    positions, query, key, cache = (call.tensor(place) for place in (0, 1, 2, 4))
    if positions is None or query is None or cache is None or len(cache.shape) != 2:
        return None
    rotated = query.elements + (0 if key is None else key.elements)
    size = cache.element_size
    rows = None if size is None else positions.elements * cache.shape[1] * size
    return Work(
        formula="elementwise.rotary_embedding",
        flops=3 * rotated,
        bytes_read=total(positions.stored_bytes, query.stored_bytes, _bytes(key), rows),
        bytes_written=total(query.bytes, 0 if key is None else key.bytes),
        dtype=query.dtype,
        notes=("all of each head taken to be rotated",),
    )


def quantise(call: Call, _: Conventions) -> Work | None:
    """vLLM's `static_scaled_fp8_quant(out, x, scale)`: 3n (scale and two clamps).

    The dynamic form finds the largest magnitude first (2n more) and writes the scale.
    """
    out, x, scale = call.tensor(0), call.tensor(1), call.tensor(2)
    if out is None or x is None:
        return None
    dynamic = "dynamic" in call.name
    return Work(
        formula="elementwise.quantise",
        flops=(5 if dynamic else 3) * x.elements,
        bytes_read=total(x.stored_bytes, 0 if dynamic else _bytes(scale)),
        bytes_written=total(out.bytes, _bytes(scale) if dynamic else 0),
        dtype=x.dtype,
    )


def silu_and_mul(call: Call, _: Conventions) -> Work | None:
    """vLLM's `silu_and_mul(out, x)`: 6 for each result (silu 5, product 1); x is twice as wide."""
    out, x = call.tensor(0), call.tensor(1)
    if out is None or x is None:
        return None
    return Work(
        formula="elementwise.silu_and_mul",
        flops=6 * out.elements,
        bytes_read=x.stored_bytes,
        bytes_written=out.bytes,
        dtype=x.dtype,
    )


def cache_write(call: Call, _: Conventions) -> Work | None:
    """vLLM's `reshape_and_cache_flash(key, value, key_cache, value_cache, slots, ...)`: a copy.

    Reads key, value and slots; writes as many elements in the cache's type.
    """
    key, value, cache, slots = (call.tensor(place) for place in (0, 1, 2, 4))
    if key is None or value is None or cache is None:
        return None
    size = cache.element_size
    moved = key.elements + value.elements
    return Work(
        formula="indexing.cache_write",
        flops=0,
        bytes_read=total(key.stored_bytes, value.stored_bytes, _bytes(slots)),
        bytes_written=None if size is None else moved * size,
        dtype=cache.dtype,
    )


def permute_pooled(call: Call, _: Conventions) -> Work | None:
    """FBGEMM's `permute_pooled_embs(pooled, ...)`: columns in another order; reads and writes all."""
    pooled = call.tensor(0)
    if pooled is None:
        return None
    return Work(
        formula="indexing.permute_pooled",
        flops=0,
        bytes_read=pooled.stored_bytes,
        bytes_written=pooled.bytes,
        dtype=pooled.dtype,
    )


def complete_sum(call: Call, _: Conventions) -> Work | None:
    """FBGEMM's `asynchronous_complete_cumsum(lengths)`: n + 1 running sums of integers."""
    lengths = call.tensor(0)
    if lengths is None:
        return None
    size = lengths.element_size
    return Work(
        formula="scan.complete_sum",
        flops=0,
        bytes_read=lengths.stored_bytes,
        bytes_written=None if size is None else (lengths.elements + 1) * size,
        dtype=lengths.dtype,
    )


def causal_conv1d(call: Call, _: Conventions) -> Work | None:
    """Depthwise causal convolution, x [B, D, L] with w [D, W]: 2·B·D·L·W; reads both, writes x's size."""
    x, w, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    if x is None or w is None or len(x.shape) != 3 or len(w.shape) != 2 or x.shape[1] != w.shape[0]:
        return None
    return Work(
        formula="convolution.causal_conv1d",
        flops=2 * x.elements * w.shape[1],
        bytes_read=total(x.stored_bytes, w.stored_bytes, _bytes(bias)),
        bytes_written=x.bytes,
        dtype=x.dtype,
    )


MODELS: tuple[Model, ...] = (
    Model("normalisation.vllm_rms_norm", ("_C::rms_norm",), rms_norm),
    Model("normalisation.vllm_fused_add_rms_norm", ("_C::fused_add_rms_norm",), fused_add_rms_norm),
    Model("elementwise.rotary_embedding", ("_C::rotary_embedding",), rotary_embedding),
    Model(
        "elementwise.quantise",
        ("_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant"),
        quantise,
    ),
    Model("elementwise.silu_and_mul", ("_C::silu_and_mul",), silu_and_mul),
    Model("indexing.cache_write", ("_C_cache_ops::reshape_and_cache_flash",), cache_write),
    Model(
        "indexing.permute_pooled",
        (
            "fbgemm::permute_pooled_embs",
            "fbgemm::permute_pooled_embs_auto_grad",
            "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction"
            "<&fbgemm_gpu::permute_pooled_embs_gpu> >",
        ),
        permute_pooled,
    ),
    Model(
        "scan.complete_sum",
        ("fbgemm::asynchronous_complete_cumsum", "fb::asynchronous_complete_cumsum"),
        complete_sum,
    ),
    Model(
        "convolution.causal_conv1d",
        ("DaoAILab::_causal_conv1d_fwd_cpp", "causal_conv1d::causal_conv1d_fwd"),
        causal_conv1d,
    ),
)
