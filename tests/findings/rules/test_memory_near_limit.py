"""An A100 of 80 GB, filled by a training with profile_memory=True."""

from typing import Any

from tests.findings.kineto_trace import A100, Recorder, training

BYTES = A100["totalGlobalMem"]


def peak(allocated: int, reserved: int) -> Any:
    def step(r: Recorder) -> None:
        for part in (4, 2, 1):
            with r.operator("aten::addmm", [[1024], [4096, 1024], [1024, 1024]]):
                r.memory(allocated // part, reserved)
                r.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", 300)

    return training(step)


def test_memory_that_is_nine_tenths_full_at_its_peak_is_found(found: Any) -> None:
    allocated = BYTES * 93 // 100
    (row,) = found(peak(allocated, BYTES * 95 // 100), "memory-near-limit")
    assert row["value"] == allocated / BYTES
    assert row["title"].endswith("allocated at the peak, 93.0 % of the device's")
    assert row["evidence"][0]["peak_bytes"] == allocated


def test_memory_that_is_only_reserved_is_not(found: Any) -> None:
    assert found(peak(BYTES * 89 // 100, BYTES * 97 // 100), "memory-near-limit") == []
