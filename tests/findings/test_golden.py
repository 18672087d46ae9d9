"""The golden list: the verdict and the findings that an experienced engineer accepts of each trace
recorded by others, with the reason in one line, and what must not be said of it.

A rule that finds something new here is added with what the recording shows; a finding that disappears
is taken out, or moved to `never` where it was false.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

import stepscope
from stepscope.findings.rules import OURS

TRACES = Path(__file__).parents[3] / "shared" / "traces"


@dataclass(frozen=True)
class Golden:
    """What is expected of a trace; each rule's id with the reason that the recording gives.

    Args:
        verdict: the first finding.
        reason: why it is the verdict.
        findings: the others, in any order.
        never: what would be false or mislead.
    """

    verdict: str
    reason: str
    findings: dict[str, str] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)


GOLDEN = {
    "kineto/alltoall_rank0of16": Golden(
        "dependency-bound",
        "61 % of the step stream 7 has its next work and waits, most before replays of CUDA graphs",
        {
            "communication-bound": "33 ms of send/receive kernels with nothing beside them",
            "amp-off": "20 ms of TF32 products",
            "misaligned-dimensions": "the products load one element at a time (align1)",
            "first-step": "368 ms against 216; means leave it out",
            "data-quality": "872 pieces of work have no launch",
        },
        {"host-bound": "2.8 ms a step wait for the host"},
    ),
    "kineto/bert_small_h100": Golden(
        "host-bound",
        "60 launches of short kernels; the five largest gaps hold 29 % of the wait",
        {
            "synchronization": "one .item(), after which the device waits for the next launch",
            "low-utilization": "7 %, because of launching alone",
        },
    ),
    "kineto/bert_small_mi300": Golden(
        "host-bound",
        "60 launches of short kernels; the five largest gaps hold 36 % of the wait",
        {
            "synchronization": "one .item(), after which the device waits for the next launch",
            "low-utilization": "10 %, because of launching alone",
        },
    ),
    "kineto/cupti_profiler": Golden(
        "data-quality",
        "77 kernels were launched and none is recorded, only counters",
        {},
        {
            "host-bound": "whether the device waited is not in the recording",
            "host-only": "the device worked, though that is not recorded",
        },
    ),
    "kineto/ddp_a100_rank3of8": Golden(
        "communication-bound",
        "15 ms a step of NCCL kernels with nothing beside them",
        {
            "amp-off": "13 ms of float32 and TF32 products, which bfloat16 would shorten",
            "host-bound": "1 418 launches a step, half of them of short kernels",
            "small-grids": "reductions of a few blocks on 108 multiprocessors",
            "elementwise-chains": "additions and multiplications one after another",
            "slow-pinned-copies": "8.6 GB/s over a link of 32",
            "misaligned-dimensions": "N = 30 in batched products",
        },
    ),
    "kineto/ddp_v100_rank1of2": Golden(
        "device-bound",
        "kernels fill three quarters of the step",
        {
            "amp-off": "33 ms of products in float32",
            "copy-bound": "17 ms of copies with nothing beside them",
            "copies-and-casts": "766 copies a step on the device itself",
            "slow-pinned-copies": "6.4 GB/s over a link of 16",
            "elementwise-chains": "rows of short kernels in compiled and eager code",
            "data-quality": "614 pieces of work have no launch",
        },
        {"host-bound": "one gap of 0.4 ms in six steps waits for the host"},
    ),
    "kineto/dlrm_8rank_v100": Golden(
        "host-bound",
        "239 launches a step, 93 % of them of short kernels",
        {
            "communication-bound": "all-to-all with nothing beside it, most on rank 1",
            "input-bound": "1 ms of the step in the DataLoader",
            "unfused-optimizer": "64 kernels of the optimizer, parameter by parameter",
            "small-grids": "reductions of a few blocks on 80 multiprocessors",
            "synchronization": "eight blocking copies a step",
        },
        {"straggling-rank": "four fifths of what rank 7 costs the others lie before its recording; the rest is 4.6 %"},
    ),
    "kineto/eager_b200_rank0of8": Golden("host-bound", "767 launches; the five largest gaps hold 13 % of the wait"),
    "kineto/event_sync": Golden(
        "single-gaps",
        "of 3.1 ms the device waits 2.8 in one gap, most of it in aten::empty",
        {"host-bound": "0.3 ms in five short gaps"},
        {"low-utilization": "four kernels are no training step"},
    ),
    "kineto/gpu_only_mi210": Golden(
        "device-only",
        "device events alone",
        {
            "layout-conversions": "batched_transpose kernels between NCHW and NHWC",
            "small-kernels": "444 kernels below 10 µs",
        },
        {"host-bound": "nothing of the host is recorded"},
    ),
    "kineto/mi250_toy": Golden(
        "cold-start",
        "of 9.1 ms the device waits 6.6 in one hipLaunchKernel, the first of its kernel",
        {"host-bound": "2.5 ms in sixteen short gaps"},
        {"low-utilization": "fourteen kernels are no training step"},
    ),
    "kineto/mtia_inference": Golden(
        "device-bound", "device events fill 95 % of the time", {"data-quality": "244 pieces of work have no launch"}
    ),
    "kineto/nccl_args_a100": Golden(
        "host-bound",
        "893 launches a step; the five largest gaps hold 12 % of the wait",
        {
            "amp-off": "13 ms of TF32 products",
            "broadcast-buffers": "159 buffers of 53 BatchNorms: 22 ms unpacking, 9 ms copying, 6 ms packing",
            "layout-conversions": "nchwToNhwc kernels around convolutions",
            "low-utilization": "23 %, because of launching alone",
        },
    ),
    "kineto/no_distributed_info": Golden("host-only", "no device is recorded"),
    "kineto/no_gpu": Golden("host-only", "no device is recorded"),
    "kineto/nsfw_h100": Golden(
        "host-bound",
        "154 launches of short kernels; the five largest gaps hold 10 % of the wait",
        {"low-utilization": "15 %, because of launching alone"},
    ),
    "kineto/nsfw_mi300": Golden(
        "host-bound",
        "155 launches of short kernels; the five largest gaps hold 18 % of the wait",
        {"low-utilization": "23 %, because of launching alone"},
    ),
    "kineto/resnet50_v100": Golden(
        "input-bound",
        "59 and 36 ms a step in DataLoader.__next__",
        {
            "amp-off": "66 ms of products in float32",
            "host-bound": "1 462 launches a step, 62 % of them of short kernels",
            "unfused-optimizer": "644 kernels, parameter by parameter",
            "pageable-copies": "19 MB a step from memory that is not pinned",
        },
        {"synchronization": "what waits here is the loader"},
    ),
    "kineto/simple_add": Golden(
        "cold-start",
        "15.6 of 16 s in two gaps: cudaFree and the first convolution, which loads its libraries",
        never={"host-bound": "no launching takes seconds"},
    ),
    "kineto/triton": Golden(
        "single-gaps", "one gap of 13.3 s in which nothing is recorded", never={"host-bound": "one kernel is launched"}
    ),
    "kineto/vllm_decode_graph": Golden(
        "device-bound",
        "kernels fill 99 % of the time",
        {
            "small-kernels": "280 kernels below 10 µs in graph replays",
            "data-quality": "97 % of device time is replayed and belongs to no operator",
        },
    ),
    "nvprof/v100_language_model.sql.gz": Golden(
        "host-bound",
        "24 ms in 118 short gaps between 160 launches",
        {
            "cold-start": "one cudaMalloc of 21.5 ms makes nearly half of the wait",
            "synchronization": "19 .item() and 2 equal(), each a copy into pageable memory that blocks",
            "amp-off": "products in float32 on a device with tensor cores",
        },
    ),
}

pytestmark = pytest.mark.traces


def test_the_list_has_every_trace_and_names_rules() -> None:
    traces = {f"kineto/{folder.name}" for folder in (TRACES / "kineto").iterdir()}
    assert set(GOLDEN) == traces | {"nvprof/v100_language_model.sql.gz"}
    for golden in GOLDEN.values():
        named = [golden.verdict, *golden.findings, *golden.never]
        assert set(named) <= set(OURS)
        assert len(named) == len(set(named))


@pytest.mark.parametrize("name", GOLDEN)
def test_the_findings_are_those_that_an_engineer_accepts(name: str) -> None:
    with stepscope.open(TRACES / name) as trace:
        told = trace.ask("summary").rows()
    with stepscope.open(TRACES / name) as trace:
        rows = trace.ask("findings").rows()
        verdict, then, *_ = told
        for _ in range(2):
            assert trace.ask("summary").rows() == told, "what is kept is what is worked out"
        first = rows[0]
        assert (verdict["item"], verdict["text"]) == (first["id"], first["title"])
        assert (verdict["share_ratio"], then["text"]) == (
            None if verdict["share_ratio"] is None else first["value"],
            first["advice"],
        )
        for row in rows:
            if row["query"].startswith(("SELECT", "WITH")):
                (again,) = trace.sql(row["query"]).rows()
                assert next(iter(again.values())) == pytest.approx(row["value"]), row["id"]
            if row["saving_high_ns"] is not None:
                assert row["saving_low_ns"] == 0, "no recording here shows what a cure wins"
                assert row["trade_off"], row["id"]
                assert 0 <= row["saving_share_ratio"] <= 1
    golden = GOLDEN[name]
    found = [row["id"] for row in rows]
    assert (found[0], set(found[1:])) == (golden.verdict, set(golden.findings))
    assert len(found) == len(set(found))
    assert not set(found) & set(golden.never)
    lost = [row["severity"] for row in rows[1:] if row["saving_high_ns"] is not None]
    assert lost == sorted(lost, key=("high", "medium", "low", "note").index), "the larger loss first"


def test_the_first_recording_of_resnet50_waits_for_input_a_third_of_the_step() -> None:
    (file,) = (TRACES / "kineto/resnet50_v100").glob("*1623143089861*")
    with stepscope.open(file) as trace:
        rows = {row["id"]: row for row in trace.ask("findings").rows()}
    assert rows["input-bound"]["value"] == pytest.approx(0.3337, abs=1e-4)
    assert rows["input-bound"]["severity"] == "high"
    assert "0.0 % on tensor cores" in rows["amp-off"]["title"]
    assert set(rows) == {
        "input-bound", "amp-off", "host-bound", "unfused-optimizer", "pageable-copies",
    }  # fmt: skip


def test_the_host_wait_of_the_b200_is_the_known_one() -> None:
    with stepscope.open(TRACES / "kineto/eager_b200_rank0of8") as trace:
        (row,) = trace.ask("findings").rows()
    # All of its host wait: the NCCL calls among it only enqueue.
    # One rank of eight is recorded: in its communication it may have waited for the others' hosts.
    assert (row["saving_high_ns"], row["per"]) == (72_470_093, "recording")
    assert row["saving_job_ns"] == 72_470_093 + 2_141_501
    assert row["window_start_ns"] is None
