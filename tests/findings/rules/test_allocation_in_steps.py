"""torch.cuda.empty_cache() in each step: the allocator gives memory back and asks for it again."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training


def emptying(*, since: int = 0, until: int = 99, us: int = 400, name: str = "cudaMalloc", first: int = 0) -> Any:
    taken = 0

    def step(r: Recorder) -> None:
        nonlocal taken
        for _ in range(60):
            with r.operator("aten::addmm", [[1024], [4096, 1024], [1024, 1024]]):
                r.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", 300)
        r.now += 0 if taken else first
        if since <= taken < until:
            with r.operator("aten::empty", [[]]):
                r.call(name, us)
            r.call(name.replace("Malloc", "Free"), us // 2)
        taken += 1

    return training(step)


def test_allocating_calls_in_each_step_are_found(found: Any) -> None:
    (row,) = found(emptying(), "allocation-in-steps")
    assert row["value"] == 600_000
    assert [(of["call"], of["calls_per_step"]) for of in row["evidence"]] == [("cudaMalloc", 1), ("cudaFree", 1)]


def test_calls_are_counted_by_step_where_a_slow_first_one_does_not_count(found: Any) -> None:
    (row,) = found(emptying(first=90_000), "allocation-in-steps")
    assert row["value"] == 600_000


def test_what_the_device_hides_is_not_saved(found: Any) -> None:
    (row,) = found(emptying(us=4_000), "allocation-in-steps")
    assert row["value"] == 6_000_000
    assert row["saving_high_ns"] < 1_000_000
    assert row["severity"] == "low"


@pytest.mark.parametrize(
    "trace",
    [emptying(until=1), emptying(us=100), emptying(name="cudaMallocAsync")],
    ids=["in the first step alone", "less than 1 %", "from the driver's pool"],
)
def test_the_first_step_short_calls_and_a_pool_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "allocation-in-steps") == []
