import csv
import io
import json
import shutil

import pytest
from tests.formats.counters.test_ncu import DETAILS, line
from tests.processes import ran

import stepscope

GEMM = "void gemm<128, true>(float const*)"


def kernel(number, name, dur, **more):
    return {"id": number, "name": name, "kind": "computation", "start_ns": 100 * number, "dur_ns": dur,
            "grid_x": 8, "block_x": 32, **more}  # fmt: skip


def launch(number, name, **values):
    row = {"measured": number, "name": name, "launches": 1, "tool": "nvprof"}
    return row, [
        {"measured": number, "kernel": name, "metric": metric, "kind": kind, "value": value,
         "unit": unit, "tool": "nvprof"}
        for metric, (kind, value, unit) in values.items()
    ]  # fmt: skip


def rows_of(*launches):
    return {
        "measured_kernel": [row for row, _ in launches],
        "kernel_metric": [metric for _, metrics in launches for metric in metrics],
    }


SOL = {
    "sm": ("compute_throughput", 30.0, "%"), "memory": ("memory_throughput", 64.0, "%"),
    "l1": ("l1_throughput", 20.0, "%"), "dram": ("dram_throughput", 64.0, "%"),
    "achieved_occupancy": ("achieved_occupancy", 0.46, None), "ipc": ("ipc", 1.5, None),
    "tensor_precision_fu_utilization": ("tensor_active", 3.0, None),
    "warps": ("theoretical_occupancy", 50.0, "%"), "registers": ("occupancy_limit_registers", 2, "block"),
    "wait": ("stall_long_scoreboard", 9.0, "cycle"), "gld_efficiency": ("gld_efficiency", 25.0, "%"),
}  # fmt: skip


def test_the_kernel_with_the_most_time_comes_first_and_says_what_limits_it(diff):
    diff(
        "metrics",
        rows_of(
            launch(0, "relu", memory=("memory_throughput", 95.0, "%"), sm=("compute_throughput", 5, "%")),
            launch(1, "gemm<(int)128, (bool)1>(const float *)", **SOL),
        ) | {"device_event": [kernel(1, GEMM, 70), kernel(2, "relu", 30)]},
        """
        kernel,count,device_ns,share_ratio,measured,limiter,limiter_ratio,verdict,occupancy_ratio,theoretical_ratio,occupancy_limit,ipc,tensor_ratio,load_ratio,stall
        "void gemm<128, true>(float const*)",1,70,0.7,1,DRAM,0.64,memory,0.46,0.5,registers,1.5,0.3,0.25,"data from L1, L2, device or local memory (long_scoreboard)"
        relu,1,30,0.3,1,memory,0.95,"memory well used: shift work to another unit, or do less of it",,,,,,,
        """,
    )  # fmt: skip


def test_each_metric_has_one_name_its_unit_and_the_names_of_the_tools(diff):
    diff(
        "metrics",
        rows_of(launch(0, "relu", gld_transactions=("gld_transactions", 640.0, None),
                       dram_utilization=("dram_throughput", 7.0, None))),
        """
        kernel,metric,value,unit,measured_as,ncu,nvprof
        relu,dram_throughput,70.0,%,dram_utilization,"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed, dram__throughput.avg.pct_of_peak_sustained_elapsed",dram_utilization
        relu,gld_transactions,640.0,transaction,gld_transactions,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,gld_transactions
        """,
        by="metric",
    )  # fmt: skip


def test_counters_alone_were_joined_to_nothing_that_could_be_counted(diff):
    measured = rows_of(launch(0, "relu", memory=("memory_throughput", 95.0, "%")))
    diff("metrics", measured, "kernel,count,measured\nrelu,,1")
    diff("metrics", measured | {"device_event": [kernel(1, GEMM, 70)]}, "kernel,count,measured\nrelu,0,1")


def test_nothing_measured_is_no_row(answer):
    assert len(answer("metrics", {"device_event": [kernel(1, GEMM, 70)]})) == 0


def test_a_report_beside_a_trace_adds_no_work_and_marks_no_answer(tmp_path):
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1,
         "dur": 2, "args": {"correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": 5, "dur": 50,
         "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [32, 4, 1], "block": [256, 1, 1]}},
    ]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    report = line(0, "gemm<(int)128, (bool)1>(const float *)", "s", "DRAM Throughput", "%", "61.84")
    (tmp_path / "report.csv").write_text(f"{DETAILS}\n{report}\n")
    with stepscope.open(tmp_path / "trace.json", cache=False) as alone:
        before = alone.gpu_summary().rows()
        warned = [row["check"] for row in alone.checks().rows() if row["severity"] != "ok"]
    with stepscope.open(tmp_path, cache=False) as both:
        assert both.gpu_summary().rows() == before
        assert [row["check"] for row in both.checks().rows() if row["severity"] != "ok"] == warned
        (row,) = both.metrics().rows()
        assert (row["kernel"], row["device_ns"], row["dram_ratio"]) == (GEMM, 50_000, pytest.approx(0.6184))
        assert "Joined to 1 of 1 kernels of the recording (100.0 %" in both.metrics().note


@pytest.mark.traces
@pytest.mark.skipif(shutil.which("ncu") is None, reason="needs ncu")
def test_verdicts_of_a_report_are_those_of_nvidias_rule(shared_traces):
    path = shared_traces / "ncu" / "a10g_5_kernels.ncu-rep"
    told = ran("ncu", "--import", path, "--csv", "--page", "details", check=True)  # fmt: skip
    rules = {
        row["Kernel Name"]: row["Rule Description"]
        for row in csv.DictReader(io.StringIO(told.stdout))
        if row["Rule Name"] == "SOLBottleneck"
    }
    words = {"balanced": "well-balanced", "small": "grid is too small", "latency": "latency issues"}
    with stepscope.open(path, cache=False) as report:
        rows = report.metrics().rows()
    assert len(rows) == len(rules) == 4
    for row in rows:
        assert words[row["verdict"].split()[0]] in rules[row["kernel"]]


@pytest.mark.traces
def test_a_page_of_details_is_judged_as_its_rules_judged_it(shared_traces):
    with stepscope.open(shared_traces / "ncu" / "t4_copy_details.csv") as report:
        (row,) = report.metrics().rows()
    assert (row["limiter"], row["limiter_ratio"], row["verdict"]) == ("DRAM", pytest.approx(0.6184), "memory")
    assert (row["occupancy_ratio"], row["theoretical_ratio"], row["device_ns"]) == (
        pytest.approx(0.9626),
        1.0,
        21_058_944,
    )
