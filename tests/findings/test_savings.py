"""A saving is bounds: what a cure wins at most is known, what it wins at least has to be shown."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.findings.job import Job

from stepscope.findings.declare import Finding, Rule, Threshold, rule
from stepscope.findings.engine import judge
from stepscope.findings.facts import Facts
from stepscope.findings.rules import all_rules
from stepscope.query.ask import ask
from stepscope.query.scope import Scope
from stepscope.questions import find
from stepscope.report.renderers import Layout
from stepscope.report.text import answer_lines

ZERO = Threshold("nothing", 0, "count", "a test")
FINDING = Finding("Found", "time", 1, "ns", "Change it.", "stepscope steps SRC", saving_ns=400_000)


def of(finding: Finding) -> Rule:
    @rule("shown", "A saving with evidence.", ZERO, rests_on=("device-times",), trade_off="Memory.")
    def shown(_facts: Facts) -> Iterator[Finding]:
        yield finding

    return shown


def bounds(make_store: Any, rows: Any, least_ns: float) -> tuple[float, float | None]:
    finding = replace(FINDING, min_saving=(least_ns, "it was so in half of the steps"))
    with Scope(make_store(rows)) as scope:
        (found,) = judge(Facts(scope), [of(finding)])
    is_minimum = found.finding.min_saving
    return (0 if is_minimum is None else is_minimum[0], found.finding.saving_ns)


@pytest.mark.parametrize(
    ("steps", "least_ns", "then"),
    [(2, 100_000, 100_000), (1, 100_000, 0), (2, 400_000, 0), (2, 500_000, 0), (2, 399_999.9, 0)],
    ids=["shown", "one step", "exact", "more than at most", "the same when rounded"],
)
def test_a_lower_bound_is_kept_where_several_steps_show_it_and_is_never_the_upper_one(
    make_store: Any, steps: int, least_ns: float, then: float
) -> None:
    rows = Job(steps=steps).kernel("work", 900_000).rows()
    assert bounds(make_store, rows, least_ns) == (then, 400_000)


def test_damaged_evidence_shows_no_lower_bound(make_store: Any) -> None:
    rows = Job().kernel("work", 900_000).rows()
    rows["data_check"] = [{"check": "zero_ts", "severity": "warning", "affects": "device-times"}]
    assert bounds(make_store, rows, 100_000) == (0, 400_000)


def test_bounds_and_the_trade_off_are_in_the_words(make_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = replace(FINDING, min_saving=(100_000, "half of the steps are so"))
    monkeypatch.setattr("stepscope.findings.rules.all_rules", lambda: (of(finding),))
    table = ask(find("findings"), make_store(Job().kernel("work", 900_000).rows()))
    words = "\n".join(line.text for line in answer_lines(table, Layout(width=200)))
    assert "save 100.0 µs to 400.0 µs a step (at most 40.0 %)" in words
    assert "Change it.\n   Trade-off: Memory." in words
    assert '"shown_by": "half of the steps are so"' in table.rows()[0]["evidence"]


def test_a_trade_off_is_said_in_sentences() -> None:
    said = [one.trade_off for one in all_rules() if one.trade_off]
    assert said
    assert all(words.endswith(".") and not words.endswith("..") for words in said)


def test_a_host_that_does_not_wait_hides_what_comes_later(findings: Any) -> None:
    # The host waits 500 µs for the first kernel, then takes 400 µs to launch short ones one by one: were it not to wait,
    # they would run right behind the first, and the step would take 610 µs. The gap after the call is 30 µs long.
    job = Job().kernel("work", 500_000).kernel("next", 1_000, gap_ns=30_000, late=True)
    job.kernel("next", 1_000, gap_ns=9_000, count=39, late=True)
    job.event("cudaStreamSynchronize", 1_000, 504_000, kind="runtime", role="synchronize")
    (row,) = findings(job.rows(), "synchronization")
    assert row["value"] == 30_000
    assert row["saving_high_ns"] >= 1_000_000 - 610_000
    assert row["saving_high_ns"] <= 460_000  # no kernel computes for so long
    assert row["severity"] == "low"  # by what the gaps themselves lose
    assert "shorten other waits, too" in row["advice"]


def test_a_loader_behind_a_busy_device_costs_the_host_its_lead(findings: Any) -> None:
    # The host is 400 µs in the loader while the device still works for 300 of them, and then launches too late.
    job = Job().kernel("work", 300_000).kernel("next", 10_000, gap_ns=100_000, late=True)
    job.kernel("next", 10_000, gap_ns=40_000, count=10, late=True)
    job.event("enumerate(DataLoader)", 0, 400_000, kind="annotation", role="dataloader")
    (row,) = findings(job.rows(), "input-bound")
    assert row["value"] == 0.1
    assert row["saving_high_ns"] == 400_000


def test_work_that_is_no_longer_launched_takes_no_time_of_the_host_either(findings: Any) -> None:
    # 20 small casts take 60 µs on the device and 600 µs on the host, which the device waits for.
    job = Job().kernel("direct_copy_kernel", 3_000, gap_ns=27_000, late=True, count=20, operator="aten::copy_")
    rows = job.rows()
    for row in rows["host_event"]:
        if row["name"] == "aten::copy_":
            row |= {"dur_ns": 27_000, "device_ns": 3_000}
    (row,) = findings(rows, "copies-and-casts")
    assert (row["value"], row["saving_high_ns"]) == (60_000, 60_000 + 20 * 27_000)


def test_nothing_is_said_of_a_saving_where_device_work_is_missing(findings: Any) -> None:
    # What was lost of the work might have been saved, too.
    rows = Job().kernel("direct_copy_kernel", 300_000, operator="aten::copy_").rows()
    rows["data_check"] = [{"check": "truncated", "severity": "warning", "affects": "device-work"}]
    (row,) = findings(rows, "copies-and-casts")
    assert (row["saving_low_ns"], row["saving_high_ns"], row["severity"]) == (None, None, "note")
