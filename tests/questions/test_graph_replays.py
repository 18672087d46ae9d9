"""What questions say of work that a graph replayed, whose capture is known."""

import pytest

from stepscope.analysis.operators.replayed_calls import heaviest_calls
from stepscope.api.trace import Trace

# aten::linear calls aten::addmm, which was captured launching a GEMM; the graph was launched twice.
HOST = [
    {"id": 0, "kind": "annotation", "name": "decode", "start_ns": 0, "dur_ns": 100},
    *(
        {"id": 1 + n, "kind": "runtime", "role": "graph_launch", "name": "cudaGraphLaunch",
         "start_ns": 10 + 40 * n, "dur_ns": 5, "parent_id": 0}
        for n in range(2)
    ),
]  # fmt: skip
CAPTURED = [
    {"id": 20, "kind": "annotation", "name": "## Call CompiledFxGraph f1 ##", "role": "compiled"},
    {"id": 21, "kind": "operator", "name": "aten::linear", "parent_id": 20, "input_id": 0},
    {"id": 22, "kind": "operator", "name": "aten::addmm", "parent_id": 21, "input_id": 1,
     "stack_id": 0},
    {"id": 23, "kind": "runtime", "role": "launch", "name": "cudaLaunchKernel", "parent_id": 22,
     "node": 0},
]  # fmt: skip
ROWS = {
    "host_event": HOST,
    "device_event": [
        {"id": 10 + n, "name": "gemm", "start_ns": 20 + 40 * n, "dur_ns": 20, "launch_id": 1 + n,
         "graph_id": 5, "captured_id": 23, "operator_id": 22, "operator_name": "aten::addmm"}
        for n in range(2)
    ],
    "capture": [{"capture": 0, "rule": "trace", "launches": 1, "unnamed_kernels": 0, "replays": 2,
                 "device_ns": 40}],
    "captured_event": [{"capture": 0, **row} for row in CAPTURED],
    "operator_input": [
        {"input_id": 0, "dims": "[[4,8],[16,8]]"},
        {"input_id": 1, "dims": "[[16],[4,8],[8,16]]", "types": '["float", "float", "float"]'},
    ],
    "call_stack": [{"stack_id": 0, "frames": "model.py(3): forward"}],
}  # fmt: skip


def test_each_replay_is_a_call_of_what_was_captured(diff):
    diff(
        "operators",
        ROWS,
        """
        name,calls,device_self_ns,device_share_ratio,device_total_ns,device_events,host_self_ns
        aten::addmm,2,40,1.0,40,2,
        aten::linear,2,0,0.0,40,0,
        """,
    )


def test_calls_by_shape_have_the_inputs_of_the_capture(diff):
    diff(
        "operators",
        ROWS,
        """
        name,input_dims,calls,device_self_ns
        aten::addmm,"[[16],[4,8],[8,16]]",2,40
        aten::linear,"[[4,8],[16,8]]",2,0
        """,
        by="shape",
    )


def test_the_work_of_a_call_is_counted_for_each_replay(answer):
    (row,) = answer("roofline", ROWS).rows()
    assert (row["name"], row["count"]) == ("aten::addmm", 2)
    assert row["flops"] == 2 * 2 * 4 * 8 * 16


def test_kernels_have_stack_and_compiled_graph_of_the_capture(answer):
    (row,) = answer("kernels", ROWS, by="stack").rows()
    assert (row["operator"], row["frame"]) == ("aten::addmm", "model.py(3): forward")
    (row,) = answer("kernels", ROWS, by="source").rows()
    assert row["compiled_graph"] == "## Call CompiledFxGraph f1 ##"


def test_prof_says_what_was_captured(answer):
    rows = answer("prof", ROWS).rows()
    assert [(row["op"], row["params"]) for row in rows] == [("linear", "(16)float,(4,8)float,(8,16)float")] * 2


@pytest.mark.parametrize("under", ["aten::linear", "operator:aten::addmm", "range:## Call*"])
def test_replayed_work_is_under_the_operators_and_ranges_of_the_capture(make_store, under):
    with Trace(make_store(ROWS)) as trace:
        rows = trace.kernels(under=under).rows()
        (total,) = (row for row in trace.operators(under=under).rows() if row["device_self_ns"])
    assert (total["name"], total["calls"]) == ("aten::addmm", 2)
    assert [(row["name"], row["count"]) for row in rows] == [("gemm", 2)]


def test_work_that_no_captured_operator_launched_is_not_of_an_unknown_graph(answer):
    work = [{**row, "operator_id": None, "operator_name": None} for row in ROWS["device_event"]]
    rows = answer("operators", ROWS | {"device_event": work}).rows()
    assert [row["name"] for row in rows if row["device_self_ns"]] == ["(no operator)"]


@pytest.mark.parametrize(("kind", "pattern"), [("operator", "addmm"), ("kernel", "gemm")])
def test_a_captured_call_can_be_made_again_alone(make_scope, kind, pattern):
    (call,) = heaviest_calls(make_scope(ROWS), kind, pattern, 3)
    assert (call.name, call.texts[0]) == ("aten::linear", "[[4,8],[16,8]]")
    assert (call.calls, call.device_ns, call.kernels) == (2, 40, {"gemm": 2})
