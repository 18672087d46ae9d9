"""What would follow from a change, on recordings of a few events."""

from typing import Any

import pytest
from tests.questions.test_critical_path import ONE_STREAM, kernel, matched, over_gloo

from stepscope.analysis.dependencies import paths
from stepscope.analysis.dependencies.graph import build
from stepscope.base.errors import UsageError
from stepscope.query.ask import ask_within
from stepscope.query.scope import Scope
from stepscope.questions import find

FIGURES = "change,step_ns,saved_ns,saved_low_ns,saved_high_ns"


def test_a_faster_kernel_wins_what_it_does_not_hide(diff: Any) -> None:
    # From 30 000 the device runs the product until 130 000, then waits for nothing but itself.
    diff(
        "what-if",
        ONE_STREAM,
        f"""
        {FIGURES}
        as recorded,203000.0,,,
        GEMM 2 × as fast,153000.0,50000.0,50000.0,50000.0
        *relu* 3 × as fast,157000.0,46000.0,46000.0,46000.0
        all of these,107000.0,96000.0,96000.0,96000.0
        """,
        faster="GEMM=2, *relu*=3",
    )


def test_host_of_which_nothing_more_is_recorded_holds_nothing_up(diff: Any) -> None:
    # The step is the complete recording, and ends with the device; the host was last seen at 50 000.
    rows = {**ONE_STREAM, "host_event": ONE_STREAM["host_event"][:-1]}
    rows["step"] = [{"step": 0, "end_ns": 200_000, "host_end_ns": 200_000, "rule": "whole recording"}]
    diff(
        "what-if",
        rows,
        f"""
        {FIGURES}
        as recorded,200000.0,,,
        GEMM 2 × as fast,150000.0,50000.0,50000.0,50000.0
        """,
        faster="GEMM=2",
    )


def test_without_launches_the_host_and_the_first_kernel_come_sooner(diff: Any) -> None:
    # The first kernel starts with its launch, 10 000 earlier, and all follows it.
    diff(
        "what-if",
        ONE_STREAM,
        "change,step_ns,saved_ns\nas recorded,203000.0,\nwithout launch overhead,193000.0,10000.0",
        without="launch",
    )


def test_without_being_asked_it_tries_what_is_on_the_path(diff: Any) -> None:
    rows = {**ONE_STREAM, "device_event": [kernel(10, "gemm", 1, 30_000, 130_000), kernel(11, "gemm", 3, 131_000, 200_000)]}  # fmt: skip
    diff(
        "what-if",
        rows,
        """
        change,saved_ns
        as recorded,
        GEMM 2 × as fast,84500.0
        without launch overhead,10000.0
        all of these,94500.0
        """,
    )


def test_of_a_collective_transfer_and_straggler_are_told_apart(diff: Any) -> None:
    diff(
        "what-if",
        matched(),
        f"""
        {FIGURES}
        as recorded,100000.0,,,
        without transfers between ranks,70000.0,30000.0,30000.0,30000.0
        without a straggler (rank 1),60000.0,40000.0,40000.0,40000.0
        all of these,30000.0,70000.0,70000.0,70000.0
        """,
        without="communication,straggler",
    )


def test_of_several_ranks_it_says_what_still_waits(answer: Any) -> None:
    note = answer("what-if", matched()).note
    assert note.startswith("Without transfers, ranks still wait for one another")
    assert "wait for one another" not in answer("what-if", ONE_STREAM).note


def test_over_gloo_transfer_and_straggler_are_told_apart_too(diff: Any) -> None:
    diff(
        "what-if",
        over_gloo(),
        f"""
        {FIGURES}
        as recorded,120000.0,,,
        without transfers between ranks,110000.0,10000.0,10000.0,10000.0
        without a straggler (rank 1),40000.0,80000.0,80000.0,80000.0
        all of these,30000.0,90000.0,90000.0,90000.0
        """,
    )


def test_where_no_rank_is_named_it_is_not_said_that_nothing_could_be_saved(answer: Any) -> None:
    even = answer("what-if", ONE_STREAM, without="straggler")
    assert [row["change"] for row in even.rows()] == ["as recorded"]
    assert even.note.startswith("No rank is a straggler")


def test_a_collective_is_done_when_it_woke_the_loop_however_late_its_event_ends(answer: Any) -> None:
    rows = over_gloo()
    for row in (*rows["host_event"], *rows["collective"]):
        if row["rank"] == 0 and row.get("role") == "communication":
            row["dur_ns"] += 4_000
        elif row["rank"] == 0 and "match_id" in row:
            row["end_ns"] += 4_000
    (row,) = answer("what-if", rows, without="straggler").rows()[1:]
    assert row["saved_ns"] == 80_000


def test_what_was_asked_for_while_the_loop_waited_already_is_not_its_own_time(answer: Any) -> None:
    """A second collective of a thread starts when the first one has ended, which the loop waits for meanwhile."""
    rows = over_gloo()
    second = [
        {"rank": rank, "id": 3, "kind": "annotation", "name": "gloo:all_reduce", "role": "communication",
         "thread": 9, "start_ns": 110_500, "dur_ns": 4_500} for rank in (0, 1)
    ]  # fmt: skip
    for row in rows["host_event"]:
        if row["id"] == 2:
            row["start_ns"] += 1_000
    rows["host_event"] += second
    for rank in (0, 1):
        rows["collective"].append(
            {"rank": rank, "host_id": 3, "match_id": 6, "start_ns": 110_500, "end_ns": 115_000, "wait_ns": 0,
             "operation": "all_reduce"}
        )  # fmt: skip
    (row,) = answer("what-if", rows, without="straggler").rows()[1:]
    assert row["saved_ns"] >= 79_000
    assert row["saved_high_ns"] >= row["saved_ns"]


def test_a_report_makes_the_graph_once(make_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(paths, "build", lambda *asked: made.append(asked) or build(*asked))
    with Scope(make_store(matched())) as scope:
        for name in ("critical-path", "what-if"):
            ask_within(find(name), scope)
    assert len(made) == 1


def test_alone_a_rank_does_not_tell_what_was_transfer(diff: Any) -> None:
    rows = matched()
    rows["device_event"].append(kernel(11, "ncclAllReduce", 1, 100_000, 110_000, kind="communication", rank=0))
    rows["step"][0]["end_ns"] = 110_000
    diff(
        "what-if",
        rows,
        """
        change,step_ns,saved_ns,saved_ratio,saved_low_ns
        as recorded,110000.0,,,
        ncclAllReduce 2 × as fast,,,,10000.0
        without transfers between ranks,,,,20000.0
        all of these,,,,20000.0
        """,
        faster="ncclAllReduce=2",
        without="communication",
        ranks=[0],
    )


def test_classes_are_known_however_they_are_spelled(answer: Any) -> None:
    table = answer("what-if", ONE_STREAM, faster="gemm=2")
    assert table["change"] == ["as recorded", "GEMM 2 × as fast"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"faster": "GEMM"}, "no class or pattern of names with a number after ="),
        ({"faster": "GEMM=0"}, "0 is not from 0.01 to 1000"),
        ({"faster": "GEMM=1e300"}, "1e300 is not from 0.01 to 1000"),
        ({"faster": "GEMM=inf"}, "inf is not from 0.01 to 1000"),
        ({"faster": "GEMM=fast"}, "fast is not from 0.01 to 1000"),
        ({"faster": "softmax=2"}, "no kernel of the recording"),
        ({"without": "stragglers"}, "no change 'stragglers'"),
    ],
)
def test_what_cannot_be_changed_is_said(asked: dict[str, str], says: str, answer: Any) -> None:
    with pytest.raises(UsageError) as refused:
        answer("what-if", ONE_STREAM, **asked)
    assert says in refused.value.message


def test_a_recording_in_which_nothing_can_be_changed_says_so(answer: Any) -> None:
    """One of the host alone, which waits for no batch."""
    rows = {
        "host_event": [{"id": 0, "kind": "operator", "name": "aten::mm", "start_ns": 0, "dur_ns": 90}],
        "step": [{"step": 1, "start_ns": 0, "end_ns": 100, "rule": "ProfilerStep"}],
    }
    table = answer("what-if", rows)
    assert [row["change"] for row in table.rows()] == ["as recorded"]
    assert table.note.startswith("Nothing is there to change")
