"""Makes files of sources that are none: copies of standard input (`-`) and of what is behind URLs.

Readers need a file: they look at a recording's first bytes, then read it from its start, and a zip archive or a
database from its end. A copy is in a temporary folder that is deleted afterwards; nothing of standard input is cached.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.store import remote
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
def as_files(paths: Sequence[Path], progress: Progress) -> Iterator[list[Path]]:
    """The paths, with temporary copies in place of sources that are no files here.

    Raises:
        SourceError: standard input is a terminal, empty or too long, a URL cannot be read, or there is no such file.
        UsageError: a URL needs a package that is missing.
        OSError: a copy cannot be written.
    """
    with ExitStack() as copies:

        def file(path: Path) -> Path:
            if is_standard_input(path):
                return copies.enter_context(_standard_input(progress))
            if remote.is_remote(path):
                return copies.enter_context(remote.copied(path, progress))
            if not path.exists():
                raise remote.missing(path)
            return path

        yield [file(path) for path in paths]


@contextmanager
def _standard_input(progress: Progress) -> Iterator[Path]:
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
