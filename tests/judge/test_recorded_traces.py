"""What is found in traces recorded by others, each read and judged; and that the queries hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"

FOUND: dict[str, list[str]] = {
    "alltoall_rank0of16": [
        "dependency-bound", "communication-bound", "amp-off", "misaligned-dimensions", "idle",
        "first-step", "data-quality",
    ],
    "bert_small_h100": ["host-bound", "synchronization", "low-utilization"],
    "bert_small_mi300": ["host-bound", "synchronization", "low-utilization"],
    "ddp_a100_rank3of8": [
        "communication-bound", "amp-off", "host-bound", "small-grids", "elementwise-chains",
        "slow-pinned-copies", "misaligned-dimensions",
    ],
    "ddp_v100_rank1of2": [
        "device-bound", "amp-off", "copy-bound", "copies-and-casts", "slow-pinned-copies",
        "elementwise-chains", "data-quality",
    ],
    "dlrm_8rank_v100": [
        "host-bound", "communication-bound", "input-bound", "unfused-optimizer", "small-grids",
        "synchronization",
    ],
    "eager_b200_rank0of8": ["host-bound"],
    "gpu_only_mi210": ["device-only", "layout-conversions", "small-kernels"],
    "nccl_args_a100": ["host-bound", "amp-off", "layout-conversions", "low-utilization"],
    "no_distributed_info": ["host-only"],
    "no_gpu": ["host-only"],
    "resnet50_v100": [
        "input-bound", "amp-off", "host-bound", "unfused-optimizer", "pageable-copies",
    ],
    "triton": ["host-bound"],
    "vllm_decode_graph": ["device-bound", "small-kernels", "data-quality"],
}  # fmt: skip

pytestmark = [pytest.mark.traces, pytest.mark.usefixtures("own_cache")]


@pytest.mark.parametrize("name", FOUND)
def test_the_findings_are_those_that_were_judged_true(name: str) -> None:
    with stepscope.open(TRACES / name) as trace:
        rows = trace.ask("findings").rows()
        verdict, then, *_ = trace.ask("summary").rows()
        first = rows[0]
        assert (verdict["item"], verdict["text"]) == (first["id"], first["title"])
        assert (verdict["share_ratio"], then["text"]) == (first["value"], first["advice"])
        for row in rows:
            if row["query"].startswith(("SELECT", "WITH")):
                (again,) = trace.sql(row["query"]).rows()
                assert next(iter(again.values())) == pytest.approx(row["value"]), row["id"]
            if row["saving_high_ns"] is not None:
                assert 0 <= row["saving_low_ns"] <= row["saving_high_ns"]
                assert 0 <= row["saving_share_ratio"] <= 1
    assert [row["id"] for row in rows] == FOUND[name]


def test_the_first_recording_of_resnet50_waits_for_input_a_third_of_the_step() -> None:
    (file,) = (TRACES / "resnet50_v100").glob("*1623143089861*")
    with stepscope.open(file) as trace:
        rows = {row["id"]: row for row in trace.ask("findings").rows()}
    assert rows["input-bound"]["value"] == pytest.approx(0.3337, abs=1e-4)
    assert rows["input-bound"]["severity"] == "high"
    assert "0.0 % on tensor cores" in rows["amp-off"]["title"]
    assert set(rows) == {
        "input-bound", "amp-off", "host-bound", "unfused-optimizer", "pageable-copies",
    }  # fmt: skip


def test_the_host_wait_of_the_b200_is_the_known_one() -> None:
    with stepscope.open(TRACES / "eager_b200_rank0of8") as trace:
        (row,) = trace.ask("findings").rows()
    assert (row["saving_high_ns"], row["per"]) == (72_294_860, "recording")
    assert row["window_start_ns"] is None
