"""Lines of somebody's text, one after the other and none of them without end."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.formats.container import ByteStream, strip_bom

_BLOCK = 1 << 20


def text_lines(stream: ByteStream, longest: int) -> Iterator[str]:
    """Lines without their ends.

    Args:
        stream: where they are read from.
        longest: bytes of a line to keep; a longer one comes with one byte more.
    """
    rest, first = b"", True
    while block := stream.read(_BLOCK):
        if first:
            block, first = strip_bom(block), False
        *complete, rest = (rest + block).split(b"\n")
        for line in complete:
            yield line[: longest + 1].decode("utf-8", "replace").removesuffix("\r")
        rest = rest[: longest + 1]
    yield rest.decode("utf-8", "replace")
