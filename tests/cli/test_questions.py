import json
from typing import get_args

import pyarrow.parquet as pq
import pytest

import stepscope
from stepscope.query.declare import Filter
from stepscope.query.event_filter import filters_of
from stepscope.questions import all_questions, find


def test_words_by_default(run, store):
    ran = run("sources", store, "--columns", "path,rank,events_read")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Which files were read, what was repaired or dropped, and what was left out?\n"
        "path    rank  events_read\n"
        "a.json     0            4\n"
        "b.json     1            0\n"
    )


def test_json_is_one_object_and_nothing_else(run, store):
    ran = run("kernels", store, "--json", "--columns", "name,count,total_ns")
    answer = json.loads(ran.out)
    assert ran.err == ""
    assert answer["question"] == "kernels"
    assert answer["sources"] == ["a.json", "b.json"]
    assert answer["rows"] == [{"name": "add", "count": 4, "total_ns": 40}, {"name": "gemm", "count": 4, "total_ns": 40}]


def test_csv(run, store):
    assert run("kernels", store, "--csv", "--columns", "name,count").out == "name,count\nadd,4\ngemm,4\n"


def test_parquet_goes_to_a_file_and_stdout_stays_empty(run, store, tmp_path):
    file = tmp_path / "answer.parquet"
    ran = run("kernels", store, "--parquet", str(file), "--columns", "name,count")
    assert ran.out == ""
    assert ran.err == f"{file}: 2 rows\n"
    assert pq.read_table(file).to_pylist() == [{"name": "add", "count": 4}, {"name": "gemm", "count": 4}]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 4),
        (["--rank", "1"], 2),
        (["--rank", "0-1"], 4),
        (["--rank", "0", "--rank", "1"], 4),
        (["--step", "3"], 2),
        (["--step", "3,4", "--rank", "0"], 2),
    ],
)
def test_ranks_and_steps_narrow_it(run, store, arguments, count):
    ran = run("kernels", store, "--csv", "--columns", "count", "--top", "1", *arguments)
    assert ran.out == f"count\n{count}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--top", "0"], "cannot show the top 0"),
        (["--columns", "nam"], "did you mean name"),
        (["--sort", "name:up"], "there is: asc, desc"),
        (["--by", "nothing"], "no choice 'nothing' of --by"),
        (["--rank", "9"], "it has rank 0, 1"),
        (["--step", "9"], "it has step 3, 4"),
        (["--rank", "x"], "not a list of numbers"),
        (["--json", "--csv"], "one form"),
        (["--spaces", "--parquet", "x"], "one form"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_is_right(run, store, arguments, words):
    ran = run("kernels", store, *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert words in ran.err


def test_sort_orders_every_form_alike(run, store):
    for form in (["--csv"], ["--spaces"], ["-c", "name"], ["--json"]):
        names = [run("kernels", store, "--sort", by, *form).out for by in ("name", "name:desc")]
        assert names[0].index("add") < names[0].index("gemm")
        assert names[1].index("gemm") < names[1].index("add")
    assert run("kernels", store, "--sort", "name:desc", "--top", "1", "-c", "name", "--csv").out == ("name\ngemm\n")


def test_an_answer_under_doubt_is_marked_in_every_form(run, make_store):
    check = {"check": "stream_overlap", "explanation": "two kernels overlap", "affects": "stream-order"}
    doubted = make_store(data_check=[check])
    words = run("kernels", doubted)
    assert words.out.startswith("⚠ ")
    assert "⚠ stream_overlap (rank 0): two kernels overlap" in words.out  # one of two
    (told,) = json.loads(run("kernels", doubted, "--json").out)["checks"]
    assert told["check"] == "stream_overlap"
    as_csv = run("kernels", doubted, "--csv", "--columns", "name")
    assert as_csv.out == "name\nadd\ngemm\n"
    assert "two kernels overlap" in as_csv.err


def test_an_empty_answer_says_why(run, make_store):
    ran = run("kernels", make_store({}))
    assert ran.code == 0
    assert "The recording has no device events." in ran.out
    assert find("kernels").fills.split()[0] in ran.out


def test_thirty_rows_are_shown_unless_more_are_asked_for(run, make_store):
    kernels = [{"name": f"kernel {i:03}", "dur_ns": 1} for i in range(40)]
    many = make_store({"device_event": kernels})
    assert "(10 more rows)" in run("kernels", many).out
    assert "more rows" not in run("kernels", many, "--top", "40").out
    assert run("kernels", many, "--csv").out.count("\n") == 41


def test_every_question_is_a_subcommand_that_helps(run):
    for question in all_questions():
        ran = run(question.name, "--help")
        assert ran.code == 0
        assert question.asks.split()[0] in ran.out
        for parameter in question.parameters:
            assert f"--{parameter.name.replace('_', '-')}" in ran.out
        taken = {name for names in filters_of(question).values() for name in names}
        assert {name for name in get_args(Filter) if f"\n  --{name} " in ran.out} == taken


def test_every_question_answers_an_empty_store_and_a_full_one(run, store, make_store):
    asked = [question for question in all_questions() if question.recordings == "one"]
    for source in (make_store({}), store):
        with stepscope.open(source) as trace:
            for question in asked:
                answer = json.loads(trace.ask(question.name).to_json())
                declared = {column.name for column in question.columns}
                assert {column["name"] for column in answer["columns"]} <= declared
                ran = run(question.name, source)
                assert (ran.code, ran.err) == (0, ""), question.name


def test_what_words_say_to_type_starts_this_stepscope(run, store, monkeypatch):
    monkeypatch.setattr("stepscope.cli.terminal.output.invoked_as", lambda: "python -m stepscope")
    told = " ".join(run("summary", store).out.split())
    assert "Next: python -m stepscope kernels " in told
    assert "`stepscope " not in told
    data = run("summary", store, "--json").out
    assert "`stepscope " in data
    assert "python -m" not in data


def test_no_help_names_a_default_that_is_empty(run):
    told = " ".join(run("what-if", "--help").out.split())
    assert "Default: ." not in told
    assert told.count("by default each") == 2
