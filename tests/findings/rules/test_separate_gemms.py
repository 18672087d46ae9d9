"""Query, key and value of a small BERT, one nn.Linear each: 24 blocks for 108 multiprocessors."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

GEMM = "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn"


def blocks(out: tuple[int, ...] = (768, 768, 768), *, grid: int = 24, between: bool = False) -> Any:
    def step(r: Recorder) -> None:
        for _ in range(12):
            for features in out:
                with r.operator("aten::addmm", [[features], [128, 768], [768, features]]):
                    r.kernel(GEMM, 12, grid=(grid, 1, 1), block=(128, 1, 1))
                if between:
                    with r.operator("aten::gelu", [[128, features], []]):
                        r.kernel("void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", 5)
            for _ in range(2):
                with r.operator("aten::native_layer_norm", [[128, 768], [], [768], [768], []]):
                    r.kernel("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half>", 40)

    return training(step)


def test_three_small_products_of_one_shape_in_a_row_are_found(found: Any) -> None:
    (row,) = found(blocks(), "separate-gemms")
    assert row["value"] == 12 * 3 * 12_000
    assert row["evidence"][0]["products_in_a_row"] == 3
    # One of three is left, and the 86 µs in which no kernel computes may be the host's time for the others.
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 12 * 2 * 12_000 + 86_000)


@pytest.mark.parametrize(
    "trace",
    [blocks((2304,)), blocks(grid=96), blocks(between=True), blocks((768, 3072, 768))],
    ids=["joined", "a grid that fills the device", "an activation between", "other shapes"],
)
def test_a_joint_product_and_those_that_depend_on_each_other_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "separate-gemms") == []
