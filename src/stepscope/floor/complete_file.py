"""Files that are complete or absent: written beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepscope.floor.errors import StepScopeError

_HINT = "choose a folder that exists, that you may write to, and that has space left"

ERRORS = {
    "cannot-write": (
        "The answer cannot be written to this file: its folder is missing, is full, or you may not "
        "write to it. Nothing is left behind."
    ),
}


@contextmanager
def complete_file(target: Path, *, since_epoch_s: float | None = None) -> Iterator[Path]:
    """Gives the path to write to; what is there becomes `target` when the block ends.

    Args:
        target: where the file is to be; one that is there is replaced.
        since_epoch_s: a file at `target` that is younger than this is not replaced.

    Raises:
        FileExistsError: there is such a younger file.
        OSError: the directory cannot be written; nothing is left behind.

    Example:
        with complete_file(Path("a.svg")) as unfinished:
            unfinished.write_text("<svg/>")
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # A link that somebody put at this name must not be written through.
        unfinished.unlink(missing_ok=True)
        yield unfinished
        if since_epoch_s is None or not _linked(unfinished, target, since_epoch_s):
            unfinished.replace(target)
    finally:
        # What stands in the way of writing may stand in the way of this too.
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _linked(unfinished: Path, target: Path, since_epoch_s: float) -> bool:
    """Whether the file now has the name `target` too, where nothing had it: of two, one gets it."""
    try:
        os.link(unfinished, target)
    except OSError:  # something has it, or the file system has no links
        if target.exists() and target.stat().st_mtime >= since_epoch_s:
            raise FileExistsError(str(target)) from None
        return False
    return True


@contextmanager
def complete_output(target: Path, *, hint: str = _HINT) -> Iterator[Path]:
    """Like `complete_file`, for a file that the user named: a link is followed, and a device or a pipe
    (`/dev/null`, `/dev/stdout`) is written into and not replaced.

    Raises:
        StepScopeError: the file cannot be written; `hint` says what to do. Nothing is left behind.
    """
    try:
        if target.exists() and not target.is_file():
            yield target
            return
        with complete_file(Path(os.path.realpath(target))) as unfinished:
            yield unfinished
    except OSError as error:
        raise StepScopeError(
            f"{target}: cannot be written ({error.strerror or error})",
            hint=hint,
            slug="cannot-write",
        ) from None
