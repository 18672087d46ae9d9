"""CUDA graph → capture → operator: an imitation of captures and their replays, of which all is known."""

import pytest

from stepscope.link.rank import captures_of, link_rank

SMALL = (("aten::mm", "gemm_32"), ("aten::relu", "relu"), ("aten::copy_", None))
LARGE = (("aten::mm", "gemm_64"), ("aten::relu", "relu"), ("aten::copy_", None))
BATCHES = [{"input_id": 0, "dims": "[[32]]"}, {"input_id": 1, "dims": "[[64]]"}]


def capture(recording, at, layers, *, around="capture", named=True, thread=0, module="mlp", inputs=None):
    """A capture: an operator, in a range of its module, for each piece; None is a copy."""
    recording.annotation(around, at, at + 900, thread)
    recording.host("runtime", "cudaStreamBeginCapture_v10000", at + 1, at + 2, thread)
    for place, (operator, kernel) in enumerate(layers):
        start = at + 10 + 20 * place
        recording.annotation(f"nn.Module: {module}.{place}", start, start + 15, thread)
        recording.operator(operator, start + 1, start + 14, thread, input_id=inputs)
        more = {"launched_kernel": kernel} if named and kernel else {}
        name = "cudaLaunchKernel" if kernel else "cudaMemcpyAsync"
        recording.host("runtime", name, start + 2, start + 6, thread, correlation=at + place, **more)
    recording.host("runtime", "cudaStreamEndCapture", at + 800, at + 801, thread)


def replay(recording, at, pieces, **more):
    """A replay: one launch, and its work (a name, or None for a copy) one after another."""
    recording.launch(at, at + 5, at, name="cudaGraphLaunch")
    return [
        recording.device(
            "computation" if name else "copy", name or "Memcpy DtoD", at + 10 + 10 * place, at + 17 + 10 * place,
            correlation=at, **{key: values[place] for key, values in more.items()},
        )
        for place, name in enumerate(pieces)
    ]  # fmt: skip


def names(layers):
    return [kernel for _, kernel in layers]


def operators(linked, rows):
    return [linked.device(row)["operator_name"] for row in rows]


def summary(linked):
    return [(row["name"], row["launches"], row["replays"], row["confidence"]) for row in linked.rows("capture")]


def why(linked):
    return linked.check("graph_replay_unattributed")["explanation"]


def test_replays_have_operators_and_modules_of_the_capture_in_their_recording(recording):
    capture(recording, 1000, SMALL, around="batch 32")
    capture(recording, 2000, LARGE, around="batch 64")
    first, other, again = (
        replay(recording, at, names(layers)) for at, layers in ((3000, SMALL), (4000, LARGE), (5000, SMALL))
    )
    linked = recording.link()
    for rows in (first, other, again):
        assert operators(linked, rows) == ["aten::mm", "aten::relu", "aten::copy_"]
    paths = {row["module_id"]: row["path"] for row in linked.rows("module")}
    assert [paths[linked.device(row)["module_id"]] for row in other] == ["mlp.0", "mlp.1", "mlp.2"]
    captured = {row["id"]: row for row in linked.rows("captured_event")}
    nodes = [captured[linked.device(row)["captured_id"]] for row in other]
    assert [(one["capture"], one["node"]) for one in nodes] == [(1, 0), (1, 1), (1, 2)]
    assert summary(linked) == [
        ("batch 32", 3, 2, "order, count and names"),
        ("batch 64", 3, 1, "order, count and names"),
    ]
    reached = {row["link"]: row for row in linked.rows("attribution")}
    assert reached["operator"]["captured_ns"] == reached["operator"]["attributed_ns"] == 9 * 7
    assert linked.check("graph_replay_unattributed")["affects"] == "own-launches"
    assert linked.check("launch_without_kernel")["severity"] == "ok"


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (["gemm_32", "gelu", None], "captures of as many pieces have others"),
        (["relu", "gemm_32", None], "captures of as many pieces have others"),
        (["gemm_32", "relu", "copied by a kernel"], "captures of as many pieces have others"),
        (["gemm_32", "relu"], "no capture has as many pieces of work"),
        (["gemm_32", "relu", None, None], "no capture has as many pieces of work"),
    ],
    ids=["another name", "another order", "another kind", "one missing", "one too many"],
)
def test_what_does_not_agree_in_order_count_and_names_is_refused_and_counted(recording, pieces, reason):
    capture(recording, 1000, SMALL)
    rows = replay(recording, 3000, pieces)
    linked = recording.link()
    assert operators(linked, rows) == [None] * len(rows)
    assert summary(linked) == [("capture", 3, 0, None)]
    assert not linked.rows("captured_event")
    assert f"({len(rows)}: {reason})" in why(linked)
    assert linked.check("graph_replay_unattributed")["count"] == len(rows)


def test_two_graphs_of_equal_sequence_and_other_content_are_not_told_apart(recording):
    recording.input_rows = BATCHES
    capture(recording, 1000, SMALL, inputs=0)
    capture(recording, 2000, SMALL, inputs=1)
    rows = replay(recording, 3000, names(SMALL))
    linked = recording.link()
    assert operators(linked, rows) == [None] * 3
    assert "3: several captures agree that were made by different operators" in why(linked)


def test_a_graph_that_was_captured_again_alike_is_attributed(recording):
    recording.input_rows = BATCHES
    capture(recording, 1000, SMALL, inputs=1)
    capture(recording, 2000, SMALL, inputs=1)
    rows = replay(recording, 3000, names(SMALL))
    linked = recording.link()
    assert operators(linked, rows) == ["aten::mm", "aten::relu", "aten::copy_"]
    assert [row["replays"] for row in linked.rows("capture")] == [1, 0]


def test_a_capture_that_names_no_kernel_agrees_by_order_and_count(recording):
    capture(recording, 1000, SMALL, named=False)
    rows = replay(recording, 3000, names(SMALL))
    linked = recording.link()
    assert operators(linked, rows) == ["aten::mm", "aten::relu", "aten::copy_"]
    assert summary(linked) == [("capture", 3, 1, "order and count")]


def test_generated_code_is_named_by_its_operator(recording):
    recording.annotation("capture", 1000, 1900)
    recording.host("runtime", "cudaStreamBeginCapture", 1001, 1002)
    recording.operator("triton_poi_fused_add_0", 1010, 1020, kernel_source_id=0)
    recording.host("runtime", "cuLaunchKernel", 1011, 1013)
    recording.host("runtime", "cudaStreamEndCapture", 1800, 1801)
    wrong = replay(recording, 3000, ["triton_poi_fused_mul_0"])
    right = replay(recording, 4000, ["triton_poi_fused_add_0"])
    linked = recording.link()
    assert operators(linked, wrong + right) == [None, "triton_poi_fused_add_0"]


def test_nodes_that_are_numbered_are_in_the_order_of_the_capture_whenever_they_run(recording):
    capture(recording, 1000, SMALL)
    rows = replay(recording, 3000, ["relu", None, "gemm_32"], graph_node_id=[12, 13, 11])
    linked = recording.link()
    assert operators(linked, rows) == ["aten::relu", "aten::copy_", "aten::mm"]


def test_a_driver_call_within_a_runtime_call_is_one_launch(recording):
    recording.host("runtime", "cudaStreamBeginCapture", 1000, 1010)
    recording.host("runtime", "cuStreamBeginCapture_v2", 1002, 1008)
    recording.operator("aten::mm", 1100, 1190)
    recording.host("runtime", "cudaLaunchKernel", 1110, 1130, launched_kernel="gemm")
    recording.host("runtime", "cuLaunchKernel", 1112, 1128, launched_kernel="gemm")
    recording.host("runtime", "cudaStreamEndCapture", 1800, 1801)
    rows = replay(recording, 3000, ["gemm"])
    assert operators(recording.link(), rows) == ["aten::mm"]


def test_what_ran_during_a_capture_was_not_captured(recording):
    capture(recording, 1000, SMALL)
    recording.launch(1500, 1505, 77)
    recording.kernel(1510, 1520, 77)
    rows = replay(recording, 3000, names(SMALL))
    linked = recording.link()
    assert operators(linked, rows) == ["aten::mm", "aten::relu", "aten::copy_"]


def test_backward_is_captured_in_a_thread_of_its_own(recording):
    capture(recording, 1000, SMALL)
    recording.operator("aten::mul", 1500, 1520, thread=1)
    recording.host("runtime", "cudaLaunchKernel", 1501, 1505, 1, launched_kernel="mul")
    rows = replay(recording, 3000, [*names(SMALL), "mul"])
    assert operators(recording.link(), rows) == ["aten::mm", "aten::relu", "aten::copy_", "aten::mul"]


def test_captures_at_one_time_have_their_own_threads_launches(recording):
    capture(recording, 1000, SMALL)
    capture(recording, 1001, LARGE, thread=1)
    one, other = replay(recording, 3000, names(SMALL)), replay(recording, 4000, names(LARGE))
    linked = recording.link()
    assert operators(linked, one + other) == ["aten::mm", "aten::relu", "aten::copy_"] * 2


def test_a_capture_that_does_not_end_is_none(recording):
    capture(recording, 1000, SMALL)
    recording.host_rows.pop()
    replay(recording, 3000, names(SMALL))
    linked = recording.link()
    assert not linked.rows("capture")
    assert "3: no capture is recorded" in why(linked)


def test_a_capture_in_another_recording_brings_what_it_speaks_of(recording):
    captured = type(recording)()
    captured.input_rows = BATCHES
    capture(captured, 1000, SMALL, around="batch 32", inputs=1)
    source = captures_of(captured.tables(), "capture.json")
    recording.annotation("nn.Module: mlp.0", 0, 10)
    events = replay(recording, 3000, names(SMALL))
    linked = link_rank(recording.tables(), [source]).tables
    device = [linked["device_event"].to_pylist()[row] for row in events]
    assert [row["operator_name"] for row in device] == ["aten::mm", "aten::relu", "aten::copy_"]
    modules = linked["module"].to_pylist()
    assert [modules[row["module_id"]]["path"] for row in device] == ["mlp.0", "mlp.1", "mlp.2"]
    assert [(row["path"], row["calls"]) for row in modules] == [
        ("mlp", 0), ("mlp.0", 1), ("mlp.1", None), ("mlp.2", None),
    ]  # fmt: skip
    assert linked["operator_input"].to_pylist()[0]["dims"] == "[[64]]"
    inputs = {row["id"]: row["input_id"] for row in linked["captured_event"].to_pylist()}
    assert [inputs[row["operator_id"]] for row in device] == [0, 0, 0]
    assert [(row["rule"], row["path"]) for row in linked["capture"].to_pylist()] == [("file", "capture.json")]


def test_a_capture_of_another_version_of_the_program_is_refused(recording):
    captured = type(recording)()
    capture(captured, 1000, LARGE)
    source = captures_of(captured.tables(), "old.json")
    rows = replay(recording, 3000, names(SMALL))
    linked = link_rank(recording.tables(), [source]).tables
    device = linked["device_event"].to_pylist()
    assert [device[row]["captured_id"] for row in rows] == [None] * 3
    assert linked["module"].num_rows == 0


def test_a_recording_without_a_capture_gives_none(recording):
    recording.launch(0, 5, 1)
    assert captures_of(recording.tables(), "other.json") is None
