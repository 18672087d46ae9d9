import pyarrow as pa
import pytest
from tests.literal import literal_store

from stepscope.base.errors import StoreError, UsageError
from stepscope.formats.evidence import EVERYTHING
from stepscope.query.ask import ask
from stepscope.query.declare import Column, Parameter, question
from stepscope.questions import ALL, all_questions, find, names

COLUMNS = (
    Column("name", "text", "name of the kernel"),
    Column("total_ns", "int", "summed duration", "ns"),
    Column("stream", "int", "stream"),
)


@question(
    "toy-kernels", "Which kernels?", COLUMNS,
    parameters=(
        Parameter("by", "text", "what to tell apart", default="name", choices=("name", "stream")),
        Parameter("least", "int", "shortest that counts", default=0, within=(0, 100)),
        Parameter("tiny", "bool", "tiny ones too", default=False),
    ),
    rests_on=("device-times", "stream-order"), needs="device", fills="Record with ProfilerActivity.CUDA.",
)  # fmt: skip
def toy(scope, by, least, tiny):
    """Sums durations."""
    key = "name" if by == "name" else "name, stream"
    return scope.sql(
        f"SELECT sum(dur_ns) AS total_ns, {key} FROM device_event "
        f"WHERE dur_ns >= $least GROUP BY {key} ORDER BY total_ns DESC",
        {"least": 0 if tiny else least},
    )


@pytest.fixture
def store():
    rows = {
        "device_event": [
            {"name": "gemm", "dur_ns": 30, "rank": 0, "stream": 7},
            {"name": "add", "dur_ns": 2, "rank": 0, "stream": 7},
            {"name": "gemm", "dur_ns": 4, "rank": 1, "stream": 8},
        ],
        "data_check": [
            {"check": "stream_overlap", "severity": "warning", "affects": "stream-order"},
            {
                "check": "duration_overrun",
                "severity": "warning",  # an error would leave rank 0 out
                "affects": "host-times,device-times",
            },
            {"check": "no_steps", "severity": "warning", "affects": "steps"},
            {"check": "zero_ts", "severity": "ok", "affects": "device-times"},
            {"check": "truncated", "severity": "note", "affects": "file", "rank": 1},
        ],
    }
    with literal_store(rows) as store:
        yield store


def test_columns_come_in_declared_order_and_type(store):
    answer = ask(toy, store)
    assert answer.arrow.schema == pa.schema([("name", pa.string()), ("total_ns", pa.int64())])
    assert answer.rows() == [{"name": "gemm", "total_ns": 34}, {"name": "add", "total_ns": 2}]


def test_the_first_rows_are_those_of_the_order_that_was_asked_for(store):
    assert ask(toy, store, sort="total_ns:asc", top=1, columns=["name"]).to_csv() == "name\nadd\n"
    assert ask(toy, store, sort="name").arrow["name"].to_pylist() == ["add", "gemm"]


def test_top_columns_rank_and_parameters(store):
    assert ask(toy, store, top=1).rows() == [{"name": "gemm", "total_ns": 34}]
    assert ask(toy, store, columns=["total_ns"], ranks=[1]).rows() == [{"total_ns": 4}]
    assert ask(toy, store, columns=["total_ns", "name"]).to_csv() == "total_ns,name\n34,gemm\n2,add\n"
    assert len(ask(toy, store, by="stream")) == 3
    assert len(ask(toy, store, least=3)) == 1
    assert len(ask(toy, store, least=3, tiny=True)) == 2


def test_a_parameter_of_none_takes_its_default(store):
    assert len(ask(toy, store, by=None, least=None)) == 2


def test_checks_that_bear_on_it_come_with_the_answer(store):
    answer = ask(toy, store)
    assert [check["check"] for check in answer.checks] == ["duration_overrun", "stream_overlap", "truncated"]
    assert answer.unreliable


def test_checks_of_other_ranks_stay_away(store):
    assert [check["check"] for check in ask(toy, store, ranks=[1]).checks] == ["truncated"]


def test_damage_to_a_file_bears_on_what_rests_on_nothing_else(store):
    @question("files", "Which files?", (Column("path", "text", "file"),), rests_on=())
    def files(scope):
        return scope.sql("SELECT path FROM source")

    assert [check["check"] for check in ask(files, store).checks] == ["truncated"]


def test_a_question_cannot_rest_on_evidence_that_no_check_knows():
    with pytest.raises(ValueError, match="odd rests on kernel-times"):
        question("odd", "Odd?", COLUMNS, rests_on=("kernel-times",))
    with pytest.raises(TypeError, match="rests_on"):
        question("odd", "Odd?", COLUMNS)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"top": 0}, "cannot show the top 0"), ({"top": -3}, "cannot show the top -3"),
        ({"columns": ["total"]}, "no column 'total' of toy-kernels"),
        ({"columns": ["stream"]}, "this form of toy-kernels has no column 'stream'"),
        ({"by": "streams"}, "no choice 'streams' of --by"), ({"by": 3}, "by=3 is not of type text"),
        ({"least": "x"}, "least='x' is not of type int"), ({"least": True}, "least=True is not of type int"),
        ({"least": -1}, "least=-1 is not 0 to 100"), ({"least": 101}, "least=101 is not 0 to 100"),
        ({"bye": "name"}, "no parameter 'bye' of toy-kernels"), ({"columns": []}, "no columns"),
        ({"columns": 3}, "columns=3 is not a list of names"),
        ({"sort": "total"}, "no column 'total' of toy-kernels"),
        ({"sort": "stream"}, "no column 'stream' of toy-kernels"),
        ({"sort": ["name"]}, "sort=['name'] is not of type text"),
        ({"columns": ["name", "name"]}, "'name' is named twice"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_what_is_wrong(store, asked, message):
    with pytest.raises(UsageError) as caught:
        ask(toy, store, **asked)
    assert message in caught.value.message
    assert caught.value.hint


def test_an_undeclared_column_is_a_defect_of_the_question(store):
    @question("odd", "Odd?", COLUMNS[:1], rests_on=())
    def odd(scope):
        return scope.sql("SELECT name, dur_ns FROM device_event")

    with pytest.raises(ValueError, match="odd does not declare dur_ns"):
        ask(odd, store)


def test_an_empty_answer_says_why_and_what_would_fill_it():
    with literal_store({}) as store:
        note = ask(toy, store).note
    assert note == "The recording has no device events. Record with ProfilerActivity.CUDA."


def test_an_answer_empty_by_choice_says_that(store):
    assert ask(toy, store, ranks=[1], least=100).note.startswith("No matching rows in the chosen")
    assert ask(toy, store, least=100).note.startswith("No matching rows in this recording")
    assert ask(toy, store).note == ""


def test_a_store_that_went_away_is_an_error_about_the_store(tmp_path):
    (tmp_path / "gone").mkdir()
    with literal_store({}) as store:
        store.directory = tmp_path / "gone"

        @question("lost", "Lost?", COLUMNS[:1], rests_on=())
        def lost(scope):
            return scope.sql(f"SELECT path AS name FROM read_parquet('{tmp_path}/gone/x.parquet')")

        with pytest.raises(StoreError, match="cannot be read"):
            ask(lost, store)


def test_every_file_declares_the_question_it_is_named_after():
    for file in ALL:
        assert find(file).name == file.replace("_", "-")
        assert find(file).method == file
    assert tuple(question.name for question in all_questions()) == names()


def test_declarations_are_complete():
    for declared in all_questions():
        assert declared.asks.endswith("?"), declared.name
        assert declared.explanation.strip(), declared.name
        assert len({c.name for c in declared.columns}) == len(declared.columns), declared.name
        for column in declared.columns:
            assert column.meaning, (declared.name, column.name)
            if column.unit == "ns":
                assert column.name.endswith("_ns"), (declared.name, column.name)
            if column.unit == "ratio":
                assert column.name.endswith("_ratio"), (declared.name, column.name)
            if column.unit == "bytes":
                assert column.name.endswith("bytes"), (declared.name, column.name)
        if declared.needs == "device":
            assert declared.fills, declared.name
        taken = {"rank", "step", "top", "columns", "json", "csv", "parquet", "no_cache", "strict"}
        assert not taken & {p.name for p in declared.parameters}, declared.name


def test_every_kind_of_evidence_is_what_some_question_rests_on():
    named = [kind for declared in all_questions() for kind in declared.rests_on]
    assert set(named) == set(EVERYTHING)
    for declared in all_questions():
        assert len(set(declared.rests_on)) == len(declared.rests_on), declared.name


def test_an_unknown_question_gets_the_nearest():
    with pytest.raises(UsageError) as caught:
        find("kernel")
    assert "did you mean kernels" in caught.value.hint


def test_a_step_of_the_phases_alone_is_no_step_of_the_traces():
    rows = {
        "step": [{"step": 3, "start_ns": 0, "end_ns": 10}],
        "host_event": [{"name": "aten::mm", "dur_ns": 5, "step": 3}],
        "phase_step": [{"step": step, "dur_ns": 9} for step in (3, 4)],
    }
    with literal_store(rows) as store:
        for name in ("summary", "steps", "operators", "kernels"):
            with pytest.raises(UsageError, match="no step 4 in the traces of") as caught:
                ask(find(name), store, steps=[4])
            assert caught.value.hint == "it has step 3"
            assert len(ask(find(name), store, steps=[3])) or name == "kernels"
        for name in ("phases", "inline", "findings", "sources", "checks"):
            ask(find(name), store, steps=[4])
    with literal_store({"phase_step": rows["phase_step"]}) as store:
        assert "chosen ranks and steps" in ask(find("steps"), store, steps=[4]).note
