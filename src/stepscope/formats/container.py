"""Opens files as they come: plain, compressed, or many in one archive.

A file is identified by its first bytes; its name is only a label. Archives are read as streams: nothing is ever written
to disk, links, devices and sparse files inside them are skipped, names are never paths, and claimed sizes are not
believed.
"""

from __future__ import annotations

import hashlib
import stat
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.base.quoting import path_text, printable
from stepscope.formats.inflate import Checked, Deflate, FileWindow, Peekable, Stream, uncompressed

MOST_LAYERS = 3
"""Compressions around one another, such as `trace.json.gz.gz`."""
MOST_INFLATED = 1 << 30
MOST_RATIO = 500
"""A stream that inflates to more than `MOST_INFLATED` bytes and to more than this many times its size on disk is no
trace: the text of traces inflates 10 to 60 times."""
BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\x00"
"""Bytes that are not text: spaces, and the zeros of a preallocated file."""
_ZIP_HEADER = 30
_TAR_BLOCK = 512
_MOST_HEADERS = 1 << 14
"""Bytes of headers before one member of a tar archive. The time that `tarfile` takes for a header, and before Python
3.12.6 and its like the memory too, grows with the square of its length."""
_INFLATES = 12
"""How many times its size on disk a compressed trace has in memory, if it was not inflated yet."""
_KEPT_BYTES = 1 << 20
_SKIPPED_BYTES = 1 << 18
_GZIP = b"\x1f\x8b"
_EXTRA_FIELD = 4
_TOLD = 0xFFFFFFFF
"""The bits of a size that the end of a gzip stream states."""

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
    """The uncompressed bytes of a file or member; a context manager.

    Args:
        opener: opens the bytes as they are on disk or in an archive.
        label: their name in messages.
        size: how many there are.
        packed: whether the archive compressed them.

    Attributes:
        layers: compressions that are removed.
        damage: class of damage of the container, known after the end was read.
    """

    def __init__(self, opener: Callable[[], Stream], label: str, size: int, *, packed: bool = False) -> None:
        self._label = label
        self._stream, self.layers = uncompressed(opener, MOST_LAYERS)
        inflates = packed or self.layers > 0
        self._left = max(MOST_INFLATED, MOST_RATIO * size) if inflates else 1 << 62
        self._damage: str | None = None

    @property
    def damage(self) -> str | None:
        """Class of damage of the container, None while there is none."""
        return self._damage or self._stream.damage

    def peek(self, size: int) -> bytes:
        """The next bytes, which can be read again."""
        return self._stream.peek(size)

    def read(self, size: int = -1, /) -> bytes:
        """Reads `size` bytes, fewer only at the end, none after it; all if negative.

        Raises:
            SourceError: the file can no longer be read (a disk or network file system failed).
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if self._left < 0:
            self._damage = "implausible_size"
            return b""
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise unreadable(self._label, error) from error
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a member's bytes are.

    Attributes:
        offset: of the member's first byte, in the file or in `within`.
        length: of its bytes there; to the end when None.
        entry: its entry in the directory of a zip archive.
        within: the uncompressed archive, if the archive itself is compressed.
        shared: whether another member has some of the same bytes.
        packed: whether its bytes are compressed there.
    """

    offset: int = 0
    length: int | None = None
    entry: zipfile.ZipInfo | None = None
    within: _Forwards | None = None
    shared: bool = False
    packed: bool = False


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
    """

    path: Path
    name: str | None
    label: str
    size: int
    _place: _Place = field(default_factory=_Place, repr=False, compare=False)
    process: str | None = None

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
    def offset(self) -> int:
        """The byte of the archive at which it begins."""
        return self._place.offset

    @property
    def text_size(self) -> int:
        """Its uncompressed size in bytes, roughly."""
        return self.size * _INFLATES if self._place.packed else self.size

    def open(self) -> ByteStream:
        """Opens its uncompressed bytes.

        Raises:
            SourceError: the file cannot be read, needs a password or an unknown method, or is one of
                several members with the same bytes of an archive.
        """
        place = self._place
        if place.shared:
            raise SourceError(
                f"{self.label} shares its bytes with another member of the archive",
                hint="copy the archive again, or repair it with `zip -FF` and give the result",
                slug="archive-damaged",
            )
        opener = self._packed()
        if place.entry is not None:
            opener = partial(_unzipped, opener, place.entry, self.label)
        packed = place.within is not None or place.entry is not None
        try:
            return ByteStream(opener, self.label, self.size, packed=packed)
        except OSError as error:
            raise unreadable(self.label, error) from error

    def _packed(self) -> Callable[[], Stream]:
        """Opens its bytes as they are on disk or in an archive."""
        place = self._place
        if place.within is not None:
            return partial(_Stretch, place.within, place.offset, place.length or 0)
        return partial(FileWindow, str(self.path), place.offset, place.length)

    def told_size(self) -> int | None:
        """Its uncompressed size in bytes as the file states it, without the higher bits; None if only reading it would
        tell, or it cannot be read."""
        place = self._place
        with suppress(SourceError, OSError):
            with self.open() as stream:
                layers = stream.layers
            if not layers:
                return (self.size if place.entry is None else place.entry.file_size) & _TOLD
            if layers == 1 and place.within is None and place.entry is None:
                with self.path.open("rb") as file:
                    file.seek(place.offset)
                    head = file.read(4)
                    # Of several gzips in one file, as bgzip writes with its own field, each states its own size only.
                    is_gzip = head[:2] == _GZIP and not head[3] & _EXTRA_FIELD
                    file.seek(place.offset + self.size - 4)
                    return int.from_bytes(file.read(4), "little") if is_gzip else None
        return None

    def digest(self) -> bytes:
        """A digest of its uncompressed bytes: the same for copies of one file, however each is compressed.

        Raises:
            SourceError: the file cannot be read.
        """
        found = hashlib.sha256()
        with self.open() as stream:
            while block := stream.read(_KEPT_BYTES):
                found.update(block)
        return found.digest()


def members(path: Path) -> Iterator[Member]:
    """Lists the members of a file: itself, or the files of an archive (zip, tar, compressed tar).

    Members may be opened at once or later, in any order and in other processes; one after the other
    is fastest in a compressed tar.

    Raises:
        SourceError: the file is missing, a directory, no regular file, or may not be read.

    Example:
        >>> for member in members(Path("traces.zip")):  # doctest: +SKIP
        ...     with member.open() as stream:
        ...         head = stream.read(512)
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
        with ByteStream(partial(FileWindow, str(path)), str(path), status.st_size) as stream:
            head, layers = stream.peek(_TAR_BLOCK), stream.layers
    except OSError as error:
        raise unreadable(str(path), error) from error
    if layers == 0 and head[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        yield from _zip_members(path)
    elif _is_tar(head):
        yield from _tar_members(path, compressed=layers > 0)
    else:
        yield Member(path, None, called(path), status.st_size, _Place(packed=layers > 0))


def called(path: Path) -> str:
    """A file's name in messages and answers: its path, or what it is a copy of.

    Example:
        >>> called(Path("/tmp/stepscope-copy-x1/s3/bucket/run/rank0.json"))
        's3://bucket/run/rank0.json'
    """
    names = path.parts
    folder = next((at for at, name in enumerate(names) if name.startswith(COPIED)), None)
    if folder is None or len(names) == folder + 1:
        return path_text(path)
    first, *rest = names[folder + 1 :]
    return path_text(Path(first)) if not rest else f"{first}://{path_text(Path(*rest))}"


class Listings:
    """The members of files, each file listed once.

    Listing a compressed archive inflates all of it; members that are then read in their order take one more pass
    together.
    """

    def __init__(self) -> None:
        self._listed: dict[str, list[Member]] = {}

    def member(self, path: str, name: str | None) -> Member:
        """The member with this name; the file itself if the name is None.

        Raises:
            SourceError: the file cannot be read, or has changed and has no such member.
        """
        if path not in self._listed:
            self._listed[path] = list(members(Path(path)))
        for found in self._listed[path]:
            if found.name == name:
                return found
        raise SourceError(
            f"{path_text(path)} has changed while it was read",
            hint="wait until it is complete",
            slug="source-unreadable",
        )


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
    shared = _sharing(entries)
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() or kind not in (0, stat.S_IFREG) or _is_noise(entry.filename):
            continue
        name = printable(entry.filename)
        offset = _zip_data(path, entry)
        packed = entry.compress_type != zipfile.ZIP_STORED
        place = _Place(offset, entry.compress_size, entry, shared=entry in shared, packed=packed)
        yield Member(path, name, f"{called(path)}!{name}", entry.compress_size, place)


def _sharing(entries: list[zipfile.ZipInfo]) -> set[zipfile.ZipInfo]:
    """Entries that begin within the bytes of another: this way a few KB can stand for terabytes."""
    shared, end = set(), 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            shared.add(entry)
        end = max(end, entry.header_offset + _ZIP_HEADER + entry.compress_size)
    return shared


def _zip_data(path: Path, entry: zipfile.ZipInfo) -> int:
    """First byte of a member's data: its own header may be longer than the directory says."""
    window = FileWindow(str(path), max(0, entry.header_offset))
    try:
        header = window.read(_ZIP_HEADER)
    finally:
        window.close()
    if len(header) < _ZIP_HEADER or not header.startswith(b"PK\x03\x04"):
        return path.stat().st_size
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return entry.header_offset + _ZIP_HEADER + name + extra


def _unzipped(opener: Callable[[], Stream], entry: zipfile.ZipInfo, label: str) -> Stream:
    if entry.flag_bits & 1:
        raise SourceError(
            f"{label} is encrypted",
            hint="unpack the archive with its password and give the files inside",
            slug="archive-encrypted",
        )
    if entry.compress_type == zipfile.ZIP_STORED:
        return Checked(opener(), entry.CRC)
    if entry.compress_type == zipfile.ZIP_DEFLATED:
        again = partial(_peekable, opener)
        return Checked(Deflate(again(), again), entry.CRC)
    raise SourceError(
        f"{label} is compressed in a way StepScope does not know (zip method {entry.compress_type})",
        hint="unpack the archive and give the files inside",
        slug="archive-method",
    )


def _peekable(opener: Callable[[], Stream]) -> Peekable:
    return Peekable(opener())


# -- tar -------------------------------------------------------------------------------------------


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


class _Forwards:
    """A file object with seeking backwards for an archive whose bytes come only forwards.

    All members of an archive share one, so that reading them in order costs one pass. The last bytes are kept, because
    a member's head is usually read before the member is opened again and read entirely; going back further starts
    again from the beginning, as does sending it to another process.

    Attributes:
        headers_left: bytes that `read` may still read; see `_entries`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stream: ByteStream | None = None
        self._recent = b""
        self._end = 0  # of the bytes read so far
        self._at = 0
        self.headers_left = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _Forwards, (self._path,)

    @property
    def damage(self) -> str | None:
        """The archive's damage as far as it was read."""
        return self._stream.damage if self._stream else None

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on, fewer only at the end."""
        with self._lock:
            if self._stream is None or offset < self._end - len(self._recent):
                self._open()
            while self._end < offset:
                if not self._read_on(min(_SKIPPED_BYTES, offset - self._end)):
                    return b""
            recent = self._recent[len(self._recent) - (self._end - offset) :][:size]
            return recent + self._read_on(size - len(recent))

    def _open(self) -> None:
        self.close()
        opener = partial(FileWindow, str(self._path))
        self._stream = ByteStream(opener, str(self._path), self._path.stat().st_size)
        self._recent, self._end = b"", 0

    def _read_on(self, size: int) -> bytes:
        fresh = self._stream.read(size) if self._stream and size else b""
        self._recent = (self._recent + fresh)[-_KEPT_BYTES:]
        self._end += len(fresh)
        return fresh

    def close(self) -> None:
        """Closes the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    # The part of a file object that `tarfile` uses; it reads nothing but headers.

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> None:
        self._at = offset

    def read(self, size: int) -> bytes:
        self.headers_left -= size
        if self.headers_left < 0:
            raise SourceError(
                f"{self._path} has a member with more than {_MOST_HEADERS} bytes of headers",
                hint="unpack the archive and give the files inside",
                slug="archive-damaged",
            )
        data = self.read_at(self._at, size)
        self._at += len(data)
        return data


class _Stretch:
    """A member of a compressed archive."""

    def __init__(self, archive: _Forwards, offset: int, length: int) -> None:
        self.damage: str | None = None
        self._archive = archive
        self._at = offset
        self._end = offset + length

    def read(self, size: int, /) -> bytes:
        wanted = min(size, self._end - self._at)
        data = self._archive.read_at(self._at, wanted)
        self._at += len(data)
        if len(data) < wanted:
            self.damage = self._archive.damage or "archive_truncated"
        return data

    def close(self) -> None:
        """Leaves the archive open for the next member."""


def _tar_members(path: Path, *, compressed: bool) -> Iterator[Member]:
    archive = _Forwards(path)
    try:
        for entry in _entries(archive):
            name = printable(entry.name)
            if entry.isreg() and not entry.issparse() and not _is_noise(name):
                place = _Place(entry.offset_data, entry.size, within=archive if compressed else None)
                yield Member(path, name, f"{called(path)}!{name}", entry.size, place)
    finally:
        archive.close()


def _entries(archive: _Forwards) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive, in order, as far as its headers make sense."""
    seen = -1
    try:
        archive.headers_left = _MOST_HEADERS
        with tarfile.TarFile(fileobj=archive, errors="replace") as headers:  # type: ignore[arg-type]
            while (entry := headers.next()) and entry.offset_data > seen:
                yield entry
                seen = entry.offset_data
                archive.headers_left = _MOST_HEADERS
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError):
        # Truncated, or malicious.
        return
