"""A saving is bounds: what a cure wins at most is known, what it wins at least has to be shown."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.judge.job import Job

from stepscope.answers.ask import ask
from stepscope.answers.scope import Scope
from stepscope.judge.declare import Finding, Rule, Threshold, rule
from stepscope.judge.engine import judge
from stepscope.judge.facts import Facts
from stepscope.judge.rules import every
from stepscope.questions import find
from stepscope.report.text import answer_lines

ZERO = Threshold("nothing", 0, "count", "a test")
FINDING = Finding("Found", "time", 1, "ns", "Change it.", "stepscope steps SRC", saving_ns=400_000)


def of(finding: Finding) -> Rule:
    @rule("shown", "A saving with evidence.", ZERO, rests_on=("device-times",), trade_off="Memory.")
    def shown(_facts: Facts) -> Iterator[Finding]:
        yield finding

    return shown


def bounds(make_store: Any, rows: Any, least_ns: float) -> tuple[float, float | None]:
    finding = replace(FINDING, at_least=(least_ns, "it was so in half of the steps"))
    with Scope(make_store(rows)) as scope:
        (found,) = judge(Facts(scope), [of(finding)])
    least = found.finding.at_least
    return (0 if least is None else least[0], found.finding.saving_ns)


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


def test_bounds_and_the_trade_off_are_in_the_words(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = replace(FINDING, at_least=(100_000, "half of the steps are so"))
    monkeypatch.setattr("stepscope.judge.rules.every", lambda: (of(finding),))
    table = ask(find("findings"), make_store(Job().kernel("work", 900_000).rows()))
    words = "\n".join(line.text for line in answer_lines(table, width=200))
    assert "saves 100.0 µs to 400.0 µs a step (at most 40.0 %)" in words
    assert "Change it.\n   Trade-off: Memory." in words
    assert '"shown_by": "half of the steps are so"' in table.rows()[0]["evidence"]


def test_a_trade_off_is_said_in_sentences() -> None:
    said = [one.trade_off for one in every() if one.trade_off]
    assert said
    assert all(words.endswith(".") and not words.endswith("..") for words in said)
