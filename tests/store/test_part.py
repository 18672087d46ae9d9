"""A store of a part of a store is what an import of the sources with the same choices makes."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.literal import literal_store

from stepscope.base.errors import StoreError, UsageError
from stepscope.cli.main import main
from stepscope.schema.tables import TABLES
from stepscope.store.build import import_source
from stepscope.store.manifest import write_store_file
from stepscope.store.open import Store
from stepscope.store.part import write_part

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"
MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000


def event(category: str, name: str, start: int, end: int, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if category == "kernel" else {"pid": 1, "tid": 1}
    if category == "kernel":
        args = {"device": 0, "stream": 7, **args}
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, **place, **times, "args": args}


def trace(rank: int, first: int = 0, base: int = 0) -> dict[str, Any]:
    """Three steps of 1 ms, each with an operator whose second kernel runs on into the next step."""
    events = []
    for step in range(3):
        at, number = step * MS, 2 * step + 1
        events += [
            event("user_annotation", f"ProfilerStep#{first + step}", at, at + 990_000),
            event("cpu_op", "aten::mm", at + 500_000, at + 900_000, **{"External id": step + 1}),
        ]
        # It runs while the device still works for the step before.
        events.append(event("cpu_op", "aten::empty", at + 100_000, at + 200_000))
        asked = {"Device Type": 0, "Device Id": -1, "Bytes": 64, "Addr": 1, "Total Allocated": 64}
        instant = {"ph": "i", "s": "t", "pid": 1, "tid": 1, "ts": (at + 150_000) / 1000}
        events.append({**instant, "cat": "cpu_instant_event", "name": "[memory]", "args": asked})
        for piece in range(2):
            link = {"correlation": number + piece, "External id": step + 1}
            call, ran = at + 600_000 + 100_000 * piece, at + 700_000 + 450_000 * piece
            events += [
                event("cuda_runtime", "cudaLaunchKernel", call, call + 10_000, **link),
                event("kernel", "gemm", ran, ran + 90_000, **link),
            ]
    described = {"traceEvents": events, "baseTimeNanoseconds": EPOCH + base}
    return described | {"distributedInfo": {"rank": rank, "world_size": 2}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two ranks, the first with two recordings, 7 ms apart by the clock; a file that cannot be read."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name, recorded in (("a", trace(0)), ("b", trace(0, first=3, base=10 * MS)), ("c", trace(1, base=7 * MS))):
        (folder / f"{name}.json").write_text(json.dumps(recorded))
    (folder / "d.json.gz").write_bytes(b"\x1f\x8b no stream")
    return folder


def rows(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The tables but for what all ranks together told of the clocks: a part keeps it."""
    with Store.open(directory) as store:
        found = {name: store.sql(f"FROM {name} ORDER BY ALL").to_pylist() for name in TABLES}
    for row in found["rank"]:
        for name in [name for name in row if name.startswith("clock_")]:
            del row[name]
    return found


def same(directory: Path, imported: Path) -> None:
    found, expected = rows(directory), rows(imported)
    for name in TABLES:
        assert found[name] == expected[name], name
    facts, known = (json.loads((one / "store.json").read_text()) for one in (directory, imported))
    for of_files in (facts, known):
        del of_files["files"], of_files["crc32"]
    assert facts == known


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([], {}), (["--rank", "1"], {"ranks": [1]}), (["--step", "1,4"], {"steps": [1, 4]}),
        (["--rank", "0", "--step", "4"], {"ranks": [0], "steps": [4]}),
    ],
)  # fmt: skip
def test_part_is_what_an_import_with_these_choices_makes(tmp_path, run, capsys, options, chosen):
    part = tmp_path / "part"
    assert main(["export", str(run), *options, "--store", str(part)]) == 0
    assert f"stepscope summary {part}\n" in capsys.readouterr().err
    same(part, import_source(run, tmp_path / "imported", **chosen))
    assert main(["check", str(part)]) == 0


def test_part_of_a_part_is_the_smaller_one(tmp_path, run):
    with Store.open(import_source(run, tmp_path / "all")) as store:
        write_part(store, tmp_path / "some", steps=[1, 2, 4])
    with Store.open(tmp_path / "some") as store:
        assert write_part(store, tmp_path / "one", ranks=[0], steps=[2]) == (0,)
        write_part(store, tmp_path / "copy", ranks=[0])
    found = rows(tmp_path / "one")
    assert found == rows(import_source(run, tmp_path / "imported", ranks=[0], steps=[2]))
    same(tmp_path / "copy", import_source(run, tmp_path / "rank", ranks=[0], steps=[1, 2, 4]))


def test_what_there_is_not_is_refused(tmp_path, run):
    with Store.open(import_source(run, tmp_path / "all")) as store:
        with pytest.raises(UsageError, match="no rank 5"):
            write_part(store, tmp_path / "part", ranks=[0, 5])
        with pytest.raises(UsageError, match="no step 77"):
            write_part(store, tmp_path / "part", steps=[77])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["all", "run"]
    with literal_store({}) as store, pytest.raises(ValueError, match="in memory"):
        write_part(store, tmp_path / "part")


def test_only_another_store_is_replaced(tmp_path, run):
    whole, kept = import_source(run, tmp_path / "in" / "all"), tmp_path / "kept"
    kept.mkdir()
    (kept / "notes.txt").write_text("mine")
    with Store.open(whole) as store:
        for place in (kept, whole, whole / "part", whole.parent):
            with pytest.raises(StoreError) as refused:
                write_part(store, place)
            assert refused.value.slug == "output-exists"
        write_part(store, tmp_path / "part", ranks=[1])
        write_part(store, tmp_path / "part", ranks=[0])
    assert [one.name for one in kept.iterdir()] == ["notes.txt"]
    assert {row["rank"] for row in rows(tmp_path / "part")["rank"]} == {0}
    assert len(rows(whole)["rank"]) == 2


def test_interrupted_part_leaves_what_was_there(tmp_path, run, monkeypatch):
    with Store.open(import_source(run, tmp_path / "all")) as store:
        write_part(store, tmp_path / "part", ranks=[1])
        before = rows(tmp_path / "part")

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("stepscope.store.part.write_tables", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_part(store, tmp_path / "part", steps=[1])
    assert rows(tmp_path / "part") == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["all", "part", "run"]


@pytest.mark.parametrize("damage", ["bytes", "no parquet", "no column", "other type"])
def test_damaged_store_is_not_written_as_a_sound_one(tmp_path, run, damage):
    directory = import_source(run, tmp_path / "all")
    file = directory / "rank=00000" / "device_event.0.parquet"
    table = pq.read_table(file, partitioning=None)
    if damage == "bytes":
        written = bytearray(file.read_bytes())
        written[len(written) // 2] ^= 0xFF
        file.write_bytes(written)
    else:
        if damage == "no parquet":
            file.write_bytes(b"PAR1")
        elif damage == "no column":
            pq.write_table(table.drop_columns(["launch_ns"]), file)
        else:
            at = table.schema.get_field_index("start_ns")
            texts = pa.array(["late"] * table.num_rows)
            pq.write_table(table.set_column(at, "start_ns", texts), file)
        facts = json.loads((directory / "store.json").read_text())
        write_store_file(directory, {k: v for k, v in facts.items() if k not in ("files", "crc32")})
    with pytest.raises(StoreError) as refused, Store.open(directory) as store:
        write_part(store, tmp_path / "part", steps=[1])
    assert refused.value.slug == "store-damaged"
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give one of --chrome FILE and --store DIR"),
        (["--chrome", "a.json", "--store", "a"], "give one of --chrome FILE and --store DIR"),
        (["--store", "a", "--window", "0:1"], "--window goes with --chrome"),
    ],
)
def test_one_output_is_asked_for(tmp_path, run, capsys, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run), *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.traces
def test_resnet50_in_two_recordings(tmp_path):
    source = TRACES / "resnet50_v100"
    with Store.open(import_source(source, tmp_path / "all")) as store:
        write_part(store, tmp_path / "part", steps=[6, 7])
    same(tmp_path / "part", import_source(source, tmp_path / "imported", steps=[6, 7]))
    assert main(["check", str(tmp_path / "part")]) == 0
