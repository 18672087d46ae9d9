"""The step breakdown: precedence, windows, means, and what was not measured."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.analysis.steps.breakdown import mean_parts
from stepscope.analysis.steps.parts import PARTS
from stepscope.query.ask import ask
from stepscope.questions import find

ONE_STEP = {
    "step": [{"step": 5, "start_ns": 0, "end_ns": 100}],
    "host_event": [
        {"id": 0, "kind": "annotation", "role": "step", "start_ns": 0, "dur_ns": 100},
        {"id": 1, "kind": "annotation", "role": "dataloader", "start_ns": 0, "dur_ns": 20, "parent_id": 0},
        {"id": 2, "kind": "operator", "start_ns": 15, "dur_ns": 45, "thread": 1},
        {"id": 3, "kind": "runtime", "role": "launch", "start_ns": 30, "dur_ns": 10, "parent_id": 2, "thread": 1},
    ],
    "device_event": [
        {"kind": "computation", "start_ns": 50, "dur_ns": 30, "launch_id": 3},
        {"kind": "communication", "start_ns": 70, "dur_ns": 20, "stream": 7},
    ],
}


def test_the_first_activity_of_the_list_takes_the_moment(diff: Any) -> None:
    diff(
        "steps",
        ONE_STEP,
        """
        rank,step,kernel_ns,copy_ns,memset_ns,communication_ns,runtime_ns,dataloader_ns,cpu_exec_ns,other_ns,total_ns
        0,5,30,0,0,10,10,20,20,10,100
        """,
    )


def test_a_step_that_no_mean_counts_says_why(diff: Any) -> None:
    steps = [
        {"step": 1, "end_ns": 100, "is_warmup": True},
        {"step": 2, "start_ns": 100, "end_ns": 130, "complete": False},  # in the middle of a file
        {"step": 3, "start_ns": 130, "end_ns": 160},
    ]
    expected = """
        step,left_out
        1,slow first step
        2,recorded in part
        3,
        """
    diff("steps", {"step": steps}, expected)
    ranks = [{"rank": rank, **step} for rank in (0, 1) for step in steps[2:]]
    check = {"rank": 1, "check": "negative_times", "severity": "error", "count": 1, "affects": "steps"}
    expected = """
        rank,step,left_out
        0,3,
        1,3,of a damaged rank
        """
    diff("steps", {"step": ranks, "data_check": [check]}, expected)


def test_calls_of_mpi_are_communication_on_the_host() -> None:
    call = {"kind": "annotation", "role": "communication", "category": "mpi", "dur_ns": 30}
    rows = {"step": [{"end_ns": 100}], "host_event": [call | {"name": "MPI_Allreduce", "start_ns": 10}]}
    with literal_store(rows) as store:
        (step,) = ask(find("steps"), store).rows()
    assert (step["communication_ns"], step["total_ns"]) == (30, 100)


def test_host_communication_and_ranges_drawn_on_the_device(diff: Any) -> None:
    rows = {
        "step": [{"end_ns": 100}],
        "host_event": [
            {"kind": "annotation", "role": "communication", "name": "gloo:all_reduce", "start_ns": 10, "dur_ns": 30},
            {"kind": "annotation", "role": "communication", "name": "nccl:all_reduce", "start_ns": 30, "dur_ns": 15},
            {"kind": "overhead", "start_ns": 50, "dur_ns": 30},
            {"kind": "python", "start_ns": 90, "dur_ns": 5},
        ],
        "device_event": [{"kind": "annotation", "start_ns": 0, "dur_ns": 100}],
    }
    expected = """
        kernel_ns,copy_ns,memset_ns,communication_ns,runtime_ns,cpu_exec_ns,other_ns,total_ns
        ,,,30,,10,60,100
        """  # what only enqueues a kernel is work of the host
    diff("steps", rows, expected)


@pytest.mark.parametrize("severity", ["ok", "note", "warning", "error"])
@pytest.mark.parametrize("name", ["aten::mm", "gloo:all_reduce"])
def test_communication_is_unknown_where_the_device_was_lost_and_the_host_did_none(severity, name):
    rows: dict[str, Any] = {
        "step": [{"end_ns": 100}],
        "host_event": [
            {"kind": "operator", "name": "aten::mm", "dur_ns": 10},
            {"kind": "annotation", "role": "communication", "name": name, "start_ns": 20, "dur_ns": 5},
        ],
        "data_check": [{"check": "no_gpu_events", "severity": severity, "affects": "devices,device-work"}],
    }
    lost, own = severity in ("warning", "error"), name == "gloo:all_reduce"
    with literal_store(rows) as store:
        (step,) = ask(find("steps"), store).rows()
        assert step["communication_ns"] == (5 if own else None if lost else 0)
        note = ask(find("device-time"), store).note
        assert ("Record with" in note, "stepscope checks" in note) == (not lost, lost)
        changes = ask(find("what-if"), store).note
        told = ("Nothing is there" in changes, "not known" in changes)
        assert told == ((False, False) if own else (not lost, lost))


def test_recordings_and_ranks_stand_apart(diff: Any) -> None:
    rows = {
        "step": [
            {"step": 1, "end_ns": 10},
            {"step": 1, "start_ns": 5, "end_ns": 10, "span": 1},
            {"step": 1, "end_ns": 10, "rank": 1},
        ],
        "device_event": [
            {"kind": "computation", "start_ns": 0, "dur_ns": 8},
            {"kind": "computation", "start_ns": 6, "dur_ns": 1, "span": 1},
        ],
    }
    diff(
        "steps",
        rows,
        """
        rank,span,step,kernel_ns,other_ns,total_ns
        0,0,1,8,2,10
        0,1,1,1,4,5
        1,0,1,,10,10
        """,
    )


def test_the_mean_leaves_out_an_incomplete_last_step(diff: Any) -> None:
    rows = {
        "step": [
            {"step": 1, "end_ns": 10},
            {"step": 2, "start_ns": 10, "end_ns": 21},
            {"step": 3, "start_ns": 21, "end_ns": 22, "complete": False},
        ],
        "device_event": [{"kind": "computation", "start_ns": 0, "dur_ns": 15}],
    }
    diff("steps", rows, "rank,steps,kernel_ns,copy_ns,other_ns,total_ns\n0,2,8,0,3,11", by="mean")


def test_a_mean_of_no_complete_step_is_that_of_all(diff: Any) -> None:
    rows = {"step": [{"end_ns": 10, "complete": False}]}
    diff("steps", rows, "steps,other_ns,total_ns\n1,10,10", by="mean")


def test_no_steps_give_no_rows_and_say_what_would(answer: Any) -> None:
    table = answer("steps", {"device_event": [{"dur_ns": 5}]})
    assert table.rows() == []
    assert "profiler.step()" in table.note


@given(st.lists(st.lists(st.integers(0, 1000), min_size=8, max_size=8).map(tuple), min_size=1, max_size=9))
@examples(60)
def test_means_are_whole_and_add_up(rows: list[tuple[int, ...]]) -> None:
    parts = np.array(rows, dtype=np.int64)
    means = mean_parts(parts)
    assert abs(sum(means) - parts.sum() / len(rows)) <= 0.5
    assert all(abs(m - exact) < 1 for m, exact in zip(means, parts.mean(axis=0), strict=True))


HOST = st.tuples(
    st.sampled_from(
        [
            ("operator", None),
            ("annotation", "communication"),
            ("annotation", "dataloader"),
            ("annotation", "step"),
            ("python", None),
            ("runtime", "launch"),
            ("overhead", None),
        ]
    ),
    st.integers(0, 40),
    st.integers(0, 20),
)
DEVICE = st.tuples(
    st.sampled_from(["computation", "communication", "copy", "fill", "annotation", "sync"]),
    st.integers(0, 40),
    st.integers(0, 20),
    st.integers(0, 1),
)


def owner_of(moment: int, host: list[Any], device: list[Any]) -> str:
    """Which activity a moment belongs to, by looking at every event."""
    on_device = {kind for kind, start, dur, _ in device if start <= moment < start + dur}
    on_host = {what for what, start, dur in host if start <= moment < start + dur}
    for kind, part in (("computation", "kernel"), ("copy", "copy"), ("fill", "memset")):
        if kind in on_device:
            return part
    if "communication" in on_device or ("annotation", "communication") in on_host:
        return "communication"
    for what, part in ((("runtime", "launch"), "runtime"), (("annotation", "dataloader"), "dataloader")):
        if what in on_host:
            return part
    return "cpu_exec" if on_host & {("operator", None), ("python", None)} else "other"


@given(st.lists(HOST, max_size=6), st.lists(DEVICE, max_size=5), st.lists(st.integers(0, 25), min_size=2, max_size=4))
@examples(30)
def test_parts_equal_a_moment_by_moment_count(host: list[Any], device: list[Any], lengths: list[int]) -> None:
    edges = np.cumsum(lengths).tolist()
    rows = {
        "step": [{"step": n, "start_ns": start, "end_ns": end} for n, (start, end) in enumerate(pairwise(edges))],
        "host_event": [
            {"kind": kind, "role": role, "name": "gloo:x", "start_ns": start, "dur_ns": dur}
            for (kind, role), start, dur in host
        ],
        "device_event": [
            {"kind": kind, "start_ns": start, "dur_ns": dur, "device": index} for kind, start, dur, index in device
        ],
    }
    with literal_store(rows) as store:
        for step in ask(find("steps"), store).rows():
            start, end = edges[step["step"]], edges[step["step"] + 1]
            owners = [owner_of(moment, host, device) for moment in range(start, end)]
            parts = {part: step[f"{part}_ns"] for part in PARTS}
            assert {k: v or 0 for k, v in parts.items()} == {p: owners.count(p) for p in PARTS}
            assert sum(value or 0 for value in parts.values()) == step["total_ns"] == end - start


def test_steps_of_phases_are_pointed_to_where_they_are(answer: Any) -> None:
    """A loop that was measured in phases calls no profiler, and need not."""
    empty = answer("steps", {"phase_step": [{"step": 1, "phase": "step", "dur_ns": 5}]})
    assert empty.rows() == []
    assert "`stepscope phases SRC --by step`" in empty.note
