import json

import pytest

from .conftest import kernel, op


def host(tables, *columns):
    return list(zip(*(tables.host_event[name].to_pylist() for name in columns), strict=True))


# -- devices ---------------------------------------------------------------------------------------

MI300X = {"name": "AMD Instinct MI300X VF", "numSms": 304, "computeMajor": 9, "computeMinor": 4}


def devices(tables):
    return [(row["device"], row["name"], row["used"]) for row in tables.device.to_pylist()]


def test_the_only_device_described_is_the_only_one_used_whatever_its_number(read_events):
    work = [op("a", 1, 5), kernel("k", 2, 2, device=2)]
    tables = read_events(work, {"deviceProperties": [{"id": 0, **MI300X}]})
    assert devices(tables) == [(2, "AMD Instinct MI300X VF", True)]


def test_of_several_devices_each_keeps_its_number(read_events):
    described = [{"id": 0, **MI300X}, {"id": 1, **MI300X}]
    tables = read_events([kernel("k", 2, 2, device=2)], {"deviceProperties": described})
    assert [(number, used) for number, _, used in devices(tables)] == [(0, False), (1, False), (2, True)]
    two = [kernel("k", 2, 2, device=1), kernel("k", 5, 2, device=2)]
    tables = read_events(two, {"deviceProperties": described[:1]})
    assert [number for number, _, used in devices(tables) if used] == [1, 2]


# -- time ------------------------------------------------------------------------------------------


def test_long_times_that_come_late_in_the_file_are_exact_too(read_text):
    events = [op(f"op{n}", n, 1) for n in range(4000)]
    late = '{"ph": "X", "cat": "cpu_op", "name": "z", "pid": 1, "tid": 1, "ts": 1778655624745710.847, "dur": 2}'
    text = '{"traceEvents": [' + ",".join(json.dumps(event) for event in events) + "," + late + "]}"
    tables = read_text(text, slice_bytes=1 << 16)
    assert host(tables, "name", "start_ns")[-1] == ("z", 1778655624745710847)


# -- shapes of files ---------------------------------------------------------------------------------


def test_array_at_the_top_of_old_torch(read_text):
    tables = read_text(
        [
            {"ph": "X", "name": "conv", "ts": 1, "dur": 9, "tid": 0, "pid": "CPU functions", "args": {}},
            {"ph": "X", "name": "sgemm", "ts": 4, "dur": 2, "tid": 0, "pid": "CUDA functions", "args": {}},
        ]
    )
    assert host(tables, "category", "kind", "name") == [("cpu_op", "operator", "conv")]
    assert tables.device_event.select(["category", "kind", "name"]).to_pylist() == [
        {"category": "kernel", "kind": "computation", "name": "sgemm"}
    ]


# -- fields ------------------------------------------------------------------------------------------


def test_unknown_arguments_and_categories_are_kept_and_counted(read_events):
    tables = read_events([op("a", 1, 2, colour="blue", depth=3), {**op("b", 4, 1), "cat": "quantum_op"}])
    rows = tables.host_event.to_pylist()
    assert json.loads(rows[0]["other_args"]) == {"colour": "blue", "depth": 3}
    assert rows[1]["category"] == "quantum_op"
    assert rows[1]["kind"] == "other"
    assert tables.report.unknown_fields == {"colour": 1, "depth": 1}
    assert tables.report.unknown_categories == {"quantum_op": 1}


def test_text_where_a_number_belongs_costs_the_value_only(read_events):
    tables = read_events([op("a", 1, 2, **{"External id": "many"}), op("b", 4, 1, **{"External id": "7"})])
    assert tables.host_event["external_id"].to_pylist() == [None, 7]
    assert tables.report.damage == {"wrong_type": 1}
    assert tables.report.read == 2


def test_grid_of_an_inductor_operator_is_no_damage(read_events):
    tables = read_events(
        [op("triton_poi", 1, 2, grid="grid(100,)"), kernel("triton_poi", 2, 1, grid=[4, 1, 1], block=[128, 1, 1])]
    )
    assert tables.report.damage == {}
    row = tables.device_event.to_pylist()[0]
    assert (row["grid_x"], row["block_x"]) == (4, 128)


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ([4, 2], [4, 2, None]), ([1.0, "2", True], [1, 2, None]), ([99999999999, None, 3], [None, None, 3]),
        ("[8, 1, 1]", [8, 1, 1]), ("[" * 5000, [None, None, None]), ({"x": 1}, [None, None, None]),
    ],
)  # fmt: skip
def test_sizes_that_are_none_are_missing(read_events, grid, sizes):
    tables = read_events([kernel("k", 2, 1, grid=grid), kernel("k", 4, 1, grid=[1, 1, 1])])
    row = tables.device_event.to_pylist()[0]
    assert [row[f"grid_{axis}"] for axis in "xyz"] == sizes


@pytest.mark.parametrize(
    ("args", "tid", "stream"), [({"sycl queue": 12}, 7, 12), ({}, "stream 9", 9)], ids=["queue of XPU", "thread id"]
)
def test_kernel_without_stream_takes_its_queue_or_thread(read_events, args, tid, stream):
    event = kernel("k", 1, 2, **args) | {"tid": tid}
    del event["args"]["stream"]
    assert read_events([event]).device_event["stream"].to_pylist() == [stream]


# -- kinds of events -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "device"), [(1, ("cuda", 3)), (0, ("cpu", None))])
def test_an_allocation_that_failed_is_the_allocators_and_an_instant(read_events, type_, device):
    stated = {"Device Type": type_, "Device Id": 3 if type_ else -1, "Bytes": 4096}
    stated |= {"Total Allocated": 100, "Total Reserved": 0}
    event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[OutOfMemory]"}
    tables = read_events([op("a", 10, 5), event | {"pid": 1, "tid": 1, "ts": 12, "args": stated}])
    (row,) = tables.allocator_event.to_pylist()
    assert (row["kind"], row["time_ns"], row["bytes"]) == ("oom", 2000, 4096)
    assert (row["device_kind"], row["device"]) == device
    assert (row["total_allocated_bytes"], row["total_reserved_bytes"]) == (100, 0 if type_ else None)
    (instant,) = tables.instant.to_pylist()
    assert json.loads(instant["args"])["bytes"] == 4096


def test_threads_and_streams_have_their_names(read_events):
    tables = read_events(
        [
            op("a", 1, 2),
            kernel("k", 2, 1),
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "thread 1 (main)"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 compute"}},
            {**op("PyTorch Profiler (0)", 0, 9), "cat": "Trace", "pid": "Spans", "tid": "PyTorch Profiler"},
        ]
    )
    threads = tables.thread.to_pylist()
    assert [(row["thread_name"], row["process_name"], row["kind"]) for row in threads] == [
        ("thread 1 (main)", "python", "thread"),
        (None, None, "track"),
    ]
    assert tables.stream.to_pylist() == [{"device": 0, "stream": 7, "name": "stream 7 compute"}]


def test_python_frames_can_be_left_out(read_events):
    frame = {**op("train.py(3): step", 0, 9), "cat": "python_function"}
    assert read_events([frame, op("a", 1, 2)], python_stack=False).host_event["name"].to_pylist() == ["a"]
    assert read_events([frame, op("a", 1, 2)]).host_event.num_rows == 2


@pytest.mark.parametrize("slice_bytes", [64, 300, 1 << 20])
def test_slices_do_not_change_the_tables(read_events, slice_bytes):
    events = [op(f"op{n % 7}", n, 1, **{"Input Dims": [[n % 5]]}) for n in range(50)]
    events += [kernel(f"k{n % 3}", 100 + n, 1) for n in range(20)]
    whole = read_events(events)
    cut = read_events(events, slice_bytes=slice_bytes)
    assert cut.host_event.to_pylist() == whole.host_event.to_pylist()
    assert cut.device_event.to_pylist() == whole.device_event.to_pylist()
