"""The findings as paragraphs: nothing unsaid, nothing too wide."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.literal import literal_store

from stepscope.findings.declare import WITH_HOST, WITH_OTHERS
from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report.advice import typed
from stepscope.report.findings_text import findings_lines
from stepscope.report.renderers import Layout
from stepscope.report.text import answer_lines

LOADING = {
    "step": [{"step": n, "start_ns": n * 1000, "end_ns": n * 1000 + 1000} for n in range(2)],
    "host_event": [
        {"name": "enumerate(DataLoader)#_Iter.__next__", "kind": "annotation", "role": "dataloader",
         "start_ns": n * 1000, "dur_ns": 300, "step": n}
        for n in range(2)
    ],
    "data_check": [{"check": "zero_ts", "affects": "device-times", "explanation": "lost times"}],
}  # fmt: skip


def text_of(rows: dict[str, Any], width: int = 80, **asked: Any) -> list[str]:
    with literal_store(rows) as store:
        table = ask(find("findings"), store)
    return [line.text for line in answer_lines(table, Layout(width=width, **asked))]


def test_a_finding_says_what_it_saves_and_what_to_do() -> None:
    lines = text_of(LOADING, width=200)
    assert lines[0] == "What is worth changing, and what would it save?"
    assert lines[2] == (
        "1. Input-bound: for 30.0 % of the step (300 ns) training waits for the next batch of the "
        "DataLoader. Read with care: zero_ts"
    )
    # Two grades in one bracket, "high: ..., confidence low", were taken for one another.
    assert lines[3] == (
        "   Could save at most 300 ns a step (30.0 %); severity high. Confidence in the cause: low. Rule: input-bound."
    )
    assert lines[4].startswith("   Next: `stepscope checks`")
    assert "   ⚠ read with care: zero_ts" in lines
    assert "2. Some answers rest on evidence that is damaged or missing: zero_ts" in lines
    assert lines[-2:] == [
        "Severity: high from 20 % of the step that ranks lose, medium from 5 %.",
        "The evidence and queries behind these numbers: --json.",
    ]


def test_commands_ask_about_the_part_that_was_asked_for_as_far_as_they_can() -> None:
    source = "'my run' --job a --rank 0-2 --name '*gemm*' --window 0ns:5ns"
    for advised, typed_again in {
        "kernels": f"kernels {source}",
        "idle": "idle 'my run' --job a --rank 0-2 --window 0ns:5ns",
        "checks": "checks 'my run' --job a --rank 0-2",
        "steps --by mean": "steps 'my run' --job a --rank 0-2 --window 0ns:5ns --by mean",
        "kernels --rank 3": "kernels 'my run' --job a --name '*gemm*' --window 0ns:5ns --rank 3",
    }.items():
        assert typed(f"`stepscope {advised}`", "stepscope", source) == f"`stepscope {typed_again}`"


def test_a_finding_of_some_ranks_and_steps_is_asked_again_of_these() -> None:
    with literal_store(LOADING) as store:
        queries = ask(find("findings"), store, steps=[1]).rows()
    assert queries
    for row in queries:
        assert row["query"].startswith("SELECT") or " SRC --step 1" in row["query"]


def test_commands_in_an_answer_are_those_that_can_be_typed() -> None:
    named = {"name": "`stepscope of a file", "dur_ns": 5}
    rows = LOADING | {"host_event": [*LOADING["host_event"], named]}
    with literal_store(rows) as store:
        for question in ("findings", "summary"):
            table = ask(find(question), store)
            told = answer_lines(table, Layout(width=400, command="python -m stepscope"))
            words = "\n".join(line.text for line in told)
            assert "`python -m stepscope checks`" in words, question
            assert "`stepscope checks`" not in words
            assert "`stepscope checks`" in table.to_json()
            told = answer_lines(table, Layout(width=400, source="'a b.json'"))
            assert any(line.text.strip() == "Next: stepscope checks 'a b.json'" for line in told)
        empty = ask(find("phases"), store)
        (note,) = [
            line.text
            for line in answer_lines(empty, Layout(width=400, command="bin/stepscope"))
            if line.style == "note"
        ]
        assert "`bin/stepscope record --phases" in note
        kernels = ask(find("operators"), store)
        assert any(
            "`stepscope of a file" in line.text
            for line in answer_lines(kernels, Layout(width=200, command="bin/stepscope"))
        )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_too_wide(width: int) -> None:
    assert max(map(len, text_of(LOADING, width))) <= width


def test_what_is_left_out_is_said() -> None:
    assert text_of(LOADING, max_rows=1)[-1].startswith("1 more with --top 2. The evidence")


def test_nothing_found_is_said() -> None:
    assert "1. Nothing recorded:" in " ".join(text_of({"step": [{"end_ns": 9}]}))


def test_chosen_columns_are_a_grid() -> None:
    assert any(line.startswith("id ") for line in text_of(LOADING, width=200, all_columns=True))


def test_a_bound_says_what_it_holds_and_what_it_leaves_out() -> None:
    row = {
        "saving_high_ns": 5, "saving_low_ns": 0, "saving_share_ratio": 0.5, "per": "step", "severity": "high",
        "confidence": "high", "id": "amp-off", "trade_off": "", "failing_checks": None,
    }  # fmt: skip
    said = ("Fuse." + WITH_OTHERS, "Copy." + WITH_HOST + WITH_OTHERS, "Wait.")
    rows = [row | {"title": "Loss", "advice": words} for words in said]
    table = SimpleNamespace(question=find("findings"), rows=lambda: rows, note="")
    lines = [line.text.strip() for line in findings_lines(table, Layout(300))]  # type: ignore[arg-type]
    assert [text.partition(" Confidence")[0] for text in lines if "save at most" in text] == [
        "Could save at most 5 ns a step of a rank's own time (50.0 %); severity high. Ranks that wait for each "
        "other may gain more.",
        "Could save at most 5 ns a step of a rank's own time (50.0 %), including other waits that faster host code may "
        "shorten; severity high by the loss alone. Ranks that wait for each other may gain more.",
        "Could save at most 5 ns a step (50.0 %); severity high.",
    ]
    assert [text for text in lines if "Next:" in text] == ["Next: Fuse.", "Next: Copy.", "Next: Wait."]
