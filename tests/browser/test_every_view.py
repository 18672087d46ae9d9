"""Every view that the page lists, of every recording there is, from a server, and from a report's file.

Which views there are is asked of the page, so that a new one is looked at without a word here.
"""

import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.browser.recordings import HOSTILE, MADE
from tests.conftest import SHARED_TRACES

from stepscope.api.trace import Trace
from stepscope.base.units import count_text, time_text
from stepscope.report import page_data

DATA = Path(__file__).parent.parent / "data" / "kineto" / "bad"

OF_OTHERS = sorted(
    path.relative_to(SHARED_TRACES).as_posix()
    for pattern in ("kineto/*", "nvprof/*.sql.gz", "nsys/*.sqlite.gz", "memory/*", "ncu/*.ncu-rep")
    for path in SHARED_TRACES.glob(pattern)
)

REPORTED = (
    "kineto/resnet50_v100", "kineto/dlrm_8rank_v100", "kineto/bert_small_h100", "C14_clocks", "T05_metadata_only.json",
)  # fmt: skip
"""Of which a report is walked over, too; the page itself is the same."""

OF_EACH_KIND = (
    "B04_cut_after_event.json", "C14_clocks", "F03_counters_and_instants.json", "I12_graph_replay.json",
    "I15_collective_arguments.json", "I17_xpu.json", "T05_metadata_only.json", "T06_no_gpu_events.json",
    "T07_no_steps.json",
)  # fmt: skip

LOOK = """main => [main.innerText, [...main.querySelectorAll('.empty')].map((one) => one.innerText),
    document.querySelector('nav [aria-current]')?.matches('.unfilled') && main.querySelectorAll('table, svg, canvas').length]"""

SIDEWAYS = "Math.max(...[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth))"


def shown(opened: Any, *, own: bool = False) -> dict[str, str]:
    """What each view says; none is empty without words."""
    views = opened.views(own=own)
    assert len(views) > 10
    told = {}
    for view, (text, empties, shows) in opened.walk(views, LOOK).items():
        assert shows in (False, 0), f"{view} is greyed and has something to show"
        assert shows is False or empties, view
        assert "bug in StepScope" not in text, view
        assert text.strip(), view
        for words in empties:
            assert len(words.split()) > 5, (view, words)
        told[view] = text
    return told


@pytest.fixture
def as_views_ask(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """A report of what the views of a server's page asked before: without the other questions."""
    every_form = page_data.forms

    def asked() -> list[page_data.Form]:
        return [
            form
            for form in every_form()
            if not form.parameters and (form.question.recordings != "one" or made.answers.has(form.question.name))
        ]

    monkeypatch.setattr(page_data, "forms", asked)


def check_numbers(told: dict[str, str], trace: Trace) -> None:
    """Totals of the first rows of some tables are those of the questions."""
    for question, column in (("kernels", "total_ns"), ("operators", "device_self_ns"), ("steps", "total_ns")):
        for row in trace.ask(question).rows()[:3]:
            if row[column]:
                assert time_text(row[column]) in told[question], (question, row)
    for row in trace.ask("summary").rows():
        if row["section"] == "breakdown" and row["item"] != "total" and row["time_ns"]:
            assert time_text(row["time_ns"]) in told["overview"], row


def check_overview(opened: Any) -> None:
    """The verdict stands on the first page as in the terminal, and the page fits a screen; so do wide tables."""
    page = opened.show("overview")
    text = page.locator("main").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    told = [row for row in opened.traces[0].ask("summary").rows() if row["section"] == "verdict"]
    # The first, and two that also limit the step.
    for row in [row for row in told if row["item"] != "next"][:3]:
        assert row["text"].partition(": ")[2] in text
    sizes = [page.viewport_size, {"width": 1280, "height": 800}]
    for size in sizes:
        page.set_viewport_size(size)
        assert page.evaluate("document.querySelector('main').scrollHeight") <= 900, size
    for view in ("operators", "kernels", "roofline"):
        assert opened.show(view).evaluate(SIDEWAYS) <= 0, view
    page.set_viewport_size(sizes[0])


@pytest.mark.sweep(5)
@pytest.mark.traces
@pytest.mark.parametrize("trace", OF_OTHERS)
def test_every_view_of_traces_of_others(both: Any, as_views_ask: None, trace: str) -> None:
    if trace.endswith(".ncu-rep") and shutil.which("ncu") is None:
        pytest.skip("needs ncu")
    pages = both(f"as views ask {trace}".replace("/", "-"), SHARED_TRACES / trace)
    for opened in pages if trace in REPORTED else islice(pages, 1):
        check_numbers(shown(opened, own=True), opened.traces[0])
        if trace in REPORTED:
            check_overview(opened)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_every_view_of_each_kind_of_file(both: Any, as_views_ask: None, name: str) -> None:
    pages = both(f"as views ask {name}", DATA / name)
    for opened in pages if name in REPORTED else islice(pages, 1):
        check_numbers(shown(opened, own=True), opened.traces[0])


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", MADE)
def test_every_question_of_made_recordings(both: Any, pages: Any, kind: str) -> None:
    """Files that lack much have been asked of a server above: of such recordings a report is enough."""
    rows = MADE[kind]()
    opens = both(kind, rows) if "device_event" in rows and "step" in rows else [pages.open("report", kind, rows)]
    for opened in opens:
        told = shown(opened)
        if kind == "training":
            check_numbers(told, opened.traces[0])
            assert set(told) >= {"gpu-trace", "sources"}
            assert HOSTILE in told["operators"]
            assert f"{count_text(4)} rows" in told["kernels"]
