"""Kinds of hostile files, folders, archives and databases."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz_damage import small_trace
from hostile_kinds import Laid, Place, kind
from hostile_texts import VALUES, sound, trace

PIECE = 1 << 20

# -- compressed ------------------------------------------------------------------------------------


def _bomb(path: Path, size: int, letters: bytes, head: bytes = b"") -> Path:
    """A gzip file of repeated text, each MiB a separate stream."""
    piece = gzip.compress(letters * (PIECE // len(letters)), 9)
    path.write_bytes(gzip.compress(head) + piece * (size // PIECE + 1))
    return path


@kind("gzip bomb", grows=True)
def _gzip_bomb(place: Place) -> Laid:
    letters = place.rng.choice([b"\0", b" ", b"a", b"[", b"{}", b'{"ph": "X"}, ', b"1,"])
    head = place.rng.choice([b"", b'{"traceEvents": [', b'{"a": "'])
    return Laid(_bomb(place.folder / "a.json.gz", place.size(2 << 30), letters, head))


@kind("bomb in a bomb", grows=True)
def _twice(place: Place) -> Laid:
    path = _bomb(place.folder / "a", place.size(4 << 30), b"\0")
    layers = gzip.compress(path.read_bytes())
    for _ in range(place.rng.randrange(0, 6)):
        layers = gzip.compress(layers)
    path.unlink()
    return Laid(place.write("a.gz", layers))


@kind("zstd bomb", grows=True)
def _zstd_bomb(place: Place) -> Laid:
    # A block that repeats one byte: 128 KiB in 4 bytes (RFC 8878, 3.1.1.2).
    block = struct.pack("<I", (1 << 1) | (131_072 << 3))[:3] + place.rng.choice([b"\0", b" ", b"["])
    blocks = place.size(16 << 30) >> 17
    return Laid(place.write("a.zst", b"\x28\xb5\x2f\xfd\x00\x58" + block * blocks))


@kind("zip bomb", grows=True)
def _zip_bomb(place: Place) -> Laid:
    path = place.folder / "a.zip"
    letters = place.rng.choice([b"\0", b" ", b"{"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(place.rng.choice([1, 4])):
            with archive.open(f"{number}.json", "w") as member:
                for _ in range((place.size(1 << 30) >> 20) + 1):
                    member.write(letters * PIECE)
    return Laid(path)


@kind("zip of one body for many", grows=True)
def _overlapping(place: Place) -> Laid:
    """Each entry of the directory refers to the same compressed bytes."""
    body = bytes(place.size(64 << 20))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(body) + packer.flush()
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 8, 0, 0, zlib.crc32(body), len(packed), len(body), 1, 0)
    entries = [
        struct.pack(
            "<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, zlib.crc32(body), len(packed),
            len(body), 6, 0, 0, 0, 0, 0, 0,
        ) + b"%06d" % number
        for number in range(place.size(3000))
    ]  # fmt: skip
    data = local + b"a" + packed
    listed = b"".join(entries)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(listed), len(data), 0)
    return Laid(place.write("a.zip", data + listed + end))


@kind("zip of many files", grows=True)
def _many_members(place: Place) -> Laid:
    path = place.folder / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(place.size(20_000)):
            archive.writestr(f"{number}.json", b"[]" if number % 2 else b"")
        archive.writestr("t.json", small_trace())
    return Laid(path)


def _damaged(place: Place, packed: bytes) -> bytes:
    data = bytearray(packed)
    if place.rng.random() < 0.4:
        del data[place.rng.randrange(2, len(data)) :]
    for _ in range(place.rng.randrange(0, 9)):
        data[place.rng.randrange(2, len(data))] ^= 1 << place.rng.randrange(8)
    return bytes(data)


def _packed(name: str, pack: Callable[[Place], bytes]) -> None:
    @kind(name)
    def _(place: Place) -> Laid:
        return Laid(place.write("a", _damaged(place, pack(place))))


def _zipped(place: Place) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", place.rng.choice([0, 8, 12, 14])) as archive:
        for rank in range(3):
            archive.writestr(f"rank{rank}.json", small_trace())
    return buffer.getvalue()


def _tarred(place: Place, mode: str | None = None) -> bytes:
    buffer = io.BytesIO()
    form = place.rng.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(fileobj=buffer, mode=mode or "w", format=form) as archive:
        for rank in range(3):
            entry = tarfile.TarInfo(f"rank{rank}.json")
            entry.size = len(small_trace())
            archive.addfile(entry, io.BytesIO(small_trace()))
    return buffer.getvalue()


def _zstd(place: Place) -> bytes:
    import pyarrow as pa

    return pa.compress(small_trace() * place.rng.randrange(1, 4), codec="zstd", asbytes=True)


_packed("damaged gzip", lambda place: gzip.compress(small_trace(), place.rng.randrange(10)))
_packed("damaged zstd", _zstd)
_packed("damaged zip", _zipped)
_packed("damaged tar", _tarred)
_packed("damaged tgz", lambda place: _tarred(place, "w:gz"))


@kind("compressed and cut", lost=True)
def _cut_gzip(place: Place) -> Laid:
    packed = gzip.compress(small_trace(), 1)
    return Laid(place.write("a.gz", packed[: int(len(packed) * place.rng.uniform(0.5, 0.95))]))


# -- archives --------------------------------------------------------------------------------------


@kind("names that lead out of an archive")
def _leading_out(place: Place) -> Laid:
    names = ["../../out.json", "/out.json", "a/../../b.json", "\x1b[31mred\n.json", "C:\\x.json", "a" * 300]
    buffer = io.BytesIO()
    if place.rng.random() < 0.5:
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, small_trace())
    else:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.size = len(small_trace())
                tar.addfile(entry, io.BytesIO(small_trace()))
    return Laid(place.write("a", buffer.getvalue()))


@kind("links and devices in a tar")
def _specials(place: Place) -> Laid:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for type_ in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE):
            entry = tarfile.TarInfo(f"{type_.decode()}.json")
            entry.type, entry.linkname = type_, "/etc/passwd"
            archive.addfile(entry)
        if place.rng.random() < 0.5:
            entry = tarfile.TarInfo("t.json")
            entry.size = len(small_trace())
            archive.addfile(entry, io.BytesIO(small_trace()))
    return Laid(place.write("a.tar", buffer.getvalue()))


@kind("tar that claims much")
def _claims(place: Place) -> Laid:
    entry = tarfile.TarInfo("t.json")
    entry.size = place.rng.choice([1 << 40, 1 << 62, 8**11 - 1])
    header = entry.tobuf(tarfile.GNU_FORMAT)
    data = header + small_trace()
    return Laid(place.write("a.tar", gzip.compress(data) if place.rng.random() < 0.5 else data))


@kind("tgz of many ranks", grows=True)
def _many_ranks(place: Place) -> Laid:
    body = trace(*sound(40))
    body += b" " * place.size(8 << 20)
    path = place.folder / "a.tgz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for rank in range(place.size(24)):
            entry = tarfile.TarInfo(f"rank{rank}.json")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return Laid(path)


# -- files and folders -----------------------------------------------------------------------------


@kind("sparse file")
def _sparse(place: Place) -> Laid:
    head = place.rng.choice([b"", b'{"traceEvents": [', small_trace()[:9000], small_trace()])
    path = place.write("a.json", head)
    os.truncate(path, len(head) + place.size(5 << 30))
    return Laid(path)


@kind("not a file")
def _special_files(place: Place) -> Laid:
    fifo = place.folder / "fifo.json"
    os.mkfifo(fifo)
    return Laid(place.rng.choice([fifo, place.folder, "/dev/null", "/dev/zero", "/dev/full", "", "."]))


@kind("links in a circle")
def _links(place: Place) -> Laid:
    inner = place.folder / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "up").symlink_to(place.folder)
    (inner / "self.json").symlink_to("self.json")
    (inner / "gone.json").symlink_to("gone")
    os.mkfifo(inner / "fifo.json")
    if place.rng.random() < 0.7:
        (inner / "t.json").write_bytes(small_trace())
    return Laid(place.folder if place.rng.random() < 0.8 else inner / "self.json")


@kind("odd names of files")
def _odd_names(place: Place) -> Laid:
    names = [b"\xff\xfe.json", b"new\nline.json", b"\x1b[31m.json", b"-x.json", b"a'b\"c.json", b"*.json", "\u202e.json".encode(), b"%s{}$.json"]  # fmt: skip
    folder = os.fsencode(place.folder)
    chosen = place.rng.sample(names, place.rng.choice([1, 1, 3]))
    for name in chosen:
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(small_trace())
    one = os.fsdecode(folder + b"/" + chosen[0])
    return Laid(place.rng.choice([one, str(place.folder), one + ".gone"]))


@kind("many files", grows=True)
def _many_files(place: Place) -> Laid:
    for number in range(place.size(3000)):
        place.write(f"{number}.json", place.rng.choice([b"", b"[]", b"{", b"\0" * 99, b"text"]))
    place.write("rank0.json", small_trace())
    return Laid(place.folder)


@kind("one file is cut of several", lost=True)
def _one_of_several(place: Place) -> Laid:
    for rank in range(3):
        place.write(f"rank{rank}.pt.trace.json", small_trace()[: 9000 if rank == 1 else None])
    return Laid(place.folder)


# -- databases -------------------------------------------------------------------------------------

_COLUMNS = "_id_ INTEGER PRIMARY KEY, start INT, end INT, deviceId INT, contextId INT, streamId INT, gridX INT, correlationId INT, name INT, cbid INT, processId INT, threadId INT"


def _database(path: Path, rows: int = 200, odd: Callable[[], Any] | None = None) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY, value TEXT)")
    connection.execute("INSERT INTO StringTable VALUES (1, 'gemm')")
    for table in ("CONCURRENT_KERNEL", "RUNTIME"):
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{table}({_COLUMNS})")
        for number in range(rows):
            values: list[Any] = [1000 * number, 1000 * number + 500, 0, 1, 7, 1, number, 1, 211, 1, 1]
            if odd is not None:
                values[number % 11] = odd()
            marks = ", ".join("?" * 12)
            connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({marks})", [number, *values])
    connection.commit()
    connection.close()
    return path


@kind("damaged database")
def _damaged_database(place: Place) -> Laid:
    path = _database(place.folder / "a.sqlite", 500)
    data = bytearray(path.read_bytes())
    for _ in range(place.rng.choice([0, 1, 8, 60])):
        data[place.rng.randrange(16, len(data))] = place.rng.randrange(256)
    if place.rng.random() < 0.3:
        del data[place.rng.randrange(100, len(data)) :]
    path.write_bytes(data)
    return Laid(path)


@kind("database with pages in a circle")
def _circle(place: Place) -> Laid:
    path = _database(place.folder / "a.sqlite", 3000)
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    for number in range(1, pages):
        at = number * 4096
        if data[at] == 5:  # an inner page: makes all children the same
            cells = int.from_bytes(data[at + 3 : at + 5], "big")
            for cell in range(cells):
                pointer = int.from_bytes(data[at + 12 + 2 * cell : at + 14 + 2 * cell], "big")
                child = place.rng.choice([number + 1, place.rng.randrange(1, pages)])
                data[at + pointer : at + pointer + 4] = struct.pack(">I", child)
    path.write_bytes(data)
    return Laid(path)


@kind("database of other values")
def _other_values(place: Place) -> Laid:
    choices: list[Any] = [None, "text", 1.5, b"\xff", -1, 2**62, -(2**62), 0, "1"]
    return Laid(_database(place.folder / "a.sqlite", 300, lambda: place.rng.choice(choices)))


@kind("database of other tables")
def _other_tables(place: Place) -> Laid:
    path = place.folder / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(place.rng.choice([
        "CREATE TABLE StringTable(value)", "CREATE TABLE StringTable(_id_, value)",
        "CREATE VIEW StringTable AS SELECT 1 AS _id_, 'a' AS value", "CREATE TABLE x(y)",
    ]))  # fmt: skip
    connection.execute(place.rng.choice([
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end)", "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(a)",
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS start, i + 1 AS end FROM n",
    ]))  # fmt: skip
    connection.commit()
    connection.close()
    return Laid(path)


@kind("database that is being written")
def _being_written(place: Place) -> Laid:
    path = _database(place.folder / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO StringTable VALUES (2, 'b')")
    connection.commit()
    # The files of a killed writer: the database, its log, and the log's index.
    for end in ("", "-wal", "-shm"):
        data = Path(f"{path}{end}").read_bytes()
        place.write(f"left.sqlite{end}", data)
    connection.close()
    return Laid(place.folder / "left.sqlite")


# -- documents of recorders ------------------------------------------------------------------------

INLINE: dict[str, Any] = {
    "format": "stepscope.inline", "rank": 0, "world_size": 1, "iterations": [[1, False, 10**6], [2, True, 10**6]],
    "timeline": {"device_0": {"stream_0": [{"label": "forward", "occurrence": 0, "samples": [[1, 5, 2], [2, 6, 3]]}]}},
}  # fmt: skip
PHASES: dict[str, Any] = {
    "format": "stepscope.phases", "rank": 0, "steps": 12, "counted_steps": 10, "step": {"mean_ns": 9e6, "max_ns": 10**7},
    "phases": {"forward": {"mean_ns": 4e6}, "backward": {"mean_ns": 5e6}}, "step_columns": ["step", "time_ns", "forward_ns", "backward_ns"],
    "step_samples": [[n, 9, 4, 5] for n in range(10)],
}  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    holds = {dict: dict.items, list: enumerate}.get(type(value), lambda _: ())
    for key, inside in holds(value):
        yield (*path, key)
        yield from _paths(inside, (*path, key))


def _document(place: Place, whole: dict[str, Any]) -> bytes:
    changed = json.loads(json.dumps(whole))
    for _ in range(place.rng.choice([1, 1, 3])):
        path = place.rng.choice(list(_paths(changed))[1:])
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "@"
    text = json.dumps(changed)
    while '"@"' in text:
        text = text.replace('"@"', place.rng.choice([*VALUES, "[" * 3000 + "]" * 3000]), 1)
    data = text.encode()
    return data[: place.rng.randrange(40, len(data))] if place.rng.random() < 0.2 else data


def _of_recorder(name: str, end: str, whole: dict[str, Any]) -> None:
    @kind(f"damaged {end}")
    def _(place: Place) -> Laid:
        path = place.write(f"a.{end}", _document(place, whole))
        return Laid(path, (("checks", "--json"), ("summary",), (name,)))

    @kind(f"long {end}", grows=True)
    def _(place: Place) -> Laid:
        head = json.dumps(whole)[:-1].encode()
        filling = place.rng.choice([b" ", b"1,", b"[", b'"', b"\0"])
        body = head + b', "x": [' + filling * (place.size(200 << 20) // len(filling)) + b"1]}"
        return Laid(place.write(f"a.{end}", body))


_of_recorder("inline", "prof.json", INLINE)
_of_recorder("phases", "phases.json", PHASES)


# -- stores and what is printed --------------------------------------------------------------------


def _store(place: Place) -> Path:
    store = place.folder / "store"
    source = place.write("t.json", trace(*sound()))
    command = [sys.executable, "-m", "stepscope", "import", os.fspath(source), "-o", os.fspath(store)]
    subprocess.run(command, check=True, capture_output=True)
    return store


@kind("flipped bit in a store")
def _flipped_store(place: Place) -> Laid:
    store = _store(place)
    files = sorted(path for path in store.rglob("*") if path.is_file())
    chosen = place.rng.choice(files)
    data = bytearray(chosen.read_bytes())
    data[place.rng.randrange(len(data))] ^= 1 << place.rng.randrange(8)
    chosen.write_bytes(data)
    return Laid(store, (("summary",), ("check",), ("kernels",), ("operators",)))


@kind("part of a store")
def _part_of_store(place: Place) -> Laid:
    store = _store(place)
    files = sorted(path for path in store.rglob("*") if path.is_file())
    chosen = place.rng.choice(files)
    if place.rng.random() < 0.5:
        chosen.unlink()
    else:
        os.truncate(chosen, place.rng.randrange(chosen.stat().st_size))
    return Laid(store, (("summary",), ("check",), ("kernels",), ("operators",)))


@kind("crafted store")
def _crafted(place: Place) -> Laid:
    """Rows that no import writes, with matching checksums."""
    store = _store(place)
    chosen = place.rng.choice(["host_event", "device_event", "step", "rank", "thread", "data_check"])
    program = (
        "import sys; sys.path.insert(0, sys.argv[3]); from hostile_files import craft; "
        "craft(sys.argv[1], sys.argv[2], int(sys.argv[4]))"
    )
    seed = str(place.rng.randrange(10**6))
    command = [sys.executable, "-c", program, os.fspath(store), chosen, os.fspath(Path(__file__).parent)]
    subprocess.run([*command, seed], check=True, capture_output=True)
    asked = (("summary",), ("checks",), ("kernels",), ("operators",), ("idle",), ("check",))
    return Laid(store, asked)


def craft(store: str, table: str, seed: int) -> None:
    """Changes a column of a store's table in type or value, and rewrites the store's checksums."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stepscope.store.manifest import write_store_file

    rng = random.Random(seed)  # noqa: S311
    path = sorted(Path(store).glob(f"rank=*/{table}.*.parquet"))[0]
    rows = pq.read_table(path)
    at = rng.randrange(rows.num_columns)
    values: list[pa.Array] = [
        pa.nulls(rows.num_rows),
        pa.array([f"text {n}" for n in range(rows.num_rows)]),
        pa.array([2**63 - 1 - n for n in range(rows.num_rows)]),
        pa.array([-(2**63) + n for n in range(rows.num_rows)]),
        pa.array([1e300] * rows.num_rows),
        pa.array([[n] for n in range(rows.num_rows)]),
        pa.array([True] * rows.num_rows),
    ]
    name = rows.column_names[at]
    if rng.random() < 0.1:
        rows = rows.drop_columns([name])
    else:
        rows = rows.set_column(at, name, rng.choice(values))
    pq.write_table(rows, path)
    facts = json.loads((Path(store) / "store.json").read_text(encoding="utf-8"))
    kept = {key: facts[key] for key in facts if key not in ("version", "files", "crc32")}
    write_store_file(Path(store), kept)


@kind("output that nobody reads")
def _unread(place: Place) -> Laid:
    path = place.write("t.json", trace(*sound(900)))
    asked = place.rng.choice(
        [("operators", "--top", "2000", "--json"), ("summary",), ("checks",), ("kernels", "--csv")]
    )
    return Laid(path, (asked,), place.rng.choice(["unread", "closed", "full"]))
