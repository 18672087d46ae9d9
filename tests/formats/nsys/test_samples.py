"""Metrics that were sampled of devices and network cards, and sampled call stacks."""

import json

import pytest
from tests.formats.nsys.exports import PROCESS, Nsys, global_tid, host

import stepscope
from stepscope.formats.vocabulary import counter_kind

GPU = 1 << 48


def sample(nsys, at, metric, value, gpu=0):
    return nsys.insert("GPU_METRICS", timestamp=at, typeId=GPU | gpu, metricId=metric, value=value)


def metrics(nsys, *names, gpus=(0,)):
    for gpu in gpus:
        for number, name in enumerate(names):
            nsys.insert(
                "TARGET_INFO_GPU_METRICS", typeId=GPU | gpu, sourceId=GPU, typeName="GPU Metrics",
                metricId=number, metricName=name,
            )  # fmt: skip
    return nsys


def counted(tables, *columns):
    return [tuple(row[name] for name in columns) for row in tables.counter.to_pylist()]


def test_sampled_metrics_of_the_device_that_the_process_used(nsys):
    nsys.launch(100, 1, "gemm", 110, 200)
    metrics(nsys, "SMs Active [Throughput %]", "GR Active [Workloads]", gpus=(0, 1))
    sample(nsys, 110, 0, 80)
    sample(nsys, 120, 1, 3)
    sample(nsys, 120, 0, 90, gpu=1)
    columns = ("track", "series", "kind", "unit", "pid", "time_ns", "value")
    assert counted(nsys.read(), *columns) == [
        ("device metrics", "SMs Active [Throughput %]", "sm_active", "%", "0", 10, 80.0),
        ("device metrics", "GR Active [Workloads]", None, None, "0", 20, 3.0),
    ]


def test_a_process_has_a_device_under_its_own_index(nsys):
    nsys.launch(100, 1, "gemm", 110, 200)
    nsys.insert("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=PROCESS)
    nsys.insert("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=PROCESS + 1)
    metrics(nsys, "SM Issue [Throughput %]", gpus=(0, 3))
    sample(nsys, 110, 0, 80)
    sample(nsys, 110, 0, 70, gpu=3)
    assert counted(nsys.read(), "kind", "pid", "value") == [("sm_issue", "0", 70.0)]


def test_clocks_are_in_hertz_whatever_the_version_wrote(nsys):
    metrics(nsys, "GPC Clock Frequency [MHz]")
    sample(nsys, 0, 0, 1410)
    sample(nsys, 1, 0, 1_410_000_000)
    expected = [("clock", "Hz", 1.41e9)] * 2
    assert counted(nsys.read(), "kind", "unit", "value") == expected


def test_values_without_a_time_are_counted_and_other_types_are_not_measured(nsys):
    metrics(nsys, "SMs Active [Throughput %]")
    sample(nsys, None, 0, 1)
    sample(nsys, 5, 0, "high")
    tables = nsys.read()
    assert counted(tables, "time_ns", "value") == [(0, None)]
    assert tables.report.damage == {"no_time": 1, "wrong_type": 1}


def test_metrics_of_older_exports_are_texts_of_events(nsys):
    source = json.dumps({"Name": "GpuMetrics"})
    nsys.insert("GENERIC_EVENT_SOURCES", sourceId=7, data=source)
    nsys.insert("GENERIC_EVENT_SOURCES", sourceId=8, data=json.dumps({"Name": "FTrace"}))
    nsys.insert("GENERIC_EVENT_TYPES", typeId=GPU, sourceId=7, data="{}")
    nsys.insert("GENERIC_EVENT_TYPES", typeId=GPU | 1 << 8, sourceId=8, data="{}")
    for raw, kind, text in (
        (10, GPU, '{"SM Active": "80", "Tensor Active / FP16 Active": 5, "Name": "x"}'),
        (20, GPU, '{"SM Active": "9'),
        (30, GPU | 1 << 8, '{"SM Active": "1"}'),
    ):
        nsys.insert("GENERIC_EVENTS", rawTimestamp=raw, timestamp=raw, typeId=kind, data=text)
    assert counted(nsys.read(), "kind", "unit", "time_ns", "value") == [
        ("sm_active", "%", 0, 80.0),
        ("tensor_active", "%", 0, 5.0),
    ]


def test_network_cards_are_kept_with_the_first_process(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    for pid in (144, 145):
        nsys.launch(100, 1, "gemm", 110, 200, pid=pid)
    nsys.insert("TARGET_INFO_NIC_INFO", nicId=0, name="mlx5_0")
    nsys.insert("NIC_ID_MAP", nicId=0, globalId=77)
    nsys.insert("TARGET_INFO_NETWORK_METRICS", metricsListId=0, metricsIdx=6, name="IB: Bytes sent", unit="bytes/ms")
    nsys.insert("NET_NIC_METRIC", start=120, end=1120, globalId=77, portId=1, metricsListId=0, metricsIdx=6, value=4096)
    columns = ("track", "series", "kind", "unit", "pid", "time_ns", "value")
    found = ("network metrics", "IB: Bytes sent", "network_send", "bytes/ms", "mlx5_0:1", 20, 4096.0)
    assert counted(nsys.read("pid 144"), *columns) == [found]
    assert counted(nsys.read("pid 145"), *columns) == []


def test_an_export_of_samples_alone_is_a_recording(nsys):
    metrics(nsys, "SMs Active [Throughput %]")
    sample(nsys, 1000, 0, 50)
    with stepscope.open(nsys.path, cache=False) as trace:
        assert [row["mean"] for row in trace.counters().rows()] == [50.0]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ("SM Active", ("sm_active", "%")), ("GR Active (GE/CE)", ("compute_active", "%")),
        ("Compute Warps in Flight [Avg]", (None, None)), ("PCIe Rx Throughput", ("pcie_receive", "%")),
        ("PCIe Write Bandwidth [Throughput %]", ("pcie_send", "%")),
        ("PCIe Read Requests to BAR1 [Requests]", (None, None)),
        ("NVLink RX Responses User Data [Throughput %]", ("nvlink_receive", "%")),
        ("NVLink bytes transmitted", ("nvlink_send", "%")), ("DRAM Read Throughput", ("dram_read", "%")),
        ("dram__write_throughput.avg.pct_of_peak_sustained_elapsed", ("dram_write", "%")),
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", ("sm_active", "%")),
        ("sm__cycles_active.sum", (None, None)), ("Unallocated Warps in Active SMs [Throughput %]", (None, "%")),
    ],
)  # fmt: skip
def test_a_metrics_kind_and_unit_are_told_by_its_name(series, expected):
    assert counter_kind(series) == expected


def stack(nsys, sample_id, at, *frames, tid=PROCESS):
    """A sample, its frames innermost first, each as function and library."""
    nsys.insert(
        "COMPOSITE_EVENTS", id=sample_id, start=at, cpu=0, threadState=1, globalTid=global_tid(tid), cpuCycles=1
    )
    for depth, (symbol, module) in reversed(list(enumerate(frames))):
        nsys.insert(
            "SAMPLING_CALLCHAINS", id=sample_id, symbol=nsys.text(symbol), module=nsys.text(module),
            unresolved=1 if symbol.startswith("0x") else None, stackDepth=depth,
        )  # fmt: skip
    return nsys


def test_sampled_stacks_are_rows_of_threads_and_distinct_stacks(nsys):
    main = ("main", "/opt/bin/train")
    nsys.range(0, 100, "step")
    stack(nsys, 1, 10, ("memcpy", "/lib/libc.so.6"), main)
    stack(nsys, 2, 20, ("0x7f10", "/lib/libcuda.so.1"), main, tid=999)
    stack(nsys, 3, 30, ("memcpy", "/lib/libc.so.6"), main)
    stack(nsys, 4, 40, ("f(int; int)", "[Unknown]"))
    stack(nsys, 5, 50)
    tables = nsys.read()
    stacks = {row["stack_id"]: row["frames"] for row in tables.call_stack.to_pylist()}
    found = [
        (row["time_ns"], row["thread"], stacks.get(row["stack_id"]), row["weight"])
        for row in tables.stack_sample.to_pylist()
    ]
    assert found == [
        (10, 0, "libc.so.6!memcpy;train!main", 1), (20, 1, "libcuda.so.1![unknown];train!main", 1),
        (30, 0, "libc.so.6!memcpy;train!main", 1), (40, 0, "f(int, int)", 1), (50, 0, None, 1),
    ]  # fmt: skip
    assert len(stacks) == 3


def test_sampled_stacks_go_on_after_recorded_ones(nsys):
    nsys.range(0, 90, "{'traceMarker': ['train.py:1']}").range(10, 80, "aten::mm, op_id = 1")
    stack(nsys, 1, 10, ("main", "/opt/bin/train"))
    tables = nsys.read()
    assert [row["frames"] for row in tables.call_stack.to_pylist()] == ["train.py:1", "train!main"]
    assert tables.stack_sample["stack_id"].to_pylist() == [1]


def test_calls_to_cuda_and_to_the_system_have_their_call_stacks(nsys):
    train = ("main", "/opt/bin/train")
    for table, chain, frames in (
        ("CUDA_CALLCHAINS", 1, (("launch", "/lib/libtorch.so"), train)),
        ("CUDA_CALLCHAINS", 2, (train,)),
        ("OSRT_CALLCHAINS", 1, (("poll", "/lib/libc.so.6"), train)),
    ):
        for depth, (symbol, module) in enumerate(frames):
            nsys.insert(
                table, id=chain, symbol=nsys.text(symbol), module=nsys.text(module), unresolved=None, stackDepth=depth
            )
    for table, at, chain in (
        ("CUPTI_ACTIVITY_KIND_RUNTIME", 0, 1), ("CUPTI_ACTIVITY_KIND_RUNTIME", 10, None),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", 20, 2), ("OSRT_API", 30, 1),
    ):  # fmt: skip
        nsys.insert(
            table, start=at, end=at + 5, globalTid=global_tid(PROCESS), nameId=nsys.text("call"),
            correlationId=at, callchainId=chain,
        )  # fmt: skip
    tables = nsys.read()
    stacks = {row["stack_id"]: row["frames"] for row in tables.call_stack.to_pylist()}
    assert [stacks.get(number) for (number,) in host(tables, "stack_id")] == [
        "libtorch.so!launch;train!main", None, "train!main", "libc.so.6!poll;train!main",
    ]  # fmt: skip
