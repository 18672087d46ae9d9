import pytest
from tests.questions import vendor_tools

import stepscope

KERNEL = {"kind": "computation", "name": "gemm"}
COPY = {"kind": "copy", "name": "Memcpy HtoD (Pinned -> Device)", "copy_kind": "HtoD"}


def test_kernels_copies_by_direction_and_fills_are_one_table_of_all_device_work(diff):
    diff(
        "gpu-summary",
        {
            "device_event": [
                {**KERNEL, "dur_ns": 10},
                {**KERNEL, "dur_ns": 30},
                {"kind": "communication", "name": "ncclKernel", "dur_ns": 8},
                {**COPY, "dur_ns": 20},
                {**COPY, "name": "Memcpy HtoD (Pageable -> Device)", "dur_ns": 22},
                {"kind": "copy", "name": "copied", "dur_ns": 3},
                {"kind": "fill", "name": "Memset (Device)", "dur_ns": 7},
                {"kind": "sync", "name": "Stream Sync", "dur_ns": 1000},
            ]
        },
        """
        name,operation,count,total_ns,share_ratio,mean_ns,median_ns,min_ns,max_ns,std_ns
        Memcpy HtoD,copy HtoD,2,42,0.42,21.0,21.0,20,22,1.4142135623730951
        gemm,computation,2,40,0.4,20.0,20.0,10,30,14.142135623730951
        ncclKernel,communication,1,8,0.08,8.0,8.0,8,8,
        Memset,fill,1,7,0.07,7.0,7.0,7,7,
        Memcpy unknown,copy unknown,1,3,0.03,3.0,3.0,3,3,
        """,
    )


def test_by_operation_all_kernels_that_compute_are_one_row(diff):
    diff(
        "gpu-summary",
        {
            "device_event": [
                {**KERNEL, "dur_ns": 10},
                {**KERNEL, "name": "relu", "dur_ns": 5},
                {**COPY, "dur_ns": 20},
                {**COPY, "copy_kind": "DtoH", "dur_ns": 2},
            ]
        },
        """
        operation,count,total_ns
        copy HtoD,1,20
        computation,2,15
        copy DtoH,1,2
        """,
        by="operation",
    )


@pytest.mark.traces
def test_a_database_of_nvprof_is_summed_up_as_nvprof_does():
    with stepscope.open(vendor_tools.NVPROF) as trace:
        rows = trace.gpu_summary().rows()
        operations = trace.gpu_summary(by="operation").rows()
    first, *_ = rows
    assert first["name"] == "volta_sgemm_32x128_nn"
    assert (first["count"], first["total_ns"]) == (1, 1_319_380)
    assert first["share_ratio"] == pytest.approx(0.17957274, abs=1e-8)
    (norm,) = (row for row in rows if "NormOps" in row["name"])
    figures = ("count", "total_ns", "mean_ns", "min_ns", "max_ns")
    assert [norm[f] for f in figures] == [16, 505_214, 31_575.875, 3_840, 126_271]
    assert [(row["operation"], row["count"], row["total_ns"]) for row in operations] == [
        ("computation", 160, 7_296_770),
        ("copy DtoH", 21, 38_463),
        ("fill", 8, 12_096),
    ]


@pytest.mark.traces
def test_a_trace_of_torch_profiler_has_the_same_tables():
    with stepscope.open(vendor_tools.TRACES / "kineto" / "bert_small_h100") as trace:
        rows = trace.gpu_summary(by="operation").rows()
        launches = {row["name"]: row["count"] for row in trace.api_summary().rows()}
        listed = trace.gpu_trace().rows()
    found = [(row["operation"], row["count"], row["total_ns"]) for row in rows]
    assert found == [("computation", 60, 307_197), ("copy DtoH", 1, 2_240)]
    assert launches["cudaMemcpyAsync"] == 1
    assert sum(row["dur_ns"] for row in listed) == 309_437
    assert [row["destination_memory"] for row in listed if row["kind"] == "copy"] == ["pinned"]


@pytest.mark.traces
@pytest.mark.parametrize("name", ["CLOVERLEAF", "H100"])
def test_nsys_stats_has_the_same_table(tmp_path, name):
    recording = getattr(vendor_tools, name)
    export = vendor_tools.unpacked(recording, tmp_path, "x.sqlite")
    columns = ("Instances", "Total Time (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")
    theirs = [tuple(float(row[column]) for column in columns) for row in vendor_tools.nsys_stats(export, "gpusum")]
    ours_of = ("count", "total_ns", "median_ns", "min_ns", "max_ns", "std_ns")
    with stepscope.open(recording) as trace:
        ours = [
            tuple(row[name] or 0.0 for name in ours_of)  # they have 0 as the deviation of one
            for row in trace.gpu_summary().rows()
        ]
    assert len(ours) == len(theirs)
    for mine, other in zip(sorted(ours), sorted(theirs), strict=True):
        assert mine == pytest.approx(other, abs=0.051)
