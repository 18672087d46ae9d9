"""Decompresses streams of bytes, and returns what it can if they are damaged.

Every stream has `read(size)`, which returns that many bytes except near the end, and `damage`, the class of damage that
ended it or was found at its end. Nothing here raises for bad content: a truncated stream is shorter, and says so. Only
blocks of a fixed size are held in memory.

The ready-made readers (`gzip`, `zipfile`) raise an error for a wrong checksum, an early end or bytes after the end, and
lose what they decoded. So this drives the decompressors beneath them: ISA-L's for deflate, several times as fast as
zlib's, and zstd's own.
"""

from __future__ import annotations

import struct
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Protocol

from isal import igzip_lib, isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_BLOCK_BYTES = 1 << 18
_CALL_BYTES = 1 << 17
"""A call that fails loses its output, so calls are small."""
_LONGEST_HEADER = 1 << 17
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after 0x50 to 0x5f: a frame without content
_CORRUPT: tuple[Any, ...] = (igzip_lib.IsalError, zstd.ZstdError, EOFError, ValueError)


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
        """Closes the file."""
        ...


class FileWindow:
    """A range of a file.

    Args:
        path: the file.
        start: first byte of the range.
        length: bytes of the range; to the end of the file when None.
    """

    def __init__(self, path: str, start: int = 0, length: int | None = None) -> None:
        self.damage: str | None = None
        self._file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 - closed by close()
        self._left = length
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
                    self.damage = "archive_truncated"
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


class Peekable:
    """A stream into which bytes can be put back.

    Attributes:
        position: of the next byte.
    """

    def __init__(self, stream: Stream) -> None:
        self.position = 0
        self._stream = stream
        self._back = b""

    @property
    def damage(self) -> str | None:
        """What was wrong with the stream."""
        return self._stream.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        data, self._back = self._back[:size], self._back[size:]
        if len(data) < size:
            fresh = self._stream.read(size - len(data))
            data = data + fresh if data else fresh
        self.position += len(data)
        return data

    def put_back(self, data: bytes) -> None:
        """Lets the next `read` begin with these bytes."""
        self._back = data + self._back
        self.position -= len(data)

    def peek(self, size: int) -> bytes:
        """The next bytes, which can be read again."""
        data = self.read(size)
        self.put_back(data)
        return data

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class _Inflated(ABC):
    """The content of a compressed stream: consecutive parts, each with its own end.

    Args:
        source: the compressed bytes.
        again: opens them again from the start.
    """

    kind = "compression"  # of the damage

    def __init__(self, source: Peekable, again: Callable[[], Peekable]) -> None:
        self._source = source
        self._again = again
        self._start = 0  # of the part, in the source
        self._part: Any = None
        self._parts = 0
        self._size = 0  # decoded bytes of the part so far
        self._over = False
        self._damage: str | None = None

    @property
    def damage(self) -> str | None:
        """The damage of it or of its source."""
        return self._damage or self._source.damage

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces = []
        while size > 0 and not self._over:
            if self._part is None:
                self._part = self._next_part()
                self._parts += 1
                self._start, self._size = self._source.position, 0
            else:
                data = self._some(min(size, _CALL_BYTES))
                pieces.append(data)
                size -= len(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Closes its source."""
        self._source.close()

    def _some(self, size: int) -> bytes:
        part = self._part
        block = self._source.read(_BLOCK_BYTES) if part.needs_input else b""
        at_end = part.needs_input and not block
        try:
            data: bytes = part.decompress(block, size)
        except _CORRUPT:
            self._end("corrupt")
            return self._rescued()
        self._size += len(data)
        if part.eof:
            self._source.put_back(part.unused_data)
            self._part = None
            self._damage = self._damage or self._end_part(part)
        elif at_end and not data:
            self._end("truncated")
        return data

    def _end(self, damage: str | None = None) -> None:
        self._over = True
        if damage:
            self._damage = self._damage or f"{self.kind}_{damage}"

    @abstractmethod
    def _next_part(self) -> Any:
        """The decompressor of the next part; ends the stream and returns None if there is none."""

    def _end_part(self, part: Any) -> str | None:  # noqa: ARG002 - some kinds need it
        """Class of damage that the bytes after a part show."""
        return None

    def _rescued(self) -> bytes:
        """What the failed call had decoded, if that can be recovered."""
        return b""


class Zstd(_Inflated):
    """zstd: consecutive frames."""

    def _next_part(self) -> Any:
        if self._parts and not self._source.peek(1):
            return self._end()
        return zstd.ZstdDecompressor()


class Deflate(_Inflated):
    """One raw deflate stream, as zip archives hold them."""

    kind = "archive"

    def _next_part(self) -> Any:
        if self._parts:
            return self._end()
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR, hist_bits=15)

    def _rescued(self) -> bytes:
        """What zlib decodes of the part, byte by byte near its end, without the bytes already returned."""
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        slow_from = self._source.position - 2 * _BLOCK_BYTES
        done, pieces = 0, []
        with closing(self._again()) as again:
            while again.position < self._start:
                again.read(min(_BLOCK_BYTES, self._start - again.position))
            while block := again.read(_BLOCK_BYTES if again.position < slow_from else 1):
                try:
                    data = inflater.decompress(block)
                except zlib.error:
                    break
                pieces.append(data[max(0, self._size - done) :])
                done += len(data)
        return b"".join(pieces)


class Gzip(Deflate):
    """gzip in any state: several members, odd headers, garbage at the end, wrong checksums, truncated."""

    kind = "gzip"

    def _next_part(self) -> Any:
        head = self._source.read(_LONGEST_HEADER)
        if self._parts:
            # Members may be padded with zeros to a block of a tape or disk.
            while head[:1] == b"\x00":
                head = head.lstrip(b"\x00") or self._source.read(_LONGEST_HEADER)
            if not head:
                return self._end()
            head += self._source.read(_LONGEST_HEADER - len(head))
            if not head.startswith(_GZIP):
                return self._end("trailing")
        length = _gzip_header(head)
        if length is None or length > len(head):
            return self._end("truncated")
        if head[2] != 8:
            return self._end("corrupt")
        self._source.put_back(head[length:])
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR, hist_bits=15)

    def _end_part(self, part: Any) -> str | None:
        trailer = self._source.read(8)
        if len(trailer) < 8:
            return "gzip_truncated"
        right = trailer == struct.pack("<II", part.crc, self._size & 0xFFFFFFFF)
        return None if right else "gzip_crc"


class Checked:
    """A stream whose checksum an archive states."""

    def __init__(self, stream: Stream, crc: int) -> None:
        self._stream = stream
        self._stated = crc
        self._crc = 0
        self._over = False

    @property
    def damage(self) -> str | None:
        """What was wrong with it."""
        wrong = self._over and self._crc != self._stated
        return self._stream.damage or ("archive_crc" if wrong else None)

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        data = self._stream.read(size)
        self._crc = isal_zlib.crc32(data, self._crc)
        self._over |= len(data) < size
        return data

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


def uncompressed(opener: Callable[[], Stream], most_layers: int) -> tuple[Peekable, int]:
    """The stream under all compressions, and how many there were."""
    source = Peekable(opener())
    for layer in range(most_layers):
        head = source.peek(4)
        again = partial(_uncompressed, opener, layer)
        if head.startswith(_GZIP):
            source = Peekable(Gzip(source, again))
        elif head == _ZSTD or (head[1:] == _SKIPPABLE and head[0] >> 4 == 5):
            source = Peekable(Zstd(source, again))
        else:
            return source, layer
    return source, most_layers


def _uncompressed(opener: Callable[[], Stream], layers: int) -> Peekable:
    return uncompressed(opener, layers)[0]


def _gzip_header(head: bytes) -> int | None:
    """Length of a member's header; None if it does not end."""
    if len(head) < 10:
        return None
    flags, length = head[3], 10
    if flags & 4:
        length += 2 + int.from_bytes(head[length : length + 2], "little")
    for text in (8, 16):  # file name and comment, each with a zero byte at its end
        if flags & text:
            length = head.find(b"\x00", length) + 1
            if not length:
                return None
    return length + 2 if flags & 2 else length
