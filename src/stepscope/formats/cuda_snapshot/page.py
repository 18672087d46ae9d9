"""The snapshot in a page by torch's `memory_viz` (`trace_plot`, `segment_plot`): a pickle in base64."""

from __future__ import annotations

import base64
import re

from stepscope.formats.container import ByteStream

_OPENS = re.compile(rb'"base64"\s*:\s*"')
_HEAD_BYTES = 1 << 16
_BLOCK = 1 << 20
"""Characters that are decoded at once: groups of four."""


def looks_like_page(head: bytes) -> bool:
    """Whether a file's first bytes are such a page."""
    return b"MemoryViz" in head and _OPENS.search(head) is not None


class EmbeddedPickle:
    """The pickle in a page, to be read like a file.

    Args:
        stream: the page, from its start.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        head = stream.read(_HEAD_BYTES)
        opened = _OPENS.search(head)
        self._encoded = b"" if opened is None else head[opened.end() :]
        self._decoded = b""
        self._ended = opened is None

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer at the end: where the text ends or is no longer base64."""
        while len(self._decoded) < size and not self._ended:
            text = self._encoded + self._stream.read(_BLOCK)
            inside, quote, _ = text.partition(b'"')
            # A short block is the last one.
            self._ended = bool(quote) or len(text) < _BLOCK
            complete = len(inside) - len(inside) % 4
            try:
                self._decoded += base64.b64decode(inside[:complete], validate=True)
            except ValueError:
                self._ended = True
            self._encoded = inside[complete:]
        data, self._decoded = self._decoded[:size], self._decoded[size:]
        return data
