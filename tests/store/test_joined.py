"""Stores of many small ranks, whose files are put together."""

import json

import pytest
from tests.store.test_build import trace

from stepscope.base.errors import StoreError
from stepscope.query.ask import ask
from stepscope.questions.invariants import invariants
from stepscope.store import joined
from stepscope.store.build import import_source
from stepscope.store.manifest import STORE_FILE, holds_only_a_store
from stepscope.store.open import Store
from stepscope.store.part import write_part

RANKS = 10


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store whose ranks are together, and the same with a folder for each."""
    folder = tmp_path_factory.mktemp("job")
    cycles = [(rank, rank * 7_000) for rank in range(RANKS)]
    for rank, base in (*cycles, (3, 50_000_000)):
        described = trace(rank, steps=2 + rank % 3, base=base)
        described["distributedInfo"]["world_size"] = RANKS
        (folder / f"rank{rank}.{base}.json").write_text(json.dumps(described))
    together = import_source(folder, folder.parent / "together")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "GROUP_BYTES", 1)
        apart = import_source(folder, folder.parent / "apart")
    return together, apart


def tables(directory):
    with Store.open(directory) as store:
        return {
            name: store.sql(f"SELECT * FROM {name} ORDER BY ALL").to_pylist()
            for name in ("rank", "source", "step", "host_event", "device_event", "stream", "flow")
        }


def test_joined_ranks_have_the_rows_that_they_have_apart(stores):
    together, apart = stores
    assert [folder.name for folder in together.glob("rank=*")] == ["rank=00000"]
    assert len([*apart.glob("rank=*")]) == RANKS
    for directory in stores:
        assert {file.suffix for file in directory.glob("rank=*/*")} == {".parquet"}
    assert (apart / "rank=00003" / "host_event.1.parquet").exists(), "a file for each recording"
    assert tables(together) == tables(apart)
    assert holds_only_a_store(together)
    checks = []
    for directory in stores:
        with Store.open(directory) as store:
            assert store.ranks == (*range(RANKS),)
            checks.append(ask(invariants, store).rows())
    assert checks[0] == checks[1]


def test_asked_for_some_ranks_a_joined_store_answers_with_these_alone(stores):
    from stepscope.query.scope import Scope

    found = []
    for directory in stores:
        with Store.open(directory) as store, Scope(store, ranks=(3, 7)) as scope:
            query = "SELECT rank, span, count(*) AS n, min(start_ns) AS first FROM host_event GROUP BY ALL"
            found.append(scope.sql(f"{query} ORDER BY ALL").to_pylist())
    assert found[0] == found[1]
    assert [(one["rank"], one["span"], one["n"]) for one in found[0]] == [(3, 0, 6), (3, 1, 6), (7, 0, 9)]


@pytest.mark.parametrize("steps", [None, [1]])
@pytest.mark.parametrize("ranks", [[3], [*range(1, RANKS)]])
def test_part_of_a_joined_store_is_that_of_a_separate_one(stores, steps, ranks, tmp_path):
    parts = []
    for at, directory in enumerate(stores):
        with Store.open(directory) as store:
            write_part(store, tmp_path / str(at), ranks=ranks, steps=steps)
        parts.append(tables(tmp_path / str(at)))
    assert parts[0] == parts[1]
    assert len([*(tmp_path / "0").glob("rank=*")]) == 1


def test_ranks_of_many_events_keep_their_own_files(stores, tmp_path, monkeypatch):
    _, apart = stores
    monkeypatch.setattr(
        joined, "GROUP_BYTES", 2 * sum(file.stat().st_size for file in (apart / "rank=00003").iterdir())
    )
    with Store.open(apart) as store:
        write_part(store, tmp_path / "part")
    facts = json.loads((tmp_path / "part" / STORE_FILE).read_text())
    assert len(facts["joined"]) > 1
    assert sorted(rank for group in facts["joined"] for rank in group) == [*range(RANKS)]
    monkeypatch.setattr(joined, "SMALL_BYTES", 0)
    with Store.open(apart) as store:
        write_part(store, tmp_path / "large")
    assert len([*(tmp_path / "large").glob("rank=*")]) == RANKS
    assert tables(tmp_path / "part") == tables(tmp_path / "large") == tables(apart)


@pytest.mark.parametrize("said", [{}, [0], [[]], [["0"]], [[True]]])
def test_store_that_joins_something_else_is_damaged(stores, said, tmp_path):
    from stepscope.store.manifest import listed_files, read_store_file

    facts = read_store_file(stores[0])
    with pytest.raises(StoreError, match="joins"):
        listed_files(stores[0], facts | {"joined": said})
