"""Which steps means, intervals and comparisons are made of: one place decides, and answers say so."""

from typing import Any

import pytest
from tests.literal import literal_store

from stepscope.analysis.counted import COUNTED_STEPS, left_out_of_means
from stepscope.api.comparisons import diff
from stepscope.api.trace import Trace
from stepscope.query.scope import Scope


def recording(*ranks: tuple[int, ...], cut: tuple[int, ...] = ()) -> dict[str, Any]:
    """Steps of these lengths (ns) on each rank, each with one operator and one kernel all through."""
    step, host, device = [], [], []
    for rank, lengths in enumerate(ranks):
        start = 0
        for number, length in enumerate(lengths):
            row = {"rank": rank, "step": number}
            times = {"start_ns": start, "dur_ns": length}
            step.append(row | {"start_ns": start, "end_ns": start + length, "complete": number not in cut})
            host.append(row | times | {"id": number, "name": "aten::mm", "kind": "operator"})
            device.append(
                row | times | {"id": 100 + number, "name": "gemm", "operator_id": number} | {"kind": "computation"}
            )
            start += length
    return {"step": step, "host_event": host, "device_event": device}


def counted(rows: dict[str, Any], **chosen: Any) -> list[tuple[int, int]]:
    with literal_store(rows) as store, Scope(store, **chosen) as scope:
        found = scope.sql(f"SELECT rank, step FROM ({COUNTED_STEPS}) ORDER BY ALL").to_pylist()
    return [(row["rank"], row["step"]) for row in found]


def test_slow_first_step_and_a_cut_last_one_are_not_counted():
    assert counted(recording((400, 100, 110, 90, 50), cut=(4,))) == [(0, 1), (0, 2), (0, 3)]


def test_step_that_is_slow_on_one_rank_is_left_out_on_all():
    rows = recording((400, 100, 100), (140, 100, 100))
    assert counted(rows) == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize(("steps", "left"), [((0,), [(0, 0)]), ((0, 4), [(0, 0)]), ((4,), [(0, 4)])])
def test_what_alone_was_asked_for_counts(steps, left):
    assert counted(recording((400, 100, 110, 90, 50), cut=(4,)), steps=steps) == left


def test_every_mean_of_a_step_is_without_the_slow_first_one_and_says_so():
    told = "Means leave out step 0, a slow first one (4.000 µs; the others' median is 1.000 µs)."
    with Trace(literal_store(recording((4_000, 1_000, 1_100, 900)))) as trace:
        mean = trace.ask("steps", by="mean")
        assert [(row["steps"], row["total_ns"]) for row in mean.rows()] == [(3, 1_000)]
        assert mean.note == told
        summary = trace.ask("summary").rows()
        assert {row["item"]: (row["time_ns"], row["count"]) for row in summary}["mean"] == (1_000, 3)
        (left_out,) = (row for row in summary if row["item"] == "left out")
        assert (left_out["count"], left_out["text"]) == (1, told)
        (use,) = trace.ask("utilization").rows()
        assert (use["start_ns"], use["window_ns"]) == (4_000, 3_000)
        assert trace.ask("steps").note == ""


@pytest.mark.parametrize("by", ["category", "operator", "kernel"])
def test_comparison_is_without_the_slow_first_step_and_says_so(by):
    before, after = recording((4_000, 1_000, 1_100, 900)), recording((900, 1_000, 1_100, 1_000))
    with Trace(literal_store(before)) as one, Trace(literal_store(after)) as other:
        answer = diff(one, other, by=by)
    assert answer.rows()[0]["before_ns"] == answer.rows()[0]["after_ns"] == 1_000
    assert "Before: Means leave out step 0, a slow first one" in answer.note
    assert "After: Means" not in answer.note


def test_nothing_is_said_where_every_step_counts():
    with literal_store(recording((100, 100, 100))) as store, Scope(store) as scope:
        assert left_out_of_means(scope) == ""


def test_steps_that_were_cut_are_named():
    rows = recording((100, 100, 50, 0), cut=(2, 3))
    with literal_store(rows) as store, Scope(store) as scope:
        assert left_out_of_means(scope) == "Means leave out steps 2, 3, recorded in part."


def test_means_of_steps_in_part_say_so():
    told = "No step is complete: means are of steps recorded in part."
    with Trace(literal_store(recording((100, 100), cut=(0, 1)))) as trace:
        assert trace.ask("steps").note == trace.ask("steps", by="mean").note == told
        assert told in {row["text"] for row in trace.ask("summary").rows()}
    rows = recording((100, 100), (100, 100))
    for step in rows["step"]:
        step["complete"] = step["rank"] == 0
    with literal_store(rows) as store, Scope(store) as scope:
        told = "No step of rank 1 is complete: means are of steps recorded in part."
        assert left_out_of_means(scope) == told


def test_a_step_that_other_ranks_count_is_named_with_its_rank():
    steps = [
        {"rank": rank, "step": step, "start_ns": step * 100, "end_ns": step * 100 + 100,
         "complete": (rank, step) not in {(1, 3), (2, 2)} and step < 4}
        for rank in range(3) for step in range(5)
    ]  # fmt: skip
    with literal_store({"step": steps}) as store, Scope(store) as scope:
        told = "Means leave out step 2 of rank 2 and step 3 of rank 1 and step 4, recorded in part."
        assert left_out_of_means(scope) == told
