"""Cached results come back as they were; what is damaged or not ours counts as missing."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from stepscope.store import result_cache
from stepscope.store.manifest import RESULTS_FOLDER
from stepscope.store.result_cache import ResultCache, key_of

KEY = "0" * 24
ROWS = pa.table({"n": pa.array([1, None], pa.int16()), "t": ["a", "\u00e9"]}, metadata={"note": "x"})


@pytest.fixture
def cache(tmp_path: Path) -> ResultCache:
    cache = ResultCache(tmp_path)
    cache.set(KEY, ROWS)
    return cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / RESULTS_FOLDER / KEY


def crafted(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little") + content


def test_a_result_comes_back_with_types_and_metadata(cache: ResultCache) -> None:
    rows = cache.get(KEY)
    assert rows is not None
    assert rows.equals(ROWS, check_metadata=True)
    assert cache.get("1" * 24) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"", lambda data: data[:10], lambda data: data[:-3],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: crafted(bytes(8) + data[12:]),
        lambda data: crafted((1 << 62).to_bytes(8, "little") + data[12:]),
        lambda _: crafted((5).to_bytes(8, "little") + pa.compress(b"12345", "zstd", asbytes=True)),
    ],
)  # fmt: skip
def test_a_damaged_or_forged_result_counts_as_missing(cache: ResultCache, file: Path, damage) -> None:
    file.write_bytes(damage(file.read_bytes()))
    assert cache.get(KEY) is None
    cache.set(KEY, ROWS)
    assert cache.get(KEY) is not None


@pytest.mark.parametrize("kind", ["pipe", "device", "endless"])
def test_what_is_no_small_file_counts_as_missing(cache: ResultCache, file: Path, kind: str) -> None:
    if kind == "endless":
        os.truncate(file, 1 << 40)
    else:
        file.unlink()
        os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    assert cache.get(KEY) is None


def test_a_place_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.mkdir()
    elsewhere.mkdir()
    (elsewhere / "1").touch()
    (store / RESULTS_FOLDER).symlink_to(elsewhere)  # a stranger's store
    ResultCache(store).set(KEY, ROWS)
    assert [path.name for path in elsewhere.iterdir()] == ["1"]
    (store / RESULTS_FOLDER).unlink()
    (store / RESULTS_FOLDER).touch()
    ResultCache(store).set(KEY, ROWS)
    assert ResultCache(store).get(KEY) is None


def test_the_oldest_results_are_deleted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MAX_FILES", 3)
    cache, keys = ResultCache(tmp_path), [f"{number:024x}" for number in range(5)]
    (tmp_path / RESULTS_FOLDER).mkdir()
    (tmp_path / RESULTS_FOLDER / "notes.txt").touch()
    for number, key in enumerate(keys):
        cache.set(key, ROWS)
        os.utime(tmp_path / RESULTS_FOLDER / key, (number, number)) if number < 4 else None
    assert [cache.get(key) is not None for key in keys] == [False, False, True, True, True]
    assert (tmp_path / RESULTS_FOLDER / "notes.txt").exists()
    monkeypatch.setattr(result_cache, "MAX_BYTES", (tmp_path / RESULTS_FOLDER / keys[4]).stat().st_size)
    cache.set(keys[0], ROWS)
    assert [cache.get(key) is not None for key in keys] == [True, False, False, False, False]
    cache.set(keys[1], pa.table({"n": [os.urandom(4096).hex()]}))
    assert cache.get(keys[1]) is None, "it is too large"


def test_a_key_is_of_texts_and_numbers() -> None:
    assert key_of("a", 1, None, [2.5]) == key_of("a", 1, None, [2.5]) != key_of("a", 2)
    assert key_of("\udc80") is not None
    assert key_of(object()) is None
