"""An answer is cached under all that it depends on, and comes back without a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.store.conftest import write_directory

from stepscope.query import cached_answers
from stepscope.query.ask import ask, ask_within
from stepscope.query.event_filter import event_filter
from stepscope.query.scope import Scope
from stepscope.questions import find
from stepscope.store import open as opening
from stepscope.store.manifest import RESULTS_FOLDER, holds_only_a_store
from stepscope.store.open import Store
from stepscope.store.result_cache import ResultCache

ROWS = {
    "step": [
        {"step": step, "start_ns": 50 * step, "end_ns": 50 * step + 40, "rank": rank}
        for step in (1, 2)
        for rank in (0, 1)
    ],
    "host_event": [
        {"name": "aten::mm", "start_ns": 60, "dur_ns": 9, "rank": 0, "step": 1},
        {"name": "aten::add", "start_ns": 110, "dur_ns": 5, "rank": 1, "step": 2},
    ],
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return write_directory(tmp_path / "store", ROWS)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Asks a question; whether its answer was computed, and that it is the right one."""
    connects: list[object] = []
    connect = opening._connect

    def counted(directory: Path | None, threads: int | None) -> Any:
        connects.append(directory)
        return connect(directory, threads)

    monkeypatch.setattr(opening, "_connect", counted)

    def run(directory: Path, question: str = "operators", **asked: Any) -> bool:
        before = len(connects)
        with Store.open(directory) as store:
            answer = ask(find(question), store, **asked)
        computed = len(connects) > before
        with monkeypatch.context() as patch, Store.open(directory) as store:
            patch.setattr(Store, "results", None)
            afresh = ask(find(question), store, **asked)
        assert answer.to_dict() == afresh.to_dict()
        assert answer.arrow.equals(afresh.arrow)
        assert answer.arguments == afresh.arguments
        return computed

    return run


def test_answers_of_a_complete_scope_are_cached(directory: Path, made: Callable[..., bool]) -> None:
    narrowed: dict[str, Any]
    for narrowed, cached in (({"ranks": [0]}, False), ({}, True)):
        with Store.open(directory) as store, Scope(store, **narrowed) as scope:
            ask_within(find("operators"), scope)
        assert (directory / RESULTS_FOLDER).exists() == cached
    assert not made(directory)
    assert made(directory, ranks=[0])


def test_what_was_answered_needs_no_database(directory: Path, made: Callable[..., bool]) -> None:
    assert made(directory)
    assert not made(directory)
    assert holds_only_a_store(directory)


def test_an_answer_belongs_to_all_that_was_asked(directory: Path, made: Callable[..., bool]) -> None:
    ways: list[dict[str, Any]] = [
        {}, {"question": "steps"}, {"ranks": [1]}, {"steps": [2]}, {"part": event_filter(name="aten::mm")},
        {"part": event_filter(window="60ns:1s")}, {"by": "name"},
    ]  # fmt: skip
    assert [made(directory, **way) for way in ways] == [True] * 6 + [False], "--by name is how"
    assert not any(made(directory, **way) for way in ways)
    assert not made(directory, top=1, sort="name:asc"), "rows are chosen of the cached ones"


def test_the_users_file_of_devices_is_part_of_an_answer(directory: Path, made: Callable[..., bool]) -> None:
    assert made(directory)
    config = directory.parent / "config" / "stepscope"
    config.mkdir(parents=True)
    (config / "hardware.toml").write_text('[[device]]\nname = "mine"\nmatch = ["mine"]\n')
    assert made(directory)
    assert not made(directory)
    (config / "hardware.toml").write_text('[[device]]\nname = "ours"\nmatch = ["ours"]\n')
    assert made(directory)


def test_other_libraries_and_plug_ins_answer_for_themselves(
    directory: Path, made: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(directory)
    with monkeypatch.context() as patch:
        patch.setattr(cached_answers, "metadata_folders", lambda: {"duckdb-99.dist-info": False})
        assert made(directory)
        assert not made(directory)
    with monkeypatch.context() as patch:
        patch.setattr(cached_answers, "are_none", lambda: False)
        assert made(directory, "steps")
        assert made(directory, "steps"), "its code has no version to rely on"
    assert made(directory, "steps"), "nothing of it was cached"


def test_another_store_has_other_answers(directory: Path, made: Callable[..., bool]) -> None:
    assert made(directory)
    others = {**ROWS, "host_event": ROWS["host_event"][:1]}
    other = write_directory(directory.parent / "other", others)
    (directory / RESULTS_FOLDER).rename(other / RESULTS_FOLDER)
    assert made(other)


def test_a_folder_that_nobody_may_write_stays_as_it_is(directory: Path, made: Callable[..., bool]) -> None:
    directory.chmod(0o555)  # root may write into it all the same
    try:
        with Store.open(directory) as store:
            ask(find("operators"), store)
        assert not (directory / RESULTS_FOLDER).exists()
    finally:
        directory.chmod(0o755)


CHECK = {"rank": 0, "span": 0, "check": "cut", "severity": "note", "count": 1, "affects": "", "explanation": "x"}


@pytest.mark.parametrize(
    "forged",
    [
        {"rows": pa.table({})}, {"rows": pa.table({"name": ["x"], "count": ["7"]})},
        {"rows": pa.table({"name": pa.array([["x"]])})}, {"sources": "text"}, {"sources": [7]},
        {"checks": [{**CHECK, "severity": None}]}, {"checks": [{**CHECK, "count": "zzz"}]},
        {"checks": [{"rank": 0}]}, {"note": None}, {"ranks": "2"},
    ],
)  # fmt: skip
def test_a_forged_answer_counts_as_absent(
    directory: Path, monkeypatch: pytest.MonkeyPatch, forged: dict[str, Any]
) -> None:
    with Store.open(directory) as store:
        right = ask(find("operators"), store)
    about = {"sources": right.sources, "checks": [CHECK], "note": "cached", "ranks": 1}
    for given, note in (({}, "cached"), (forged, right.note)):
        rows = given.get("rows", right.arrow).replace_schema_metadata(
            {cached_answers._METADATA: json.dumps({**about, **{k: v for k, v in given.items() if k != "rows"}})}
        )
        monkeypatch.setattr(ResultCache, "get", lambda *_, rows=rows: rows)
        with Store.open(directory) as store:
            answer = ask(find("operators"), store)
        assert (answer.note, answer.arrow) == (note, right.arrow)


@pytest.mark.parametrize("about", [None, "", "7", "[1, 2]", "{}"])
def test_what_is_no_answer_counts_as_absent(
    directory: Path, monkeypatch: pytest.MonkeyPatch, about: str | None
) -> None:
    with Store.open(directory) as store:
        right = ask(find("operators"), store)
    metadata = None if about is None else {cached_answers._METADATA: about}
    monkeypatch.setattr(ResultCache, "get", lambda *_: right.arrow.replace_schema_metadata(metadata))
    with Store.open(directory) as store:
        assert ask(find("operators"), store).to_dict() == right.to_dict()
