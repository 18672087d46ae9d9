"""A file of a store that is missing, emptied or has one bit flipped is never an answer."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import stepscope
from stepscope.base.errors import StoreError
from stepscope.cli.main import main
from stepscope.store import manifest
from stepscope.store.build import import_source
from stepscope.store.manifest import STORE_FILE
from stepscope.store.open import Store

from .test_build import trace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]

Damage = Callable[[Path], None]


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def removed(file: Path) -> None:
    file.unlink()


def replaced_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGES = [flipped, emptied, cut, removed, replaced_by_a_pipe]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    (folder / "trace.json").write_text(json.dumps(trace()))
    return import_source(folder / "trace.json", folder / "store")


def files_of(store: Path) -> list[Path]:
    return sorted(file.relative_to(store) for file in store.rglob("*") if file.is_file())


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_of_a_store_is_said_and_never_answered(damage: Damage, sound: Path, tmp_path: Path) -> None:
    names = files_of(sound)
    assert len(names) > 8
    for number, name in enumerate(names):
        copy = shutil.copytree(sound, tmp_path / f"{number}")
        if damage is replaced_by_a_pipe and name.name == STORE_FILE:
            continue  # nothing lists it
        damage(copy / name)
        with pytest.raises(StoreError) as caught, Store.open(copy) as store:
            store.sql(f"SELECT * FROM {name.name.split('.')[0]}")
        assert caught.value.slug == "store-damaged", name
        assert name.name in caught.value.message
        assert "stepscope import" in caught.value.hint


def test_a_column_whose_name_is_no_text_any_more_is_damage(sound: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    file = copy / "rank=00000" / "stream.0.parquet"
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(b"rank", footer)  # the name of a column, in the file's schema
    file.write_bytes(data[:at] + b"\xf3" + data[at + 1 :])
    with (
        Store.open(copy) as store,  # a table is looked at when a query names it
        pytest.raises(StoreError, match=r"stream\.0\.parquet is not as it was written"),
    ):
        store.sql("FROM stream")


def test_a_bit_anywhere_in_the_store_file_counts(sound: Path, tmp_path: Path) -> None:
    text = (sound / STORE_FILE).read_bytes()
    said = json.loads(text)
    (tmp_path / "rank=00000").mkdir()
    for at in range(0, len(text), 3):
        data = bytearray(text)
        data[at] ^= 1 << at % 8
        (tmp_path / STORE_FILE).write_bytes(data)
        try:
            found = manifest.read_store_file(tmp_path)
        except StoreError as error:
            assert error.slug in ("store-damaged", "store-version")  # noqa: PT017
        else:
            assert found == said  # white space


def test_only_what_is_asked_is_compared(sound: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    file = copy / "rank=00000" / "host_event.0.parquet"
    data = bytearray(file.read_bytes())
    data[3] ^= 1
    file.write_bytes(data)
    with Store.open(copy) as store:
        assert store.sql("SELECT count(*) AS n FROM device_event").to_pylist() == [{"n": 2}]
        for query in ('FROM "host_event"', "SELECT 1 FROM HOST_EVENT", "FROM main.host_event"):
            with pytest.raises(StoreError, match="host_event"):
                store.sql(query)


def test_check_compares_files_that_no_question_needs(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    flipped(copy / "rank=00000" / "thread.0.parquet")
    assert main(["check", str(sound)]) == 0
    assert main(["check", str(copy)]) == 1
    assert "thread.0.parquet is not as it was written" in capsys.readouterr().err


def test_a_file_that_the_store_does_not_list_is_no_part_of_it(sound: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    folder = copy / "rank=00000"
    shutil.copy(folder / "device_event.0.parquet", folder / "device_event.1.parquet")
    shutil.copytree(folder, copy / "rank=00001")
    with Store.open(copy) as store:
        assert store.ranks == (0,)
        assert store.sql("SELECT count(*) AS n FROM device_event").to_pylist() == [{"n": 2}]


@pytest.mark.parametrize(
    "files",
    [
        {"../secret.parquet": [1, 1]}, {"rank=00000/../../rank.0.parquet": [1, 1]},
        {"rank=00000/rank.0.parquet": "?"}, {"rank=00000/rank.0.parquet": [True, None]}, [],
    ],
)  # fmt: skip
def test_a_crafted_list_leads_nowhere(files: object, tmp_path: Path) -> None:
    facts = {"version": manifest.STORE_VERSION, "source": "", "ranks": [0], "files": files}
    facts["crc32"] = manifest._crc32_of_facts(facts)
    (tmp_path / STORE_FILE).write_text(json.dumps(facts))
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)
    assert caught.value.slug == "store-damaged"


# -- the cache ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace()))
    return path


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (flipped, "device_event.0.parquet"), (flipped, STORE_FILE), (emptied, "device_event.0.parquet"),
        (removed, "device_event.0.parquet"), (removed, STORE_FILE),
    ],
)  # fmt: skip
def test_a_damaged_cache_is_made_again(
    damage: Damage, name: str, file: Path, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stepscope.open(file) as first:
        expected = first.kernels().to_csv()
    (damaged,) = own_cache.rglob(name)
    damage(damaged)
    with caplog.at_level(logging.WARNING), stepscope.open(file) as again:
        assert again.kernels().to_csv() == expected
        assert again.kernels(rank=0).to_csv() == expected
    if (damage, name) != (removed, STORE_FILE):  # without it nothing seems to have been kept
        (message,) = caplog.messages
        assert "trace.json is damaged and is made again" in message
    (entry,) = own_cache.iterdir()  # and nothing is left beside it
    with Store.open(entry) as store:
        store.verify_all_files()


def test_a_cache_that_is_damaged_while_it_is_open_is_made_again(
    file: Path, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stepscope.open(file) as opened:
        expected = opened.sql("SELECT dur_ns FROM device_event").rows()
        flipped(next(own_cache.rglob("host_event.0.parquet")))
        assert opened.sql("SELECT count(*) AS n FROM host_event").rows() == [{"n": 6}]
        assert opened.sql("SELECT dur_ns FROM device_event").rows() == expected
    assert len(caplog.messages) == 1


def test_a_recording_that_changed_while_it_was_open_is_no_cure(file: Path, own_cache: Path) -> None:
    with stepscope.open(file) as opened:
        file.write_text(json.dumps(trace(steps=5)))
        flipped(next(own_cache.rglob("host_event.0.parquet")))
        with pytest.raises(StoreError, match="host_event"):
            opened.sql("SELECT count(*) FROM host_event")
