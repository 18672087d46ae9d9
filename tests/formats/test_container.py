"""Files as they lie about: what is read of them, and that hostile ones do no harm."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.errors import SourceError
from stepscope.formats import container, inflate
from stepscope.formats.container import members
from stepscope.formats.inflate import uncompressed
from stepscope.formats.registry import format_of

TEXT = b'[{"ph": "X", "name": "gemm", "ts": 1}]\n' * 50


@pytest.fixture
def lay(tmp_path):
    def write(data, name="unknown"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def read(path):
    """Label's end, content and damage of every member."""
    found = []
    for member in members(path):
        with member.open() as stream:
            content = stream.read()
        found.append((member.name, content, stream.damage))
    return found


def zipped(files, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


def tarred(files, mode="w", form=tarfile.PAX_FORMAT, specials=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=form) as archive:
        for name, kind in specials:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.linkname = "/etc/passwd"
            archive.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


# -- one file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        TEXT, gzip.compress(TEXT), zstd(TEXT), gzip.compress(gzip.compress(TEXT)),
        gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]),
        gzip.compress(TEXT[:100]) + bytes(700) + gzip.compress(TEXT[100:]) + bytes(1024),
        zstd(TEXT[:100]) + b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + zstd(TEXT[100:]),
    ],
    ids=["plain", "gzip", "zstd", "twice", "members", "padded", "zstd frames"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["trace.json", "trace.gz", "trace"])
def test_content_decides_and_never_the_name(lay, data, name):
    assert read(lay(data, name)) == [(None, TEXT, None)]


def test_reading_in_pieces_gives_full_pieces_until_the_end(lay):
    (member,) = members(lay(gzip.compress(TEXT)))
    with member.open() as stream:
        pieces = list(iter(lambda: stream.read(64), b""))
        assert stream.read(64) == b""
    assert b"".join(pieces) == TEXT
    assert {len(piece) for piece in pieces[:-1]} == {64}


def test_gzip_header_with_every_field_is_read(lay):
    raw = gzip.compress(TEXT)
    header = raw[:3] + bytes([4 | 8 | 16 | 2 | 0xE0]) + raw[4:10]
    extra = b"\x05\x00extra" + b"name\x00" + b"comment " * 1000 + b"\x00" + b"\x12\x34"
    assert read(lay(header + extra + raw[10:])) == [(None, TEXT, None)]


@pytest.mark.parametrize(
    ("data", "content", "damage"),
    [
        (gzip.compress(TEXT)[:-8], TEXT, "gzip_truncated"), (gzip.compress(TEXT)[:-1], TEXT, "gzip_truncated"),
        (gzip.compress(TEXT, 0)[:200], TEXT[: 200 - 15], "gzip_truncated"),
        (gzip.compress(TEXT)[:-8] + bytes(4) + gzip.compress(TEXT)[-4:], TEXT, "gzip_crc"),
        (gzip.compress(TEXT)[:-4] + bytes(4), TEXT, "gzip_crc"),
        (gzip.compress(TEXT) + b"appended", TEXT, "gzip_trailing"), (gzip.compress(TEXT)[:6], b"", "gzip_truncated"),
        (b"\x1f\x8b\x07" + gzip.compress(TEXT)[3:], b"", "gzip_corrupt"),
        (zstd(TEXT)[:-8], b"", "compression_truncated"), (zstd(TEXT) + b"appended", TEXT, "compression_corrupt"),
    ],
)  # fmt: skip
def test_damaged_compression_gives_what_was_decoded(lay, data, content, damage):
    assert read(lay(data)) == [(None, content, damage)]


def test_second_member_is_read_behind_one_with_a_wrong_checksum(lay):
    broken = gzip.compress(TEXT)[:-8] + bytes(8)
    assert read(lay(broken + gzip.compress(TEXT))) == [(None, TEXT + TEXT, "gzip_crc")]


@examples(40)
@given(st.binary(max_size=3000), st.integers(0, 9), st.data())
def test_corrupt_gzip_gives_all_that_zlib_can_decode_bytewise(content, level, data):
    content += TEXT
    packed = bytearray(gzip.compress(content, level))
    at = data.draw(st.integers(10, len(packed) - 9))
    packed[at] ^= data.draw(st.integers(1, 255))

    reference, oracle = zlib.decompressobj(-zlib.MAX_WBITS), b""
    for byte in packed[10:]:
        try:
            oracle += reference.decompress(bytes([byte]))
        except zlib.error:
            break

    damage = []
    stream, _ = uncompressed(lambda _: iter([bytes(packed)]), 1, damage)
    read = stream.read(1 << 20)
    assert len(oracle) - len(read) <= 258  # one symbol is at most that long
    assert oracle.startswith(read[: len(oracle)])
    assert damage or read == content


def test_stream_that_inflates_beyond_reason_is_cut(lay, monkeypatch):
    monkeypatch.setattr(container, "MAX_INFLATED", 1 << 20)
    path = lay(gzip.compress(bytes(8 << 20)))
    (member,) = members(path)
    with member.open() as stream:
        total = sum(len(piece) for piece in iter(lambda: stream.read(1 << 18), b""))
    assert total < 6 << 20
    assert stream.damage == "implausible_size"


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize(("part", "damage"), [(b"", "implausible_size"), (b"x", "implausible_size"), (TEXT, None)])
def test_stream_of_very_many_parts_without_content_is_cut(lay, monkeypatch, compress, part, damage):
    monkeypatch.setattr(inflate, "_MANY_PARTS", 100)
    path = lay(gzip.compress(compress(part) * 300))
    assert read(path) == [(None, part * (101 if damage else 300), damage)]


def test_large_plain_file_is_not_mistaken_for_a_bomb(lay, monkeypatch):
    monkeypatch.setattr(container, "MAX_INFLATED", 10)
    monkeypatch.setattr(container, "MAX_RATIO", 0)
    assert read(lay(TEXT)) == [(None, TEXT, None)]


# -- archives --------------------------------------------------------------------------------------

TWO = {"rank0.json": TEXT, "deep/rank1.json.gz": gzip.compress(TEXT)}


@pytest.mark.parametrize(
    "archive",
    [
        zipped(TWO), zipped(TWO, zipfile.ZIP_STORED), tarred(TWO), tarred(TWO, "w:gz"),
        tarred(TWO, form=tarfile.GNU_FORMAT), tarred(TWO, form=tarfile.USTAR_FORMAT), zstd(tarred(TWO)),
    ],
    ids=["zip", "stored", "tar", "tar.gz", "gnu", "ustar", "tar.zst"],
)  # fmt: skip
def test_members_of_an_archive_are_read_each(lay, archive):
    path = lay(archive)
    assert read(path) == [("rank0.json", TEXT, None), ("deep/rank1.json.gz", TEXT, None)]
    assert [member.label for member in members(path)] == [f"{path}!rank0.json", f"{path}!deep/rank1.json.gz"]


@pytest.mark.parametrize("archive", [zipped(TWO), tarred(TWO, "w:gz")], ids=["zip", "tar.gz"])
def test_members_open_in_any_order(lay, archive):
    found = list(members(lay(archive)))
    for member in (found[1], found[0], found[1]):
        with member.open() as head:
            assert head.read(10) == TEXT[:10]
        with member.open() as stream, found[0].open() as other:
            assert stream.read() == other.read() == TEXT


def test_long_names_of_both_tar_formats_are_whole(lay):
    name = "run/" + "x" * 300 + ".json"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        assert [member.name for member in members(lay(tarred({name: TEXT}, form=form)))] == [name]


def test_links_devices_and_folders_in_a_tar_are_passed_over(lay):
    specials = [
        ("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("dev", tarfile.CHRTYPE), ("dir", tarfile.DIRTYPE),
        ("pipe", tarfile.FIFOTYPE),
    ]  # fmt: skip
    assert [name for name, _, _ in read(lay(tarred(TWO, specials=specials)))] == list(TWO)


def test_links_and_folders_in_a_zip_are_passed_over(lay):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("folder/", "")
        archive.writestr("__MACOSX/._a.json", "x")
        archive.writestr("a.json", TEXT)
    assert read(lay(buffer.getvalue())) == [("a.json", TEXT, None)]


def test_hostile_names_are_only_labels(lay, tmp_path):
    names = ["../../escape.json", "/etc/escape.json", "\x1b[31mred\n.json"]
    path = lay(tarred(dict.fromkeys(names, TEXT)))
    found = list(members(path))
    assert [member.open().read() for member in found] == [TEXT] * 3
    assert all(member.label.isprintable() for member in found)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name]


def test_sizes_that_an_archive_claims_are_not_believed(lay):
    archive = bytearray(tarred({"a.json": TEXT}, form=tarfile.USTAR_FORMAT))
    archive[124:136] = b"77777777777\x00"  # 8 GB
    archive[148:156] = b"        "
    archive[148:156] = b"%06o\x00 " % sum(archive[:512])
    ((name, content, damage),) = read(lay(bytes(archive)))
    assert (name, damage) == ("a.json", "archive_truncated")
    assert content.startswith(TEXT)


def test_archives_inside_archives_are_not_opened(lay):
    assert [name for name, _, _ in read(lay(zipped({"inner.zip": zipped(TWO)})))] == ["inner.zip"]
    assert [name for name, _, _ in read(lay(tarred({"inner.tar.gz": tarred(TWO, "w:gz")})))] == ["inner.tar.gz"]


def test_sparse_files_in_a_tar_are_passed_over(lay):
    archive = bytearray(tarred({"a.json": TEXT, "b.json": TEXT}, form=tarfile.GNU_FORMAT))
    archive[156:157] = tarfile.GNUTYPE_SPARSE
    archive[148:156] = b"        "
    archive[148:156] = b"%06o\x00 " % sum(archive[:512])
    assert [name for name, _, _ in read(lay(bytes(archive)))] == ["b.json"]


def header(size, kind=tarfile.REGTYPE, name=b"a.json"):
    """A header block of a tar archive that states any size, also a negative one."""
    block = bytearray(tarfile.TarInfo("a.json").tobuf(tarfile.GNU_FORMAT))
    block[124:136] = size.to_bytes(12, "big", signed=True) if size < 0 else b"%011o\x00" % size
    block[156:157] = kind
    block[148:156] = b"        "
    block[148:156] = b"%06o\x00 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "archive",
    [
        header(8 << 30, tarfile.XHDTYPE) + bytes(1 << 20),
        header(8 << 30, tarfile.GNUTYPE_LONGNAME) + bytes(1 << 20),
        header(15 << 10, tarfile.XHDTYPE) + b"1" * (15 << 10) + header(0),
        b"".join(header(0, tarfile.XHDTYPE) for _ in range(3000)),
        header(-512) * 3,
        header(-1024, tarfile.XHDTYPE) * 3,
    ],
    ids=["pax", "long name", "digits", "chain of pax", "backwards", "pax backwards"],
)
def test_tar_headers_cost_no_memory_and_end(lay, archive):
    """Where a crafted header would have `tarfile` read gigabytes, or the same block for ever."""
    for packed in (archive, gzip.compress(archive)):
        with contextlib.suppress(SourceError):
            assert len(read(lay(packed))) <= 1


def test_compressed_tar_that_inflates_beyond_reason_is_cut(lay, monkeypatch):
    monkeypatch.setattr(container, "MAX_INFLATED", 1 << 20)
    path = lay(gzip.compress(header(64 << 20) + bytes(64 << 20)))
    ((_, content, damage),) = read(path)
    assert len(content) < path.stat().st_size * container.MAX_RATIO + (2 << 20)
    assert damage == "implausible_size"


def test_cut_tar_gives_what_is_there(lay):
    for mode in ("w", "w:gz"):
        data = tarred({"a": TEXT, "b": os.urandom(3000)}, mode)
        found = read(lay(data[:5000] if mode == "w" else data[:-1000]))
        assert found[0] == ("a", TEXT, None)
        assert found[-1][2] in ("archive_truncated", "gzip_truncated")


def test_corrupt_zip_member_does_not_harm_the_others(lay):
    data = bytearray(zipped({"a": os.urandom(500), "b": TEXT}, zipfile.ZIP_STORED))
    data[100] ^= 0xFF
    found = read(lay(bytes(data)))
    assert found[0][2] == "archive_crc"
    assert found[1] == ("b", TEXT, None)


# -- what cannot be read ---------------------------------------------------------------------------


def refusal(path):
    with pytest.raises(SourceError) as caught:
        read(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value.slug


def test_what_cannot_be_opened_says_why_and_what_to_do(lay, tmp_path):
    assert refusal(tmp_path) == "directory"
    assert refusal(tmp_path / "missing") == "no-such-file"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "not-a-file"
    assert refusal(lay(zipped(TWO)[:-30])) == "archive-damaged"


def test_file_that_may_not_be_read_is_refused(lay, monkeypatch):
    path = lay(TEXT)

    def forbidden(*_args, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbidden)
    assert refusal(path) == "no-permission"


def test_disk_that_fails_while_reading_is_an_error_with_a_cure(lay, monkeypatch):
    def fails(*_):
        yield TEXT
        raise OSError(5, "Input/output error")

    path = lay(TEXT * 1000)
    monkeypatch.setattr(container, "_file", fails)
    (member,) = members(path)
    with member.open() as stream, pytest.raises(SourceError, match="input/output error"):
        stream.read()


@pytest.mark.parametrize(
    ("data", "cure"),
    [(lzma.compress(TEXT), "xz -dk FILE"), (bz2.compress(TEXT), "bzip2 -dk FILE")],
    ids=["xz", "bzip2"],
)
def test_other_compressions_are_named_with_how_to_unpack_them(lay, data, cure):
    (member,) = members(lay(data))
    with pytest.raises(SourceError, match=r"\((xz|bzip2) file\)") as caught:
        format_of(member)
    assert cure in caught.value.hint


def test_encrypted_member_is_refused_when_it_is_opened(lay):
    data = bytearray(zipped({"a.json": TEXT}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refusal(lay(bytes(data))) == "archive-encrypted"


def test_members_of_a_zip_that_share_their_bytes_are_refused_but_the_first(lay):
    data = bytearray(zipped({"a.json": TEXT, "b.json": TEXT, "c.json": TEXT}))
    # The directory's third entry leads to the first entry's bytes.
    directory = data.index(b"PK\x01\x02")
    third = data.rindex(b"PK\x01\x02")
    data[third + 42 : third + 46] = data[directory + 42 : directory + 46]
    first, second, shared = members(lay(bytes(data)))
    for sound in (first, second):
        with sound.open() as stream:
            assert stream.read() == TEXT
    with pytest.raises(SourceError, match="shares its bytes with another member") as caught:
        shared.open()
    assert caught.value.slug == "archive-damaged"


def test_unknown_zip_method_is_refused_when_it_is_opened(lay):
    assert refusal(lay(zipped({"a.json": TEXT}, zipfile.ZIP_LZMA))) == "archive-method"


@examples(60)
@given(st.sampled_from([zipped(TWO), tarred(TWO), tarred(TWO, "w:gz"), gzip.compress(TEXT), zstd(TEXT)]), st.data())
def test_no_damage_makes_it_raise_anything_else(tmp_path_factory, archive, data):
    broken = bytearray(archive[: data.draw(st.integers(0, len(archive)))])
    for at in data.draw(st.lists(st.integers(0, max(0, len(broken) - 1)), max_size=8)) if broken else []:
        broken[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("broken") / "file"
    path.write_bytes(bytes(broken))
    try:
        for member in members(path):
            with member.open() as stream:
                while stream.read(1 << 16):
                    pass
    except SourceError:
        pass


def test_members_of_a_compressed_archive_are_read_in_two_passes_together(lay, monkeypatch):
    opened = []
    real = container.ByteStream
    monkeypatch.setattr(container, "ByteStream", lambda *args, **more: (opened.append(args[1]), real(*args, **more))[1])
    names = [f"rank{n}.json" for n in range(12)]
    path = lay(tarred(dict.fromkeys(names, TEXT * 2000), "w:gz"))
    listings = container.Listings()
    for name in names:
        with listings.member(str(path), name).open() as stream:
            assert stream.read() == TEXT * 2000
    assert opened.count(str(path)) == 3  # to see what it is, to list it, and to read it
