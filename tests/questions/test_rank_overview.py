"""Ranks side by side: parts that add up, and which ranks differ from the others."""

from typing import Any

import pytest

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.store.open import Store

MS = 1_000_000


def job(*computes: list[int], step_ms: int = 100) -> dict[str, Any]:
    """A job: of each rank the computation of each of its steps (ms), which last 100 ms."""
    rows: dict[str, Any] = {"step": [], "device_event": []}
    for rank, steps in enumerate(computes):
        for step, compute in enumerate(steps):
            start = step * step_ms * MS
            rows["step"].append({"rank": rank, "step": step, "start_ns": start, "end_ns": start + step_ms * MS})
            work = {"rank": rank, "start_ns": start, "dur_ns": compute * MS}
            rows["device_event"].append(work)
    return rows


def test_parts_of_a_rank_add_up_to_its_span_over_all_its_devices(diff: Any) -> None:
    rows = {
        "rank": [{"rank": 0, "host": "n1"}, {"rank": 1, "host": "n2"}],
        "step": [
            {"rank": 0, "end_ns": 100},
            {"rank": 1, "end_ns": 100},
            {"rank": 1, "step": 1, "start_ns": 100, "end_ns": 150},
        ],
        "device_event": [
            {"rank": 0, "start_ns": 10, "dur_ns": 40},
            {"rank": 0, "start_ns": 30, "dur_ns": 40, "kind": "communication", "stream": 1},
            {"rank": 0, "start_ns": 60, "dur_ns": 15, "kind": "copy", "device": 1},
            {"rank": 1, "start_ns": 90, "dur_ns": 30},
        ],
    }
    diff(
        "rank-overview",
        rows,
        """
        rank,steps,step_ns,span_ns,computation_ns,exposed_communication_ns,exposed_copy_ns,idle_ns,host
        0,1,100.0,200,40,20,15,125,n1
        1,2,75.0,150,30,0,0,120,n2
        """,
    )
    diff(
        "rank-overview",
        rows,
        """
        rank,computation_ratio,idle_ratio,utilization_ratio
        1,0.4,0.6,0.4
        """,
        steps=[1],
    )


def test_sums_are_those_of_device_time(make_store: Any) -> None:
    store: Store = make_store(job([50, 60], [70, 20]))
    by_step = ask(find("device-time"), store, by="step").rows()
    overview = ask(find("rank-overview"), store).rows()
    for part in ("computation", "exposed_communication", "exposed_copy", "idle"):
        for row in overview:
            own = [step[f"{part}_ns"] for step in by_step if step["rank"] == row["rank"]]
            assert row[f"{part}_ns"] == sum(own)


def test_a_rank_without_a_device_has_its_steps_alone(diff: Any) -> None:
    diff(
        "rank-overview",
        {"step": [{"end_ns": 100}]},
        "rank,steps,step_ns,span_ns,idle_ns,utilization_ratio,differs\n0,1,100.0,,,,",
    )


def test_without_marked_steps_the_step_is_that_of_steps_and_the_span_that_of_device_time(diff: Any) -> None:
    rows = {
        "step": [{"end_ns": 900, "rule": "whole recording"}],
        "device_event": [{"start_ns": 100, "dur_ns": 50}, {"start_ns": 250, "dur_ns": 50}],
    }
    diff("rank-overview", rows, "step_ns,span_ns,computation_ns,idle_ns\n900.0,200,100,100")


def test_a_rank_that_computes_longer_is_marked_and_named(answer: Any) -> None:
    table = answer("rank-overview", job([50, 51], [51, 50], [50, 50], [60, 61]))
    assert table["differs"] == [None, None, None, "computation +19.8 %, idle -20.2 %"]
    assert "Differ from the others: rank 3 (computation +19.8 %" in table.note
    assert "computation 50.50 ms, most 60.50 ms (rank 3)" in table.note


def test_a_damaged_rank_is_marked_and_compared_with_none(answer: Any) -> None:
    cut = [{"rank": 3, "check": "truncated", "severity": "warning", "affects": "file"}]
    rows = job([50, 51], [51, 50], [50, 50], [60, 61])
    table = answer("rank-overview", {**rows, "data_check": cut})
    assert table["differs"] == [None, None, None, "damaged, not compared"]
    assert "rank 3" not in table.note


@pytest.mark.parametrize(
    "computes",
    [
        ([50, 50], [60, 60]),  # two ranks: which of them differs?
        ([50], [50], [50], [60]),  # one step: nobody knows how much steps differ
        ([50, 51], [51, 50], [50, 50], [51, 52]),  # below 2 % of the step
        ([40, 60], [50, 50], [50, 50], [40, 90]),  # no more than the rank's own steps differ
        ([50, 50], [40, 40], [60, 60], [70, 70]),  # no more than the other ranks differ
    ],
)
def test_noise_marks_no_rank(answer: Any, computes: tuple[list[int], ...]) -> None:
    assert set(answer("rank-overview", job(*computes))["differs"]) == {None}


def test_the_median_of_two_ranks_lies_between_them(answer: Any) -> None:
    steps = [{"rank": 0, "end_ns": 100_000}, {"rank": 1, "end_ns": 300_000}]
    note = answer("rank-overview", {"step": steps}).note
    assert note == "Medians of the ranks, per step: step 200.0 µs, most 300.0 µs (rank 1)."
