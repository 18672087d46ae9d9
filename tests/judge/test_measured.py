"""Findings of phases that a job measured of itself, without any event."""

from __future__ import annotations

from typing import Any

PHASES = [
    {"phase": "step", "steps": 50, "mean_ns": 1000.0},
    {"phase": "input_wait", "steps": 50, "mean_ns": 400.0},
]
INPUT = {"kind": "input-bound", "share_ratio": 0.4, "evidence": "waits", "next_step": "workers"}
MEMORY = {"kind": "growing-memory", "evidence": "1 KiB per step", "next_step": "detach"}


def test_what_the_recorder_found_is_found_with_what_it_could_save(findings: Any) -> None:
    first, second = findings({"phase": PHASES, "phase_finding": [MEMORY, INPUT]})
    assert (first["id"], first["severity"], first["title"]) == (
        "input-bound",
        "high",
        "input-bound: waits",
    )
    assert (first["saving_low_ns"], first["saving_high_ns"], first["advice"]) == (0, 400, "workers")
    assert [row["phase"] for row in first["evidence"]] == ["step", "input_wait"]
    assert (second["id"], second["severity"], second["saving_high_ns"]) == (
        "growing-memory",
        "note",
        None,
    )


def test_a_late_rank_is_a_finding_of_that_rank(findings: Any) -> None:
    late = [
        {"rank": rank, "phase": phase, "steps": 50, "mean_ns": mean}
        for rank, wait in enumerate([0.0, 300.0])
        for phase, mean in (("step", 1000.0), ("input_wait", wait), ("backward", 900.0 - wait))
    ]
    (row,) = findings({"phase": late})
    assert (row["id"], row["rank"], row["saving_high_ns"]) == ("straggling-rank", 1, 300)


def test_phases_beside_a_trace_leave_the_findings_to_the_trace(findings: Any) -> None:
    rows = {"phase": PHASES, "phase_finding": [INPUT], "host_event": [{"dur_ns": 5}]}
    assert "input-bound" not in [row["id"] for row in findings(rows)]
