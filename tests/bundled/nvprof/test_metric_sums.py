"""Metrics and events as nvprof prints them by default: a line a metric and kernel, as text and as CSV."""

import pytest

from stepscope.base.errors import SourceError
from stepscope.bundled.nvprof.metric_sums import read
from stepscope.formats.container import members
from stepscope.formats.registry import format_of

CSV = """\
==77== NVPROF is profiling process 77, command: python train.py
epoch 1: loss 2.3
==77== Profiling application: python train.py
==77== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100-SXM2-16GB (0)","void gemm<int=4>(float*)",2,"dram_read_throughput","Device Memory Read Throughput",100.000000GB/s,120.000000GB/s,110.000000GB/s
"Tesla V100-SXM2-16GB (0)","void gemm<int=4>(float*)",2,"dram_utilization","Device Memory Utilization","Mid (5)","High (7)","Mid (6)"
"Tesla V100-SXM2-16GB (0)","relu",1,"gld_efficiency","Global Memory Load Efficiency",62.500000%,62.500000%,62.500000%
"Tesla V100-SXM2-16GB (0)","relu",1,"broken"
"""
TEXT = """\
==77== Event result:
Invocations                                Event Name         Min         Max         Avg       Total
Device "Tesla V100-SXM2-16GB (1)"
    Kernel: void gemm<int=4>(float*)
          2                             active_cycles          70          90          80         160

==77== Metric result:
Invocations                               Metric Name                        Metric Description         Min         Max         Avg
Device "Tesla V100-SXM2-16GB (1)"
    Kernel: void gemm<int=4>(float*)
          2                      dram_read_throughput             Device Memory Read Throughput  1.0000GB/s  3.0000GB/s  2.0000GB/s
    Kernel: relu
          1                           global_hit_rate         Global Hit Rate in unified l1/tex      12.50%      12.50%      12.50%
"""


@pytest.fixture
def sums(tmp_path):
    def of(text: str):
        file = tmp_path / "anything"
        file.write_text(text)
        (member,) = members(file)
        assert format_of(member).name == "nvprof-metrics"
        return read(member)

    return of


def rows(tables):
    names = ("kernel", "metric", "kind", "value", "min", "max", "unit")
    return [tuple(row[name] for name in names) for row in tables.kernel_metric.to_pylist()]


def test_a_csv_of_metrics_has_means_and_extremes_of_launches(sums):
    tables = sums(CSV)
    assert rows(tables) == [
        ("void gemm<int=4>(float*)", "dram_read_throughput", "dram_read_throughput",
         110 * 2**30, 100 * 2**30, 120 * 2**30, "byte/s"),
        ("void gemm<int=4>(float*)", "dram_utilization", "dram_throughput", 6, 5, 7, None),
        ("relu", "gld_efficiency", "gld_efficiency", 62.5, 62.5, 62.5, "%"),
    ]  # fmt: skip
    assert tables.measured_kernel["launches"].to_pylist() == [2, 1]
    assert tables.device["name"].to_pylist() == ["Tesla V100-SXM2-16GB"]
    assert (tables.report.read, tables.report.dropped) == (3, 1)


def test_texts_of_events_and_metrics_name_kernel_and_device_above(sums):
    tables = sums(TEXT)
    assert rows(tables) == [
        ("void gemm<int=4>(float*)", "active_cycles", None, 80, 70, 90, None),
        ("void gemm<int=4>(float*)", "dram_read_throughput", "dram_read_throughput",
         2 * 2**30, 2**30, 3 * 2**30, "byte/s"),
        ("relu", "global_hit_rate", "global_hit_rate", 12.5, 12.5, 12.5, "%"),
    ]  # fmt: skip
    assert tables.measured_kernel["device"].to_pylist() == [1, 1]


def test_a_result_without_lines_is_no_recording(sums):
    with pytest.raises(SourceError, match="no metric and no event") as caught:
        sums(CSV[: CSV.index("\n", CSV.index("Device")) + 1])
    assert "nvprof --metrics" in caught.value.hint
