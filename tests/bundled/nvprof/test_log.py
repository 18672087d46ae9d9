"""What nvprof prints: a table a log has, in text and in CSV, whatever stands around it."""

import pytest
from tests.questions import vendor_tools

import stepscope
from stepscope.base.errors import SourceError
from stepscope.bundled.nvprof.log import read
from stepscope.formats.container import members
from stepscope.formats.registry import format_of

BANNER = "==77== NVPROF is profiling process 77, command: python train.py"
RESULT = "==77== Profiling result:"
GPU_CSV = """\
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"
ms,ms,,,,,,,,KB,KB,MB,GB/s,,,,,,,
1.000000,0.006624,640,1,1,128,1,1,32,0.500000,1.000000,,,,,"Tesla V100-SXM2-16GB (1)","1","7","gemm",41
1.444284,0.003168,,,,,,,,,,0.000008,0.002839,"Device","Pageable","Tesla V100-SXM2-16GB (1)","1","7","[CUDA memcpy DtoH]",42
1.500000,0.001376,,,,,,,,,,2.000000,63066.240833,"Device",,"Tesla V100-SXM2-16GB (1)","1","7","[CUDA memset]",43
"""
GPU_TEXT = """\
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
1.0000ms  6.6240us            (640 1 1)       (128 1 1)        32      512B  1.0000KB         -           -           -           -  Tesla V100-SXM2         1         7  void gemm<float>(int*) [41]
1.4443ms  3.1680us                    -               -         -         -         -        8B  2.9075MB/s      Device    Pageable  Tesla V100-SXM2         1         7  [CUDA memcpy DtoH]

Regs: Number of registers used per CUDA thread.
"""
API_TEXT = """\
   Start  Duration  Name
     0ns         -  [Range start] mul, seq = 66 (Domain: <unnamed>)
2.0000us  2.3800us  cudaGetDevice
5.0000us  1.0000us  cudaLaunchKernel (void gemm<float>(int*) [41])
9.0000us  1.0000us  cudaLaunchKernel (void a_kernel_with_a_long_na
"""
SUMS = """\
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  1.3194ms         1  1.3194ms  1.3194ms  1.3194ms  gemm
"""


@pytest.fixture
def log(tmp_path):
    def of(*parts: str, **options):
        file = tmp_path / "anything"
        file.write_text("\n".join(parts))
        (member,) = members(file)
        assert format_of(member).name == "nvprof-log"
        return read(member, **options)

    return of


def rows(table, *columns):
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def test_a_gpu_trace_as_csv_is_what_ran_on_the_device(log):
    tables = log("epoch 1: loss 2.3", BANNER, RESULT, GPU_CSV, "==77== Warning: done")
    names = ("name", "start_ns", "dur_ns", "device", "stream", "context", "correlation")
    assert rows(tables.device_event, *names) == [
        ("gemm", 0, 6624, 1, 7, 1, 41),
        ("Memcpy DtoH (Device -> Pageable)", 444_284, 3168, 1, 7, 1, 42),
        ("Memset (Device)", 500_000, 1376, 1, 7, 1, 43),
    ]
    (kernel, copy, fill) = tables.device_event.to_pylist()
    assert [kernel[f"{size}_x"] for size in ("grid", "block")] == [640, 128]
    assert (kernel["registers_per_thread"], kernel["shared_memory_bytes"]) == (32, 1536)
    assert kernel["dynamic_shared_memory_bytes"] == 1024
    assert (copy["bytes"], copy["source_memory"], copy["memory_kind"]) == (8, "device", "pageable")
    assert (fill["bytes"], fill["destination_memory"]) == (2 << 20, "device")
    assert rows(tables.device, "device", "name") == [(1, "Tesla V100-SXM2-16GB")]
    assert tables.facts.pid == 77


def test_text_says_the_same_to_five_digits(log):
    tables = log(BANNER, RESULT, GPU_TEXT)
    names = ("name", "start_ns", "dur_ns", "grid_x", "block_z", "shared_memory_bytes", "bytes")
    assert rows(tables.device_event, *names) == [
        ("void gemm<float>(int*)", 0, 6624, 640, 1, 1536, None),
        ("Memcpy DtoH (Device -> Pageable)", 444_300, 3168, None, None, None, 8),
    ]
    assert tables.facts.resolution_ns == 100


def test_an_api_trace_is_calls_and_marks_whose_threads_are_not_known(log):
    tables = log(BANNER, RESULT, API_TEXT)
    assert rows(tables.host_event, "name", "start_ns", "dur_ns", "role", "correlation") == [
        ("cudaGetDevice", 2000, 2380, None, None),
        ("cudaLaunchKernel", 5000, 1000, "launch", 41),
        ("cudaLaunchKernel", 9000, 1000, "launch", None),
    ]
    assert rows(tables.instant, "name") == [("[Range start] mul, seq = 66 (Domain: <unnamed>)",)]


def test_events_and_metrics_are_columns_with_their_names(log):
    head, units, kernel, *_ = GPU_CSV.splitlines()
    tables = log(
        BANNER, RESULT, head + ',"ipc","dram_read_throughput","tex_utilization","branch","rate"',
        units + ",,GB/s,,,", kernel + ',0.46,12.500000,"Low (2)",,93.75%',
    )  # fmt: skip
    assert rows(tables.kernel_metric, "device_row", "metric", "value", "unit") == [
        (0, "ipc", 0.46, None), (0, "dram_read_throughput", 12.5 * 2**30, "byte/s"),
        (0, "tex_utilization", 2.0, None), (0, "rate", 93.75, "%"),
    ]  # fmt: skip


def test_units_below_the_names_of_a_text_are_those_of_its_columns(log):
    """As `nvprof --print-gpu-trace --normalized-time-unit us` of a database with metrics prints it."""
    tables = log(
        BANNER, RESULT,
        "   Start  Duration            Grid Size           Device   Stream  Name  dram_read_throughput  ipc",
        "      us        us                                                                       GB/s     ",
        "0.000000  6.624000            (640 1 1)  Tesla V100-SXM2        7  gemm            114.978095  0.5",
        "444.2840  3.168000            (274 1 1)  Tesla V100-SXM2        7  relu             12.500000  0.7",
    )  # fmt: skip
    assert rows(tables.device_event, "name", "start_ns", "dur_ns") == [("gemm", 0, 6624), ("relu", 444_284, 3168)]
    assert rows(tables.kernel_metric, "metric", "value", "unit")[:2] == [
        ("dram_read_throughput", pytest.approx(114.978095 * 2**30), "byte/s"), ("ipc", 0.5, None),
    ]  # fmt: skip
    assert not tables.report.damage


def test_metrics_without_times_say_so(log):
    tables = log(
        BANNER, RESULT, '"Device","Context","Stream","Kernel","Correlation_ID","ipc"', ",,,,,",
        '"Tesla K80 (0)","1","7","gemm",41,0.46', '"Tesla K80 (0)","1","7","relu",42,0.5',
    )  # fmt: skip
    assert rows(tables.kernel_metric, "kernel", "value") == [("gemm", 0.46), ("relu", 0.5)]
    assert tables.report.damage == {"no_moments": 2}


@pytest.mark.parametrize("sums", [SUMS, SUMS.replace("Time(%)", "Invocations")])
def test_sums_are_no_recording_and_the_error_says_what_is(log, sums):
    with pytest.raises(SourceError, match="sums alone") as caught:
        log(BANNER, RESULT, sums)
    assert "--print-gpu-trace" in caught.value.hint


def test_a_log_without_a_table_is_no_recording(log):
    with pytest.raises(SourceError, match="no kernel and no call"):
        log(BANNER, "==77== Profiling application: python train.py")


@pytest.mark.parametrize(
    "line",
    [
        "1.0,0.1", '"unfinished', "x,0.1,,,,,,,,,,,,,,,,,,", "-1,0.1,,,,,,,,,,,,,,,,,,",
        "1e999,0.1,,,,,,,,,,,,,,,,,,", "9999999999999999,0.1,,,,,,,,,,,,,,,,,,", "1.0.0,0.1,,,,,,,,,,,,,,,,,,",
        "," * 19, "x" * (1 << 18),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_is_counted(log, line):
    tables = log(BANNER, RESULT, GPU_CSV + line)
    assert tables.device_event.num_rows == 3
    assert tables.report.dropped == 1


@pytest.mark.parametrize(
    "cells",
    [
        '1.0,0.1,wide,1,1,1,1,1,-5,x,,,,,,"Tesla (99999999)","a","b","gemm",c',
        '1.0,0.1,99999999999,1,1,1,1,1,1,,,,,,,"Tesla","1","7","",',
        '1.0,,,,,,,,,,,zz,,,,"Tesla","1","7","[CUDA memcpy HtoD]",41',
    ],
)
def test_odd_cells_are_not_measured_and_the_row_is_kept(log, cells):
    assert log(BANNER, RESULT, GPU_CSV + cells).device_event.num_rows == 4


@pytest.mark.traces
@pytest.mark.parametrize(
    ("options", "exact"),
    [
        (["--print-gpu-trace", "--csv"], True), (["--print-gpu-trace"], True),
        (["--print-gpu-trace", "--print-api-trace", "--csv"], False), (["--print-api-trace"], True),
    ],
)  # fmt: skip
def test_what_nvprof_prints_is_read_as_what_it_printed_it_from(tmp_path, options, exact):
    recording = vendor_tools.unpacked(vendor_tools.NVPROF, tmp_path, "x.nvvp")
    printed = tmp_path / "printed.log"
    printed.write_text(vendor_tools.ran("nvprof", "-i", str(recording), *options))
    with stepscope.open(recording) as trace, stepscope.open(printed) as log:
        for name, option in (("gpu_summary", "gpu"), ("api_summary", "api")):
            if f"--print-{option}-trace" in options:
                ours, theirs = (
                    sorted((row["count"], row["total_ns"]) for row in getattr(one, name)().rows())
                    for one in (trace, log)
                )
                assert [count for count, _ in ours] == [count for count, _ in theirs]
                for (count, mine), (_, other) in zip(ours, theirs, strict=True):
                    # Of both tables together nvprof prints all times in seconds.
                    assert other == pytest.approx(mine, rel=1e-4, abs=1 if exact else 600 * count)
