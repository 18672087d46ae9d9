"""Where a store may be made: what is no store is never deleted, and what killed imports left is."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from stepscope.base.errors import SourceError, StoreError
from stepscope.store.build import import_source, open_source
from stepscope.store.cache import locked
from stepscope.store.manifest import STORE_FILE
from stepscope.store.open import Store
from stepscope.store.place import as_store_error

from .test_build import trace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace()))
    return path


def is_sound(directory: Path) -> bool:
    with Store.open(directory) as store:
        store.verify_all_files()
    return True


def refused(file: Path, target: Path) -> str:
    with pytest.raises(StoreError) as caught:
        import_source(file, target)
    assert caught.value.slug == "output-exists"
    return caught.value.message


def test_a_store_with_a_file_of_the_user_is_not_replaced(file: Path, tmp_path: Path) -> None:
    store = import_source(file, tmp_path / "store")
    for mine in (store / "notes.txt", store / "rank=00000" / "notes.txt", store / "plots" / "a.svg"):
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("years of work")
        assert "other files in it" in refused(file, store)
        assert mine.read_text() == "years of work"
        mine.unlink()
    (store / "plots").rmdir()
    assert import_source(file, store) == store


@pytest.mark.parametrize("text", ['{"name": "a shop"}', "[]", "", '{"version": 8}'])
def test_a_store_file_of_another_program_makes_no_store(text: str, file: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / STORE_FILE).write_text(text)
    assert "not a store" in refused(file, shop) or text == ""
    assert (shop / STORE_FILE).read_text() == text


def test_a_file_a_pipe_and_the_working_directory_are_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "here").mkdir()
    for name in ("file", "pipe"):
        assert "not a store" in refused(file, tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    monkeypatch.chdir(tmp_path / "here")
    assert "working directory" in refused(file, Path())


def test_a_link_is_followed_and_stays(file: Path, tmp_path: Path) -> None:
    for name in ("there", "dangling"):
        link, target = tmp_path / f"link-{name}", tmp_path / "disk" / name
        (tmp_path / "disk").mkdir(exist_ok=True)
        if name == "there":
            import_source(file, target)
        link.symlink_to(target)
        assert import_source(file, link) == link
        assert link.is_symlink()
        assert is_sound(target)


def test_permissions_are_those_of_the_folder_before_or_of_the_umask(file: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert stat.S_IMODE(import_source(file, tmp_path / "new").stat().st_mode) == 0o750
    finally:
        os.umask(before)
    (tmp_path / "mine").mkdir(mode=0o700)
    for _ in range(2):
        assert stat.S_IMODE(import_source(file, tmp_path / "mine").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["no store file", "an empty one"])
def test_a_damaged_store_is_replaced(damage: str, file: Path, tmp_path: Path) -> None:
    store = import_source(file, tmp_path / "store")
    (store / STORE_FILE).unlink()
    if damage == "an empty one":
        (store / STORE_FILE).write_text("")
    assert is_sound(import_source(file, store))


# -- what killed imports left ------------------------------------------------------------------------


def leftover(target: Path, name: str = "partial-1-abc") -> Path:
    left = target.with_name(f".{target.name}.{name}")
    (left / "rank=00000").mkdir(parents=True)
    (left / "rank=00000" / "host_event.0.parquet").write_bytes(b"half of it")
    return left


def test_what_a_killed_import_left_goes_at_the_next_one(file: Path, tmp_path: Path) -> None:
    left = leftover(tmp_path / "store")
    other, working = leftover(tmp_path / "other"), leftover(tmp_path / "working")
    mine = tmp_path / ".store.partial-notes"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with (tmp_path / ".working.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        import_source(file, tmp_path / "store")
    assert [path.exists() for path in (left, other, working)] == [False, False, True]
    assert (mine / "thesis.tex").exists()
    assert [path.name for path in tmp_path.glob(".*.lock")] == [".working.lock"]


def test_a_store_that_was_being_replaced_comes_back(file: Path, tmp_path: Path) -> None:
    store = import_source(file, tmp_path / "store")
    store.rename(tmp_path / ".store.partial-old-1-abc")
    (tmp_path / "broken.json").write_text("nothing")
    with pytest.raises(Exception, match="not a recording"):
        import_source(tmp_path / "broken.json", store)
    assert is_sound(store)


def test_in_the_cache_too_and_only_where_nobody_is_at_work(file: Path, own_cache: Path) -> None:
    first = open_source(file)
    gone, working = (own_cache / f"{name}.json-{'0' * 24}" for name in ("gone", "working"))
    left = [leftover(first), leftover(gone), leftover(working)]
    with (own_cache / f".{working.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file.write_text(json.dumps(trace(steps=3)))
        open_source(file)
        assert [path.exists() for path in left] == [False, False, True]
        assert (own_cache / f".{working.name}.lock").exists()


def test_a_full_cache_deletes_stores_and_nothing_else(
    file: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = open_source(file)
    mine = own_cache / "thesis"
    alike = own_cache / f"thesis-{'a' * 24}"
    for folder in (mine, alike):
        folder.mkdir()
        (folder / "thesis.tex").write_text("years of work")
    for folder in (old, mine, alike):
        os.utime(folder, (10**9, 10**9))
    monkeypatch.setenv("STEPSCOPE_CACHE_SIZE", "1")
    file.write_text(json.dumps(trace(steps=3)))
    assert open_source(file).exists()
    assert not old.exists()
    assert (mine / "thesis.tex").exists()
    assert (alike / "thesis.tex").exists()


def test_a_lock_whose_file_was_taken_away_is_taken_again(tmp_path: Path) -> None:
    target = tmp_path / "store"
    with locked(target) as first:
        with locked(target, waiting=False) as second:
            assert (first, second) == (True, False)
        assert (tmp_path / ".store.lock").exists()
        (tmp_path / ".store.lock").unlink()
        with locked(target, waiting=False) as third:
            assert third
    assert not (tmp_path / ".store.lock").exists()


def test_a_file_elsewhere_that_may_not_be_read_is_no_store_that_cannot_be_written(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for file in (tmp_path / "run.json", tmp_path / "ranks" / "0", Path("/proc/1/fd/0")):
        with pytest.raises(SourceError, match="may not be read: permission denied") as denied, as_store_error(target):
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        assert str(file) in denied.value.message
        assert denied.value.slug == "no-permission"


def test_a_place_that_cannot_be_written_is_called_so(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for file in (target, target / "store.json", tmp_path / ".run.partial-1" / "x", tmp_path):
        with pytest.raises(StoreError) as denied, as_store_error(target):
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        assert denied.value.slug == "not-writable"
    with pytest.raises(StoreError) as full, as_store_error(target):
        raise OSError(errno.ENOSPC, "No space left on device", "/elsewhere/export.sqlite")
    assert full.value.slug == "disk-full"
