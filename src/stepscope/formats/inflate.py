"""Decompresses streams of bytes, and returns what it can if they are damaged.

A stream is an iterator of blocks. Nothing here raises for bad content: a damaged stream ends early, and its class of
damage is appended to `damage`, a list that all layers of a stream share.

The ready-made readers (`gzip`, `zipfile`) raise an error for a wrong checksum, an early end or bytes after the end, and
lose what they decoded. So this drives the decompressors beneath them: ISA-L's for deflate, several times as fast as
zlib's, and zstd's own.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from isal import igzip_lib, isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Blocks: TypeAlias = Iterator[bytes]
Opener: TypeAlias = Callable[[list[str]], Blocks]
"""Opens a stream from its start; takes the list for classes of damage."""

BLOCK_BYTES = 1 << 18
_CALL_BYTES = 1 << 17
"""A call that fails loses its output, so calls are small."""
_MAX_HEADER = 1 << 17
_MANY_PARTS = 1 << 16
_PART_BYTES = 256
"""The mean content of a part of a stream of many: programs that compress block by block write 16 KB and more to each."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after 0x50 to 0x5f: a frame without content
_CORRUPT: tuple[Any, ...] = (igzip_lib.IsalError, zstd.ZstdError, EOFError, ValueError)


class Source:
    """The bytes of a stream, read in pieces of any size; `position` is that of the next byte."""

    def __init__(self, blocks: Blocks) -> None:
        self.position = 0
        self._blocks = blocks
        self._block, self._at = b"", 0

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end."""
        pieces, missing = [], size
        while missing > 0:
            if self._at == len(self._block):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._block, self._at = block, 0
            piece = self._block[self._at : self._at + missing]
            pieces.append(piece)
            self._at += len(piece)
            missing -= len(piece)
        self.position += size - missing
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def put_back(self, data: bytes) -> None:
        """Lets the next `read` start with these bytes, which were the last ones read."""
        if self._at < len(data):
            self._block, self._at = data + self._block[self._at :], len(data)
        self._at -= len(data)
        self.position -= len(data)

    def peek(self, size: int) -> bytes:
        """The next bytes, which can be read again."""
        data = self.read(size)
        self.put_back(data)
        return data

    def remaining(self) -> Blocks:
        """The remaining bytes, in the blocks in which they come."""
        return chain([self._block[self._at :]], self._blocks)


def uncompressed(opener: Opener, max_layers: int, damage: list[str]) -> tuple[Source, int]:
    """The stream under all compressions, and how many there were."""
    source = Source(opener(damage))
    for layer in range(max_layers):
        head = source.peek(4)
        if head.startswith(_GZIP):
            source = Source(_gunzip(source, damage, partial(_reopened, opener, layer)))
        elif head == _ZSTD or (head[1:] == _SKIPPABLE and head[0] >> 4 == 5):
            source = Source(_unzstd(source, damage))
        else:
            return source, layer
    return source, max_layers


def _reopened(opener: Opener, layers: int) -> Source:
    return uncompressed(opener, layers, [])[0]


def inflated(opener: Opener, damage: list[str]) -> Blocks:
    """The content of one raw deflate stream, as zip archives hold them."""
    yield from _deflated(Source(opener(damage)), "archive", damage, lambda: Source(opener([])))


def checked(blocks: Blocks, crc: int, damage: list[str]) -> Blocks:
    """A stream whose checksum an archive states."""
    actual = 0
    for block in blocks:
        actual = isal_zlib.crc32(block, actual)
        yield block
    if actual != crc:
        damage.append("archive_crc")


def _decoded(source: Source, decompressor: Any, kind: str, damage: list[str]) -> Blocks:
    """The content of a compressed part, up to its end or its damage."""
    while not decompressor.eof:
        block = source.read(BLOCK_BYTES) if decompressor.needs_input else b""
        at_end = decompressor.needs_input and not block
        try:
            data = decompressor.decompress(block, _CALL_BYTES)
        except _CORRUPT:
            damage.append(f"{kind}_corrupt")
            return
        if at_end and not data and not decompressor.eof:
            damage.append(f"{kind}_truncated")
            return
        yield data
    source.put_back(decompressor.unused_data)


def _unzstd(source: Source, damage: list[str]) -> Blocks:
    """The content of consecutive zstd frames."""
    parts = size = 0
    while True:
        decompressor = zstd.ZstdDecompressor()
        for data in _decoded(source, decompressor, "compression", damage):
            size += len(data)
            yield data
        parts += 1
        if not decompressor.eof or not source.peek(1) or _are_implausible(parts, size, damage):
            return


def _are_implausible(parts: int, size: int, damage: list[str]) -> bool:
    """Whether a stream has so many parts with next to nothing in them that reading it would not end: each takes tens of
    microseconds, and a layer around them can make them of almost no bytes."""
    if parts <= _MANY_PARTS or size > parts * _PART_BYTES:
        return False
    damage.append("implausible_size")
    return True


def _deflated(
    source: Source, kind: str, damage: list[str], reopened: Callable[[], Source]
) -> Generator[bytes, None, bytes | None]:
    """The content of a raw deflate stream; returns the trailer that gzip writes after it, None if it is damaged."""
    start, size = source.position, 0
    decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR, hist_bits=15)
    for data in _decoded(source, decompressor, kind, damage):
        size += len(data)
        yield data
    if decompressor.eof:
        return struct.pack("<II", decompressor.crc, size & 0xFFFFFFFF)
    if damage[-1] == f"{kind}_corrupt":
        yield from _rescued(reopened(), start, source.position, size)
    return None


def _rescued(source: Source, start: int, end: int, size: int) -> Blocks:
    """What zlib decodes of a corrupt part in bytes `start` to `end`, without the first `size` bytes: ISA-L drops the
    output of the call that fails, so zlib gets the last bytes one by one."""
    while source.position < start:
        source.read(min(BLOCK_BYTES, start - source.position))
    inflater, done = zlib.decompressobj(-zlib.MAX_WBITS), 0
    while block := source.read(BLOCK_BYTES if source.position < end - 2 * BLOCK_BYTES else 1):
        try:
            data = inflater.decompress(block)
        except zlib.error:
            return
        yield data[max(0, size - done) :]
        done += len(data)


def _gunzip(source: Source, damage: list[str], reopened: Callable[[], Source]) -> Blocks:
    """gzip in any state: several members, odd headers, garbage at the end, wrong checksums, truncated."""
    parts = size = 0
    while not _are_implausible(parts, size, damage):
        head = source.read(_MAX_HEADER)
        # Members may be padded with zeros to a block of a tape or disk.
        while parts and head[:1] == b"\x00":
            head = head.lstrip(b"\x00")
            head += source.read(_MAX_HEADER - len(head))
        if parts and not head.startswith(_GZIP):
            damage += ["gzip_trailing"] if head else []
            return
        length = _gzip_header(head)
        if length is None or length > len(head):
            damage.append("gzip_truncated")
            return
        if head[2] != 8:
            damage.append("gzip_corrupt")
            return
        source.put_back(head[length:])
        trailer = yield from _deflated(source, "gzip", damage, reopened)
        if trailer is None:
            return
        parts += 1
        size += int.from_bytes(trailer[4:], "little")
        stated = source.read(8)
        if stated != trailer:
            damage.append("gzip_truncated" if len(stated) < 8 else "gzip_crc")


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
