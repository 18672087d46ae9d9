"""Products that stay off tensor cores, with the kernels that cuBLAS chooses then."""

from typing import Any

import pytest
from tests.findings.kineto_trace import A100, V100, Recorder, training

SGEMM = "ampere_sgemm_128x64_tn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"


def layers(kernel: str, us: int, dtype: str, size: int, device: Any, *, rest_us: int = 400) -> Any:
    def step(r: Recorder) -> None:
        for _ in range(30):
            with r.operator("aten::addmm", [[size], [4096, size], [size, size]], dtype):
                r.kernel(kernel, us, grid=(32, 64, 1))
            with r.operator("aten::add", [[4096, size], [4096, size], []], dtype):
                r.kernel(ADD, rest_us)

    return training(step, devices=(device,))


def test_float32_products_of_an_a100_without_tf32_are_found(found: Any) -> None:
    (row,) = found(layers(SGEMM, 1_800, "float", 1024, A100), "tf32-off")
    assert row["value"] == 30 * 1_800_000
    assert row["saving_high_ns"] == row["value"]
    assert row["evidence"][0]["kernel"] == SGEMM


@pytest.mark.parametrize(
    "trace",
    [
        layers(TF32, 1_800, "float", 1024, A100),
        layers(SGEMM, 1_800, "float", 1024, V100),
        layers("ampere_dgemm_64x64_tn", 1_800, "double", 1024, A100),
        layers(SGEMM, 20, "float", 1024, A100),
    ],
    ids=["on tensor cores", "before Ampere", "float64", "less than 5 %"],
)
def test_tf32_that_is_on_unknown_or_of_no_use_is_not(found: Any, trace: Any) -> None:
    assert found(trace, "tf32-off") == []


def test_half_precision_products_of_odd_sizes_off_tensor_cores_are_found(found: Any) -> None:
    (row,) = found(layers("volta_hgemm_128x128_tn", 900, "c10::Half", 1023, V100), "tensor-cores-unused")
    assert row["value"] == 30 * 900_000
    assert row["saving_high_ns"] == row["value"]
    assert "1023, not a multiple of 8" in row["evidence"][0]["sizes"]


@pytest.mark.parametrize(
    "trace",
    [
        layers("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", 900, "c10::Half", 1023, V100),
        layers("void gemv2T_kernel_val<int, int, __half, __half, __half, float>", 900, "c10::Half", 1023, V100),
        layers("volta_hgemm_128x128_tn", 8, "c10::Half", 1023, V100),
    ],
    ids=["on tensor cores", "with a vector", "less than 2 %"],
)
def test_products_on_tensor_cores_or_without_use_for_them_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "tensor-cores-unused") == []
