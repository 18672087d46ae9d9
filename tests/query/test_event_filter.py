"""What people may write for `--name`, `--under` and `--window`, and what it is refused with."""

import time

import pytest

from stepscope.base.errors import UsageError
from stepscope.query.event_filter import EVERYTHING, OPEN_END_NS, EventFilter, event_filter, matching, parse_window
from stepscope.questions import all_questions, find

NAMES = ["aten::mm", "aten::mm_", "aten::MM", "void gemm<float*>(int[2])", "a\nb", "a.b", "axb", ""]


def found(make_scope, pattern: str) -> list[str]:
    rows = {"host_event": [{"name": name} for name in NAMES]}
    query = f"SELECT name FROM host_event WHERE {matching('name', pattern)} ORDER BY id"
    return make_scope(rows).sql(query).column("name").to_pylist()


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("aten::mm", ["aten::mm"]), ("aten::mm*", ["aten::mm", "aten::mm_"]), ("aten::mm?", ["aten::mm_"]),
        ("*mm*", ["aten::mm", "aten::mm_", "void gemm<float*>(int[2])"]),
        ("*<float*>(int[2])", ["void gemm<float*>(int[2])"]), ("a?b", ["a\nb", "a.b", "axb"]), ("a.*", ["a.b"]),
        ("*'*", []), ("/mm$/", ["aten::mm"]), ("/(?i)aten::mm$/", ["aten::mm", "aten::MM"]),
        ("/^a.b$/", ["a.b", "axb"]), ("/float\\*/", ["void gemm<float*>(int[2])"]), ("/", []), ("*", NAMES),
    ],
)  # fmt: skip
def test_a_name_a_glob_and_a_regular_expression(make_scope, pattern, names):
    assert found(make_scope, pattern) == names


def test_a_regular_expression_costs_no_more_than_the_name_is_long(make_scope):
    scope = make_scope({"host_event": [{"name": "a" * 50_000 + "!"}]})
    started = time.process_time()
    assert not scope.value(f"SELECT count(*) FROM host_event WHERE {matching('name', '/(a+)+$/')}")
    assert time.process_time() - started < 5  # backtracking would not end


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("0.5:2", (500_000_000, 2_000_000_000)), ("500ms:2s", (500_000_000, 2_000_000_000)),
        ("1.5s:", (1_500_000_000, OPEN_END_NS)), (":3s", (0, 3_000_000_000)), (":2us", (0, 2_000)),
        (":", (0, OPEN_END_NS)), ("5ns:7ns", (5, 7)), ("1e-3:2e-3", (1_000_000, 2_000_000)),
        (" 1 s : 2 s ", (1_000_000_000, 2_000_000_000)),
    ],
)  # fmt: skip
def test_a_window_is_in_seconds_where_it_has_no_unit(text, window):
    assert parse_window(text) == window
    assert event_filter(window=text) == EventFilter(window=window)


@pytest.mark.parametrize(
    "window", ["", "5", "2s:1s", "1s:1s", "a:b", "1s:b", "1:2:3", "inf:", "nan:1", (1,), (2, 1), (0, 1.5), 7, (True, 2)]
)
def test_anything_else_is_no_window(window):
    with pytest.raises(UsageError, match="is not a stretch of time") as caught:
        event_filter(window=window)
    assert "1.5s:" in caught.value.hint


@pytest.mark.parametrize("window", ["-5:1", "-1ns:2", "-5:-1", (-5, 1)])
def test_a_window_starts_no_earlier_than_the_run(window):
    with pytest.raises(UsageError, match="it starts before the run, which starts at 0"):
        event_filter(window=window)


@pytest.mark.parametrize("pattern", ["", "/", "//", "a\udcff", 3, ["aten::mm"]])
def test_a_pattern_that_names_nothing_is_refused(pattern):
    for asked in ({"name": pattern}, {"under": pattern}):
        with pytest.raises(UsageError, match="names nothing"):
            event_filter(**asked)


ABOUT = {
    "events": {
        "operators", "kernels", "modules", "copies", "classes", "roofline", "tensor-cores", "prof", "annotations",
        "synchronizations", "gpu-summary", "api-summary", "gpu-trace",
    },
    "time": {"steps", "device-time", "idle", "utilization", "counters"},
    "recording": {"summary", "findings", "phases", "inline", "checks", "sources", "scaling", "metrics", "metrics-diff"},
}  # fmt: skip
"""What each question's answer is about, written down apart from the declarations."""


def test_each_question_says_what_it_is_about():
    listed = {name: about for about, names in ABOUT.items() for name in names}
    for question in all_questions():
        if isinstance(question.about, str):
            assert question.about == listed.get(question.name, question.about), question.name
    forms = find("durations").parameters[0].choices
    assert find("durations").about == dict.fromkeys(forms, "events") | {"step": "recording"}
    assert find("launches").about == dict.fromkeys(("kernel", "call", "rank"), "events") | dict.fromkeys(
        ("stream", "step", "time"), "time"
    )
    assert find("efficiency").about == {"step": "time", "module": "events"}
    assert set(find("diff").about) == {None, *find("diff").parameters[0].choices}


@pytest.mark.parametrize(
    ("name", "by", "asked", "words"),
    [
        ("steps", None, EventFilter(name="x"), "steps is about all that went on in a stretch of time"),
        ("idle", None, EventFilter(under="x", window=(0, 1)), "cannot be asked with --under"),
        ("findings", None, EventFilter(window=(0, 1)), "findings is about the recording as such"),
        ("diff", "category", EventFilter(name="x"), "diff --by category is about all"),
        ("efficiency", "step", EventFilter(name="x"), "efficiency --by step is about all"),
    ],
)
def test_a_filter_that_would_make_an_answer_false_is_refused(name, by, asked, words):
    with pytest.raises(UsageError) as caught:
        asked.check_allowed(find(name), by)
    assert words in caught.value.message
    assert caught.value.hint


def test_the_refusal_names_the_forms_that_take_the_filter():
    with pytest.raises(UsageError) as caught:
        EventFilter(name="x").check_allowed(find("diff"), None)
    assert "--by operator or --by kernel or --by module it takes --name too" in caught.value.hint


def test_an_answer_says_of_what_it_is():
    assert EVERYTHING.words() == ""
    assert not EVERYTHING
    assert EventFilter(name="*mm*").words() == "Only events named *mm*; shares are of this part."
    words = EventFilter(under="layer1", window=(1_500_000, OPEN_END_NS)).words()
    assert words.startswith("Only what is under layer1, 1.500 ms to the end of the run")
