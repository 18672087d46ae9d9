"""Writes the fixtures whose bytes an editor would spoil: compressed, not UTF-8, with zeros.

Run it in this folder; what it writes is committed.
"""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
INTACT = (HERE / "T03_no_rank.json").read_bytes()
RANKS = {f"rank{rank}.json": (HERE / "C14_clocks" / f"rank{rank}.json").read_bytes() for rank in (0, 1)}


def write(name: str, data: bytes) -> None:
    (HERE / name).write_bytes(data)


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def main() -> None:
    write("B01_plain_named.gz", INTACT)
    write("B01_gzip_named.json", gzipped(INTACT))
    write("B01_no_suffix", INTACT)
    write("B01_two_ranks.zip", zipped(RANKS))
    write("B01_two_ranks.tar", tarred(RANKS))
    write("B01_two_ranks.tgz", gzipped(tarred({f"{n}.gz": gzipped(d) for n, d in RANKS.items()})))

    write("B02_members.json.gz", gzipped(INTACT[:300]) + gzipped(INTACT[300:]))
    named = bytearray(gzipped(INTACT))
    named[3] |= 8 | 16 | 0xE0  # a name, a comment, and reserved flags that some writers set
    write("B02_odd_header.json.gz", bytes(named[:10]) + b"trace.json\0by hand\0" + bytes(named[10:]))
    write("B02_checksum.json.gz", gzipped(INTACT)[:-8] + b"\0\0\0\0" + gzipped(INTACT)[-4:])
    write("B02_no_trailer.json.gz", gzipped(INTACT)[:-8])
    stored = gzip.compress(INTACT, 0, mtime=0)
    write("B02_cut.json.gz", stored[: len(stored) - 60])
    write("B02_trailing.json.gz", gzipped(INTACT) + b"appended by a broken copy")

    event = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 7, "tid": 7, "ts": %d, "dur": 1}'
    names = (b"aten::\xff\xfemm", b"aten::\xfe\xffmm", "größe".encode(), b"aten::add")
    events = [event % (name, 10 + 2 * index) for index, name in enumerate(names)]
    write("B07_not_utf8.json", b'{"traceEvents": [\n' + b",\n".join(events) + b"\n]}\n")

    windows = b"\xef\xbb\xbf" + INTACT.replace(b"\n", b"\r\n")
    write("B16_bom_crlf_nuls.json", windows + bytes(512))
    write("B16_cut_and_preallocated.json", INTACT[:-60] + bytes(512))
    write("B16_only_zeros.json", bytes(512))

    write("T08_picture.json", b"\x89PNG\r\n\x1a\n" + bytes(16))
    write("T08_database.json", b"SQLite format 3\x00" + bytes(84))
    write("T08_pickle.pickle", b"\x80\x04}\x94(\x8c\x05state\x94]\x94u.")
    write("T08_report.nsys-rep", b"\x01\x02\x00\x9c quadd \x00\x01\xf0" + bytes(range(1, 64)))


if __name__ == "__main__":
    main()
