"""A model spread over two devices of one process: each batch runs through one after the other."""

from typing import Any

import pytest
from tests.findings.kineto_trace import A100, Recorder, training

GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"


def spread(*, together: bool, devices: int = 2, stray: bool = False) -> Any:
    def step(r: Recorder) -> None:
        for device in range(devices):
            for layer in range(30):
                before = 7 + device - 1 if device and not layer and not together else -1
                with r.operator("aten::mm", [[4096, 4096], [4096, 4096]]):
                    r.kernel(GEMM, 200, device=device, stream=7 + device, after=before)

        if stray:
            with r.operator("aten::zeros", [[1]]):
                r.kernel("fill", 2, device=1, stream=20)

    return training(step, devices=(A100, A100))


def test_devices_that_compute_one_after_another_are_found(found: Any) -> None:
    (row,) = found(spread(together=False), "devices-in-turn")
    # Each has 30 products of 200 µs, and waits while the other has as many.
    assert [(of["device"], of["computes_ns"], of["waits_ns"]) for of in row["evidence"]] == [
        (0, 6_000_000, 6_000_000),
        (1, 6_000_000, 6_000_000),
    ]
    assert 0.49 < row["value"] < 0.5
    assert 6_000_000 <= row["saving_high_ns"] < 6_100_000


@pytest.mark.parametrize(
    "trace",
    [spread(together=True), spread(together=False, devices=1), spread(together=False, devices=1, stray=True)],
    ids=["at once", "the second device has no work", "the second device has a stray kernel"],
)
def test_devices_that_compute_at_once_and_one_alone_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "devices-in-turn") == []
