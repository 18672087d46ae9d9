"""Reads standard input (`-`) as a source, once, from a copy that is deleted afterwards.

Readers need a file: they look at a recording's first bytes, then read it from its start, and a zip archive
or a database from its end. So standard input is copied to a temporary folder, and nothing of it is cached.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.store.progress import Progress

MAX_BYTES = 16 << 30
"""Longer input is refused: endless input must not fill the disk."""

_BLOCK = 1 << 20

ERRORS = {
    "standard-input": (
        "`-` reads a recording from standard input, once: `zcat trace.json.gz | stepscope summary -`. It must "
        "come from a pipe or a file, be no larger than 16 GiB, and leave half of the temporary folder's free "
        "disk space; give a larger recording by its path."
    ),
}


def is_standard_input(source: str | os.PathLike[str]) -> bool:
    """Whether a source means standard input; a file with that name is given with its folder."""
    return os.fspath(source) == "-"


@contextmanager
def copied(progress: Progress) -> Iterator[Path]:
    """A temporary copy of standard input.

    Raises:
        SourceError: standard input is a terminal, empty (or was read before), or too long.
        OSError: the copy cannot be written.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise _refused("is a terminal, or closed", "pipe a recording into it, or give a path")
    # Imported here: queries of a store must not wait for the readers.
    from stepscope.formats.container import COPIED

    folder = Path(tempfile.mkdtemp(prefix=COPIED))
    try:
        path = folder / "standard input"
        limit = min(MAX_BYTES, shutil.disk_usage(folder).free // 2)
        progress.start("Reading standard input", total=None, unit="bytes")
        size = 0
        with path.open("xb") as copy:  # in a folder that mkdtemp made for us alone
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > limit:
                    raise _refused(
                        f"holds more than {limit >> 20} MiB", "give a path: a file is read where it is, and not copied"
                    )
                copy.write(block)
                progress.advance(len(block))
        progress.finish()
        if not size:
            raise _refused("is empty, or was read before", "it is read once, as one recording")
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refused(what: str, hint: str) -> SourceError:
    return SourceError(f"standard input {what}", hint=hint, slug="standard-input")
