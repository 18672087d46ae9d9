"""What a report holds, and what it says it leaves out."""

import base64
import hashlib
import json
import zlib

import pytest
from tests.literal import literal_store

from stepscope.analysis.operators import charging
from stepscope.api.trace import Trace
from stepscope.query.scope import Scope
from stepscope.questions import all_questions, find
from stepscope.report import page_data as made
from stepscope.report.diff_text import verdict_sentence
from stepscope.report.page import page
from stepscope.report.page_data import Form, OpenRecording, forms, key, page_data, reply

ROWS = {
    "source": [{"path": "/home/ann/run.json"}],
    "rank": [{"host": "node-of-ann"}],
    "step": [{"step": n, "start_ns": 100 * n, "end_ns": 100 * n + 90} for n in (1, 2)],
    "device_event": [
        {"step": n % 2 + 1, "name": f"kernel_{n}", "start_ns": 100 * (n % 2 + 1) + n, "dur_ns": 1} for n in range(20)
    ],
}


@pytest.fixture
def shown():
    with literal_store(ROWS) as store:
        yield OpenRecording("run", Trace(store))


@pytest.fixture
def few(monkeypatch):
    """Some questions stand for all."""
    asked = [Form(find(name), {}) for name in ("kernels", "sources", "summary", "diff", "scaling")]
    monkeypatch.setattr(made, "forms", lambda: asked)


def unpacked(data, question, recordings=("1",), **asked):
    declared = next(one for one in all_questions() if one.name == question)
    packed = data["replies"][key(recordings, Form(declared, asked))]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_every_question_of_one_recording_is_in_it_as_its_json_has_it(shown, monkeypatch):
    rows, asked = Scope.rows, []
    monkeypatch.setattr(
        Scope, "rows", lambda scope, *query, **more: asked.append(query[0]) or rows(scope, *query, **more)
    )
    data = page_data([shown], with_paths=True)
    assert asked.count(charging._EVENTS) == 1, "work is charged once, whichever questions need it"
    for question in all_questions():
        if question.recordings == "one":
            own = json.loads(shown.trace.ask(question.name).to_json())
            assert unpacked(data, question.name)["answer"] == own
    assert [d["name"] for d in data["declarations"]] == [q.name for q in all_questions()]


def test_every_form_is_asked_after_all_defaults():
    asked = forms()
    assert [form.question for form in asked[: len(all_questions())]] == list(all_questions())
    kernels = [dict(form.parameters) for form in asked if form.question.name == "kernels"]
    assert kernels[0] == {}
    assert {"by": "stack"} in kernels
    assert {"by": "name"} not in kernels  # the default


def test_paths_and_hosts_are_left_out_unless_asked_for(few, shown):
    plain = "".join(zlib.decompress(base64.b64decode(one)).decode() for one in page_data([shown])["replies"].values())
    assert "run.json" in plain
    assert "/home" not in plain
    assert "node-of-ann" not in plain
    kept = unpacked(page_data([shown], with_paths=True), "sources")
    assert kept["answer"]["rows"][0]["path"] == "/home/ann/run.json"


def test_hosts_that_reports_name_are_left_out_too(few, monkeypatch):
    monkeypatch.setattr(made, "forms", lambda: [Form(find("host-metrics"), {"by": "metric"})])
    metric = {"report": "APS", "metric": "memory", "value": 1.0, "host": "node-of-bob"}
    with literal_store({"host_metric": [metric]}) as store:
        shown = OpenRecording("run", Trace(store))
        (row,) = unpacked(page_data([shown]), "host-metrics", by="metric")["answer"]["rows"]
    assert row["host"] == "host 1"


def test_the_first_rows_of_many_are_in_it_and_their_number_is_said(few, shown, monkeypatch):
    monkeypatch.setattr(made, "MAX_ROWS", 7)
    kernels = unpacked(page_data([shown]), "kernels")
    assert len(kernels["answer"]["rows"]) == 7
    assert kernels["rows_total"] == 20


def test_a_full_report_with_its_page_is_below_15_mb(monkeypatch):
    monkeypatch.setattr(made, "forms", list)
    with literal_store(ROWS) as store:
        nothing = page("run", page_data([OpenRecording("run", Trace(store))]))
    assert len(nothing.encode()) + made.MAX_BYTES < 15_000_000 - 100_000  # keys, and what is left out


def with_room(monkeypatch, data, size):
    """Beside the timeline, that answers may take so many bytes."""
    timeline = made._taken(data["timelines"]["1"], data["timeline_events"]["1"])
    monkeypatch.setattr(made, "MAX_BYTES", timeline + size)


def test_what_there_is_no_room_for_is_named_with_its_reason(few, shown, monkeypatch):
    monkeypatch.setattr(made, "MAX_BYTES", 500)
    data = page_data([shown])
    assert sum(map(len, data["replies"].values())) <= 500
    left = {one["question"]: one["why"] for one in data["left_out"]}
    assert "more than this report has room for" in left["kernels"]
    assert len(data["replies"]) + len(data["left_out"]) == 4  # and no two to compare


def test_the_largest_answers_keep_their_first_rows_where_all_are_too_many(few, shown, monkeypatch):
    full = page_data([shown])
    sizes = sorted(map(len, full["replies"].values()))
    room = sum(sizes) - sizes[-1] // 4
    with_room(monkeypatch, full, room)
    monkeypatch.setattr(made, "_MIN_SHARE", 0)
    data = page_data([shown])
    assert data["replies"].keys() == full["replies"].keys()
    assert sum(map(len, data["replies"].values())) <= room
    kernels, before = unpacked(data, "kernels"), unpacked(full, "kernels")
    rows = kernels["answer"]["rows"]
    assert 0 < len(rows) < kernels["rows_total"] == 20
    assert rows == before["answer"]["rows"][: len(rows)]
    assert [name for name, _ in kernels["labels"]["name"]] == [row["name"] for row in rows]


def test_what_is_asked_first_is_kept_where_there_is_room_for_little(few, shown, monkeypatch):
    full = page_data([shown])
    first, *others = full["replies"].values()
    assert others
    with_room(monkeypatch, full, len(first))
    assert list(page_data([shown])["replies"].values()) == [first]


def test_a_timeline_whose_names_leave_no_room_is_left_out_in_words(few, monkeypatch):
    names = [f"{'x' * 3000}{number}" for number in range(50)]
    rows = {"host_event": [{"name": name, "start_ns": 10 * at, "dur_ns": 5} for at, name in enumerate(names)]}
    rows["thread"] = [{"thread": 0, "thread_name": "y" * 30_000}]
    monkeypatch.setattr(made, "MAX_TIMELINE_BYTES", 20_000)
    with literal_store(rows) as store:
        data = page_data([OpenRecording("run", Trace(store))])
    assert "`stepscope view` shows it" in data["timelines"]["1"]["missing"]
    assert len(json.dumps(data["timelines"])) + len(data["timeline_events"]["1"]) < 2_000


def test_an_answer_that_cannot_be_given_is_named_with_its_reason(few, shown):
    alone = page_data([shown])
    assert [one for one in alone["left_out"] if one["question"] == "diff"] == []
    both = page_data([shown, OpenRecording("again", shown.trace)])
    changes = unpacked(both, "diff", ("1", "2"))
    assert changes["conclusions"] == [verdict_sentence(changes["answer"]["rows"])]
    with literal_store({}) as store:
        both = page_data([OpenRecording("one", Trace(store)), OpenRecording("two", Trace(store))])
    (scaling,) = (one for one in both["left_out"] if one["question"] == "scaling" and not one["parameters"])
    assert scaling["recordings"] == ["1", "2"]
    assert scaling["why"]


def test_kernels_have_their_short_names_beside_them():
    name = "void at::native::add_kernel<4, at::Half>(int, char*)"
    with literal_store({"device_event": [{"name": name, "dur_ns": 3}]}) as store:
        labels = reply(Trace(store).ask("kernels"))["labels"]
    assert labels["name"] == [[name, "add_kernel<Half>"]]


def test_a_name_that_is_no_unicode_is_no_obstacle(few):
    with literal_store(ROWS) as store:
        data = page_data([OpenRecording("run-\udcff", Trace(store))])
    assert data["recordings"][0]["name"] == "run-\udcff"


def test_how_many_rows_fit_is_found_in_a_few_tries(monkeypatch):
    def packed(rows):
        return made._packed({"answer": {"rows": rows}, "labels": {}})

    rows = [{"name": hashlib.sha256(str(n).encode()).hexdigest()} for n in range(2000)]
    tried = []
    monkeypatch.setattr(made, "_packed", lambda value, pack=made._packed: tried.append(value) or pack(value))
    room = len(packed(rows)) // 10
    tried.clear()
    fitting = made._first_rows(packed(rows), room)
    kept = json.loads(zlib.decompress(base64.b64decode(fitting)))["answer"]["rows"]
    assert sum(len(one["answer"]["rows"]) for one in tried[1:]) < 2000
    assert len(packed(rows[: len(kept) + 4])) > room >= len(packed(kept))
