import csv

import pytest
from tests.questions import vendor_tools

import stepscope

KERNEL = {
    "kind": "computation", "name": "gemm", "grid_x": 8, "grid_y": 2, "grid_z": 1, "block_x": 128,
    "block_y": 1, "block_z": 1, "registers_per_thread": 32, "shared_memory_bytes": 48,
}  # fmt: skip


def test_each_piece_of_work_is_a_row_in_order_of_time(diff):
    diff(
        "gpu-trace",
        {
            "device": [{"device": 0, "name": "NVIDIA H100"}],
            "device_event": [
                {"kind": "fill", "name": "Memset (Device)", "start_ns": 30, "dur_ns": 0,
                 "bytes": 64, "destination_memory": "device"},
                {**KERNEL, "start_ns": 10, "dur_ns": 5, "dynamic_shared_memory_bytes": 32,
                 "stream": 7, "context": 1, "correlation": 99},
                {"kind": "copy", "name": "Memcpy HtoD (Pinned -> Device)", "start_ns": 20,
                 "dur_ns": 4, "bytes": 64, "source_memory": "pinned",
                 "destination_memory": "device", "device": 1},
                {"kind": "sync", "name": "Stream Sync", "start_ns": 11, "dur_ns": 1},
            ],
        },
        """
        start_ns,dur_ns,name,grid,block,registers_per_thread,static_shared_memory_bytes,dynamic_shared_memory_bytes,bytes,bandwidth_bytes_per_s,source_memory,destination_memory,device,device_name,context,stream,correlation
        10,5,gemm,"8,2,1","128,1,1",32,16,32,,,,,0,NVIDIA H100,1,7,99
        20,4,Memcpy HtoD (Pinned -> Device),,,,,,64,16000000000.0,pinned,device,1,,,0,
        30,0,Memset (Device),,,,,,64,,,device,0,NVIDIA H100,,0,
        """,
    )  # fmt: skip


def test_a_recording_that_has_only_the_sum_of_shared_memory_has_no_parts_of_it(diff):
    diff(
        "gpu-trace",
        {"device_event": [{**KERNEL, "dur_ns": 5}]},
        "shared_memory_bytes,static_shared_memory_bytes,dynamic_shared_memory_bytes\n48,,",
    )


def test_a_long_trace_is_cut_in_a_terminal_and_complete_as_data(answer):
    rows = [{**KERNEL, "start_ns": 2_315_021_334 + i, "dur_ns": 5} for i in range(1000)]
    table = answer("gpu-trace", {"device_event": rows})
    lines = [line.text for line in table.lines(width=80, limit=30)]
    assert lines[3].startswith("2.315021 s")
    assert any("970 more rows" in line for line in lines)
    assert table.to_csv().count("\n") == 1001


def _moved(rows):
    """The rows with the first start as zero: a tool's times count from where it started."""
    first = rows[0][0]
    return sorted((start - first, *rest) for start, *rest in rows)


@pytest.mark.traces
def test_a_trace_of_cloverleaf_is_nsights_own_table_row_by_row():
    table = vendor_tools.CLOVERLEAF.parent / "a100_cloverleaf.nsys_cuda_gpu_trace.csv"
    with table.open(newline="") as lines:
        theirs = [
            (
                int(row["Timestamp (ns)"]),
                int(row["_matching_timestamp"]) - int(row["Timestamp (ns)"]),
                row["Name"].lower(),
                int(row["streamId"]),
                int(row["bytes"]) if row["bytes"] else None,
            )
            for row in csv.DictReader(lines)
            if row["Event Type"] == "Enter"
        ]
    assert len(theirs) == 1591
    with stepscope.open(vendor_tools.CLOVERLEAF) as trace:
        rows = trace.gpu_trace().rows()
    ours = [(row["start_ns"], row["dur_ns"], _short(row["name"]), row["stream"], row["bytes"]) for row in rows]
    assert _moved(ours) == _moved(theirs)
    named = ("dur_ns", "grid", "block", "registers_per_thread", "context", "stream", "correlation")
    assert [rows[0][name] for name in named] == [1_367_644, "115426,1,1", "256,1,1", 32, 1, 7, 452]


def _short(name):
    if name.startswith("Memcpy "):
        return f"cuda_memcpy_kind_{name.split()[1].lower()}"
    return name.removeprefix("void ").partition("<")[0].rpartition("::")[2].lower()
