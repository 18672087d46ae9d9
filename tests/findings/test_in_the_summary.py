"""The summary's verdict and findings are those of `findings`, within its forty lines."""

from typing import Any

import pytest
from tests.findings.job import V100, Job

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.questions.summary import ALL_RULES_UP_TO
from stepscope.report.renderers import Layout
from stepscope.report.summary_text import summary_lines


def job(events: int) -> dict[str, Any]:
    made = Job(steps=3, device=V100).kernel("volta_sgemm_128x64_nn", 600_000, operator="aten::mm")
    made.event("enumerate(DataLoader)#_Iter.__next__", 600_000, 400_000, role="dataloader")
    made.more["source"] = [{"events_read": events}]
    return made.rows()


def shown(table: Any) -> list[tuple[str, int]]:
    return [(r["item"], r["time_ns"]) for r in table.rows() if r["section"] == "findings"]


def test_the_summary_shows_what_findings_says(answer: Any, findings: Any) -> None:
    rows = job(events=1_000)
    first, *others = findings(rows)
    table = answer("summary", rows)
    verdict, then = (row for row in table.rows() if row["section"] == "verdict")
    assert (verdict["item"], verdict["text"]) == (first["id"], first["title"])
    assert (verdict["item"], then["text"]) == ("input-bound", first["advice"])
    assert shown(table) == [(row["id"], row["saving_high_ns"]) for row in others]
    assert [row["id"] for row in others] == ["amp-off"]


def test_a_large_recording_is_asked_the_quick_rules_alone(answer: Any) -> None:
    table = answer("summary", job(events=ALL_RULES_UP_TO + 1))
    assert shown(table) == []
    assert table.rows()[0]["item"] == "input-bound"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_findings_are_lines_that_fit(make_store: Any, width: int) -> None:
    table = ask(find("summary"), make_store(job(events=1_000)))
    lines = [line.text for line in summary_lines(table, Layout(width))]
    assert len(lines) <= 40
    assert max(map(len, lines)) <= width
    at = next(index for index, line in enumerate(lines) if line.startswith("Findings: what"))
    assert lines[at + 1].split()[:5] == ["600.0", "µs", "60.0", "%", "Mixed"]


def test_a_step_with_nothing_to_find_has_no_such_section(answer: Any) -> None:
    assert shown(answer("summary", Job().kernel("work", 999_000).rows())) == []
