"""Counters of another run belong to the kernels of the same name, grid and block, in their order."""

import pytest

from stepscope.analysis.kernels.counters import derived, limiter, occupancy_limit, verdict
from stepscope.analysis.kernels.measured import ORDER, PLACE, SHAPE, joined_kernels
from stepscope.base.kernel_spelling import kernel_key

GEMM, THEIR_GEMM = "void gemm<128, true>(float const*)", "gemm<(int)128, (bool)1>(const float *)"
ADD = "void at::native::elementwise<4, at::Add<float>>(int)"
MUL = "void at::native::elementwise<4, at::Mul<float>>(int)"


def kernel(number, name, start, dur=10, grid=(8, 1, 1), **more):
    shape = dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True))
    block = {"block_x": 32, "block_y": 1, "block_z": 1}
    return {"id": number, "name": name, "kind": "computation", "start_ns": start, "dur_ns": dur,
            **shape, **block, **more}  # fmt: skip


def measured(number, name, value, grid="8,1,1", **more):
    launch = {"measured": number, "name": name, "launches": 1, "tool": "Nsight Compute",
              "grid": grid, "blocks": 8, "block": "32,1,1", "threads": 32, "dur_ns": 7} | more  # fmt: skip
    metric = {"measured": number, "kernel": name, "metric": "dram__bytes.sum", "kind": "dram_bytes",
              "value": value, "tool": "Nsight Compute"}  # fmt: skip
    if "rank" in more:
        metric["rank"] = more["rank"]
    return launch, metric


@pytest.fixture
def joined(make_scope):
    def of(kernels, *pairs):
        launches, metrics = zip(*pairs, strict=True)
        rows = {"device_event": kernels, "measured_kernel": launches, "kernel_metric": metrics}
        return joined_kernels(make_scope(rows))

    return of


def told(found):
    return [(one.name, one.count, one.device_ns, one.values.get("dram_bytes"), one.rule) for one in found.kernels]


def test_names_spelled_by_other_tools_are_one():
    assert kernel_key(GEMM) == kernel_key(THEIR_GEMM)
    assert kernel_key(ADD) != kernel_key(MUL)
    assert kernel_key("f<lambda(float)#1>(T1)") == kernel_key("void f<[lambda(float) (instance 1)]>(int)")


def test_renamed_and_reordered_kernels_are_joined_and_the_rest_is_counted(joined):
    found = joined(
        [kernel(1, GEMM, 0, 50), kernel(2, ADD, 60), kernel(3, GEMM, 80, 40), kernel(4, MUL, 130)],
        measured(0, ADD.replace("void ", ""), 1.0), measured(1, THEIR_GEMM, 2.0),
        measured(2, "somewhere_else<(int)3>(float *)", 9.0), measured(3, THEIR_GEMM, 4.0),
        measured(4, THEIR_GEMM, 5.0, grid="4,2,1"),
    )  # fmt: skip
    assert told(found) == [
        (GEMM, 2, 90, 3.0, ORDER),
        (ADD, 1, 10, 1.0, ORDER),
        (THEIR_GEMM, 0, 7, 5.0, None),
        ("somewhere_else<(int)3>(float *)", 0, 7, 9.0, None),
    ]
    assert list(zip(found.id.tolist(), found.measurement.tolist(), strict=True)) == [
        (1, 1), (3, 3), (2, 0),
    ]  # fmt: skip
    assert found.describe() == (
        "5 launches of 4 kernels measured by Nsight Compute. Joined to 3 of 4 kernels of the recording (90.9 % of "
        "their time): 2 by order. Measured and not in the recording: 2 launches (gemm<(int)128, (bool)1>(const "
        "float *), somewhere_else<(int)3>(float *))."
    )


def test_launches_alike_are_told_by_their_place_in_each_step(joined):
    found = joined(
        [kernel(at, GEMM, 10 * at, step=at // 2) for at in range(6)],
        measured(0, GEMM, 100.0), measured(1, GEMM, 300.0),
    )  # fmt: skip
    assert told(found) == [(GEMM, 6, 60, 200.0, PLACE)]
    assert found.measurement.tolist() == [0, 1, 0, 1, 0, 1]


def test_where_nothing_tells_launches_alike_apart_all_have_the_mean(joined):
    found = joined(
        [kernel(at, GEMM, 10 * at, step=at // 2) for at in range(5)],
        measured(0, GEMM, 100.0), measured(1, GEMM, 300.0),
    )  # fmt: skip
    assert told(found) == [(GEMM, 5, 50, 200.0, SHAPE)]
    assert found.measurement.tolist() == [-1] * 5


def test_a_name_without_template_arguments_is_joined_where_one_kernel_alone_can_be_it(joined):
    two = [kernel(1, ADD, 0), kernel(2, MUL, 20)]
    assert told(joined([two[0]], measured(0, "elementwise", 1.0))) == [(ADD, 1, 10, 1.0, ORDER)]
    assert told(joined(two, measured(0, "elementwise", 1.0))) == [("elementwise", 0, 7, 1.0, None)]


def test_a_report_of_a_rank_without_kernels_belongs_to_the_lowest_rank_with_them(joined):
    kernels = [kernel(1, GEMM, 0, rank=rank) for rank in (2, 1)]
    found = joined(kernels, measured(0, GEMM, 1.0, rank=5))
    assert (told(found), found.rank.tolist()) == ([(GEMM, 1, 10, 1.0, ORDER)], [1])


def test_operations_and_bytes_follow_from_what_was_counted():
    assert derived({"fp32_add": 10, "fp32_mul": 5, "fp32_fma": 100}) == {
        "fp32_operations": 215, "flops": 215,
    }  # fmt: skip
    per_cycle = {"fp32_add_per_cycle": 0, "fp32_mul_per_cycle": 0, "fp32_fma_per_cycle": 2}
    assert derived({**per_cycle, "scheduler_hz": 1e9, "duration": 1000})["flops"] == 4000
    assert derived({"dram_read_transactions": 3, "dram_write_transactions": 1}) == {"dram_bytes": 128}
    assert derived({"l2_bytes_per_s": 5e9}, 200) == {"l2_bytes": 1000}
    assert derived({"dram_bytes": 7, "dram_read_bytes": 1, "dram_write_bytes": 1}) == {}
    busy = derived({"fp32_add": 1, "fp32_mul": 1, "fp32_fma": 1, "tensor_active": 30})
    assert "flops" not in busy  # what tensor cores did is counted by none of these
    paths = {"tensor_operations_per_cycle": 4, "scheduler_hz": 1e9, "duration": 1000}
    assert derived(paths | {"tensor_active": 30}) == {"tensor_operations": 4000, "flops": 4000}
    assert "flops" not in derived({"tensor_operations": 0, "tensor_active": 30})


def test_rates_follow_only_where_all_their_parts_were_counted():
    assert derived({"global_hits": 5, "gld_transactions": 8, "gst_transactions": 2}) == {
        "global_hit_rate": 50,
    }  # fmt: skip
    assert derived({"global_hits": 5, "gld_transactions": 8}) == {}
    assert derived({"local_hits": 0, "local_sectors": 0}) == {}
    assert derived({"shared_load_conflicts": 30, "shared_load_transactions": 40}) == {
        "shared_conflict_ratio": 0.75,
    }  # fmt: skip
    assert derived({"global_l2_sectors": 400, "global_l2_sectors_ideal": 100}) == {
        "excess_sector_ratio": 0.75,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "said"),
    [
        (10, 80, 5, "memory well used: shift work to another unit, or do less of it"),
        (85, 81, 5, "compute well used: shift work to another unit, or do less of it"),
        (59.9, 59.9, 5, "latency"), (59.9, 10, 0.8, "small grid: less than a wave of blocks"),
        (60, 10, 0.8, "compute"), (40, 79.9, 5, "memory"), (64.8, 64.8, 5, "balanced"),
    ],
)  # fmt: skip
def test_the_speed_of_light_is_judged_as_nsight_compute_does(compute, memory, waves, said):
    values = {"compute_throughput": compute, "memory_throughput": memory, "waves": waves}
    assert verdict(values) == said


def test_what_is_closest_to_its_peak_and_what_limits_occupancy():
    assert limiter({"compute_throughput": 30, "l1_throughput": 77, "dram_throughput": 8}) == ("L1", 77)
    assert limiter({"memory_throughput": 30}) == ("memory", 30)
    assert limiter({}) is None
    assert verdict({"compute_throughput": 3}) is None
    limits = {"occupancy_limit_registers": 2, "occupancy_limit_warps": 2, "occupancy_limit_blocks": 16}
    assert occupancy_limit(limits | {"theoretical_occupancy": 50}) == "registers, warps of a block"
    assert occupancy_limit(limits | {"theoretical_occupancy": 100}) is None
