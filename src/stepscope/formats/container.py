"""Opens files as they lie about: plain, compressed, or many in one archive.

What a file is, its first bytes say; its name is only a label. Archives are read as streams: nothing
is ever written to disk, links and devices inside them are passed over, names are never paths, and
sizes that an archive claims are not believed.
"""

from __future__ import annotations

import stat
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from stepscope.floor.errors import SourceError
from stepscope.formats.inflate import (
    BLOCK_BYTES,
    DeflateStream,
    FileWindow,
    FirstOpened,
    Opener,
    Peeked,
    StoredStream,
    Stream,
    compression_of,
    inflated,
)

HEAD_BYTES = 512
MOST_LAYERS = 3
"""Compressions around one another, such as `trace.json.gz.gz`."""
MOST_INFLATED = 1 << 30
MOST_RATIO = 500
"""A stream that inflates to more than `MOST_INFLATED` bytes and to more than this many times its size
on disk is no trace: text of traces inflates 10 to 60 times."""
BOM = b"\xef\xbb\xbf"
_TAR_BLOCK = 512
_LONGEST_NAME = 1 << 20
_REWIND_BYTES = 1 << 20


def strip_bom(head: bytes) -> bytes:
    """The bytes without a UTF-8 byte order mark in front.

    Example:
        >>> strip_bom(b"\\xef\\xbb\\xbf[]")
        b'[]'
    """
    return head[len(BOM) :] if head.startswith(BOM) else head


class ByteStream:
    """The uncompressed bytes of a member; a context manager.

    Attributes:
        damage: class of damage of the container, known after the end was read.
    """

    def __init__(self, stream: Stream, label: str, plausible: int) -> None:
        self._stream = stream
        self._label = label
        self._plausible = plausible
        self._given = 0
        self._damage: str | None = None

    @property
    def damage(self) -> str | None:
        """Class of damage of the container, None while there is none."""
        return self._damage or self._stream.damage

    def read(self, size: int = -1, /) -> bytes:
        """Reads `size` bytes, fewer only at the end, none after it; everything when negative.

        Raises:
            SourceError: the file cannot be read any more (a disk or network file system failed).
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if self._given > self._plausible:
            self._damage = "implausible_size"
            return b""
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise _unreadable(self._label, error) from error
        self._given += len(data)
        return data

    def close(self) -> None:
        """Lets go of the file."""
        self._stream.close()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a member's bytes lie.

    Attributes:
        offset: of the member's first byte, in the file or in `within`.
        length: of its bytes there; to the end when None.
        method: how a zip archive compressed it.
        crc: checksum that a zip archive states.
        within: the uncompressed archive, where the archive itself is compressed.
    """

    offset: int = 0
    length: int | None = None
    method: int | None = None
    crc: int | None = None
    encrypted: bool = False
    within: _SharedTar | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One file to read: a file on disk, or one inside an archive.

    Attributes:
        path: the file on disk.
        name: its name inside the archive; None where the file is no archive.
        label: how it is called in messages: the path, or `archive!member`.
        size: bytes it takes on disk.
    """

    path: Path
    name: str | None
    label: str
    size: int
    _place: _Place = field(default_factory=_Place, repr=False, compare=False)

    def open(self) -> ByteStream:
        """Opens its uncompressed bytes.

        Raises:
            SourceError: the file cannot be read, or needs a password or an unknown method.
        """
        try:
            stream, layers = _uncompressed(self._opener())
        except OSError as error:
            raise _unreadable(self.label, error) from error
        packed = layers > 0 or self._place.method is not None or self._place.within is not None
        limit = max(MOST_INFLATED, MOST_RATIO * self.size) if packed else 1 << 62
        return ByteStream(stream, self.label, limit)

    def _opener(self) -> Opener:
        place = self._place
        if place.within is not None:
            return partial(_SharedWindow, place.within, place.offset, place.length or 0)
        window = partial(FileWindow, str(self.path), place.offset, place.length)
        if place.encrypted:
            raise SourceError(
                f"{self.label} is encrypted",
                hint="unpack the archive with its password and give the files inside",
                slug="archive-encrypted",
            )
        if place.method is None:
            return window
        if place.method == zipfile.ZIP_STORED:
            return partial(StoredStream, window, place.crc)
        if place.method == zipfile.ZIP_DEFLATED:
            return partial(DeflateStream, window, place.crc)
        for method, compression in ((zipfile.ZIP_BZIP2, "bzip2"), (93, "zstd"), (95, "xz")):
            if place.method == method:
                return partial(inflated, window, compression)
        raise SourceError(
            f"{self.label} is compressed in a way StepScope does not know (zip method {place.method})",
            hint="unpack the archive and give the files inside",
            slug="archive-method",
        )


def members(path: Path) -> Iterator[Member]:
    """Lists what a file holds: itself, or the files of an archive (zip, tar, compressed tar).

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
                hint="save it to a file first: files are read more than once",
                slug="not-a-file",
            )
        stream, layers = _uncompressed(partial(FileWindow, str(path)))
        stream.close()
    except OSError as error:
        raise _unreadable(str(path), error) from error
    if layers == 0 and stream.head[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        yield from _zip_members(path)
    elif _is_tar(stream.head):
        yield from _tar_members(path, status.st_size, compressed=layers > 0)
    else:
        yield Member(path, None, str(path), status.st_size)


def member_at(path: Path, name: str | None) -> Member:
    """The member of a file that has a name; the first where several have it.

    Args:
        path: the file on disk.
        name: as `Member.name` has it: None for a file that is no archive.

    Raises:
        SourceError: there is none of that name, or the file cannot be read.
    """
    for member in members(path):
        if member.name == name:
            return member
    raise SourceError(
        f"{path} has no member {name!r}" if name is not None else f"{path} is an archive",
        hint="the file was changed while it was read; try again",
        slug="no-such-member",
    )


def _unreadable(label: str, error: OSError) -> SourceError:
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{label} does not exist", hint="check the path", slug="no-such-file")
    if isinstance(error, PermissionError):
        return SourceError(
            f"{label} may not be read: {reason}",
            hint="ask its owner for read permission",
            slug="no-permission",
        )
    return SourceError(
        f"{label} cannot be read: {reason}",
        hint="check the file system it lies on, and try a copy on a local disk",
        slug="source-unreadable",
    )


def _uncompressed(opener: Opener) -> tuple[Peeked, int]:
    """The stream behind all compressions, and how many there were."""
    layers = 0
    while True:
        stream = Peeked(opener(), HEAD_BYTES)
        compression = compression_of(stream.head) if layers < MOST_LAYERS else None
        if compression is None:
            return stream, layers
        opener = partial(inflated, FirstOpened(stream, opener), compression)
        layers += 1


def _shown(name: str) -> str:
    """A member's name fit to be printed: what is no visible character might steer a terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


def _is_noise(name: str) -> bool:
    """Whether an archive's member is what macOS adds to archives."""
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
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() or kind not in (0, stat.S_IFREG) or _is_noise(entry.filename):
            continue
        name = _shown(entry.filename)
        place = _Place(
            offset=_zip_data(path, entry),
            length=entry.compress_size,
            method=entry.compress_type,
            crc=entry.CRC,
            encrypted=bool(entry.flag_bits & 1),
        )
        yield Member(path, name, f"{path}!{name}", entry.compress_size, place)


def _zip_data(path: Path, entry: zipfile.ZipInfo) -> int:
    """First byte of a member's data: its own header may be longer than the directory says."""
    window = FileWindow(str(path), max(0, entry.header_offset))
    try:
        header = window.read(30)
    finally:
        window.close()
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        return path.stat().st_size
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return entry.header_offset + 30 + name + extra


# -- tar -------------------------------------------------------------------------------------------


def _is_tar(head: bytes) -> bool:
    return len(head) == _TAR_BLOCK and _tar_entry(head) is not None


def _tar_entry(block: bytes) -> tarfile.TarInfo | None:
    """The entry a header block describes; None where its checksum does not fit."""
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return None


class _SharedTar:
    """The uncompressed bytes of a compressed archive, which its members read in turn.

    A compressed stream can only be read forwards. The stream that one member leaves behind is kept
    for the next, so that members read in order cost one pass together. Sent to another process, it
    starts anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._parked: _Forward | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _SharedTar, (self._path,)

    def take(self, offset: int) -> _Forward:
        """A stream that stands at `offset`."""
        with self._lock:
            parked, self._parked = self._parked, None
        if parked is not None and not parked.can_reach(offset):
            parked.close()
            parked = None
        if parked is None:
            parked = _Forward(_uncompressed(partial(FileWindow, str(self._path)))[0])
        parked.go_to(offset)
        return parked

    def park(self, stream: _Forward) -> None:
        """Keeps a stream for the next reader, if it is the only one."""
        with self._lock:
            if self._parked is None:
                self._parked = stream
                return
        stream.close()

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            parked, self._parked = self._parked, None
        if parked is not None:
            parked.close()


class _Forward:
    """A stream whose position is known, and which can go back a little.

    Who opens a member usually looks at its head first and opens it again to read it.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.position = 0
        self._recent = b""
        self._ahead = b""

    def read(self, size: int) -> bytes:
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(data) < size:
            fresh = self.stream.read(size - len(data))
            self._recent = (self._recent + fresh)[-_REWIND_BYTES:]
            data += fresh
        self.position += len(data)
        return data

    def can_reach(self, offset: int) -> bool:
        return self.position - offset <= len(self._recent) - len(self._ahead)

    def go_to(self, offset: int) -> None:
        if self.position > offset:
            back = self.position - offset + len(self._ahead)
            self._ahead = self._recent[-back:]
            self.position = offset
        while self.position < offset:
            if not self.read(min(BLOCK_BYTES, offset - self.position)):
                break

    def close(self) -> None:
        self.stream.close()


class _SharedWindow:
    """A member of a compressed archive."""

    def __init__(self, shared: _SharedTar, offset: int, length: int) -> None:
        self._shared = shared
        self._stream = shared.take(offset)
        self._left = length
        self._short = self._stream.position < offset

    @property
    def damage(self) -> str | None:
        """What was wrong with the archive, as far as this member is concerned."""
        return (self._stream.stream.damage or "archive_truncated") if self._short else None

    def read(self, size: int, /) -> bytes:
        wanted = min(size, self._left)
        data = self._stream.read(wanted) if wanted else b""
        self._left -= len(data)
        self._short |= len(data) < wanted
        return data

    def close(self) -> None:
        self._shared.park(self._stream)


def _tar_members(path: Path, size: int, *, compressed: bool) -> Iterator[Member]:
    shared = _SharedTar(path)
    try:
        for name, offset, length in _tar_entries(shared):
            if not compressed and offset > size:
                return
            place = _Place(offset, length, within=shared if compressed else None)
            yield Member(path, name, f"{path}!{name}", length, place)
    finally:
        shared.close()


def _tar_entries(shared: _SharedTar) -> Iterator[tuple[str, int, int]]:
    """Name, first byte and length of every regular file of a tar archive, in order."""
    offset = 0
    override: dict[str, str] = {}
    while True:
        stream = shared.take(offset)
        block = stream.read(_TAR_BLOCK)
        entry = _tar_entry(block) if len(block) == _TAR_BLOCK else None
        if entry is None:
            shared.park(stream)
            return
        data, length = offset + _TAR_BLOCK, max(0, entry.size)
        if entry.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            text = stream.read(min(length, _LONGEST_NAME))
            shared.park(stream)
            if entry.type == tarfile.XHDTYPE:
                override.update(_pax_records(text))
            else:
                override["path"] = text.rstrip(b"\x00").decode("utf-8", "replace")
            offset = data + _padded(length)
            continue
        shared.park(stream)
        stated = override.get("size", "")
        length = (
            int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 19 else length
        )
        name = _shown(override.get("path", entry.name))
        regular = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
        if entry.type not in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            override = {}
        if regular and not name.endswith("/") and not _is_noise(name):
            yield name, data, length
        # Links and devices have no data, whatever size their header states.
        has_data = regular or entry.type not in (
            tarfile.LNKTYPE,
            tarfile.SYMTYPE,
            tarfile.CHRTYPE,
            tarfile.BLKTYPE,
            tarfile.DIRTYPE,
            tarfile.FIFOTYPE,
        )
        offset = data + (_padded(length) if has_data else 0)


def _padded(length: int) -> int:
    return -(-length // _TAR_BLOCK) * _TAR_BLOCK


def _pax_records(text: bytes) -> dict[str, str]:
    """Keywords of a pax header: records of `length keyword=value` and a line break."""
    records: dict[str, str] = {}
    while text:
        digits, _, _ = text.partition(b" ")
        if not digits.isdigit() or len(digits) > 9 or not len(digits) < int(digits) <= len(text):
            break
        record, text = text[len(digits) + 1 : int(digits) - 1], text[int(digits) :]
        key, _, value = record.partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return records
