"""What counters show of kernels, from a report of Nsight Compute beside the trace, and what is nearly that."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

OWN = "void own::kernel<4, true>(float*)"
THEIR_OWN = "own::kernel<(int)4, (bool)1>(float *)"
PLAIN_GEMM = "batched_gemm_kernel"


def trace_of(kernel: str = OWN, operator: str = "my::own", dtype: str = "float", us: int = 40) -> Any:
    def step(r: Recorder) -> None:
        for _ in range(30):
            with r.operator(operator, [[64, 64], [64, 64]], dtype):
                r.kernel(kernel, us, grid=(864, 1, 1), occupancy=18)
            with r.operator("aten::silu", [[16, 128, 64, 64]], "float"):
                r.kernel("void vectorized_elementwise_kernel<4, silu>", 100, occupancy=88)

    return training(step)


def report_of(kernel: str = THEIR_OWN, **metrics: float) -> str:
    named = {
        name.replace("__", "\0").replace("_DOT_", ".").replace("\0", "__"): value for name, value in metrics.items()
    }
    columns = "".join(f',"{name}"' for name in named)
    cells = "".join(f',"{value}"' for value in named.values())
    return (
        f'"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream"{columns}\n'
        f'"","","","","","",""{"," * len(named)}\n"0","9","python","h","{kernel}","1","7"{cells}\n'
    )


def sol(compute: float, memory: float, l1: float = 0.0, dram: float = 0.0) -> dict[str, float]:
    return {
        "sm__throughput_DOT_avg_DOT_pct_of_peak_sustained_elapsed": compute,
        "gpu__compute_memory_throughput_DOT_avg_DOT_pct_of_peak_sustained_elapsed": memory,
        "l1tex__throughput_DOT_avg_DOT_pct_of_peak_sustained_active": l1,
        "gpu__dram_throughput_DOT_avg_DOT_pct_of_peak_sustained_elapsed": dram,
    }


def efficiency(load: float, store: float) -> dict[str, float]:
    return {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld_DOT_pct": load,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st_DOT_pct": store,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_DOT_sum": 3000,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st_DOT_sum": 1000,
    }


def test_accesses_that_use_a_quarter_of_what_they_move_are_found(found: Any) -> None:
    (row,) = found(trace_of(), "uncoalesced-access", report_of(**efficiency(25, 25), **sol(5, 60)))
    assert (row["value"], row["saving_high_ns"]) == (30 * 40_000 * 0.75, 30 * 40_000 * 0.75)
    (evidence,) = row["evidence"]
    assert (evidence["kernel"], evidence["gld_efficiency"], evidence["time_ns"]) == (OWN, 25, 1_200_000)
    sectors = {"memory_l2_theoretical_sectors_global": 400, "memory_l2_theoretical_sectors_global_ideal": 100}
    (row,) = found(trace_of(), "uncoalesced-access", report_of(**sectors))
    assert row["value"] == 30 * 40_000 * 0.75


@pytest.mark.parametrize(
    "report",
    [
        report_of(**efficiency(25, 25), **sol(70, 60)),
        report_of(**efficiency(51, 51)),
        report_of("other", **efficiency(25, 25)),
        report_of(smsp__sass_average_data_bytes_per_sector_mem_global_op_ld_DOT_pct=25),
    ],
    ids=["bound by compute", "a little more than half", "of another kernel", "nobody knows how many"],
)
def test_other_accesses_are_not(found: Any, report: str) -> None:
    assert found(trace_of(), "uncoalesced-access", report) == []


def test_a_short_kernel_is_not_worth_a_finding(found: Any) -> None:
    assert found(trace_of(us=5), "uncoalesced-access", report_of(**efficiency(25, 25))) == []


CONFLICTS = {
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld_DOT_sum": 500,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld_DOT_sum": 800,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st_DOT_sum": 200,
}


def test_bank_conflicts_count_where_shared_memory_is_what_limits(found: Any) -> None:
    (row,) = found(trace_of(), "bank-conflicts", report_of(**CONFLICTS, **sol(30, 70, l1=70, dram=10)))
    assert row["value"] == 30 * 40_000 * 0.5
    assert row["evidence"][0]["shared_load_conflicts"] == 500
    for near in (sol(30, 70, l1=40, dram=70), {}):
        assert found(trace_of(), "bank-conflicts", report_of(**CONFLICTS, **near)) == []
    few = CONFLICTS | {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld_DOT_sum": 240}
    assert found(trace_of(), "bank-conflicts", report_of(**few, **sol(30, 70, l1=70))) == []


def test_local_memory_that_is_much_of_all_accesses_is_found(found: Any) -> None:
    moved = {
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_DOT_sum": 600,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st_DOT_sum": 400,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_DOT_sum": 2500,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st_DOT_sum": 500,
        "launch__registers_per_thread": 255,
    }
    (row,) = found(trace_of(), "register-spills", report_of(**moved, **sol(10, 60)))
    assert row["value"] == 30 * 40_000 * 0.25
    assert (row["evidence"][0]["local_sectors"], row["evidence"][0]["registers_per_thread"]) == (1000, 255)
    few = moved | {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_DOT_sum": 25_000}
    for near in (report_of(**few), report_of(**moved, **sol(70, 60))):
        assert found(trace_of(), "register-spills", near) == []


OCCUPANCY = {
    "sm__warps_active_DOT_avg_DOT_pct_of_peak_sustained_active": 18,
    "sm__maximum_warps_per_active_cycle_pct": 25,
    "launch__occupancy_limit_registers": 1, "launch__occupancy_limit_warps": 4,
    "launch__waves_per_multiprocessor": 8,
}  # fmt: skip


def test_occupancy_held_down_by_registers_is_found_once_and_with_its_limiter(found: Any) -> None:
    report = report_of(**OCCUPANCY, **sol(20, 40))
    (row,) = found(trace_of(), "occupancy-limit", report)
    assert row["value"] == pytest.approx(30 * 40_000 * 0.6)
    evidence = row["evidence"][0]
    assert (evidence["occupancy_limit_registers"], evidence["occupancy_limit_warps"]) == (1, 4)
    assert found(trace_of(), "low-occupancy", report) == []
    assert len(found(trace_of(), "low-occupancy")) == 1


@pytest.mark.parametrize(
    "report",
    [
        report_of(**OCCUPANCY, **sol(20, 65)),
        report_of(**OCCUPANCY | {"launch__waves_per_multiprocessor": 0.5}, **sol(20, 40)),
        report_of(**OCCUPANCY | {"sm__maximum_warps_per_active_cycle_pct": 100}, **sol(20, 40)),
        report_of(**OCCUPANCY, **sol(20, 40), sm__inst_executed_pipe_tensor_DOT_sum=5),
    ],
    ids=["memory is well used", "a small grid", "the launch allows more", "on tensor cores"],
)
def test_other_low_occupancies_are_not(found: Any, report: str) -> None:
    assert found(trace_of(), "occupancy-limit", report) == []


IDLE = {"sm__pipe_tensor_cycles_active_DOT_avg_DOT_pct_of_peak_sustained_active": 0.0}


def test_an_idle_tensor_pipe_in_a_product_whose_name_does_not_tell_is_found(found: Any) -> None:
    trace = trace_of(PLAIN_GEMM, "aten::mm", "c10::Half")
    assert found(trace, "tensor-cores-unused") == []
    (row,) = found(trace, "tensor-cores-unused", report_of(PLAIN_GEMM, **IDLE))
    assert row["value"] == 30 * 40_000
    assert row["evidence"][0]["tensor_active"] == 0
    busy = dict.fromkeys(IDLE, 12.0)
    assert found(trace, "tensor-cores-unused", report_of(PLAIN_GEMM, **busy)) == []
    plain = trace_of(PLAIN_GEMM, "aten::mm", "float")
    assert found(plain, "tensor-cores-unused", report_of(PLAIN_GEMM, **IDLE)) == []
