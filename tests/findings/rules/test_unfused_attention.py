"""A GPT's attention on an A100 (8 × 12 heads, 1024 tokens, 64 features), times as its kernels take."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

LAYERS = 4
Q, K_T, SCORES = [96, 1024, 64], [96, 64, 1024], [8, 12, 1024, 1024]
FLAT = [96, 1024, 1024]
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, at::native::{}, at::detail::Array<char*, 3> >"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 10, false, false>"


def one(r: Recorder, name: str, kernel: str, us: int, *dims: list[int]) -> int:
    """An operator of one kernel, which autograd numbers."""
    number = r.number()
    with r.operator(name, list(dims), number=number):
        r.kernel(kernel, us)
    return number


def linear(r: Recorder) -> None:
    one(r, "aten::addmm", GEMM, 250, [768], [8192, 768], [768, 768])


def softmax(r: Recorder, *, safe: bool = False) -> int:
    with r.operator("aten::_safe_softmax" if safe else "aten::softmax", [SCORES, [], []]):
        number = one(r, "aten::_softmax", SOFTMAX, 280, SCORES, [], [])
        if safe:
            one(r, "aten::eq", VECTORIZED.format("CompareEqFunctor<c10::Half>"), 150, SCORES, [])
            one(r, "aten::all", "void at::native::reduce_kernel<512, 1, and_kernel>", 90, SCORES, [])
            one(r, "aten::where", VECTORIZED.format("where_kernel_impl"), 300, SCORES, [], SCORES)
    return number


def scores(r: Recorder) -> dict[str, int]:
    """The product of queries and keys, scaled and masked."""
    numbers = {"BmmBackward0": one(r, "aten::bmm", GEMM, 190, Q, K_T)}
    numbers["DivBackward0"] = one(r, "aten::div", VECTORIZED.format("MulFunctor<float>"), 260, SCORES, [])
    fill = VECTORIZED.format("masked_fill_kernel")
    numbers["MaskedFillBackward0"] = one(r, "aten::masked_fill", fill, 280, SCORES, [1, 1, 1024, 1024], [])
    return numbers


def eager(r: Recorder) -> dict[str, int]:
    with r.operator("aten::matmul", [[8, 12, 1024, 64], [8, 12, 64, 1024]]):
        numbers = scores(r)
    numbers["SoftmaxBackward0"] = softmax(r)
    dropout = "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::Half, float>"
    numbers["NativeDropoutBackward0"] = one(r, "aten::native_dropout", dropout, 340, SCORES, [], [])
    with r.operator("aten::matmul", [SCORES, [8, 12, 1024, 64]]):
        numbers["Bmm2"] = one(r, "aten::bmm", GEMM, 180, FLAT, Q)
    return numbers


def eager_backward(r: Recorder, numbers: dict[str, int]) -> None:
    def node(name: str, *kernels: tuple[str, str, int], of: str | None = None) -> None:
        with r.backward(name, numbers[of or name]):
            for operator, kernel, us in kernels:
                with r.operator(operator, [SCORES, SCORES]):
                    r.kernel(kernel, us)

    node("BmmBackward0", ("aten::bmm", GEMM, 185), ("aten::bmm", GEMM, 195), of="Bmm2")
    masked = VECTORIZED.format("masked_scale_kernel")
    node("NativeDropoutBackward0", ("aten::native_dropout_backward", masked, 350))
    node("SoftmaxBackward0", ("aten::_softmax_backward_data", SOFTMAX.replace("forward", "backward"), 400))
    node("MaskedFillBackward0", ("aten::masked_fill", VECTORIZED.format("masked_fill_kernel"), 280))
    node("DivBackward0", ("aten::div", VECTORIZED.format("MulFunctor<float>"), 260))
    node("BmmBackward0", ("aten::bmm", GEMM, 190), ("aten::bmm", GEMM, 190))


def layers(attention: Callable[[Recorder], dict[str, int] | None], *, backward: bool = False) -> Any:
    def step(r: Recorder) -> None:
        numbers = []
        for _ in range(LAYERS):
            for _ in range(6):
                linear(r)
                one(r, "aten::gelu", VECTORIZED.format("GeluCUDAKernelImpl"), 20, [8192, 768], [])
            numbers.append(attention(r))
        if backward:
            for of in reversed(numbers):
                if of is not None:
                    eager_backward(r, of)

    return training(step)


FORWARD = 190 + 260 + 280 + 280 + 340 + 180
BACKWARD = 185 + 195 + 350 + 400 + 280 + 260 + 190 + 190


def test_eager_attention_is_found_forward_and_backward(found: Any) -> None:
    (row,) = found(layers(eager, backward=True), "unfused-attention")
    assert row["value"] == LAYERS * (FORWARD + BACKWARD) * 1_000
    assert row["title"].startswith("Attention made of separate kernels takes ")
    assert " in 4 calls, backward included, " in row["title"]
    between = (260 + 280 + 280 + 340 + 350 + 400 + 280 + 260) / (FORWARD + BACKWARD)
    assert row["title"].endswith(f", backward included, {between:.1%} of it between the products".replace("%", " %"))
    assert row["evidence"][0] == {"scores": "8 × 12 × 1024 × 1024", "attentions": LAYERS}
    products = {of["direction"]: of["kernels"] for of in row["evidence"][1:] if of["operator"] == "aten::bmm"}
    assert products == {"forward": 2 * LAYERS, "backward": 4 * LAYERS}
    assert (row["saving_low_ns"], row["confidence"]) == (0, "high")


def test_what_half_of_the_products_needs_at_the_peak_cannot_be_saved(found: Any) -> None:
    (row,) = found(layers(eager), "unfused-attention")
    flops = 2 * LAYERS * 2 * 96 * 1024 * 1024 * 64  # two products in each layer
    least_ns = flops / 2 / 312e12 * 1e9
    launching_ns = 98_000  # no more than the time in which no kernel computes
    saved_high_ns = LAYERS * FORWARD * 1_000 - least_ns + launching_ns
    assert row["saving_high_ns"] == pytest.approx(saved_high_ns, abs=1)


def math_path(r: Recorder) -> None:
    with r.operator("aten::scaled_dot_product_attention"), r.operator("aten::_scaled_dot_product_attention_math"):
        one(r, "aten::mul", VECTORIZED.format("MulFunctor<float>"), 15, [8, 12, 1024, 64], [])
        one(r, "aten::bmm", GEMM, 190, Q, K_T)
        one(r, "aten::add_", VECTORIZED.format("CUDAFunctor_add<c10::Half>"), 270, SCORES, [1024, 1024], [])
        softmax(r, safe=True)
        one(r, "aten::bmm", GEMM, 180, FLAT, Q)


def test_the_math_path_of_sdpa_is_found_with_its_own_advice(found: Any) -> None:
    (row,) = found(layers(math_path), "unfused-attention")
    assert row["value"] == LAYERS * (190 + 270 + 280 + 150 + 90 + 300 + 180) * 1_000
    assert row["advice"].startswith("scaled_dot_product_attention is called and takes its math path.")


def fused(r: Recorder) -> None:
    heads = [[8, 12, 1024, 64]] * 3
    with r.operator("aten::_scaled_dot_product_flash_attention", heads):
        r.kernel("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >", 900)


def routed(r: Recorder) -> None:
    """Experts chosen by a softmax: other numbers than a product of scores makes."""
    one(r, "aten::bmm", GEMM, 600, Q, K_T)
    one(r, "aten::_softmax", SOFTMAX, 600, [8192, 64], [], [])
    one(r, "aten::bmm", GEMM, 600, FLAT, Q)


def normalised(r: Recorder) -> None:
    one(r, "aten::bmm", GEMM, 600, Q, K_T)
    one(r, "aten::native_layer_norm", "void at::native::vectorized_layer_norm_kernel<c10::Half>", 600, SCORES)
    softmax(r)
    one(r, "aten::bmm", GEMM, 600, FLAT, Q)


@pytest.mark.parametrize("attention", [fused, routed, normalised])
def test_fused_attention_and_other_uses_of_softmax_are_not(found: Any, attention: Any) -> None:
    assert found(layers(attention), "unfused-attention") == []
