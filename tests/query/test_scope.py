import json
import shutil

import pyarrow as pa
import pytest
from tests.store.test_build import trace

from stepscope.base.errors import StoreError, UsageError
from stepscope.query.scope import Scope
from stepscope.store.build import import_source
from stepscope.store.open import Store

TWO_RANKS = {
    "step": [
        {"rank": 0, "step": 3, "start_ns": 0, "end_ns": 10}, {"rank": 0, "step": 4, "start_ns": 10, "end_ns": 20},
        {"rank": 1, "step": 3, "start_ns": 0, "end_ns": 10},
    ],
    "host_event": [
        {"rank": 0, "name": "in step 3", "step": 3}, {"rank": 0, "name": "in step 4", "step": 4},
        {"rank": 0, "name": "in no step"}, {"rank": 1, "name": "on rank 1", "step": 3},
    ],
    "device_event": [
        {"rank": 0, "kind": "communication", "name": "nccl", "step": 3, "id": 7},
        {"rank": 0, "kind": "communication", "name": "nccl", "step": 4, "id": 8},
    ],
    "collective": [{"rank": 0, "id": 7}, {"rank": 0, "id": 8}],
}  # fmt: skip


def names(scope) -> list[str]:
    return scope.sql("SELECT name FROM host_event ORDER BY rank, id").column(0).to_pylist()


def test_all_ranks_and_steps_by_default(make_scope):
    scope = make_scope(TWO_RANKS)
    assert scope.ranks == (0, 1)
    assert scope.steps is None
    assert names(scope) == ["in step 3", "in step 4", "in no step", "on rank 1"]


@pytest.mark.parametrize(
    ("narrowed", "kept", "counts"),
    [
        ({"ranks": [1]}, ["on rank 1"], {"step": 1, "rank": 1, "device_event": 0}),
        # what is in no step is left out
        ({"steps": [3]}, ["in step 3", "on rank 1"], {"step": 2, "device_event": 1, "collective": 1}),
        ({"ranks": [0], "steps": [3, 4]}, ["in step 3", "in step 4"], {"step": 2, "collective": 2}),
    ],
)
def test_ranks_and_steps_narrow_every_table(make_scope, narrowed, kept, counts):
    scope = make_scope(TWO_RANKS, **narrowed)
    assert names(scope) == kept
    assert {table: scope.value(f"SELECT count(*) FROM {table}") for table in counts} == counts


@pytest.mark.parametrize(
    ("narrowed", "words", "hint"),
    [
        ({"ranks": [0, 5]}, "no rank 5", "it has rank 0, 1"),
        ({"ranks": [1], "steps": [4]}, "no step 4", "it has step 3"),  # of another rank
    ],
)
def test_an_unknown_rank_or_step_is_told_which_there_are(make_scope, narrowed, words, hint):
    with pytest.raises(UsageError, match=words) as caught:
        make_scope(TWO_RANKS, **narrowed)
    assert caught.value.hint == hint


def test_narrowing_one_scope_leaves_another_alone(make_store):
    store = make_store(TWO_RANKS)
    with Scope(store, ranks=[1]), Scope(store) as whole:
        assert len(names(whole)) == 4


def test_columns_come_as_numpy_arrays(make_scope):
    arrays = make_scope(TWO_RANKS).numpy("SELECT step FROM host_event ORDER BY rank, id")
    assert arrays["step"].filled(-1).tolist() == [3, 4, -1, 3]


def test_what_questions_share_is_made_once_in_a_scope(make_scope):
    made = []
    scopes = [make_scope({}), make_scope({})]
    for scope in (*scopes, *scopes):
        assert scope.cached("a", lambda: made.append("a") or len(made)) in (1, 2)
    assert scopes[0].cached(("a", 1), lambda: 7) == 7
    assert made == ["a", "a"]


def test_a_query_is_run_once_but_for_temporary_tables_each_time(make_scope):
    scope = make_scope({"step": [{"step": 1, "start_ns": 0, "end_ns": 5}]})
    asked = "SELECT count(*) AS n FROM step"
    assert scope.sql(asked) is scope.sql(asked)
    assert scope.rows(asked) is not scope.rows(asked)
    assert scope.sql(f"{asked} WHERE step = $1", [1]) is not scope.sql(f"{asked} WHERE step = $1", [2])
    for n in (1, 2):
        with scope.with_temp_tables("other", {"one": pa.table({"n": [n]})}):
            assert scope.sql("SELECT n FROM other.one").column("n").to_pylist() == [n]


def test_a_rank_is_read_from_its_own_files_unless_all_are_in_memory(tmp_path):
    for rank in (0, 1):
        text = json.dumps({**trace(steps=3), "distributedInfo": {"rank": rank, "world_size": 2}})
        (tmp_path / f"rank{rank}.json").write_text(text)
    directory = import_source(tmp_path, tmp_path / "store")
    with Store.open(directory) as store, Scope(store) as scope:
        with scope.of_rank(1) as own:
            assert own.ranks == (1,)
            assert own.value("SELECT count(DISTINCT rank) FROM step") == 1
            with own.of_rank(1) as same:
                assert same is own
        scope.preload()
        with scope.of_rank(1) as own:
            assert own is scope


def test_what_is_large_and_was_asked_for_least_lately_is_forgotten_first(make_scope, monkeypatch):
    scope = make_scope({"step": [{"step": 1, "start_ns": 0, "end_ns": 5}]})
    monkeypatch.setattr("stepscope.query.scope._MEMO_BYTES", 100 * 8)
    made = []

    def ask(name: str, numbers: int) -> None:
        def make() -> pa.Table:
            made.append(name)
            return pa.table({"n": pa.array([0] * numbers, pa.int64())})

        scope.cached(name, make)

    for name, numbers in (("small", 1), ("a", 45), ("b", 45), ("a", 45), ("c", 45), ("larger", 101)):
        ask(name, numbers)
    assert made == ["small", "a", "b", "c", "larger"]
    for name, numbers in (("small", 1), ("a", 45), ("c", 45), ("b", 45), ("larger", 101)):
        ask(name, numbers)
    assert made[5:] == ["b", "larger"]


def test_a_table_of_too_many_rows_is_read_from_its_files_however_few_bytes_they_take(tmp_path, monkeypatch):
    (tmp_path / "trace.json").write_text(json.dumps(trace(steps=3)))
    directory = import_source(tmp_path / "trace.json", tmp_path / "store")
    held = "SELECT count(*) FROM duckdb_tables() WHERE temporary AND table_name = 'host_event'"
    for rows, there in ((1, 0), (1000, 1)):
        monkeypatch.setattr("stepscope.query.scope._PRELOAD_ROWS", rows)
        with Store.open(directory) as store, Scope(store) as scope:
            scope.preload()
            assert scope.value("SELECT count(*) FROM host_event") > 1
            assert scope.value(held) == there


def test_preloaded_tables_are_read_once_and_stay_narrowed(tmp_path, monkeypatch):
    (tmp_path / "trace.json").write_text(json.dumps(trace(steps=3)))
    directory = import_source(tmp_path / "trace.json", tmp_path / "store")
    query = "SELECT id, name, step, start_ns FROM host_event ORDER BY id"
    with Store.open(directory) as store, Scope(store) as scope, Scope(store, steps=[1]) as narrow:
        rows, of_step = scope.sql(query), narrow.sql(query)
        assert 0 < of_step.num_rows < rows.num_rows
        monkeypatch.setattr("stepscope.query.scope._PRELOAD_BYTES", 0)
        scope.preload()
        monkeypatch.undo()
        for one in (scope, scope, narrow):
            one.preload()
        assert narrow.rows(query) == of_step
        shutil.move(directory / "rank=00000", tmp_path / "elsewhere")
        assert scope.rows(query) == rows
        scope.preload(["thread"])
        with pytest.raises(StoreError, match="No such file"):
            scope.sql("SELECT * FROM thread")
