"""Graphs traced node by node: which call created a node tells what replays it."""

import pytest
from tests.formats.nsys.exports import PROCESS, global_pid, global_tid

import stepscope


def call(nsys, at, end, name, correlation=0):
    return nsys.insert(
        "CUPTI_ACTIVITY_KIND_RUNTIME", start=at, end=end, eventClass=0, globalTid=global_tid(PROCESS),
        correlationId=correlation, nameId=nsys.text(f"{name}_v10000"),
    )  # fmt: skip


def created(nsys, at, node, original=None):
    nsys.insert(
        "CUDA_GRAPH_NODE_EVENTS", start=at, end=at, globalTid=global_tid(PROCESS), graphNodeId=node,
        originalGraphNodeId=original,
    )  # fmt: skip


def replayed(nsys, start, end, node, name="gemm", correlation=9):
    nsys.insert(
        "CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, deviceId=0, contextId=1, streamId=7,
        correlationId=correlation, globalPid=global_pid(), demangledName=nsys.text(name),
        shortName=nsys.text(name), graphNodeId=node,
    )  # fmt: skip


def operators(nsys):
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT operator_name FROM device_event ORDER BY start_ns").rows()
        captures = trace.sql("SELECT launches, replays, confidence FROM capture").rows()
    return [row["operator_name"] for row in found], [tuple(row.values()) for row in captures]


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "put together call by call"])
def test_replayed_work_has_the_operator_in_which_its_node_was_created(nsys, captured):
    """Two streams run the nodes at once and end in another order, so that only numbers tell."""
    if captured:
        call(nsys, 10, 12, "cudaStreamBeginCapture")
    for node, (at, name) in enumerate(((20, "aten::mm"), (40, "aten::relu")), 1):
        nsys.range(at, at + 15, f"{name}, seq = {node}")
        call(nsys, at + 2, at + 6, "cudaLaunchKernel" if captured else "cudaGraphAddKernelNode")
        created(nsys, at + 3, node)
    if captured:
        call(nsys, 80, 82, "cudaStreamEndCapture")
    # Instantiated twice over: 1 -> 11 -> 21, and each copy is written down once without its original, too.
    for copy, original in ((11, 1), (12, 2), (21, 11), (22, 12)):
        created(nsys, 90 + copy, copy)
        created(nsys, 90 + copy, copy, original)
    for at in (200, 300):
        call(nsys, at, at + 2, "cudaGraphLaunch", at)
        replayed(nsys, at + 10, at + 40, 22, correlation=at)
        replayed(nsys, at + 12, at + 30, 21, correlation=at)
        replayed(nsys, at + 50, at + 60, 99, correlation=at)
    names, captures = operators(nsys)
    assert names == ["aten::relu", "aten::mm", None] * 2
    assert captures == [(2, 2, "nodes")]


def test_copies_of_each_other_end_nothing_and_tell_nothing(nsys):
    created(nsys, 20, 1, 2)
    created(nsys, 21, 2, 1)
    call(nsys, 15, 30, "cudaLaunchKernel")
    call(nsys, 100, 102, "cudaGraphLaunch", 9)
    replayed(nsys, 110, 120, 1)
    names, captures = operators(nsys)
    assert (names, captures) == ([None], [])
