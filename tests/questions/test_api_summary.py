import re

import pytest
from tests.questions import vendor_tools

import stepscope


def test_calls_of_runtime_and_driver_count_and_nothing_else_of_the_host(diff):
    diff(
        "api-summary",
        {
            "host_event": [
                {"kind": "runtime", "category": "cuda_runtime", "name": "cudaMalloc", "dur_ns": 3},
                {"kind": "runtime", "category": "cuda_runtime", "name": "cudaFree", "dur_ns": 8},
                {"kind": "runtime", "category": "cuda_runtime", "name": "cudaFree", "dur_ns": 4},
                {"kind": "runtime", "category": "cuda_driver", "name": "cuLaunch", "dur_ns": 5},
                {"kind": "operator", "name": "aten::mm", "dur_ns": 99},
                {"kind": "other", "category": "os_runtime", "name": "poll", "dur_ns": 99},
            ]
        },
        """
        name,api,count,total_ns,share_ratio,mean_ns,median_ns,min_ns,max_ns,std_ns
        cudaFree,cuda_runtime,2,12,0.6,6.0,6.0,4,8,2.8284271247461903
        cuLaunch,cuda_driver,1,5,0.25,5.0,5.0,5,5,
        cudaMalloc,cuda_runtime,1,3,0.15,3.0,3.0,3,3,
        """,
    )


@pytest.mark.traces
def test_a_database_of_nvprof_is_summed_up_as_nvprof_does():
    with stepscope.open(vendor_tools.NVPROF) as trace:
        rows = trace.api_summary().rows()
    assert [(row["name"], row["count"], row["total_ns"]) for row in rows[:4]] == [
        ("cudaLaunchKernel", 160, 2_317_169_068),
        ("cudaMalloc", 2, 21_798_241),
        ("cudaGetDevice", 1085, 1_335_158),
        ("cudaMemcpyAsync", 21, 1_271_531),
    ]
    assert rows[0]["share_ratio"] == pytest.approx(0.98911265, abs=1e-8)


@pytest.mark.traces
@pytest.mark.parametrize("name", ["CLOVERLEAF", "H100"])
def test_nsys_stats_has_the_same_table(tmp_path, name):
    recording = getattr(vendor_tools, name)
    export = vendor_tools.unpacked(recording, tmp_path, "x.sqlite")
    columns = ("Num Calls", "Total Time (ns)", "Med (ns)", "Min (ns)", "Max (ns)")
    theirs = [
        (re.sub(r"_v\d+$", "", row["Name"]), *(float(row[column]) for column in columns))
        for row in vendor_tools.nsys_stats(export, "cudaapisum")
    ]
    names = ("name", "count", "total_ns", "median_ns", "min_ns", "max_ns")
    with stepscope.open(recording) as trace:
        ours = [tuple(row[name] for name in names) for row in trace.api_summary().rows()]
    assert sorted(ours) == sorted(theirs)
