"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepscope.floor.errors import StepScopeError

_HINT = "choose a folder that exists, that you may write to, and that has space left"


@contextmanager
def written_whole(target: Path, *, hint: str = _HINT) -> Iterator[Path]:
    """Gives the path to write to; what is there becomes `target` when the block ends.

    Args:
        target: where the file is to be; one that is there is replaced.
        hint: what to do where the system refuses.

    Raises:
        StepScopeError: the system refuses. Nothing is left behind then.

    Example:
        with written_whole(Path("a.svg")) as unfinished:
            unfinished.write_text("<svg/>")
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield unfinished
        unfinished.replace(target)
    except OSError as error:
        raise StepScopeError(
            f"{target}: cannot be written ({error.strerror or error})",
            hint=hint,
            slug="cannot-write",
        ) from None
    finally:
        # What stands in the way of writing may stand in the way of this too.
        with contextlib.suppress(OSError):
            unfinished.unlink()
