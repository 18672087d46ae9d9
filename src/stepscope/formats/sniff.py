"""Says what a file is that turned out not to be a recording, and what to do about it.

Readers are chosen by their own sniffing (`registry`); this is for the message if none takes a file.
"""

from __future__ import annotations

import re

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"SQLite format 3\x00", "SQLite database"),
    (b"NVR\x00", "Nsight Compute report"),
    (b"\x89PNG\r\n\x1a\n", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"%PDF-", "PDF document"),
    (b"PAR1", "Parquet file"),
    (b"ARROW1", "Arrow file"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (b"\x7fELF", "program"),
    (b"PK\x03\x04", "zip archive"),
    (b"PK\x05\x06", "empty zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"\x1f\x8b", "gzip file"),
    (b"\x28\xb5\x2f\xfd", "zstd file"),
    (b"BZh", "bzip2 file"),
    (b"\xfd7zXZ\x00", "xz file"),
    (b"\x04\x22\x4d\x18", "lz4 file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html|head|body|\?xml)", re.I | re.S)
_EXECUTION_TRACE = re.compile(rb'"schema"\s*:\s*"[^"]*(?:Execution|ET|PyTorch|\d\.)|"nodes"\s*:\s*\[')
_NOTEBOOK = re.compile(rb'"(?:nbformat|cell_type)"\s*:')
_SECTION = re.compile(rb"\[(?!(?:null|true|false)\b)[A-Za-z][^\n\[\]{}]*\][ \t\r]*(?:\n|$)")
"""The first line of a settings file, as in `[Unit]`; a JSON array has events or values instead."""
_NSIGHT_SYSTEMS = re.compile(rb"(?i)quadd|nsight systems|nsys-rep|qdrep|qdstrm")
_NSIGHT_COMPUTE = re.compile(rb"(?m)^[ \t]*Section: [^\n]+\n +-{8,}")
_TEXT = bytes({7, 8, 9, 10, 12, 13, 27} | set(range(0x20, 0x100)) - {0x7F})

EXPORT_A_REPORT = "nsys export --type sqlite -o report.sqlite FILE"
PRINT_A_REPORT = "ncu --import FILE --csv --page raw > report.csv"
_EXPORTED = "give the trace that torch.profiler exported"
_ADVICE: dict[str, str] = {
    "empty file": "its writer was killed before it wrote anything, or the disk was full; record it again",
    "file of spaces": "there is nothing in it; record it again",
    "file of zeros": "its content is lost, often after a full disk or a crash; record it again",
    "PyTorch execution trace": (
        f"this is a graph of operators without times; {_EXPORTED} (export_chrome_trace or tensorboard_trace_handler)"
    ),
    "pickle": "of pickles only memory snapshots are read (torch.cuda.memory._dump_snapshot); others can run code",
    "Nsight Systems report": f"convert it and give what comes out: {EXPORT_A_REPORT}",
    "unfinished Nsight Systems recording": (
        "Nsight Systems could not finish it; let QdstrmImporter of its version do that, then convert the "
        f"report and give what comes out: {EXPORT_A_REPORT}"
    ),
    "SQLite database": (
        "give the database that nvprof wrote (nvprof -o FILE), what nsys export made of a report "
        f"({EXPORT_A_REPORT}), or a trace of torch.profiler"
    ),
    "Nsight Systems export": f"export the report again: {EXPORT_A_REPORT}",
    "Nsight Compute report": f"print its table and give that: {PRINT_A_REPORT}",
    "Nsight Compute text": f"give the report itself, or print its table: {PRINT_A_REPORT}",
    "Perfetto trace": (
        "this is Perfetto's own format; export JSON instead, "
        "with torch.profiler's export_chrome_trace or Perfetto's traceconv json"
    ),
    "picture": "give the recording itself, not a picture of it",
    "PDF document": "give the recording itself, not a document about it",
    "HTML or XML page": "the download may have saved a login or error page in place of the file; download it again",
    "Parquet file": "give the directory of the store, not one of its files",
    "Jupyter notebook": "give the recording that the notebook reads",
    "CSV table": "give the recording that the table was made from",
    "UTF-16 text": "convert it first: iconv -f UTF-16 -t UTF-8 FILE > trace.json",
    "empty zip archive": "there is nothing in it; pack it again",
    **dict.fromkeys(("zip archive", "tar archive"), "archives inside archives are not opened; unpack the outer one"),
    **dict.fromkeys(("7z archive", "RAR archive"), "unpack it and give the files inside"),
    **dict.fromkeys(("gzip file", "zstd file"), "it is compressed too many times; unpack it and give what is inside"),
    "bzip2 file": "unpack it first: bzip2 -dk FILE",
    "xz file": "unpack it first: xz -dk FILE",
    "lz4 file": "unpack it first: lz4 -d FILE",
    "json": f"it has no `traceEvents`; {_EXPORTED} (export_chrome_trace or tensorboard_trace_handler)",
    "program": "give the recording that the program made",
}
_OTHERWISE = f"{_EXPORTED} (.json or .json.gz)"


def what_is(head: bytes, name: str = "") -> str:
    """What a file is, by its first bytes, in a few words.

    `json` means JSON that is nothing else known here. The name matters only if the bytes do not tell: reports of
    Nsight Systems do not have a mark of their own in every version.

    Args:
        head: the first bytes, uncompressed; 64 KB are plenty.
        name: the file's name, if there is one.

    Example:
        >>> what_is(b'{"schema": "1.0.1", "pid": 7, "nodes": [')
        'PyTorch execution trace'
    """
    if not head:
        return "empty file"
    if not head.strip(b" \t\r\n\x00"):
        return "file of spaces" if head.strip(b"\x00") else "file of zeros"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return _kind_of_database(head) if kind == "SQLite database" else kind
    if head[257:262] == b"ustar":
        return "tar archive"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "picture"
    if _PICKLE.match(head):
        return "pickle"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\x00")
    if start[:1] in (b"{", b"[") and not _SECTION.match(start):
        return _kind_of_json(start)
    if _HTML.match(head[:4096]):
        return "HTML or XML page"
    if not head[:4096].translate(None, _TEXT):
        return _kind_of_text(start)
    return _kind_of_binary(head, name.lower())


def advice(kind: str) -> str:
    """One line that says what to do with a file of a kind that `what_is` named.

    Example:
        >>> advice("picture")
        'give the recording itself, not a picture of it'
    """
    return _ADVICE.get(kind, _OTHERWISE)


def _kind_of_database(head: bytes) -> str:
    """The kind of a database. SQLite stores the text of each `CREATE TABLE`, mostly near the start."""
    if b"TARGET_INFO_" in head or b"StringIds" in head:
        return "Nsight Systems export"
    return "SQLite database"


def _kind_of_json(start: bytes) -> str:
    if b'"traceEvents"' in start:
        return "json"
    if b'"schema"' in start and _EXECUTION_TRACE.search(start):
        return "PyTorch execution trace"
    if _NOTEBOOK.search(start):
        return "Jupyter notebook"
    return "json"


def _kind_of_text(start: bytes) -> str:
    if _NSIGHT_COMPUTE.search(start):
        return "Nsight Compute text"
    first, _, following = start.partition(b"\n")
    second, _, _ = following.partition(b"\n")
    commas = first.count(b",")
    if commas >= 2 and second.count(b",") >= commas:
        return "CSV table"
    return "text"


def _kind_of_binary(head: bytes, name: str) -> str:
    if name.endswith(".qdstrm"):
        return "unfinished Nsight Systems recording"
    if name.endswith((".nsys-rep", ".qdrep")) or _NSIGHT_SYSTEMS.search(head[:4096]):
        return "Nsight Systems report"
    if name.endswith((".pftrace", ".perfetto-trace")) or _is_perfetto(head):
        return "Perfetto trace"
    return "unknown binary file"


def _is_perfetto(head: bytes) -> bool:
    """Whether the bytes are packets of a Perfetto trace: field 1, a length, and so on to the end."""
    index = packets = 0
    while index < len(head) and packets < 8:
        if head[index] != 0x0A:
            return False
        length = shift = 0
        for index in range(index + 1, min(index + 6, len(head))):  # noqa: B020 - continues from there
            length |= (head[index] & 0x7F) << shift
            shift += 7
            if head[index] < 0x80:
                break
        else:
            return False
        index += 1 + length
        packets += 1
    return packets >= 2
