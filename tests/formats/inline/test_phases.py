from __future__ import annotations

import pytest

from stepscope.errors import SourceError

SUMMARY = {
    "format": "stepscope.phases",
    "version": 1,
    "host_name": "node7",
    "rank": 1,
    "world_size": 2,
    "counted_steps": 10,
    "step": {
        "mean_ns": 100.0,
        "largest_ns": 300,
        "statistics": {"median_ns": 90.0, "p95_ns": 200.0},
    },
    "phases": {
        "input_wait": {"mean_ns": 60.0, "largest_ns": 200, "statistics": None},
        "host_to_device": None,
        "forward": {"mean_ns": 40.0, "largest_ns": 90},
    },
    "device": {"kind": "cuda", "mean_ns": {"forward": 35.5}},
    "memory": {"of": "cuda", "peak_bytes": 4096},
    "verdict": [
        {"kind": "input-bound", "evidence": "60% of the step", "next_step": "more workers"},
        {"kind": "residual", "evidence": "x", "next_step": ""},
    ],
}


def test_every_phase_is_a_row_after_the_whole_step(read):
    name, tables = read(SUMMARY)
    rows = tables.phase.to_pylist()
    assert name == "phases"
    assert [row["phase"] for row in rows] == ["step", "input_wait", "forward"]
    assert rows[0] == {
        "phase": "step",
        "steps": 10,
        "mean_ns": 100.0,
        "median_ns": 90.0,
        "p95_ns": 200.0,
        "largest_ns": 300,
        "device_mean_ns": None,
        "peak_bytes": 4096,
        "peak_of": "cuda",
        "verdict": "input-bound: 60% of the step; residual: x",
        "next_step": "more workers",
    }
    assert (rows[2]["device_mean_ns"], rows[1]["device_mean_ns"]) == (35.5, None)
    assert (tables.facts.rank, tables.facts.rank_rule) == (1, "recorder")


@pytest.mark.parametrize(
    "changed",
    [{"step": None}, {"counted_steps": 0}, {"counted_steps": "10"}, {"step": {"mean_ns": "1"}}],
)
def test_a_summary_without_counted_steps_is_refused(read, changed):
    with pytest.raises(SourceError, match="no step was counted"):
        read({**SUMMARY, **changed})


def test_odd_parts_cost_only_themselves(read):
    odd = {"phases": {"forward": {"mean_ns": []}, "backward": 5}, "device": 3, "memory": None}
    _, tables = read({**SUMMARY, **odd, "verdict": "compute-bound"})
    (row,) = tables.phase.to_pylist()
    assert (row["peak_bytes"], row["verdict"]) == (None, None)
    assert tables.report.dropped == 2
