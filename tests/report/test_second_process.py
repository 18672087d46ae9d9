"""The second process of a report: what it makes is what the first would have made, and none of it is needed."""

import json
import os
import threading

import pytest
from tests.cli.conftest import ROWS, write_store
from tests.literal import literal_store

from stepscope.api.trace import Trace, open_trace
from stepscope.report import page_data as made
from stepscope.report.page_data import TIMELINES, OpenRecording, Report, page_data
from stepscope.report.second_process import helping


@pytest.fixture
def processors(monkeypatch):
    def available(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))

    available(2)
    return available


@pytest.fixture
def shown(tmp_path):
    with open_trace(write_store(tmp_path / "store", ROWS), ranks=[1]) as trace:
        yield [OpenRecording("run-\udcff", trace)]


def test_it_makes_what_this_process_would_make(shown, processors):
    with helping(shown, with_paths=False) as helper, Report(shown, with_paths=False) as report:
        count = len(report.questions)
        for place in range(0, count, 25):
            answer = helper.make(place, of=count)
            assert answer is not None
            assert answer == report.make(place)
        drawn = helper.make(TIMELINES, of=count)
        assert drawn == json.loads(json.dumps(report.make(TIMELINES)))


def test_what_it_cannot_make_is_made_here(shown, processors):
    with helping(shown, with_paths=False) as helper, Report(shown, with_paths=False) as report:
        count = len(report.questions)
        assert helper.make(0, of=count + 1) is None, "it would ask something else"
        assert helper.make(count, of=count) is None, "there is no such place"
        assert helper.make(0, of=count) is not None
        helper._process.kill()
        helper._process.wait()
        assert helper.make(0, of=count) is None


def test_a_report_is_whole_whatever_the_helper_makes(monkeypatch):
    few = [form for form in made.forms() if form.question.name in ("kernels", "checks", "diff")]
    monkeypatch.setattr(made, "forms", lambda: few)
    asked, was_asked = [], threading.Event()
    make = Report.make

    class Ended:
        def make(self, place, *, of):
            asked.append(place)
            was_asked.set()

    with literal_store({"device_event": [{"name": "gemm"}]}) as store:
        shown = [OpenRecording("run", Trace(store))]
        alone = page_data(shown)
        monkeypatch.setattr(Report, "make", lambda *one: was_asked.wait(60) and make(*one))
        helped = page_data(shown, helper=Ended())
    assert asked[0] == TIMELINES, "the helper starts at the end"
    assert helped == alone
    assert list(helped["replies"]) == list(alone["replies"])


def test_one_processor_and_rows_in_memory_have_no_helper(shown, processors):
    with literal_store({}) as store, helping([OpenRecording("a", Trace(store))], with_paths=False) as no:
        assert no is None
    processors(1)
    with helping(shown, with_paths=False) as no:
        assert no is None
