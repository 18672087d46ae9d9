"""Makes files of sources that are none: copies of standard input and of what is behind URLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stepscope.store import remote, standard_input
from stepscope.store.progress import Progress


@contextmanager
def as_files(paths: Sequence[Path], progress: Progress) -> Iterator[list[Path]]:
    """The paths, with temporary copies in place of sources that are no files here.

    Raises:
        SourceError: standard input or a URL cannot be read, or there is no such file.
        UsageError: a URL needs a package that is missing.
        OSError: a copy cannot be written.
    """
    with ExitStack() as copies:

        def file(path: Path) -> Path:
            if standard_input.is_standard_input(path):
                return copies.enter_context(standard_input.copied(progress))
            if remote.is_remote(path):
                return copies.enter_context(remote.copied(path, progress))
            if not path.exists():
                raise remote.missing(path)
            return path

        yield [file(path) for path in paths]
