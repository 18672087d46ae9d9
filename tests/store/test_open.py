import json
import threading
import time
from pathlib import Path

import duckdb
import pytest

from stepscope.base.errors import StoreError
from stepscope.schema.tables import TABLES
from stepscope.store.manifest import is_store
from stepscope.store.open import Store

EVENT = {"name": "aten::mm", "start_ns": 10, "dur_ns": 5}


def starts(store: Store) -> list[tuple[int, int]]:
    rows = store.sql("SELECT rank, start_ns FROM host_event ORDER BY rank, start_ns").to_pylist()
    return [(row["rank"], row["start_ns"]) for row in rows]


EPOCH = 1_778_655_624_745_710_848


@pytest.mark.parametrize(
    ("first", "second", "moved_ns"),
    [
        ({"start_epoch_ns": 1_000}, {"start_epoch_ns": 3_000, "clock_offset_ns": -500}, 1_500),
        ({"start_epoch_ns": 5_000}, {}, 0),  # of unknown epoch
        ({"start_epoch_ns": EPOCH}, {"start_epoch_ns": EPOCH + 1}, 1),
    ],
)
def test_ranks_are_aligned_by_their_epoch_and_clock_offset(make_directory, first, second, moved_ns):
    directory = make_directory(
        {
            "rank": [{"rank": 0, **first}, {"rank": 1, **second}],
            "host_event": [{**EVENT, "rank": 0}, {**EVENT, "rank": 1}],
        }
    )
    with Store.open(directory) as store:
        assert starts(store) == [(0, 10), (1, 10 + moved_ns)]
        assert store.sql("SELECT DISTINCT dur_ns FROM host_event").column(0).to_pylist() == [5]


def test_every_moment_of_a_step_moves_with_its_rank(make_directory):
    directory = make_directory(
        {
            "rank": [{"rank": 0, "start_epoch_ns": 0}, {"rank": 1, "start_epoch_ns": 100}],
            "step": [{"rank": 1, "step": 3, "start_ns": 1, "end_ns": 9, "host_start_ns": 2, "host_end_ns": 8}],
        }
    )
    with Store.open(directory) as store:
        (row,) = store.sql("SELECT start_ns, end_ns, host_start_ns, host_end_ns FROM step").to_pylist()
    assert list(row.values()) == [101, 109, 102, 108]


def test_all_recordings_of_a_rank_are_read(make_directory):
    directory = make_directory({"host_event": [{**EVENT, "span": 0}, {**EVENT, "span": 1}, {**EVENT, "span": 10}]})
    with Store.open(directory) as store:
        spans = store.sql("SELECT span FROM host_event ORDER BY span").column(0).to_pylist()
    assert spans == [0, 1, 10]


def test_a_table_without_files_is_empty_and_has_its_columns(make_directory):
    with Store.open(make_directory({})) as store:
        for table in TABLES.values():
            found = store.sql(f"SELECT * FROM {table.name}")
            assert tuple(found.column_names) == table.column_names
            if table.name not in ("rank", "source"):
                assert found.num_rows == 0


def test_a_rank_without_a_table_leaves_the_others_readable(make_directory):
    directory = make_directory({"rank": [{"rank": 0}, {"rank": 5}], "host_event": [{**EVENT, "rank": 5}]})
    with Store.open(directory) as store:
        assert store.ranks == (0, 5)
        assert starts(store) == [(5, 10)]


def test_meanings_are_comments_on_the_views(make_directory):
    with Store.open(make_directory({})) as store:
        store.comment()
        seen = store.sql("SELECT comment FROM duckdb_columns() WHERE table_name = 'step' AND column_name = 'end_ns'")
    assert seen.column(0).to_pylist() == [TABLES["step"].columns[5].meaning]


@pytest.mark.parametrize("name", ["a [b] *c", "it's", "rank=00007/rank=x", "ünï{x,y}?"])
def test_a_directory_may_have_any_name(make_directory, name):
    with Store.open(make_directory({"host_event": [EVENT]}, name)) as store:
        assert starts(store) == [(0, 10)]


def test_an_empty_directory_is_no_store(tmp_path):
    assert not is_store(tmp_path)
    with pytest.raises(StoreError, match="not a store") as caught:
        Store.open(tmp_path)
    assert caught.value.slug == "not-a-store"


def test_a_store_of_another_version_is_refused(make_directory):
    directory = make_directory({})
    (directory / "store.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(StoreError, match="version 99") as caught:
        Store.open(directory)
    assert "stepscope import" in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": null}', "\x00\x01"])
def test_a_broken_store_file_is_an_error_that_names_the_store(make_directory, text):
    directory = make_directory({})
    (directory / "store.json").write_text(text)
    with pytest.raises(StoreError, match="store"):
        Store.open(directory)


def test_a_store_without_ranks_is_damaged(make_directory):
    directory = make_directory({})
    (directory / "rank=00000" / "rank.0.parquet").unlink()
    with pytest.raises(StoreError, match=r"rank=00000/rank\.0\.parquet: No such file"):
        Store.open(directory)


def test_files_outside_the_store_cannot_be_read(make_directory, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("password\n123\n")
    with Store.open(make_directory({})) as store:
        for query in (
            f"FROM read_csv('{secret}')", f"FROM '{secret}'", f"FROM read_text('{secret}')",
            f"FROM glob('{tmp_path}/*')", f"FROM read_csv('{tmp_path}/store/../secret.csv')",
        ):  # fmt: skip
            with pytest.raises(duckdb.Error):
                store.sql(query)


def test_the_fence_cannot_be_taken_down(make_directory):
    with Store.open(make_directory({})) as store:
        for statement in (
            "SET enable_external_access=true", "SET allowed_directories=['/']", "ATTACH '/tmp/other.db'",
            "INSTALL httpfs", "LOAD httpfs",
        ):  # fmt: skip
            with pytest.raises(duckdb.Error):
                store.cursor().execute(statement)


def test_python_variables_are_no_tables(make_directory):
    rows_of_mine = [1, 2, 3]
    with Store.open(make_directory({})) as store, pytest.raises(duckdb.Error):
        store.sql("FROM rows_of_mine")
    assert rows_of_mine


def test_closing_twice_is_harmless_and_a_closed_store_says_so(make_directory):
    store = Store.open(make_directory({}))
    store.close()
    store.close()
    with pytest.raises(StoreError, match="has been closed"):
        store.sql("SELECT 1")


def test_closing_while_a_query_runs_is_harmless(make_directory):
    store = Store.open(make_directory({}))
    connection = store._connection
    ended = []

    def ask():
        try:
            connection.execute("SELECT count(*) FROM range(100000000000)").fetchall()
        except duckdb.Error as error:
            ended.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.3)
    threading.Timer(0.3, connection.interrupt).start()
    store.close()
    asking.join(60)
    assert len(ended) == 1


def test_opening_leaves_the_directory_as_it_was(make_directory):
    directory = make_directory({"host_event": [EVENT]})
    before = sorted(path.relative_to(directory) for path in Path(directory).rglob("*"))
    with Store.open(directory) as store:
        store.sql("SELECT * FROM host_event ORDER BY name")
    assert sorted(path.relative_to(directory) for path in Path(directory).rglob("*")) == before


def test_of_a_table_without_files_nothing_is_asked(make_directory, monkeypatch):
    from stepscope.analysis.job.throughput import rates
    from stepscope.query.scope import Scope

    with Store.open(make_directory({"host_event": [EVENT]})) as store, Scope(store) as scope:
        assert store.may_have("host_event")
        assert not store.may_have("step_value")
        monkeypatch.setattr(scope, "sql", None)
        assert rates(scope) == []
