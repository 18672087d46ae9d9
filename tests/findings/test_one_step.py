"""A mean that one step makes is said to be so."""

from typing import Any

import pytest
from tests.findings.job import Job
from tests.findings.rules.test_straggling_rank import job

from stepscope.findings.one_step import in_one_step

MS = 1_000_000


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((1, 8, 1), ", 80.0 % of it in step 1 alone"),
        ((5, 5, 0), ""),
        ((1, 1, 1, 1), ""),
        ((1, 9), ""),  # one of two always has most
        ((0, 0, 0), ""),
    ],
)
def test_a_step_with_most_of_a_loss_is_named(times: tuple[int, ...], words: str) -> None:
    assert in_one_step({(0, step): float(ns) for step, ns in enumerate(times)}) == words


def test_steps_that_lose_nothing_count_too() -> None:
    assert in_one_step({(0, 4): 9.0}, steps=4) == ", 100.0 % of it in step 4 alone"
    assert in_one_step({(1, 4): 9.0, (0, 4): 1.0}, ranks=2, steps=3) == ", 90.0 % of it in step 4 of rank 1 alone"


def of_phase(name: str, times_ms: list[int]) -> dict[str, list[dict[str, Any]]]:
    """Steps of 100 ms beside what is lost in a phase."""
    mean_ms = sum(times_ms) / len(times_ms)
    parts = {name: mean_ms, "forward": 100.0, "step": 100.0 + mean_ms}
    rows = [
        {"step": step, "phase": phase, "dur_ns": ns * MS}
        for step, ms in enumerate(times_ms)
        for phase, ns in ((name, ms), ("forward", 100), ("step", 100 + ms))
    ]
    return {
        "phase": [{"phase": p, "mean_ns": ms * MS, "steps": len(times_ms)} for p, ms in parts.items()],
        "phase_step": rows,
    }


@pytest.mark.parametrize(("rule", "phase"), [("residual", "residual"), ("input-bound", "input_wait")])
def test_a_run_that_compiles_or_waits_once_does_not_lose_that_in_every_step(
    findings: Any, rule: str, phase: str
) -> None:
    once, always = (findings(of_phase(phase, times), rule)[0]["title"] for times in ([2] * 9 + [700], [70] * 10))
    assert ", 97.5 % of it in step 9 alone" in once
    assert "alone" not in always


def test_a_trace_that_waits_once_for_its_loader_says_so(findings: Any) -> None:
    made = Job(steps=5, step_ns=1_000_000).kernel("work", 500_000)
    made.event("enumerate(DataLoader)", 500_000, 499_000, kind="annotation", role="dataloader")
    rows = made.rows()
    (always,) = findings(rows, "input-bound")
    assert "alone" not in always["title"]
    last = max(row["start_ns"] for row in rows["host_event"] if row["role"] == "dataloader")
    for row in rows["host_event"]:
        if row["role"] == "dataloader" and row["start_ns"] < last:
            row["role"] = None
    (once,) = findings(rows, "input-bound")
    assert once["title"].endswith(", 100.0 % of it in step 4 alone")


def test_a_rank_that_was_late_once_is_said_to_have_been(findings: Any) -> None:
    (row,) = findings(job(0, 0, 35, 0).rows(), "straggling-rank")
    assert "per step for rank 2 in collectives, 100.0 % of it in step 2 alone: computation" in row["title"]
