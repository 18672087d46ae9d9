import gzip
import json
import struct

import pytest
from tests.bundled.nvprof.databases import AUTOGRAD, Nvprof, call, read_file, scalar, stack, tensor

from stepscope.base.errors import DamagedSourceError, SourceError
from stepscope.bundled.nvprof.reader import peek
from stepscope.formats.container import members
from stepscope.formats.damage import check_strict
from stepscope.formats.registry import format_of

A_DAY_IN_2020 = 1_583_978_810_000_000_000


@pytest.fixture
def nvprof(tmp_path):
    return Nvprof(tmp_path / "net.sql")


def host(tables, *columns):
    return [tuple(row[c] for c in columns) for row in tables.host_event.to_pylist()]


def inputs(tables):
    """Operator → its dims and types, for those that have any."""
    texts = {row["input_id"]: row for row in tables.operator_input.to_pylist()}
    return {
        row["name"]: (json.loads(texts[row["input_id"]]["dims"]), json.loads(texts[row["input_id"]]["types"]))
        for row in tables.host_event.to_pylist()
        if row["input_id"] is not None
    }


def test_a_kernel_keeps_its_time_launch_and_shape_of_the_grid(nvprof):
    tables = nvprof.device().launch(100, 5, "volta_sgemm_128x64_nn", 150, 190).read()
    (row,) = tables.device_event.to_pylist()
    assert (row["start_ns"], row["dur_ns"], row["correlation"]) == (50, 40, 5)
    assert (row["grid_x"], row["grid_y"], row["block_x"]) == (80, 2, 128)
    assert (row["blocks_per_sm"], row["warps_per_sm"], row["shared_memory_bytes"]) == (2, 8, 48)
    assert host(tables, "name", "role", "correlation") == [("cudaLaunchKernel", "launch", 5)]
    (device,) = tables.device.to_pylist()
    assert (device["name"], device["max_threads_per_sm"]) == ("Tesla V100-SXM2-16GB", 2048)


def test_copies_say_where_from_and_where_to(nvprof):
    nvprof.insert(
        "MEMCPY", copyKind=1, srcKind=1, dstKind=3, bytes=64, start=10, end=30, deviceId=0,
        contextId=1, streamId=7, correlationId=3,
    )  # fmt: skip
    nvprof.insert("MEMSET", bytes=32, start=40, end=41, deviceId=0, contextId=1, streamId=7, correlationId=4)
    copy, fill = nvprof.read().device_event.to_pylist()
    assert copy["name"] == "Memcpy HtoD (Pageable -> Device)"
    assert (copy["copy_kind"], copy["memory_kind"], copy["bytes"]) == ("HtoD", "pageable", 64)
    assert (fill["kind"], fill["bytes"], fill["dur_ns"]) == ("fill", 32, 1)


def test_an_operator_is_given_what_pyprof_wrote_of_the_call_around_it(nvprof):
    nvprof.ranges(
        (0, 100, stack("train.py:12", "net.py:3")),
        (1, 99, call("torch", "mm", tensor(8, 4), tensor(4, 2))),
        (2, 98, "mm, seq = 31"),
    ).launch(10, 1, "gemm", 200, 300)
    tables = nvprof.read()
    assert host(tables, "kind", "name", "sequence_number") == [
        ("python", "torch.mm", None), ("operator", "aten::mm", 31), ("runtime", "cudaLaunchKernel", None),
    ]  # fmt: skip
    assert inputs(tables) == {"aten::mm": ([[8, 4], [4, 2]], ["float", "float"])}
    frames = tables.call_stack.to_pylist()
    assert frames == [{"stack_id": 0, "frames": "net.py:3;train.py:12"}]


def test_without_torchs_own_markers_the_call_stands_for_the_operator(nvprof):
    nvprof.ranges((0, 9, call("Tensor", "__iadd__", tensor(8, 4), tensor(4))))
    tables = nvprof.launch(1, 1, "k", 20, 30).read()
    assert host(tables, "kind", "name")[0] == ("operator", "aten::add_")
    assert inputs(tables) == {"aten::add_": ([[8, 4], [4]], ["float", "float"])}


def test_arguments_are_put_in_the_operators_order(nvprof):
    norm = call(
        "torch.nn.functional", "batch_norm", tensor(8, 3, 4, 4), tensor(3), tensor(3),
        tensor(3, name="weight"), tensor(3, name="bias"), scalar(value=True, name="training"),
    )  # fmt: skip
    nvprof.ranges(
        (0, 9, call("Tensor", "add_", tensor(6), scalar(-20), tensor(6))),
        (10, 19, call("torch", "cat", tensor(2, 3), tensor(4, 3), scalar(0, name="dim"))),
        (20, 29, norm),
    )
    given = inputs(nvprof.read())
    assert given["aten::add_"] == ([[6], [6], []], ["float", "float", "Scalar"])
    assert given["aten::cat"] == ([[[2, 3], [4, 3]], []], ["TensorList", "Scalar"])
    assert given["aten::batch_norm"][0] == [[8, 3, 4, 4], [3], [3], [3], [3], []]


def test_sizes_that_torch_wrote_itself_are_taken(nvprof):
    nvprof.ranges((0, 9, "aten::mm, op_id = 4, seq = 7, sizes = [[8, 4], [4, 2]]"))
    (row,) = nvprof.read().operator_input.to_pylist()
    assert (row["dims"], row["types"]) == ("[[8, 4], [4, 2]]", None)


def test_gradients_of_a_product_get_their_shapes_from_the_forward(nvprof):
    nvprof.ranges(
        (0, 20, call("Tensor", "matmul", tensor(5, 6, 4), tensor(4, 3))),
        (1, 19, "matmul, seq = 8"),
        (2, 18, "mm, seq = 9"),
    ).ranges((50, 90, "MmBackward, seq = 9"), (51, 60, "mm, seq = 0"), (61, 70, "mm, seq = 0"), thread=AUTOGRAD)
    tables = nvprof.read()
    texts = {row["input_id"]: row["dims"] for row in tables.operator_input.to_pylist()}
    backward = [
        (row["sequence_number"], texts.get(row["input_id"]), row["other_args"])
        for row in tables.host_event.to_pylist()
        if row["thread"] == 1 and row["name"] == "aten::mm"
    ]
    derived = '{"inputs": "from the forward call"}'
    assert backward == [(None, "[[4, 30], [30, 3]]", derived), (None, "[[30, 3], [3, 4]]", derived)]


def test_a_broadcast_is_undone_and_its_gradient_accumulated(nvprof):
    nvprof.ranges((0, 20, call("Tensor", "__add__", tensor(8, 4), tensor(4))), (1, 19, "add, seq = 2")).ranges(
        (50, 52, "AddBackward0, seq = 2"), (53, 60, "sum, seq = 0"), (61, 70, "torch::autograd::AccumulateGrad"),
        (62, 69, "add_, seq = 0"), (71, 80, "sum, seq = 0"), thread=AUTOGRAD,
    )  # fmt: skip
    tables = nvprof.read()
    given = inputs(tables)
    assert given["aten::sum"][0] == [[8, 4], [], []]
    assert given["aten::add_"][0] == [[4], [4], []]


def test_gradients_of_a_convolution_get_their_shapes_from_the_forward(nvprof):
    given = (tensor(2, 3, 8, 8), tensor(4, 3, 3, 3), scalar(None), scalar((2, 2)), scalar(1), scalar((1, 1)), scalar(1))
    nvprof.ranges(
        (0, 20, call("torch", "conv2d", *given)), (1, 19, "conv2d, seq = 4"), (2, 18, "cudnn_convolution, seq = 4")
    ).ranges(
        (50, 90, "CudnnConvolutionBackward, seq = 4"),
        (51, 89, "cudnn_convolution_backward, seq = 0"),
        (52, 60, "cudnn_convolution_backward_input, seq = 0"),
        (61, 70, "cudnn_convolution_backward_weight, seq = 0"),
        thread=AUTOGRAD,
    )
    tables = nvprof.read()
    found = inputs(tables)
    grad = [2, 4, 4, 4]
    assert found["aten::cudnn_convolution_backward_input"][0] == [[], grad, [4, 3, 3, 3]]
    assert found["aten::cudnn_convolution_backward_weight"][0] == [[], grad, [2, 3, 8, 8]]
    sizes = [json.loads(row["values"])[0] for row in tables.operator_input.to_pylist()]
    assert {"[2, 3, 8, 8]", "[4, 3, 3, 3]"} <= set(sizes)


@pytest.mark.parametrize(
    ("function", "given", "nodes", "derived"),
    [
        ("bmm", (tensor(2, 3, 4), tensor(2, 4, 5)), ("BmmBackward", "bmm"), [[2, 4, 3], [2, 3, 5]]),
        ("addmm", (tensor(5), tensor(3, 4), tensor(4, 5)), ("AddmmBackward", "mm"), [[4, 3], [3, 5]]),
        ("mul", (tensor(3, 1), tensor(1, 5)), ("MulBackward0", "mul"), [[3, 5], [3, 5]]),
        ("relu", (tensor(3, 4),), ("ReluBackward0", "threshold_backward"), [[3, 4], [3, 4], []]),
        (
            "_softmax", (tensor(3, 4), scalar(1)), ("SoftmaxBackward", "_softmax_backward_data"),
            [[3, 4], [3, 4], [], [3, 4]],
        ),
        (
            "embedding", (tensor(9, 4), tensor(2, 3, dtype="int64")),
            ("EmbeddingBackward", "embedding_dense_backward"), [[2, 3, 4], [2, 3], [], [], []],
        ),
        (
            "nll_loss_forward", (tensor(6, 9), tensor(6, dtype="int64")),
            ("NllLossForwardBackward", "nll_loss_backward"), None,
        ),
        ("mm", (tensor(3), tensor(3)), ("MmBackward", "mm"), None),
        ("bmm", (tensor(3, 4), tensor(4, 5)), ("BmmBackward", "bmm"), None),
        ("cos", (tensor(3, 4),), ("CosBackward", "sin"), None),
    ],
)  # fmt: skip
def test_each_kind_of_node_calls_what_torchs_derivatives_say(nvprof, function, given, nodes, derived):
    node, called = nodes
    nvprof.ranges((0, 20, call("torch", function, *given)), (1, 19, f"{function}, seq = 3")).ranges(
        (50, 90, f"{node}, seq = 3"), (51, 60, f"{called}, seq = 0"), thread=AUTOGRAD
    )
    tables = nvprof.read()
    texts = {row["input_id"]: row["dims"] for row in tables.operator_input.to_pylist()}
    (found,) = [
        texts.get(row["input_id"])
        for row in tables.host_event.to_pylist()
        if row["thread"] == 1 and row["name"] == f"aten::{called}"
    ]
    assert found == (None if derived is None else json.dumps(derived))


def test_a_node_without_a_known_forward_is_given_nothing(nvprof):
    nvprof.ranges((50, 90, "MmBackward, seq = 9"), (51, 60, "mm, seq = 0"), thread=AUTOGRAD)
    assert inputs(nvprof.read()) == {}


def test_own_ranges_and_modules_are_kept_apart_from_what_pyprof_writes(nvprof):
    nvprof.ranges(
        (0, 90, "layer: encoder"),
        (1, 80, "{'mod': 'LSTMCell', 'strRepr': '10, 20'}"),
        (2, 70, call("LSTMCell", "forward", tensor(3, 10))),
    )
    assert host(nvprof.read(), "kind", "role", "name") == [
        ("annotation", None, "layer: encoder"),
        ("python", "module", "nn.Module: LSTMCell"),
        ("python", None, "LSTMCell.forward"),
    ]


def test_python_functions_can_be_left_out(nvprof):
    nvprof.ranges(
        (0, 50, stack("a.py:1")), (1, 40, call("torch", "mm", tensor(2, 2), tensor(2, 2))), (2, 30, "mm, seq = 1")
    )
    tables = nvprof.read(python_stack=False)
    assert host(tables, "name", "stack_id") == [("aten::mm", None)]


def test_a_range_that_never_ends_is_counted_and_ends_with_its_thread(nvprof):
    nvprof.ranges((5, 50, "epoch"))
    nvprof.insert(
        "MARKER", flags=2, timestamp=20, id=99, objectKind=2,
        objectId=b"\x07\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00", name=nvprof.string("cut"),
    )  # fmt: skip
    path = nvprof.written()
    tables = read_file(path)
    assert host(tables, "name", "start_ns", "dur_ns") == [("epoch", 0, 45), ("cut", 15, 30)]
    assert tables.report.damage == {"unfinished": 1}
    with pytest.raises(DamagedSourceError, match="unfinished"):
        check_strict("a file", tables.report.damage, lost=tables.report.lost)


def test_thread_ids_with_and_without_a_sign_are_one_thread(nvprof):
    unsigned = 0xEADC3740
    nvprof.ranges((0, 90, "mm, seq = 1"), thread=unsigned)
    tables = nvprof.launch(10, 1, "k", 100, 110, thread=unsigned - (1 << 32)).read()
    assert tables.thread.num_rows == 1


def test_times_since_1970_are_told_from_times_since_the_machines_start(tmp_path):
    since_boot = Nvprof(tmp_path / "boot.sql").launch(1000, 1, "k", 1500, 1600).read()
    since_1970 = (
        Nvprof(tmp_path / "epoch.sql").launch(A_DAY_IN_2020, 1, "k", A_DAY_IN_2020 + 500, A_DAY_IN_2020 + 600).read()
    )
    assert since_boot.facts.start_epoch_ns is None
    assert since_1970.facts.start_epoch_ns == A_DAY_IN_2020
    assert since_boot.device_event["start_ns"].to_pylist() == [500]
    assert since_1970.device_event["start_ns"].to_pylist() == [500]


@pytest.mark.parametrize(
    "missing",
    [
        "CUPTI_ACTIVITY_KIND_MARKER", "CUPTI_ACTIVITY_KIND_DEVICE", "CUPTI_ACTIVITY_KIND_DRIVER",
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
    ],
)  # fmt: skip
def test_missing_tables_are_missed_by_nobody(tmp_path, missing):
    made = Nvprof(tmp_path / "net.sql", without=[missing]).launch(1, 1, "k", 10, 30)
    assert made.read().device_event["dur_ns"].to_pylist() == [20]


def test_missing_columns_are_not_measured(tmp_path):
    made = Nvprof(tmp_path / "net.sql", without=["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"])
    made.connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, correlationId INT, name INT)")
    made.insert("KERNEL", start=10, end=30, correlationId=1, name=made.string("k"))
    (row,) = made.read().device_event.to_pylist()
    assert (row["name"], row["dur_ns"], row["grid_x"], row["stream"]) == ("k", 20, None, -1)


def test_compressed_and_renamed_it_is_the_same(nvprof, tmp_path):
    path = nvprof.device().launch(1, 1, "k", 10, 30).written()
    packed = tmp_path / "unknown"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    (member,) = members(packed)
    assert format_of(member).name == "nvprof"
    assert read_file(packed).device_event.equals(read_file(path).device_event)


def test_a_file_with_odd_characters_in_its_name_is_opened(tmp_path):
    made = Nvprof(tmp_path / "50%? #1.sql").launch(1, 1, "k", 10, 30)
    assert made.read().device_event.num_rows == 1


def test_it_says_when_it_began_without_being_read(nvprof):
    path = nvprof.launch(A_DAY_IN_2020, 1, "k", A_DAY_IN_2020 + 9, A_DAY_IN_2020 + 10).written()
    (member,) = members(path)
    facts = peek(member)
    assert facts is not None
    assert (facts.start_epoch_ns, facts.tool) == (A_DAY_IN_2020, "nvprof")


def test_an_empty_recording_says_why(nvprof):
    path = nvprof.written()
    (member,) = members(path)
    assert peek(member) is None
    with pytest.raises(SourceError, match="holds no activity"):
        read_file(path)


def test_a_range_keeps_its_domain(nvprof):
    nvprof.ranges((0, 9, "loss"), domain="torchvision").ranges((10, 12, "epoch"))
    nvprof.ranges((20, 22, "step"), domain="-- null --")
    tables = nvprof.launch(3, 5, "k", 4, 5).read()
    kept = [row for row in host(tables, "name", "other_args") if row[0] != "cudaLaunchKernel"]
    assert kept == [("loss", '{"domain": "torchvision"}'), ("epoch", None), ("step", None)]


def test_events_and_metrics_have_the_names_that_nvprof_prints(nvprof):
    """As nvprof 11.8 printed the same rows, put into a database of a V100."""
    nvprof.launch(0, 5, "gemm", 4, 9)
    for number in (19923062, 19922945):
        nvprof.insert("METRIC", id=number, value=struct.pack("<d", 0.5), correlationId=5)
    nvprof.insert("EVENT", id=83886182, value=77, domain=1, correlationId=5)
    found = nvprof.read().kernel_metric.to_pylist()
    assert [row["metric"] for row in found] == ["achieved_occupancy", "inst_per_warp", "active_cycles"]


def test_events_and_metrics_without_a_name_are_kept_by_number(nvprof):
    nvprof.launch(0, 5, "gemm", 4, 9).launch(20, 6, "relu", 24, 29)
    nvprof.insert("METRIC", id=7, value=struct.pack("<d", 0.46), correlationId=6)
    nvprof.insert("METRIC", id=8, value=struct.pack("<q", 123_456), correlationId=6)
    nvprof.insert("METRIC", id=9, value=struct.pack("<q", 0), correlationId=6)
    nvprof.insert("METRIC_INSTANCE", id=7, value=struct.pack("<d", -2.5), instance=3, correlationId=5)
    nvprof.insert("EVENT", id=11, value=77, domain=1, correlationId=5)
    nvprof.insert("EVENT_INSTANCE", id=11, value=40, domain=1, instance=0, correlationId=5)
    nvprof.insert("EVENT", id=11, value=1, correlationId=99)  # no kernel of this recording
    nvprof.insert("METRIC", id=7, value=b"short", correlationId=6)
    tables = nvprof.read()
    kernels = tables.device_event.to_pylist()
    assert [
        (kernels[row["device_row"]]["name"], row["metric"], row["value"]) for row in tables.kernel_metric.to_pylist()
    ] == [
        ("relu", "metric 7", 0.46), ("relu", "metric 8", 123_456.0), ("relu", "metric 9", 0.0),
        ("relu", "metric 7", None), ("gemm", "metric 7 [3]", -2.5), ("gemm", "event 11", 77.0),
        ("gemm", "event 11 [0]", 40.0),
    ]  # fmt: skip


def test_samples_of_clocks_temperature_and_power_are_counters(nvprof):
    nvprof.launch(100, 5, "gemm", 104, 109)
    for kind, *numbers in ((1, 1380, 877, 3, 16, 0), (2, 61), (3, 152_000, 250_000), (9, 1), (4,)):
        data = struct.pack(f"<{len(numbers)}I", *numbers)
        nvprof.insert("ENVIRONMENT", deviceId=0, timestamp=90, environmentKind=kind, data=data)
    nvprof.insert("ENVIRONMENT", deviceId=0, timestamp=-1, environmentKind=2, data=b"1234")
    names = ("series", "kind", "unit", "pid", "time_ns", "value")
    found = [tuple(row[name] for name in names) for row in nvprof.read().counter.to_pylist()]
    assert found == [
        ("SM Clock", "clock", "Hz", "0", -10, 1380e6), ("Memory Clock", "memory_clock", "Hz", "0", -10, 877e6),
        ("Temperature", "temperature", "°C", "0", -10, 61.0), ("Power", "power", "mW", "0", -10, 152_000.0),
    ]  # fmt: skip
