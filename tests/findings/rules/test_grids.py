"""A group normalisation whose kernel takes 168 registers a thread."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

MOMENTS = "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float, float const*)"
SGEMM = "ampere_sgemm_128x64_tn"


def step_of(kernel: str, us: int, operator: str, *, blocks: int = 864, occupancy: int = 18) -> Any:
    def step(r: Recorder) -> None:
        for _ in range(30):
            with r.operator(operator, [[16, 128, 64, 64], [128], [128]], "float"):
                r.kernel(kernel, us, grid=(blocks, 1, 1), registers=168, occupancy=occupancy)
            with r.operator("aten::silu", [[16, 128, 64, 64]], "float"):
                r.kernel("void at::native::vectorized_elementwise_kernel<4, silu_kernel>", 100, occupancy=88)

    return training(step)


def test_a_slow_kernel_of_low_occupancy_is_found(found: Any) -> None:
    (row,) = found(step_of(MOMENTS, 40, "aten::native_group_norm"), "low-occupancy")
    assert (row["value"], row["saving_high_ns"]) == (30 * 40_000, 30 * 40_000)
    assert row["evidence"][0]["kernel"] == MOMENTS


@pytest.mark.parametrize(
    "trace",
    [
        step_of(MOMENTS, 40, "aten::native_group_norm", occupancy=25),
        step_of(MOMENTS, 40, "aten::native_group_norm", blocks=107),
        step_of(MOMENTS, 10, "aten::native_group_norm"),
        step_of(SGEMM, 40, "aten::mm"),
    ],
    ids=["a quarter", "a small grid", "less than 10 %", "a product"],
)
def test_a_quarter_small_grids_short_ones_and_products_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "low-occupancy") == []
