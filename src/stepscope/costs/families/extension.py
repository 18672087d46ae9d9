"""Operators that are not torch's own but common in traces: vLLM, FBGEMM, causal convolutions.

Only those whose recorded arguments determine their work. A fused mixture of experts or a paged attention
does not record how many experts or keys it used, and has no model.
"""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import Conventions, Models, Work, dense, sized, stored, total

MODELS = Models()


@MODELS.add("normalisation.vllm_rms_norm", "_C::rms_norm")
def rms_norm(call: Call, _: Conventions) -> Work | None:
    """vLLM's `rms_norm(out, x, weight, eps)`: 4n + 3 for each row; reads x and weight, writes out."""
    out, x, weight = call.given(0, 1, 2)
    if not x.shape:
        return None
    flops = 4 * x.elements + 3 * (x.elements // max(1, x.shape[-1]))
    return Work("normalisation.vllm_rms_norm", flops, stored(x, weight), dense(out), x.dtype)


@MODELS.add("normalisation.vllm_fused_add_rms_norm", "_C::fused_add_rms_norm")
def fused_add_rms_norm(call: Call, _: Conventions) -> Work | None:
    """vLLM's `fused_add_rms_norm(x, residual, weight, eps)`: 5n + 3 for each row. The residual is added first; both x
    and the residual are read and written."""
    x, residual, weight = call.given(0, 1, 2)
    if not x.shape:
        return None
    flops = 5 * x.elements + 3 * (x.elements // max(1, x.shape[-1]))
    name = "normalisation.vllm_fused_add_rms_norm"
    return Work(name, flops, stored(x, residual, weight), dense(x, residual), x.dtype)


@MODELS.add("elementwise.rotary_embedding", "_C::rotary_embedding")
def rotary_embedding(call: Call, _: Conventions) -> Work | None:
    """vLLM's `rotary_embedding(positions, query, key, head_size, cache, ...)`: 3 for each element. Two products and a
    sum make each rotated element. Reads positions, query, key and a row of the cache for each position, writes query
    and key."""
    (positions, query, cache), key = call.given(0, 1, 4), call.tensor(2)
    if len(cache.shape) != 2:
        return None
    rows = sized(positions.elements * cache.shape[1], cache.dtype)
    flops = 3 * (query.elements + (0 if key is None else key.elements))
    read, notes = total(stored(positions, query, key), rows), ("all of each head taken to be rotated",)
    return Work("elementwise.rotary_embedding", flops, read, dense(query, key), query.dtype, notes=notes)


@MODELS.add("elementwise.quantise", "_C::static_scaled_fp8_quant _C::dynamic_scaled_fp8_quant")
def quantise(call: Call, _: Conventions) -> Work | None:
    """vLLM's `static_scaled_fp8_quant(out, x, scale)`: 3n (scale and two clamps). The dynamic form finds the largest
    magnitude first (2n more) and writes the scale."""
    (out, x), scale = call.given(0, 1), call.tensor(2)
    dynamic = "dynamic" in call.name
    read, written = stored(x, None if dynamic else scale), dense(out)
    if dynamic:
        written = total(written, stored(scale))
    return Work("elementwise.quantise", (5 if dynamic else 3) * x.elements, read, written, x.dtype)


@MODELS.add("elementwise.silu_and_mul", "_C::silu_and_mul")
def silu_and_mul(call: Call, _: Conventions) -> Work | None:
    """vLLM's `silu_and_mul(out, x)`: 6 for each result (silu 5, product 1); x is twice as wide."""
    out, x = call.given(0, 1)
    return Work("elementwise.silu_and_mul", 6 * out.elements, stored(x), dense(out), x.dtype)


@MODELS.add("indexing.cache_write", "_C_cache_ops::reshape_and_cache_flash")
def cache_write(call: Call, _: Conventions) -> Work | None:
    """vLLM's `reshape_and_cache_flash(key, value, key_cache, value_cache, slots, ...)`: a copy. Reads key, value and
    slots; writes as many elements in the cache's type."""
    key, value, cache = call.given(0, 1, 2)
    written = sized(key.elements + value.elements, cache.dtype)
    read = stored(key, value, call.tensor(4))
    return Work("indexing.cache_write", 0, read, written, cache.dtype)


@MODELS.add(
    "indexing.permute_pooled",
    (
        "fbgemm::permute_pooled_embs",
        "fbgemm::permute_pooled_embs_auto_grad",
        "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >",
    ),
)
def permute_pooled(call: Call, _: Conventions) -> Work | None:
    """FBGEMM's `permute_pooled_embs(pooled, ...)`: columns in another order; reads and writes all."""
    (pooled,) = call.given(0)
    return Work("indexing.permute_pooled", 0, stored(pooled), dense(pooled), pooled.dtype)


@MODELS.add("scan.complete_sum", "fbgemm::asynchronous_complete_cumsum fb::asynchronous_complete_cumsum")
def complete_sum(call: Call, _: Conventions) -> Work | None:
    """FBGEMM's `asynchronous_complete_cumsum(lengths)`: n + 1 running sums of integers."""
    (lengths,) = call.given(0)
    written = sized(lengths.elements + 1, lengths.dtype)
    return Work("scan.complete_sum", 0, stored(lengths), written, lengths.dtype)


@MODELS.add("convolution.causal_conv1d", "DaoAILab::_causal_conv1d_fwd_cpp causal_conv1d::causal_conv1d_fwd")
def causal_conv1d(call: Call, _: Conventions) -> Work | None:
    """Depthwise causal convolution, x [B, D, L] with w [D, W]: 2·B·D·L·W; reads both, writes x's size."""
    x, w = call.given(0, 1)
    if len(x.shape) != 3 or len(w.shape) != 2 or x.shape[1] != w.shape[0]:
        return None
    flops, read = 2 * x.elements * w.shape[1], stored(x, w, call.tensor(2))
    return Work("convolution.causal_conv1d", flops, read, dense(x), x.dtype)
