"""Caches answers in a store, so that repeating a question about it needs no database.

An answer is a file of its own in the store's folder `.results`, which `store.json` does not list: it is not part of the
recording, anyone may delete it, and a damaged one counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Final

import pyarrow as pa

from stepscope.base.complete_file import complete_file
from stepscope.base.regular_file import regular_file_bytes
from stepscope.store.manifest import RESULT, RESULTS_FOLDER

MAX_BYTES: Final = 16 << 20
MAX_FILES: Final = 1000
"""Limits of the folder; the oldest results are deleted first."""
_MAX_UNPACKED_BYTES: Final = 256 << 20
_CRC32_BYTES: Final = 4
_HEAD_BYTES: Final = 12
"""CRC-32 of the rest, and the size of the Arrow stream before compression."""


class ResultCache:
    """The cached results of one store; any number of threads and processes may use it."""

    def __init__(self, store: Path) -> None:
        self._folder = store / RESULTS_FOLDER

    def get(self, key: str) -> pa.Table | None:
        """The result under a key from `key_of`; None if there is none."""
        with suppress(OSError, ValueError, MemoryError, pa.ArrowException):
            data = regular_file_bytes(self._folder / key, MAX_BYTES)
            size = int.from_bytes(data[_CRC32_BYTES:_HEAD_BYTES], "little")
            if zlib.crc32(data[_CRC32_BYTES:]) != int.from_bytes(data[:_CRC32_BYTES], "little"):
                return None
            if size > _MAX_UNPACKED_BYTES:
                return None
            stream = pa.decompress(data[_HEAD_BYTES:], size, "zstd")
            with pa.ipc.open_stream(stream) as reader:
                rows = reader.read_all()
            rows.validate(full=True)
            return rows
        return None

    def set(self, key: str, rows: pa.Table) -> None:
        """Stores a result; not if it is large, or if the store cannot be written or is meant to stay as it is."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        stream = sink.getvalue()
        if stream.size > _MAX_UNPACKED_BYTES:
            return
        data = stream.size.to_bytes(_HEAD_BYTES - _CRC32_BYTES, "little") + pa.compress(stream, "zstd", asbytes=True)
        data = zlib.crc32(data).to_bytes(_CRC32_BYTES, "little") + data
        if len(data) > MAX_BYTES:
            return
        with suppress(OSError):
            # Root could write into any folder, and a stranger's store may link to another place.
            if not self._folder.parent.stat().st_mode & 0o222:
                return
            self._folder.mkdir(exist_ok=True)
            if S_ISDIR(self._folder.lstat().st_mode):
                with complete_file(self._folder / key) as unfinished:
                    unfinished.write_bytes(data)
                self._trim()

    def _trim(self) -> None:
        files = [file for file in self._folder.iterdir() if RESULT.fullmatch(file.name)]
        by_age = sorted(((file.stat().st_mtime_ns, file.stat().st_size, file) for file in files), reverse=True)
        total = 0
        for number, (_, size, file) in enumerate(by_age):
            total += size
            if number >= MAX_FILES or total > MAX_BYTES:
                file.unlink(missing_ok=True)


def key_of(*parts: Any) -> str | None:
    """The key for all that a result depends on; None if that is not only texts and numbers."""
    try:
        text = json.dumps(parts)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
