"""The benchmark of findings: planted causes cost what they are said to cost, and outcomes are counted as they are."""

from typing import Any

import pytest
from benchmarks.judged.causes import CAUSES
from benchmarks.judged.score import MIN_SAVING, Case, Outcome, draw_case, judge, table
from tests.simulated_job import Job

CAUSE = next(cause for cause in CAUSES if cause.name == "recomputation")
CASE = Case(0, Job(), CAUSE, 10_000_000, {"recomputation": 0.2, "host-bound": 0.19, "input-bound": 0.0}, planted=0.2)


def found(rule: str, high: float, **more: Any) -> dict[str, Any]:
    row = {"id": rule, "saving_high_ns": high * 10_000_000, "saving_low_ns": 0, "saving_job_ns": None}
    return {**row, "confidence": "high", "per": "step", **more}


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_cause_is_the_largest_loss(seed: int) -> None:
    case = draw_case(seed)
    assert case == draw_case(seed)
    if case.cause is not None:
        others = [saving for rule, saving in case.savings.items() if rule not in case.cause.named_by]
        assert case.planted >= max(MIN_SAVING, *others)


@pytest.mark.parametrize(
    ("first", "named"),
    [("recomputation", True), ("host-bound", True), ("input-bound", False), ("device-bound", False)],
)
def test_the_first_sentence_names_the_cause_or_a_loss_as_large(first: str, named: bool) -> None:
    assert judge(CASE, [found(first, 0.3), found("recomputation", 0.3)]).named == named


@pytest.mark.parametrize(
    ("row", "missed", "false"),
    [
        (found("recomputation", 0.25), 0, 0),
        (found("recomputation", 0.1), 1, 0),
        (found("recomputation", 0.3, saving_low_ns=2_500_000), 1, 0),
        (found("input-bound", 0.2), 0, 1),
        (found("input-bound", 0.2, confidence="medium"), 0, 0),
        (found("first-step", 0.2), 0, 0),
    ],
)
def test_bounds_and_false_findings_are_counted(row: dict[str, Any], missed: int, false: int) -> None:
    outcome = judge(CASE, [row])
    assert (len(outcome.missed), len(outcome.false)) == (missed, false)


def test_the_table_counts_causes_and_jobs_without_one() -> None:
    text = table([Outcome(0, "recomputation", "recomputation", named=True), Outcome(1, "recomputation", "device-bound"),
                  Outcome(2, "", "device-bound", high_low=["input-bound"])])  # fmt: skip
    assert "| recomputation | 2 | 50.0 % [9.5, 90.5] | device-bound 1 |" in text
    assert "50.0 % [9.5, 90.5] of 2 jobs" in text
    assert "0.0 % [0.0, 79.3] of 1 jobs" in text
