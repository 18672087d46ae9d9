import ast
import errno
import gzip
import inspect
import json
from pathlib import Path

import pytest
from tests.literal import literal_store
from tests.store.conftest import write_directory

import stepscope
from stepscope.api.trace import Trace
from stepscope.base.errors import DamagedSourceError, SourceError, UsageError
from stepscope.query.event_filter import filters_of
from stepscope.questions import all_questions
from stepscope.store import place

ROWS = {
    "step": [{"rank": rank, "step": step, "start_ns": 0, "end_ns": 1} for rank in (0, 1) for step in (3, 4)],
    "source": [{"rank": 0, "path": "a.json"}, {"rank": 1, "path": "b.json"}],
}


@pytest.fixture
def store():
    with literal_store(ROWS) as store:
        yield store


def count(trace: Trace, **narrowed) -> int:
    return trace.sql("SELECT count(*) AS n FROM step", **narrowed).rows()[0]["n"]


def test_questions_are_methods(store):
    trace = Trace(store)
    assert trace.sources().rows() == trace.ask("sources").rows()
    assert trace.sources(rank=1, columns=["path"]).rows() == [{"path": "b.json"}]
    assert trace.sources(top=1, columns=["path"]).rows() == [{"path": "a.json"}]


def stub(name):
    """The definitions of a stub, by name."""
    text = (Path(stepscope.__file__).parent / "api" / f"{name}.pyi").read_text()
    return {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def arguments(annotation):
    """The keyword arguments of `Unpack[AskedOf...]`, with those of its bases."""
    name = ast.unparse(annotation).removeprefix("Unpack[").removesuffix("]")
    if name == "TypedDict":
        return set()
    declared = stub("asked")[name]
    inherited = set().union(*map(arguments, declared.bases))
    return inherited | {line.target.id for line in declared.body if isinstance(line, ast.AnnAssign)}


def test_every_question_is_a_method_with_its_parameters(store):
    trace, typed = Trace(store), stub("question_methods")
    for question in all_questions():
        if question.recordings != "one":
            assert not hasattr(trace, question.method)
            continue
        method = getattr(trace, question.method)
        own = {p.name: p.default for p in question.parameters}
        assert {name: p.default for name, p in inspect.signature(method).parameters.items() if name in own} == own
        assert question.asks in method.__doc__
        assert question.method in dir(trace)
        assert {one.arg for one in typed[question.method].args.kwonlyargs} == set(own)
        filters = {name for names in filters_of(question).values() for name in names}
        asked = arguments(typed[question.method].args.kwarg.annotation)
        assert asked == {"top", "columns", "sort", "rank", "step", *filters}


def test_every_question_that_compares_is_a_function_with_its_parameters():
    compare = [question for question in all_questions() if question.recordings != "one"]
    assert [question.name for question in compare] == ["diff", "metrics-diff", "scaling"]
    for question in compare:
        parameters = inspect.signature(getattr(stepscope, question.method)).parameters
        own = {p.name: p.default for p in question.parameters}
        assert {name: parameters[name].default for name in own} == own
        assert set(parameters) <= {"before", "after", "sources", *own, "asked"}
        typed = stub("comparisons")[question.method].args
        assert [one.arg for one in (*typed.args, *typed.kwonlyargs)] == list(parameters)[:-1]
        common = {"names", "job", "capture", "top", "columns", "sort", "name", "under", "window"}
        assert arguments(typed.kwarg.annotation) == common | {"cache", "strict", "progress"}


def test_a_comparison_refuses_what_it_does_not_take():
    with pytest.raises(UsageError, match="no parameter 'colour' of diff"):
        stepscope.diff("a.json", "b.json", colour="red")


def test_one_recording_is_not_compared_with_itself(store):
    for ask in (lambda: Trace(store).ask("diff"), lambda: Trace(store).sql("FROM answer.scaling")):
        with pytest.raises(UsageError, match="recordings, and this is one") as refused:
            ask()
        assert refused.value.slug == "several-recordings"


def test_sql_is_narrowed_to_a_rank_and_a_step(store):
    trace = Trace(store)
    assert count(trace) == 4
    assert count(trace, rank=0) == 2
    assert count(trace, rank=[0, 1], step=3) == 2


def test_a_narrowed_trace_keeps_to_its_ranks_and_steps(store):
    trace = Trace(store, ranks=[1], steps=[4])
    assert trace.ranks == (1,)
    assert trace.step_numbers == (4,)
    assert count(trace) == 1
    with pytest.raises(UsageError, match="no rank 0"):
        count(trace, rank=0)
    with pytest.raises(UsageError, match="no step 3"):
        count(trace, step=3)


def test_unknown_ranks_and_steps_are_refused_at_once(store):
    for unknown in ({"ranks": [9]}, {"steps": [9]}):
        with pytest.raises(UsageError, match=r"no (rank|step) 9"):
            Trace(store, **unknown)


@pytest.mark.parametrize(
    "given",
    [
        {"rank": "0"},
        {"rank": 0.5},
        {"rank": [0, "1"]},
        {"step": True},
        {"step": 1j},
        {"top": "3"},
        {"top": 1.5},
        {"columns": "path"},
        {"columns": [1]},
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_refused_in_our_words(store, given):
    with pytest.raises(UsageError) as refused:
        Trace(store).sources(**given)
    assert refused.value.slug == "wrong-argument"
    assert "=" in refused.value.hint


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda _: stepscope.open(7), "not a path"),
        # An empty name is not the working directory.
        (lambda _: stepscope.open(""), "is not the name of a file or folder"),
        (lambda _: stepscope.open("a\0b"), "is not the name of a file or folder"),
        (lambda trace: trace.sql(3), "3 is not SQL"),
        (lambda trace: stepscope.diff(trace, 3), "3 is not a recording"),
    ],
)
def test_an_argument_that_means_nothing_is_refused_in_our_words(store, ask, said):
    with pytest.raises((SourceError, UsageError), match=said):
        ask(Trace(store))


def test_more_rows_than_a_machine_counts_are_all(store):
    assert len(Trace(store).sources(top=10**30)) == len(Trace(store).sources())


def test_people_can_ask_what_a_column_means(store):
    query = (
        "SELECT comment FROM duckdb_columns() WHERE schema_name = 'main' "
        "AND table_name = 'step' AND column_name = 'complete'"
    )
    (row,) = Trace(store).sql(query).rows()
    assert "the recording starts or ends inside the step" in row["comment"]


def test_its_repr_says_what_it_covers(store):
    assert repr(Trace(store)) == "<Trace of 2 ranks in rows in memory>"


def test_closing_deletes_its_scratch_folder(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Trace(literal_store({}), scratch=scratch):
        assert scratch.exists()
    assert not scratch.exists()


def test_a_store_is_opened_where_it_lies(tmp_path):
    directory = write_directory(tmp_path / "store", {"source": [{"path": "a.json"}]})
    with stepscope.open(directory) as trace:
        assert trace.store.directory == directory.resolve()
        assert trace.sources(columns=["path"]).rows() == [{"path": "a.json"}]
    assert directory.exists()


@pytest.mark.parametrize("reading", [{"window": (0, 5)}, {"python_stack": False}])
def test_a_store_cannot_be_read_anew(tmp_path, reading):
    with pytest.raises(UsageError, match="is a store"):
        stepscope.open(write_directory(tmp_path / "store", {"source": [{}]}), **reading)


def test_strict_refuses_a_store_of_damaged_files(tmp_path):
    sound = write_directory(tmp_path / "sound", {"source": [{"path": "a.json", "events_read": 5}]})
    damaged = write_directory(tmp_path / "damaged", {"source": [{"path": "b.json", "events_repaired": 1}]})
    stepscope.open(sound, strict=True).close()
    with pytest.raises(DamagedSourceError, match=r"b\.json"):
        stepscope.open(damaged, strict=True)


def test_strict_takes_a_file_whose_damage_costs_nothing_before_and_after_it_was_read(tmp_path):
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": [event]}).encode()) + b"appended")
    stepscope.import_source(file, tmp_path / "store", strict=True)
    for source in (file, tmp_path / "store"):
        stepscope.open(source, strict=True).close()


@pytest.mark.parametrize("where", ["file", "below a file", "full"])
def test_cache_that_cannot_be_used_is_noted_and_the_question_answered(where, tmp_path, monkeypatch, caplog):
    source = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    source.write_text(json.dumps({"traceEvents": [event]}))
    cache = tmp_path / "cache"
    if where == "full":
        put = place._put_in_place

        def full(*_):
            monkeypatch.setattr(place, "_put_in_place", put)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(place, "_put_in_place", full)
    else:
        cache.write_text("mine")
    monkeypatch.setenv("STEPSCOPE_CACHE", str(cache / "inner" if where == "below a file" else cache))
    with stepscope.open(source) as trace:
        assert trace.sql("SELECT name FROM host_event").rows() == [{"name": "aten::add"}]
        scratch = trace._scratch
    (note,) = (record.getMessage() for record in caplog.records if record.name == "stepscope")
    assert ("the disk is full" if where == "full" else "the cache cannot be written") in note
    assert not scratch.exists()
    assert cache.is_dir() or cache.read_text() == "mine"
