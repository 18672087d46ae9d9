"""Streams of bytes behind compression that give up what they can when the compression is damaged.

Every stream has `read(size)`, which gives that many bytes unless the end is near, and `damage`, the
class of damage that ended it or was found at its end. Nothing here raises for bad content: a stream
that breaks off is shorter, and says so. Nothing is held in memory but blocks of a fixed size.

gzip is taken apart by hand (members, headers, checksums) around ISA-L's raw inflate, because the
ready-made readers raise a checksum or end-of-file error instead of handing over what they decoded.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from isal import igzip_lib, isal_zlib

BLOCK_BYTES = 1 << 18
_ISAL_ERROR: Any = igzip_lib.IsalError
_FAST_RAW = igzip_lib.DECOMP_DEFLATE


class Stream(Protocol):
    """Bytes, one block after the other."""

    @property
    def damage(self) -> str | None:
        """Class of damage, known at the end."""
        ...

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end, none after it."""
        ...

    def close(self) -> None:
        """Lets go of the file."""
        ...


Opener = Callable[[], Stream]
"""Opens the same stream again from its beginning."""


class FileWindow:
    """A range of a file.

    Args:
        path: the file.
        start: first byte of the range.
        length: bytes of the range; to the end of the file when None.
        short: class of damage when the file ends inside the range.
    """

    def __init__(
        self, path: str, start: int = 0, length: int | None = None, short: str = "archive_truncated"
    ) -> None:
        self.damage: str | None = None
        self._file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 - closed by close()
        self._left = length
        self._short = short
        if start:
            self._file.seek(start)

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end of the range."""
        wanted = size if self._left is None else min(size, self._left)
        pieces = []
        while wanted > 0:
            piece = self._file.read(wanted)
            if not piece:
                if self._left is not None:
                    self.damage = self._short
                    self._left = 0
                break
            pieces.append(piece)
            wanted -= len(piece)
            if self._left is not None:
                self._left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class _Source:
    """A stream one can put bytes back into and whose position is known."""

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.stream = opener()
        self.position = 0
        self._back = b""

    def read(self, size: int) -> bytes:
        data, self._back = self._back[:size], self._back[size:]
        if len(data) < size:
            data += self.stream.read(size - len(data))
        self.position += len(data)
        return data

    def put_back(self, data: bytes) -> None:
        self._back = data + self._back
        self.position -= len(data)


class _Deflate:
    """One raw deflate stream in a source, which stands behind it when `ended` is set."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._start = source.position
        self._inflater = igzip_lib.IgzipDecompressor(flag=_FAST_RAW, hist_bits=15)
        self.crc = 0
        self.size = 0
        self.ended = False
        self.failure: str | None = None  # "truncated" or "corrupt"

    def read(self, size: int) -> bytes:
        """Some bytes, at most `size`; none when it ended or failed."""
        while not self.ended and self.failure is None:
            block = self._source.read(BLOCK_BYTES) if self._inflater.needs_input else b""
            at_end = self._inflater.needs_input and not block
            try:
                data: bytes = self._inflater.decompress(block, size)
            except _ISAL_ERROR:
                data = self._rescue()
                self.failure = "corrupt"
            else:
                if self._inflater.eof:
                    self.ended = True
                    self._source.put_back(self._inflater.unused_data)
                elif at_end and not data:
                    self.failure = "truncated"
            if data:
                self.crc = isal_zlib.crc32(data, self.crc)
                self.size += len(data)
                return data
        return b""

    def _rescue(self) -> bytes:
        """What can be decoded before the place where decoding failed, but was not handed out.

        The call that fails takes its output with it, so the stream is read again up to there, and
        its last blocks byte by byte.
        """
        again = _Source(self._source.opener)
        try:
            _skip(again, self._start)
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            slow_from = self._source.position - 2 * BLOCK_BYTES
            done = 0
            pieces: list[bytes] = []
            while block := again.read(BLOCK_BYTES if again.position < slow_from else 1):
                try:
                    data = inflater.decompress(block)
                except zlib.error:
                    break
                done += len(data)
                if done > self.size:
                    pieces.append(data[-(done - self.size) :] if not pieces else data)
            return b"".join(pieces)
        finally:
            again.stream.close()


def _skip(source: _Source, size: int) -> None:
    while size > 0:
        data = source.read(min(size, BLOCK_BYTES))
        if not data:
            return
        size -= len(data)


class GzipStream:
    """gzip in any state: several members, odd headers, garbage behind, wrong checksums, cut off."""

    def __init__(self, opener: Opener) -> None:
        self._source = _Source(opener)
        self._deflate: _Deflate | None = None
        self._members = 0
        self._over = False
        self._damage: str | None = None

    @property
    def damage(self) -> str | None:
        """What was wrong with it, or with what it is made from."""
        return self._damage or self._source.stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces = []
        while size > 0 and not self._over:
            if self._deflate is None and not self._next_member():
                break
            if self._deflate is None:
                continue
            data = self._deflate.read(size)
            if data:
                pieces.append(data)
                size -= len(data)
            else:
                self._end_member(self._deflate)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Closes what it is made from."""
        self._source.stream.close()

    def _end(self, damage: str | None) -> bool:
        self._over = True
        self._damage = self._damage or damage
        return False

    def _next_member(self) -> bool:
        """Goes over the header of the next member; false when there is none."""
        source = self._source
        magic = source.read(2)
        while self._members and magic[:1] == b"\x00":
            # Members may be padded with zeros to a block of a tape or disk.
            magic = magic.lstrip(b"\x00") or source.read(2)
            magic += source.read(2 - len(magic)) if len(magic) < 2 else b""
        if not magic and self._members:
            return self._end(None)
        if magic != b"\x1f\x8b":
            return self._end("gzip_trailing" if self._members else "gzip_truncated")
        fixed = source.read(8)
        if len(fixed) < 8:
            return self._end("gzip_truncated")
        if fixed[0] != 8:
            return self._end("gzip_corrupt")
        flags = fixed[1]
        if flags & 4:
            length = int.from_bytes(source.read(2), "little")
            source.read(length)
        for flag in (8, 16):
            if flags & flag:
                self._skip_text()
        if flags & 2:
            source.read(2)
        self._members += 1
        self._deflate = _Deflate(source)
        return True

    def _skip_text(self) -> None:
        """Goes over a text that ends with a zero byte (file name, comment)."""
        for _ in range(16):
            data = self._source.read(4096)
            at = data.find(b"\x00")
            if at >= 0:
                self._source.put_back(data[at + 1 :])
                return
            if not data:
                return

    def _end_member(self, deflate: _Deflate) -> None:
        self._deflate = None
        if deflate.failure:
            self._end(f"gzip_{deflate.failure}")
            return
        trailer = self._source.read(8)
        if len(trailer) < 8:
            self._end("gzip_truncated")
        elif (
            int.from_bytes(trailer[:4], "little") != deflate.crc
            or int.from_bytes(trailer[4:], "little") != deflate.size & 0xFFFFFFFF
        ):
            self._damage = self._damage or "gzip_crc"


class DeflateStream:
    """One raw deflate stream, as zip archives hold them.

    Args:
        opener: opens the compressed bytes.
        crc: checksum that the archive states, or None.
    """

    def __init__(self, opener: Opener, crc: int | None) -> None:
        self._source = _Source(opener)
        self._deflate = _Deflate(self._source)
        self._crc = crc

    @property
    def damage(self) -> str | None:
        """What was wrong with it."""
        deflate = self._deflate
        if deflate.failure:
            return f"archive_{deflate.failure}"
        if deflate.ended and self._crc is not None and deflate.crc != self._crc:
            return "archive_crc"
        return self._source.stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces = []
        while size > 0 and (data := self._deflate.read(size)):
            pieces.append(data)
            size -= len(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Closes what it is made from."""
        self._source.stream.close()


class StoredStream:
    """Bytes that an archive holds as they are, with their checksum."""

    def __init__(self, opener: Opener, crc: int | None) -> None:
        self._stream = opener()
        self._stated = crc
        self._crc = 0
        self._over = False

    @property
    def damage(self) -> str | None:
        """What was wrong with it."""
        if self._stream.damage is not None:
            return self._stream.damage
        wrong = self._over and self._stated is not None and self._crc != self._stated
        return "archive_crc" if wrong else None

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        data = self._stream.read(size)
        self._crc = isal_zlib.crc32(data, self._crc)
        self._over |= len(data) < size
        return data

    def close(self) -> None:
        """Closes what it is made from."""
        self._stream.close()


class BlockStream:
    """bzip2 or xz, one or several streams behind each other.

    Args:
        opener: opens the compressed bytes.
        inflater: makes a decompressor of the standard library.
    """

    def __init__(self, opener: Opener, inflater: Callable[[], Any]) -> None:
        self._source = _Source(opener)
        self._make = inflater
        self._inflater = inflater()
        self._damage: str | None = None
        self._over = False

    @property
    def damage(self) -> str | None:
        """What was wrong with it, or with what it is made from."""
        return self._damage or self._source.stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces = []
        while size > 0 and not self._over:
            data = self._some(size)
            if data:
                pieces.append(data)
                size -= len(data)
        return b"".join(pieces)

    def _some(self, size: int) -> bytes:
        if self._inflater.eof:
            self._source.put_back(self._inflater.unused_data)
            self._inflater = self._make()
            begin = self._source.read(1)
            if not begin.strip(b"\x00"):
                self._over = True
                return b""
            self._source.put_back(begin)
        block = self._source.read(BLOCK_BYTES >> 2) if self._inflater.needs_input else b""
        at_end = self._inflater.needs_input and not block
        try:
            data: bytes = self._inflater.decompress(block, size)
        except (OSError, lzma.LZMAError, EOFError):
            self._over = True
            self._damage = "compression_corrupt"
            return b""
        if at_end and not data and not self._inflater.eof:
            self._over = True
            self._damage = "compression_truncated"
        return data

    def close(self) -> None:
        """Closes what it is made from."""
        self._source.stream.close()


class _File:
    """A stream as the file object that Arrow reads from."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        return self._stream.read(size)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class ArrowStream:
    """zstd or lz4, through Arrow's codecs."""

    def __init__(self, opener: Opener, codec: str) -> None:
        self._stream = opener()
        self._damage: str | None = None
        self._over = False
        self._inflated = pa.CompressedInputStream(
            pa.PythonFile(_File(self._stream), mode="r"), codec
        )

    @property
    def damage(self) -> str | None:
        """What was wrong with it, or with what it is made from."""
        return self._damage or self._stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces = []
        while size > 0 and not self._over:
            try:
                # A call that fails takes its output with it, so calls are small.
                data: bytes = self._inflated.read(min(size, BLOCK_BYTES >> 2))
            except (OSError, ValueError) as error:
                cut = "truncated" in str(error).lower()
                self._damage = "compression_truncated" if cut else "compression_corrupt"
                self._over = True
                break
            self._over = not data
            pieces.append(data)
            size -= len(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Closes what it is made from."""
        self._stream.close()


def compression_of(head: bytes) -> str | None:
    """Which compression the first bytes of a stream are the beginning of, or None."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5):
        return "zstd"
    if head.startswith(b"\x04\x22\x4d\x18"):
        return "lz4"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    return None


class Peeked:
    """A stream whose first bytes were looked at.

    Attributes:
        head: those bytes; they are read again.
    """

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self.head = stream.read(size)
        self._left = self.head

    @property
    def damage(self) -> str | None:
        """What was wrong with the stream."""
        return self._stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        if not self._left:
            return self._stream.read(size)
        data, self._left = self._left[:size], self._left[size:]
        return data if len(data) == size else data + self._stream.read(size - len(data))

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class FirstOpened:
    """Opens a stream like the opener it stands for, but gives one that is open already first."""

    def __init__(self, stream: Stream, opener: Opener) -> None:
        self._stream: Stream | None = stream
        self._opener = opener

    def __call__(self) -> Stream:
        """The stream, from its beginning."""
        stream, self._stream = self._stream, None
        return self._opener() if stream is None else stream


def inflated(opener: Opener, compression: str) -> Stream:
    """The stream behind a compression that `compression_of` named."""
    if compression == "gzip":
        return GzipStream(opener)
    if compression == "bzip2":
        return BlockStream(opener, bz2.BZ2Decompressor)
    if compression == "xz":
        return BlockStream(opener, lzma.LZMADecompressor)
    return ArrowStream(opener, compression)
