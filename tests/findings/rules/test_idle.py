"""A device that has its next work and waits: where it does, as far as a recording shows it."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
REDUCE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)"


def products(r: Recorder, count: int = 30, **of_first: Any) -> None:
    for number in range(count):
        with r.operator("aten::mm", [[4096, 1024], [1024, 1024]]):
            r.kernel(GEMM, 100, **(of_first if not number else {}))


def after_collective(r: Recorder) -> None:
    products(r)
    with r.operator("record_param_comms"):
        r.kernel(REDUCE, 200, stream=20, after=7)
    products(r, after=20, late=4_000)


def before_collective(r: Recorder) -> None:
    products(r, 60)
    with r.operator("record_param_comms"):
        r.kernel(REDUCE, 200, stream=20, after=7, late=4_000)


def in_graphs(r: Recorder) -> None:
    products(r, 30)
    with r.replay():
        for number in range(30):
            r.kernel(GEMM, 100, late=1_000 if number == 0 else 3_000 if number == 9 else 0)


def on_side_streams(r: Recorder) -> None:
    products(r)
    with r.operator("aten::mm", [[4096, 1024], [1024, 1024]]):
        r.kernel(GEMM, 100, stream=21, after=7, late=3_000)
    products(r, after=21)
    products(r, late=1_000)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (after_collective, "; 100.0 % of it on stream 7 after a collective on stream 20"),
        (before_collective, "; 100.0 % of it on stream 20 before a collective"),
        (
            in_graphs,
            "; 75.0 % of it on stream 7 within replays of CUDA graphs, "
            "25.0 % of it on stream 7 before replays of CUDA graphs",
        ),
        (
            on_side_streams,
            "; 75.0 % of it on stream 21 after work on stream 7, "
            "25.0 % of it on stream 7 between two pieces of its own work",
        ),
    ],
)
def test_the_stream_that_waits_and_where_are_named(found: Any, step: Any, words: str) -> None:
    (row,) = found(training(step), "dependency-bound")
    assert row["value"] > 0.3
    assert row["title"].partition("not recorded")[2] == words
    assert row["saving_high_ns"] is None, "for whom it waits is not in the recording"
    first = row["evidence"][0]
    assert (first["gaps_per_step"], first["where"] in words) == (1, True)


def test_a_launch_call_that_goes_on_after_the_device_ran_dry_is_the_hosts_wait(found: Any) -> None:
    def step(r: Recorder) -> None:
        products(r)  # 3 ms of work, launched within 0.4 ms
        products(r, launch=300_000)

    trace = training(step)
    assert found(trace, "dependency-bound") == []
    (row,) = found(trace, "single-gaps")
    assert "`cudaLaunchKernel` in aten::mm 297" in row["title"]


def test_gaps_that_are_the_devices_own_are_not(found: Any) -> None:
    def step(r: Recorder) -> None:
        products(r)
        products(r, late=29)

    assert found(training(step), "dependency-bound") == []
