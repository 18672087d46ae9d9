"""Opens files as they come: plain, compressed, or many in one archive.

A file is identified by its first bytes; its name is only a label. Archives are read as streams: nothing is written to
disk, so that an archive of any size needs no space for what is in it. Links, devices and sparse files inside them are
skipped, names are never paths, and claimed sizes are not believed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import threading
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.base.quoting import path_text, printable
from stepscope.formats.inflate import BLOCK_BYTES, Blocks, Opener, Source, checked, inflated, uncompressed

MAX_LAYERS = 3
"""Compressions around one another, such as `trace.json.gz.gz`."""
MAX_INFLATED = 1 << 30
MAX_RATIO = 500
"""A stream that inflates to more than `MAX_INFLATED` bytes and to more than this many times its size on disk is no
trace: the text of traces inflates 10 to 60 times."""
BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\x00"
"""Bytes that are not text: spaces, and the zeros of a preallocated file."""
_ZIP_HEADER = 30
_TAR_BLOCK = 512
_MAX_HEADERS = 1 << 14
"""Bytes of headers before one member of a tar archive. The time that `tarfile` takes for a header, and before Python
3.12.6 and its like the memory too, grows with the square of its length."""
_INFLATES = 12
"""How many times its size on disk a compressed trace has in memory, if it was not inflated yet."""
_RECENT_BYTES = 1 << 20

ERRORS = {
    "archive-damaged": (
        "The directory at the end of a zip archive cannot be read, mostly because only part of the archive "
        "was copied: copy it again, or let `zip -FF` repair it. Or a member of a tar archive has more headers "
        "than a file needs: unpack it and give the files."
    ),
    "archive-encrypted": "A member of the archive needs a password. Unpack it and give the files.",
    "archive-method": (
        "A member of the archive is compressed in a way that StepScope does not know. Unpack it "
        "with the program that made it and give the files."
    ),
    "directory": "A folder was given where one file is read.",
    "not-a-file": "StepScope reads a file more than once, which a pipe or a device does not allow.",
    "source-unreadable": "The system failed to read the file: check the disk it is on.",
}


def strip_bom(head: bytes) -> bytes:
    """The bytes without a UTF-8 byte order mark in front.

    Example:
        >>> strip_bom(b"\\xef\\xbb\\xbf[]")
        b'[]'
    """
    return head[len(BOM) :] if head.startswith(BOM) else head


class ByteStream:
    """The uncompressed bytes of a file or member, which takes `size` bytes on disk; a context manager."""

    def __init__(self, opener: Opener, label: str, size: int, *, packed: bool = False) -> None:
        self._label = label
        self._damage: list[str] = []
        self._source, self.layers = uncompressed(opener, MAX_LAYERS, self._damage)
        if packed or self.layers:
            self._source = Source(self._bounded(self._source.remaining(), max(MAX_INFLATED, MAX_RATIO * size)))

    def _bounded(self, blocks: Blocks, limit: int) -> Blocks:
        for block in blocks:
            yield block
            limit -= len(block)
            if limit < 0:
                self._damage.append("implausible_size")
                return

    @property
    def damage(self) -> str | None:
        """Class of damage of the container, None while there is none; final once the end was read."""
        return self._damage[0] if self._damage else None

    def peek(self, size: int) -> bytes:
        """The next bytes, which can be read again."""
        return self._source.peek(size)

    def read(self, size: int = -1, /) -> bytes:
        """Reads `size` bytes, fewer only at the end, none after it; all if negative.

        Raises:
            SourceError: the file can no longer be read (a disk or network file system failed).
        """
        try:
            return b"".join(self._source.remaining()) if size < 0 else self._source.read(size)
        except OSError as error:
            raise unreadable(self._label, error) from error

    def close(self) -> None:
        """Closes the file."""
        self._source = Source(iter(()))

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


COPIED = "stepscope-copy-"
"""How the name of a temporary folder starts to which standard input, or a URL's file, was copied. A copy's path in it
says what it is a copy of: `standard input`, or `https/host/trace.json`."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file to read: a file on disk, or one inside an archive.

    Attributes:
        path: the file on disk.
        name: its name inside the archive; None if the file is no archive.
        label: its name in messages: the path, or `archive!member`, and `file!process` if it is one process
            of several.
        size: bytes it takes on disk.
        process: one of the processes in the file; None if it holds one.
        offset: the byte of the archive at which it starts.
        packed: whether its bytes are compressed there.
    """

    path: Path
    name: str | None
    label: str
    size: int
    process: str | None = None
    offset: int = field(default=0, compare=False)
    packed: bool = field(default=False, compare=False)
    _opener: Opener | None = field(default=None, repr=False, compare=False)

    def of_process(self, process: str | None) -> Member:
        """The same file, restricted to one process.

        Example:
            >>> Member(Path("report.sqlite"), None, "report.sqlite", 1).of_process("pid 7").label
            'report.sqlite!pid 7'
        """
        if process is None:
            return self
        return replace(self, process=process, label=f"{self.label}!{process}")

    @property
    def text_size(self) -> int:
        """Its uncompressed size in bytes, roughly."""
        return self.size * _INFLATES if self.packed else self.size

    def open(self) -> ByteStream:
        """Opens its uncompressed bytes.

        Raises:
            SourceError: the file cannot be read, needs a password or an unknown method, or is one of
                several members with the same bytes of an archive.
        """
        opener = self._opener or partial(_file, self.path)
        try:
            return ByteStream(opener, self.label, self.size, packed=self.name is not None)
        except OSError as error:
            raise unreadable(self.label, error) from error

    def digest(self, size: int | None = None) -> bytes:
        """A digest of its uncompressed bytes, or of the first `size`."""
        digest = hashlib.sha256()
        with self.open() as stream:
            if size is not None:
                digest.update(stream.read(size))
            else:
                while block := stream.read(_RECENT_BYTES):
                    digest.update(block)
        return digest.digest()


def _file(path: Path, damage: list[str], offset: int = 0, length: int | None = None) -> Blocks:
    """The bytes of a file, or of a range in it."""
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        if length is not None:
            yield from _range(lambda size, _: file.read(size), offset, length, damage)
        else:
            while block := file.read(BLOCK_BYTES):
                yield block


def _range(read_at: Callable[[int, int], bytes], offset: int, length: int, damage: list[str]) -> Blocks:
    """The bytes of a member of an archive."""
    end = offset + length
    while offset < end:
        block = read_at(min(BLOCK_BYTES, end - offset), offset)
        if not block:
            damage.append("archive_truncated")
            return
        yield block
        offset += len(block)


def members(path: Path) -> Iterator[Member]:
    """Lists the members of a file: itself, or the files of an archive (zip, tar, compressed tar).

    Members may be opened in any order; their own order is fastest in a compressed tar.

    Raises:
        SourceError: the file is missing, a directory, no regular file, or may not be read.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise SourceError(
                f"{path} is a directory",
                hint="give the folder to `stepscope summary` or `stepscope.open`, which look for the files in it",
                slug="directory",
            )
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(
                f"{path} is not a regular file",
                hint="pipe it in, with - as SRC, or save it to a file: files are read more than once",
                slug="not-a-file",
            )
        with ByteStream(partial(_file, path), str(path), status.st_size) as stream:
            head, layers = stream.peek(_TAR_BLOCK), stream.layers
    except OSError as error:
        raise unreadable(str(path), error) from error
    if layers == 0 and head[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        yield from _zip_members(path)
    elif _is_tar(head):
        yield from _tar_members(path, compressed=layers > 0)
    else:
        yield Member(path, None, display_name(path), status.st_size, packed=layers > 0)


def display_name(path: Path) -> str:
    """A file's name in messages and answers: its path, or what it is a copy of.

    Example:
        >>> display_name(Path("/tmp/stepscope-copy-x1/s3/bucket/run/rank0.json"))
        's3://bucket/run/rank0.json'
    """
    names = path.parts
    folder = next((at for at, name in enumerate(names) if name.startswith(COPIED)), None)
    if folder is None or len(names) == folder + 1:
        return path_text(path)
    first, *below = names[folder + 1 :]
    return path_text(Path(first)) if not below else f"{first}://{path_text(Path(*below))}"


class Listings:
    """The members of files, each file listed once: listing a compressed archive inflates all of it."""

    def __init__(self) -> None:
        self._listed: dict[str, dict[str | None, Member]] = {}

    def member(self, path: str, name: str | None) -> Member:
        """The member with this name, the last one if there are several; the file itself if the name is None.

        Raises:
            SourceError: the file cannot be read, or has changed and has no such member.
        """
        if path not in self._listed:
            self._listed[path] = {member.name: member for member in members(Path(path))}
        member = self._listed[path].get(name)
        if member is None:
            raise SourceError(
                f"{path_text(path)} has changed while it was read",
                hint="wait until it is complete",
                slug="source-unreadable",
            )
        return member


def unreadable(label: str, error: OSError) -> SourceError:
    """The error for a file that the system does not let us read."""
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{label} does not exist", hint="check the path", slug="no-such-file")
    if isinstance(error, PermissionError):
        return SourceError(
            f"{label} may not be read: {reason}", hint="ask its owner for read permission", slug="no-permission"
        )
    return SourceError(
        f"{label} cannot be read: {reason}",
        hint="check the file system it lies on, and try a copy on a local disk",
        slug="source-unreadable",
    )


def _is_noise(name: str) -> bool:
    """Whether an archive's member is one that macOS adds to archives."""
    base = name.rsplit("/", 1)[-1]
    return name.startswith("__MACOSX/") or base.startswith("._") or base == ".DS_Store"


# -- zip -------------------------------------------------------------------------------------------


def _zip_members(path: Path) -> Iterator[Member]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise SourceError(
            f"{path} is a zip archive without a readable directory; it is probably cut off",
            hint="copy it again, or repair it with `zip -FF` and give the result",
            slug="archive-damaged",
        ) from error
    overlapping = _overlapping(entries)
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() or kind not in (0, stat.S_IFREG) or _is_noise(entry.filename):
            continue
        name = printable(entry.filename)
        label = f"{display_name(path)}!{name}"
        packed = entry.compress_type != zipfile.ZIP_STORED
        opener = partial(_zipped, path, entry, label, entry in overlapping)
        yield Member(path, name, label, entry.compress_size, None, entry.header_offset, packed, opener)


def _overlapping(entries: list[zipfile.ZipInfo]) -> set[zipfile.ZipInfo]:
    """Entries that start within the bytes of another: this way a few KB can stand for terabytes."""
    overlapping, end = set(), 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            overlapping.add(entry)
        end = max(end, entry.header_offset + _ZIP_HEADER + entry.compress_size)
    return overlapping


def _zipped(path: Path, entry: zipfile.ZipInfo, label: str, overlaps: bool, damage: list[str]) -> Blocks:
    if overlaps:
        raise SourceError(
            f"{label} shares its bytes with another member of the archive",
            hint="copy the archive again, or repair it with `zip -FF` and give the result",
            slug="archive-damaged",
        )
    if entry.flag_bits & 1:
        raise SourceError(
            f"{label} is encrypted",
            hint="unpack the archive with its password and give the files inside",
            slug="archive-encrypted",
        )
    content = partial(_zip_content, path, entry)
    if entry.compress_type == zipfile.ZIP_DEFLATED:
        return checked(inflated(content, damage), entry.CRC, damage)
    if entry.compress_type != zipfile.ZIP_STORED:
        raise SourceError(
            f"{label} is compressed in a way StepScope does not know (zip method {entry.compress_type})",
            hint="unpack the archive and give the files inside",
            slug="archive-method",
        )
    return checked(content(damage), entry.CRC, damage)


def _zip_content(path: Path, entry: zipfile.ZipInfo, damage: list[str]) -> Blocks:
    """A member's bytes in the archive. Its own header may be longer than the directory says."""
    with path.open("rb", buffering=0) as file:
        file.seek(max(0, entry.header_offset))
        header = file.read(_ZIP_HEADER)
    if len(header) < _ZIP_HEADER or not header.startswith(b"PK\x03\x04"):
        damage.append("archive_truncated")
        return
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    yield from _file(path, damage, entry.header_offset + _ZIP_HEADER + name + extra, entry.compress_size)


# -- tar -------------------------------------------------------------------------------------------


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


class _Forwards:
    """The bytes of a compressed archive from any offset on; an offset before the last blocks restarts from its start.

    All members of an archive share one, so that reading them in order costs one pass.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stream: ByteStream | None = None
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=2)  # offset and bytes of the last blocks
        self._end = 0

    def read_at(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset` on, none at the end."""
        with self._lock:
            if self._stream is None or (self._recent and offset < self._recent[0][0]):
                self._stream = ByteStream(partial(_file, self._path), str(self._path), self._path.stat().st_size)
                self._recent.clear()
                self._end = 0
            while self._end <= offset and (block := self._stream.read(_RECENT_BYTES)):
                self._recent.append((self._end, block))
                self._end += len(block)
            for start, block in self._recent:
                if start <= offset < start + len(block):
                    return block[offset - start : offset - start + size]
            return b""

    def opened(self, offset: int, length: int, damage: list[str]) -> Blocks:
        """The bytes of a member."""
        truncated: list[str] = []
        yield from _range(self.read_at, offset, length, truncated)
        if truncated:
            damage.append((self._stream and self._stream.damage) or truncated[0])


class _Headers:
    """The file object from which `tarfile` reads headers, at most `left` bytes."""

    def __init__(self, path: Path, read_at: Callable[[int, int], bytes]) -> None:
        self._path = path
        self._read_at = read_at
        self._at = 0
        self.left = _MAX_HEADERS

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> None:
        self._at = offset

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise SourceError(
                f"{self._path} has a member with more than {_MAX_HEADERS} bytes of headers",
                hint="unpack the archive and give the files inside",
                slug="archive-damaged",
            )
        data = b""
        while len(data) < size and (more := self._read_at(size - len(data), self._at)):
            data += more
            self._at += len(more)
        return data


def _tar_members(path: Path, *, compressed: bool) -> Iterator[Member]:
    archive = _Forwards(path)
    with path.open("rb") as file:
        read_at = archive.read_at if compressed else partial(os.pread, file.fileno())
        for entry in _entries(_Headers(path, read_at)):
            name = printable(entry.name)
            if entry.isreg() and not entry.issparse() and not _is_noise(name):
                opener: Opener = (
                    partial(archive.opened, entry.offset_data, entry.size)
                    if compressed
                    else partial(_file, path, offset=entry.offset_data, length=entry.size)
                )
                yield Member(
                    path, name, f"{display_name(path)}!{name}", entry.size, None, entry.offset_data, False, opener
                )


def _entries(headers: _Headers) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive, in order, as far as its headers make sense."""
    last = -1
    try:
        with tarfile.TarFile(fileobj=headers, errors="replace") as archive:  # type: ignore[arg-type]
            while (entry := archive.next()) and entry.offset_data > last:
                yield entry
                last = entry.offset_data
                headers.left = _MAX_HEADERS
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError):
        # Truncated, or malicious.
        return
