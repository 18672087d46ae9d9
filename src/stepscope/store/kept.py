"""Keeps results computed from an entire store beside it, so that they are not computed again.

A result is defined by one query, function or question (`query.kept_answers`), and kept under its name in one file of
the store, which `store.json` does not list: it is not part of the recording, anyone may delete it, and it counts as
absent if it is damaged, or of another store or other code. For a small store only answers are kept: its queries take no
longer than reading their kept results.
"""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from stepscope.base.complete_file import complete_file
from stepscope.base.regular_file import regular_file_bytes
from stepscope.store.code_digest import code_digest
from stepscope.store.manifest import KEPT_FILE
from stepscope.store.packed import packed, unpacked

MOST_ROWS: Final = 10_000
"""Most rows of a query's result that is kept; more are not a sum but the events themselves."""
MOST_BYTES: Final = 16 << 20
"""Largest size of the file: what was kept first is dropped first."""
_MOST_HEAD_BYTES: Final = 1 << 20
_MOST_VALUE_BYTES: Final = 256 << 20
"""Largest size of a kept value, before it is compressed."""
NOTHING: Final = object()


class Kept:
    """The results kept for one store. Several threads may use it.

    Args:
        directory: the store.
        crc32: of its `store.json`, which distinguishes it from any other.
    """

    def __init__(self, directory: Path, crc32: int) -> None:
        """Reads the kept results."""
        self._file = directory / KEPT_FILE
        self._changing = threading.Lock()
        self._of = {"store": crc32, "code": code_digest("questions")}
        self._known = self._there()
        self._changed = False

    def _there(self) -> dict[str, tuple[bytes, int]]:
        """The content of the file; empty if it is not this store's, of other code, or damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._read(regular_file_bytes(self._file, _MOST_HEAD_BYTES + MOST_BYTES))
        return {}

    def _read(self, data: bytes) -> dict[str, tuple[bytes, int]]:
        line, _, body = data.partition(b"\n")
        head = json.loads(line)
        known: dict[str, tuple[bytes, int]] = {}
        if head["of"] != self._of or head["crc32"] != zlib.crc32(body):
            return known
        at = 0
        for key, length, size in head["values"]:
            if [type(key), type(length), type(size)] != [str, int, int]:
                return {}
            if not 0 <= length <= len(body) - at or not 0 <= size <= _MOST_VALUE_BYTES:
                return {}
            known[key] = body[at : at + length], size
            at += length
        return known

    def get(self, key: str, *records: type) -> Any:
        """The value under a key, `NOTHING` if there is none.

        Args:
            key: from `key_of`.
            records: the classes that it may be made of.
        """
        if (found := self._known.get(key)) is None:
            return NOTHING
        data, size = found
        try:
            return unpacked(pa.decompress(data, size, "zstd", asbytes=True), *records)
        except (ValueError, OSError, MemoryError, pa.ArrowException):
            return NOTHING

    def put(self, key: str, value: Any) -> None:
        """Keeps a value, if it can be kept and there is room."""
        with suppress(TypeError, pa.ArrowException):
            data = packed(value)
            small = pa.compress(data, "zstd", asbytes=True)
            if len(small) > MOST_BYTES or len(data) > _MOST_VALUE_BYTES:
                return
            with self._changing:
                self._known.pop(key, None)
                held = sum(len(one) for one, _ in self._known.values())
                while held + len(small) > MOST_BYTES:
                    gone, _ = self._known.pop(next(iter(self._known)))
                    held -= len(gone)
                self._known[key] = small, len(data)
                self._changed = True

    def write(self) -> None:
        """Writes new values into the store, beside what other processes have written meanwhile; not if the store cannot
        be written or is meant to stay as it is."""
        if not self._changed or not self._may_change():
            return
        with self._changing:
            self._changed = False
            known = dict(self._known)
        room = MOST_BYTES - sum(len(data) for data, _ in known.values())
        for key, (data, size) in self._there().items():
            if key not in known and len(data) <= room:
                known[key] = data, size
                room -= len(data)
        body = b"".join(data for data, _ in known.values())
        values = [[key, len(data), size] for key, (data, size) in known.items()]
        head = {"of": self._of, "crc32": zlib.crc32(body), "values": values}
        with suppress(OSError), complete_file(self._file) as unfinished:
            unfinished.write_bytes(json.dumps(head).encode() + b"\n" + body)

    def _may_change(self) -> bool:
        """Whether the folder's permissions let anyone write: root could write into any folder."""
        with suppress(OSError):
            return bool(self._file.parent.stat().st_mode & 0o222)
        return False


def key_of(*parts: Any) -> str | None:
    """The key for some parts; None if they are not only texts and numbers."""
    try:
        text = json.dumps(parts)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
