"""Rules about the kernels themselves."""

from typing import Any

import pytest
from tests.findings.job import A100, V100, Job

SGEMM = "volta_sgemm_128x64_nn"
HGEMM = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
FLOATS = ["float", "float"]
HALVES = ["c10::Half", "c10::Half"]


def multiplying(kernel: str, types: list[str], device: Any, size: int = 64) -> dict[str, Any]:
    job = Job(device=device).kernel(
        kernel, 300_000, operator="aten::mm", dims=[[size, size], [size, size]], types=types, count=2
    )
    return job.rows()


def test_float32_products_on_a_v100_say_that_mixed_precision_is_off(findings: Any) -> None:
    (row,) = findings(multiplying(SGEMM, FLOATS, V100), "amp-off")
    assert (row["value"], row["unit"]) == (600_000, "ns")
    assert row["saving_low_ns"] == 0
    assert row["saving_high_ns"] == 600_000
    assert row["evidence"][0]["tensor_cores"] is False
    assert row["evidence"][-1]["share_of_kernel_time_ratio"] == 1.0


def test_types_are_read_from_the_kernel_where_inputs_are_not_recorded(findings: Any) -> None:
    rows = Job(device=V100).kernel("volta_scudnn_128x64_relu_interior_nn_v1", 600_000).rows()
    assert [row["value"] for row in findings(rows, "amp-off")] == [600_000]


@pytest.mark.parametrize(
    ("kernel", "types", "device"),
    [
        (HGEMM, HALVES, V100),
        (SGEMM, ["double", "double"], V100),
        (SGEMM, FLOATS, {**V100, "compute_major": 6, "name": "Tesla P100"}),
        (SGEMM, FLOATS, {**V100, "compute_minor": 5, "name": "NVIDIA GeForce GTX 1660 Ti"}),
        (ADD, FLOATS, V100),
    ],
)
def test_mixed_precision_is_not_missed_where_it_is_on_or_no_use(
    findings: Any, kernel: str, types: list[str], device: Any
) -> None:
    assert findings(multiplying(kernel, types, device), "amp-off") == []


def test_some_products_in_float32_beside_16_bits_may_be_meant(findings: Any) -> None:
    job = Job(device=V100).kernel(SGEMM, 300_000, operator="aten::mm").kernel(HGEMM, 100_000)
    assert findings(job.rows(), "amp-off") == []


def test_mixed_precision_halves_the_bytes_of_other_kernels_at_most(findings: Any) -> None:
    job = Job(device=V100).kernel(SGEMM, 300_000, operator="aten::mm").kernel(ADD, 100_000)
    job.kernel(ADD, 100_000, direction="optimizer")
    (row,) = findings(job.rows(), "amp-off")
    assert row["saving_high_ns"] == 350_000
    assert row["title"].endswith("; 100.0 µs in other kernels that could move half the bytes")


def test_work_that_mixed_precision_leaves_alone_is_not_counted_with_it(findings: Any) -> None:
    job = Job(device=V100).kernel(SGEMM, 300_000, operator="aten::mm")
    job.kernel("split_embedding_forward", 100_000, operator="aten::embedding")
    (row,) = findings(job.rows(), "amp-off")
    assert row["saving_high_ns"] == 300_000
    assert row["title"].endswith("on tensor cores")


def test_of_a_device_that_is_not_known_no_part_of_the_products_is_certain_to_stay(findings: Any) -> None:
    device = {**V100, "name": "A device of next year"}
    (row,) = findings(multiplying(SGEMM, FLOATS, device), "amp-off")
    assert row["saving_high_ns"] == 600_000


def test_kernels_of_alignment_one_are_found_with_their_sizes(findings: Any) -> None:
    name = "cutlass_80_tensorop_f16_s16816gemm_f16_256x64_32x4_nn_align1"
    (row,) = findings(multiplying(name, HALVES, A100, 33), "misaligned-dimensions")
    assert (row["value"], row["saving_high_ns"]) == (600_000, 600_000)
    assert "not a multiple of 8" in row["evidence"][0]["sizes"]


def test_odd_sizes_that_the_kernel_copes_with_are_not(findings: Any) -> None:
    for name in ("cutlass_80_tensorop_f16_s16816gemm_f16_256x64_32x4_nn_align8", HGEMM):
        assert findings(multiplying(name, HALVES, A100, 33), "misaligned-dimensions") == []


def products(blocks: float = 0.1, **columns: Any) -> dict[str, Any]:
    job = Job(steps=1)
    job.kernel(
        SGEMM, 70_000, operator="aten::mm", dims=[[512, 512], [512, 64]], types=FLOATS,
        blocks_per_sm=blocks, count=4, **columns,
    )  # fmt: skip
    return job.kernel("work", 300_000).rows()


def test_products_of_half_the_device_may_run_beside_each_other_too(findings: Any) -> None:
    (row,) = findings(products(blocks=0.5), "separate-gemms")
    assert row["saving_high_ns"] == 280_000 - 70_000


def test_products_of_the_backward_are_not(findings: Any) -> None:
    assert findings(products(direction="backward"), "separate-gemms") == []


def test_many_short_kernels_and_their_gaps_are_found(findings: Any) -> None:
    rows = Job(steps=1).kernel("tiny", 2_000, gap_ns=1_000, count=100).kernel("work", 600_000).rows()
    (row,) = findings(rows, "small-kernels")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (300_000, 0, 300_000)


def test_a_few_short_kernels_are_not(findings: Any) -> None:
    rows = Job(steps=1).kernel("tiny", 2_000, gap_ns=1_000, count=30).kernel("work", 880_000).rows()
    assert findings(rows, "small-kernels") == []


def test_short_kernels_of_a_host_that_is_late_are_the_hosts(findings: Any) -> None:
    job = Job(steps=1).event("python", 0, 1_000_000, kind="python")
    rows = job.kernel("tiny", 2_000, gap_ns=5_000, count=120, late=True).rows()
    assert findings(rows, "small-kernels") == []


def chained(*names: str, **columns: Any) -> dict[str, Any]:
    job = Job(steps=1)
    for name in names:
        job.kernel(name, 100_000, **columns)
    return job.kernel("work", 300_000).rows()


def test_elementwise_kernels_in_a_row_could_be_one(findings: Any) -> None:
    (row,) = findings(chained(ADD, MUL, ADD), "elementwise-chains")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (300_000, 0, 200_000)


@pytest.mark.parametrize(
    "rows",
    [
        chained(ADD, MUL),
        chained(ADD, ADD, ADD),
        chained(ADD, SGEMM, MUL, SGEMM, ADD),
        chained(ADD, MUL, ADD, direction="optimizer"),
        chained("triton_poi_fused_add_0", "triton_poi_fused_mul_1", "triton_poi_fused_add_2"),
    ],
    ids=["two", "one kernel over many tensors", "products between", "optimizer", "fused already"],
)
def test_what_is_no_chain_is_not_found(findings: Any, rows: Any) -> None:
    assert findings(rows, "elementwise-chains") == []


def test_layout_conversions_are_found_by_name(findings: Any) -> None:
    name = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"
    (row,) = findings(Job().kernel(name, 50_000).kernel("work", 900_000).rows(), "layout-conversions")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (50_000, 0, 50_000)
    other = Job().kernel("void at::native::transpose_readwrite", 50_000).kernel("work", 900_000)
    assert findings(other.rows(), "layout-conversions") == []


def test_copies_and_casts_on_the_device_are_found(findings: Any) -> None:
    copy = {"kind": "copy", "copy_kind": "DtoD", "operator": "aten::copy_"}
    job = Job().kernel("Memcpy DtoD (Device -> Device)", 60_000, **copy).kernel("work", 800_000)
    job.kernel("direct_copy_kernel", 40_000, operator="aten::copy_")
    (row,) = findings(job.rows(), "copies-and-casts")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (100_000, 0, 100_000)


def test_a_query_leaves_the_optimizers_copies_out_too(findings: Any) -> None:
    copy = {"operator": "aten::copy_", "dims": [[64], [64]]}
    job = Job().kernel(ADD, 100_000, **copy).kernel(ADD, 200_000, direction="optimizer", **copy)
    (row,) = findings(job.rows(), "copies-and-casts")
    assert row["value"] == 100_000


def test_copies_from_the_host_and_of_the_optimizer_are_not(findings: Any) -> None:
    copy = {"kind": "copy", "copy_kind": "HtoD", "operator": "aten::copy_"}
    job = Job().kernel("Memcpy HtoD (Pinned -> Device)", 60_000, **copy).kernel("work", 800_000)
    job.kernel("direct_copy_kernel", 90_000, operator="aten::copy_", direction="optimizer")
    assert findings(job.rows(), "copies-and-casts") == []


def test_an_optimizer_that_loops_over_parameters_is_found(findings: Any) -> None:
    own = {"direction": "optimizer", "operator": "aten::add_"}
    rows = Job().kernel("work", 600_000).kernel(ADD, 600, gap_ns=400, count=60, **own).rows()
    (row,) = findings(rows, "unfused-optimizer")
    kernels, gaps = 60 * 600, 59 * 400
    assert row["value"] == kernels + gaps
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, gaps + kernels)


def test_an_optimizer_that_steps_once_in_four_steps_is_found(findings: Any) -> None:
    # Gradients accumulate over four steps: the typical one has no optimizer's work, and a mean one a quarter of it.
    own = {"direction": "optimizer", "operator": "aten::add_"}
    job = Job(steps=8).kernel("work", 600_000).kernel(ADD, 2_000, gap_ns=400, count=100, **own)
    rows = job.rows()
    rows["device_event"] = [row for row in rows["device_event"] if row["name"] != ADD or row["step"] % 4 == 3]
    (row,) = findings(rows, "unfused-optimizer")
    assert row["value"] == (100 * 2_000 + 99 * 400) / 4
    assert "100 kernels, parameter by parameter, in 25.0 % of the steps: 6.0 % of the step" in row["title"]


@pytest.mark.parametrize(
    ("kernel", "operator"), [("multi_tensor_apply_kernel<AdamFunctor>", None), (ADD, "aten::_foreach_add_")]
)
def test_an_optimizer_over_many_tensors_at_once_is_not(findings: Any, kernel: str, operator: str | None) -> None:
    own = {"direction": "optimizer", "operator": operator}
    rows = Job().kernel("work", 600_000).kernel(kernel, 600, gap_ns=400, count=60, **own).rows()
    assert findings(rows, "unfused-optimizer") == []


def test_multiprocessors_without_a_block_are_counted(findings: Any) -> None:
    rows = Job().kernel("small", 400_000, blocks_per_sm=0.25).kernel("work", 400_000).rows()
    (row,) = findings(rows, "small-grids")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (300_000, 0, 300_000)
    full = Job().kernel("full", 400_000, blocks_per_sm=1.0).kernel("work", 400_000).rows()
    assert findings(full, "small-grids") == []


def waves(blocks: int) -> dict[str, Any]:
    grid = {"grid_x": blocks, "block_x": 1024, "registers_per_thread": 32, "shared_memory_bytes": 0}
    return Job(device=V100).kernel("tiled", 800_000, **grid).rows()


def test_a_last_wave_that_is_almost_empty_is_found(findings: Any) -> None:
    # 80 multiprocessors hold two blocks of 1024 threads each: 160 blocks are a wave.
    (row,) = findings(waves(200), "tail-waves")
    assert (row["value"], row["saving_high_ns"]) == (300_000, 300_000)
    assert row["evidence"][0]["mean_waves"] == 1.25


@pytest.mark.parametrize("blocks", [80, 160, 320, 2_000])
def test_whole_waves_single_and_many_waves_are_not(findings: Any, blocks: int) -> None:
    assert findings(waves(blocks), "tail-waves") == []


def backward(*, again_ns: int, rest_ns: int) -> dict[str, Any]:
    job = Job().kernel("forward", 300_000, operator="aten::addmm")
    job.kernel("forward", again_ns, operator="aten::addmm", direction="backward")
    job.kernel("gradient", rest_ns, operator="aten::mm", direction="backward")
    rows = job.rows()
    for number, row in enumerate(rows["host_event"]):
        if row["name"] == "aten::addmm":
            row["sequence_number"] = number
    of_operator = {row.get("operator_id"): row for row in rows["device_event"]}
    for row in rows["host_event"]:
        row["direction"] = of_operator.get(row["id"], {}).get("direction")
    return rows


def test_numbered_operators_in_backward_are_a_forward_that_runs_again(findings: Any) -> None:
    (row,) = findings(backward(again_ns=100_000, rest_ns=400_000), "recomputation")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (100_000, 0, 100_000)
    assert row["evidence"] == [{"operator": "aten::addmm", "kernels_per_step": 1.0, "time_ns": 100_000.0}]


def test_a_little_and_gradients_of_gradients_are_not(findings: Any) -> None:
    assert findings(backward(again_ns=10_000, rest_ns=400_000), "recomputation") == []
    assert findings(backward(again_ns=300_000, rest_ns=100_000), "recomputation") == []


def test_what_numbered_operators_in_backward_call_runs_again_too(findings: Any) -> None:
    """A library's convolution carries no number: the operator above it does, below the node."""
    rows = backward(again_ns=100_000, rest_ns=400_000)
    of_backward = [row for row in rows["host_event"] if row["direction"] == "backward"]
    number = 10_000
    for row in of_backward:
        number += 10
        again = row["name"] == "aten::addmm"
        names = ["ConvolutionBackward0", "aten::_convolution"]
        for depth, name in enumerate(["aten::convolution", *names[1:]] if again else names[1:]):
            rows["host_event"].append(
                {**row, "id": number + depth, "name": name, "parent_id": number + depth - 1,
                 "sequence_number": 7 if name == "aten::convolution" else None}
            )  # fmt: skip
        node = {"id": number - 1, "name": names[0], "role": "backward", "sequence_number": 7}
        rows["host_event"].append({**row, "parent_id": None, **node})
        row |= {"parent_id": number + depth, "sequence_number": None}
        if again:
            row["name"] = "aten::cudnn_convolution"
    (row,) = findings(rows, "recomputation")
    assert row["value"] == 100_000
    assert [one["operator"] for one in row["evidence"]] == ["aten::cudnn_convolution"]


def test_what_a_checkpoints_backward_node_calls_runs_again(findings: Any) -> None:
    rows = backward(again_ns=100_000, rest_ns=400_000)
    for row in [row for row in rows["host_event"] if row["direction"] == "backward"]:
        again = row["name"] == "aten::addmm"
        node = "CheckpointFunctionBackward" if again else "AddmmBackward0"
        rows["host_event"].append({**row, "id": row["id"] + 10_000, "name": node, "role": "backward"})
        row |= {"parent_id": row["id"] + 10_000, "sequence_number": None}
    (row,) = findings(rows, "recomputation")
    assert row["value"] == 100_000
