"""Ranks side by side: parts that add up, and which ranks differ from the others."""

from pathlib import Path
from typing import Any

import pytest

from stepscope.base.errors import StepScopeError
from stepscope.query.table import Table
from stepscope.report.figures import save_figure
from stepscope.report.rank_map import map_figure
from stepscope.report.renderers import Layout
from stepscope.report.text import answer_lines

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
    diff("rank-overview", rows, "rank,computation_ratio,idle_ratio,utilization_ratio\n1,0.4,0.6,0.4", steps=[1])


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


def mapped_job(ranks: int, steps: int) -> dict[str, Any]:
    """Steps of 100 ms, half of it computation; rank 5 takes 110 ms from step 10 on."""
    return {
        table: [
            {
                "rank": rank,
                "step": step,
                "start_ns": step * 200 * MS,
                **(
                    {"dur_ns": 50 * MS}
                    if table == "device_event"
                    else {"end_ns": step * 200 * MS + (110 if rank == 5 and step > 9 else 100) * MS}
                ),
            }
            for rank in range(ranks)
            for step in range(steps)
        ]
        for table in ("step", "device_event")
    }


def text(table: Table, width: int = 80) -> list[str]:
    return [line.text for line in answer_lines(table, Layout(width=width))]


def test_a_row_is_a_step_of_a_rank(diff: Any) -> None:
    rows = {
        "step": [{"end_ns": 100}, {"step": 1, "start_ns": 100, "end_ns": 150}, {"rank": 1, "end_ns": 90}],
        "device_event": [{"start_ns": 80, "dur_ns": 45}, {"start_ns": 0, "dur_ns": 10, "device": 1}],
    }
    diff("rank-overview", rows, "rank,step,value_ns,share_ratio\n0,0,100,1.0\n0,1,50,1.0\n1,0,90,1.0", measure="step")
    diff("rank-overview", rows, "rank,step,value_ns,share_ratio\n0,0,30,0.15\n0,1,25,0.25", measure="computation")


def test_eight_ranks_and_thirty_steps_fit_eighty_columns(answer: Any) -> None:
    lines = text(answer("rank-overview", mapped_job(8, 30), measure="step"))
    assert lines[1].startswith("rank  0   2   4")
    assert lines[2:10] == [f"{rank:>4}  " + ("·" * 20 + "█" * 40 if rank == 5 else "·" * 60) for rank in range(8)]
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "Folded" in line]


def test_more_ranks_than_lines_are_folded_and_the_odd_one_stays(answer: Any) -> None:
    lines = text(answer("rank-overview", mapped_job(64, 30), measure="step"))
    assert len([line for line in lines if "··" in line]) == 32
    assert "   4, 5  " + "·" * 20 + "█" * 40 in [f" {line}" for line in lines]
    assert "Folded, 2 ranks to a line: a cell is the value farthest from the median." in lines


def test_noise_does_not_look_like_a_pattern(answer: Any) -> None:
    rows = {
        "step": [
            {"rank": rank, "step": step, "start_ns": step * 200, "end_ns": step * 200 + 100 + rank}
            for rank in range(3)
            for step in range(2)
        ]
    }
    assert [line[6:] for line in text(answer("rank-overview", rows, measure="step"))[2:5]] == ["▒▒▒▒"] * 3


def test_the_values_are_stated_beside_a_scale_that_is_wider(answer: Any) -> None:
    steps = [{"rank": rank, "end_ns": 100 + rank} for rank in range(2)]
    told = " ".join(text(answer("rank-overview", {"step": steps}, measure="step")))
    assert told.endswith("and more; lowest 100 ns, median 100 ns, highest 101 ns")
    told = " ".join(text(answer("rank-overview", {"step": steps[:1]}, measure="step")))
    assert told.endswith("and more; one value, 100 ns")


def test_a_step_that_a_rank_lacks_is_blank_and_rows_can_be_had_as_a_grid(answer: Any) -> None:
    rows = {"step": [{"end_ns": 9}, {"rank": 1, "step": 1, "start_ns": 9, "end_ns": 18}]}
    table = answer("rank-overview", rows, measure="step")
    assert [line[6:] for line in text(table)[2:4]] == ["▒▒", "  ▒▒"]
    grid = [line.text for line in answer_lines(table, Layout(width=80, all_columns=True))]
    assert grid[1].split() == ["rank", "span", "step", "value", "share", "counted"]


def test_the_map_is_drawn_into_a_file(answer: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    save_figure(map_figure(answer("rank-overview", mapped_job(64, 30), measure="step")), tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert "step (ms)" in drawn
    assert ">rank<" in drawn
    with pytest.raises(StepScopeError, match="nothing to draw"):
        map_figure(answer("rank-overview", {"step": [{"end_ns": 1}]}, measure="idle"))


def test_waiting_for_other_ranks_is_of_matched_collectives(diff: Any) -> None:
    rows = {
        "step": [{"end_ns": 100}, {"step": 1, "start_ns": 100, "end_ns": 200}, {"rank": 1, "end_ns": 100}],
        "collective": [
            {"start_ns": 10, "end_ns": 60, "wait_ns": 40, "match_id": 0},
            {"start_ns": 70, "end_ns": 90, "wait_ns": 5, "match_id": 1},
            {"start_ns": 110, "end_ns": 120},
        ],
    }
    expected = "rank,step,value_ns,share_ratio\n0,0,45,0.45\n0,1,0,0.0"
    diff("rank-overview", rows, expected, measure="waiting")
    diff("rank-overview", rows, "rank,waiting_ns,waiting_ratio\n0,45,0.225\n1,,")
