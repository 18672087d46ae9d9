"""What was worked out of a store is kept beside it, is what would be worked out again, and is nobody's to rely on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import write_directory

from stepscope.query.ask import ask
from stepscope.query.scope import Scope
from stepscope.questions import find
from stepscope.store import kept
from stepscope.store import open as opening
from stepscope.store.manifest import KEPT_FILE, holds_only_a_store
from stepscope.store.open import Store

ROWS = {
    "device_event": [
        {"name": "gemm", "start_ns": at, "dur_ns": 5, "rank": rank, "step": 1} for rank in (0, 1) for at in (10, 30)
    ],
    "host_event": [
        {"name": "aten::mm", "start_ns": at, "dur_ns": 9, "rank": rank, "step": 1} for rank in (0, 1) for at in (0, 20)
    ],
    "step": [{"step": 1, "start_ns": 0, "end_ns": 50, "rank": rank} for rank in (0, 1)],
}
COUNT = "SELECT rank, count(*) AS n FROM device_event GROUP BY rank ORDER BY rank"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that counts as large."""
    monkeypatch.setattr(opening, "_SMALL_BYTES", -1)
    return write_directory(tmp_path / "store", ROWS)


def asked(directory: Path, run: Callable[[Scope], Any], **narrowed: Any) -> tuple[Any, int]:
    """What something gives, and how many queries reached the tables."""
    queries = 0
    with Store.open(directory) as store, Scope(store, **narrowed) as scope:
        rows = scope.rows

        def counted(*given: Any, **more: Any) -> Any:
            nonlocal queries
            queries += 1
            return rows(*given, **more)

        scope.rows = counted  # type: ignore[method-assign]
        found = run(scope)
    return found, queries


def counts(scope: Scope) -> Any:
    return scope.sql(COUNT).to_pylist()


def test_a_query_of_everything_is_run_once(directory: Path) -> None:
    first, again = asked(directory, counts), asked(directory, counts)
    assert (first[1], again[1]) == (1, 0)
    assert first[0] == again[0] == [{"rank": 0, "n": 2}, {"rank": 1, "n": 2}]
    assert holds_only_a_store(directory)


def test_what_is_asked_of_a_part_is_worked_out(directory: Path) -> None:
    asked(directory, counts)
    assert asked(directory, counts, ranks=[1]) == ([{"rank": 1, "n": 2}], 1)
    assert asked(directory, counts, steps=[1])[1] == 1
    asked(directory, lambda scope: scope.rows("SELECT random()"))
    assert asked(directory, lambda scope: scope.rows(COUNT))[1] == 1, "a typed query is run"


def test_summary_says_the_same_from_what_is_kept(directory: Path) -> None:
    def summary() -> Any:
        with Store.open(directory) as store:
            return ask(find("summary"), store).rows()

    first = summary()
    written = (directory / KEPT_FILE).read_bytes()
    assert summary() == first
    assert (directory / KEPT_FILE).read_bytes() == written
    (directory / KEPT_FILE).unlink()
    assert summary() == first


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff", None, "cut"])
def test_damage_counts_as_nothing_kept(directory: Path, damage: bytes | str | None) -> None:
    asked(directory, counts)
    file = directory / KEPT_FILE
    whole = file.read_bytes()
    if damage == "cut":
        damage = whole[:-3]
    file.write_bytes(whole[:-1] + b"\0" if damage is None else bytes(damage))
    assert asked(directory, counts)[1] == 1
    assert file.read_bytes() == whole, "it is made again"


@pytest.mark.parametrize("kind", ["pipe", "device", "endless"])
def test_what_is_no_small_file_counts_as_nothing_kept(directory: Path, kind: str) -> None:
    first, _ = asked(directory, counts)
    file = directory / KEPT_FILE
    if kind == "endless":
        os.truncate(file, 1 << 40)
    else:
        file.unlink()
        os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    assert asked(directory, counts) == (first, 1)


@pytest.mark.parametrize("stated", [["key", 1, -5], ["key", 1, "x"], ["key", -1, 5], ["key", 1, 1 << 50], [7, 1, 5], 3])
def test_a_forged_list_of_values_counts_as_nothing_kept(directory: Path, stated: object) -> None:
    asked(directory, counts)
    file = directory / KEPT_FILE
    line, _, body = file.read_bytes().partition(b"\n")
    head = json.loads(line)
    file.write_bytes(json.dumps({**head, "values": [stated]}).encode() + b"\n" + body)
    assert kept.Kept(directory, head["of"]["store"]).get("key") is kept.NOTHING


def test_what_another_store_or_other_code_kept_is_not_taken(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(directory, counts)
    with Store.open(directory) as store:
        crc32 = store.facts["crc32"]
        key = kept.key_of("sql", COUNT, None)
    assert key is not None
    assert kept.Kept(directory, crc32).get(key) is not kept.NOTHING
    assert kept.Kept(directory, crc32 + 1).get(key) is kept.NOTHING
    monkeypatch.setattr(kept, "code_digest", lambda _: "other")
    assert kept.Kept(directory, crc32).get(key) is kept.NOTHING


def test_a_store_that_cannot_be_written_is_asked_all_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / KEPT_FILE).mkdir()
    assert asked(directory, counts)[1] == 1
    assert asked(directory, counts)[1] == 1
    monkeypatch.setattr(kept, "MOST_BYTES", 0)
    (directory / KEPT_FILE).rmdir()
    assert asked(directory, counts)[1] == 1
    assert not (directory / KEPT_FILE).exists()


def test_two_processes_keep_what_either_found(directory: Path) -> None:
    with Store.open(directory) as one, Store.open(directory) as other:
        both = [store.kept for store in (one, other)]  # each reads what there is: nothing
        for number, own in enumerate(both):
            assert own is not None
            own.put(f"of {number}", number)
            own.put("of both", number)
            own.write()
    with Store.open(directory) as store:
        assert store.kept is not None
        found = [store.kept.get(key) for key in ("of 0", "of 1", "of both")]
    assert found == [0, 1, 1]


def test_small_stores_keep_answers_alone(tmp_path: Path) -> None:
    small = write_directory(tmp_path / "small", ROWS)
    asked(small, counts)
    assert not (small / KEPT_FILE).exists()


def test_what_was_kept_first_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kept.Kept(tmp_path, 1)
    monkeypatch.setattr(kept, "MOST_BYTES", 100)
    for number in range(5):
        store.put(f"key {number}", "x" * 10 * number)
    store.put("key 4", "y")
    assert [store.get(f"key {number}") is kept.NOTHING for number in range(5)][-2:] == [False, False]
    assert store.get("key 0") is kept.NOTHING
    assert store.get("key 4") == "y"
    store.put("large", list(range(500)))
    assert store.get("large") is kept.NOTHING
    assert store.get("key 4") == "y"
