"""StepScope's errors.

Every error is one line of what happened, one line of what to do, and a slug that names its page in the documentation. A
traceback means a bug in StepScope, never bad input.

A module that raises has the paragraphs of that page in `ERRORS`, slug to text: to add an error, raise it and explain
its slug there. A slug that several modules of a package raise is explained in one of them.
"""

from __future__ import annotations

from stepscope.base.quoting import printable

ERRORS = {
    "out-of-memory": (
        "The recording, or the answer, needs more memory than the machine has, or a query more than queries may take "
        "(a quarter of it, at most 4 GiB). A part of it may fit: fewer "
        "ranks (`--rank`), fewer steps (`stepscope import SRC --steps 3-5 -o DIR`), or no Python frames "
        "(`--no-python-stack`)."
    )
}


class StepScopeError(Exception):
    """Something the user can act on. Exit code 1.

    Args:
        message: one line: what happened.
        hint: one line: what to do about it.
        slug: the name of the error's page in the documentation.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", slug: str = "error") -> None:
        # Both name files, and others chose these names. Python shows an uncaught error as it is.
        self.message = printable(" ".join(map(str.strip, message.splitlines())))
        self.hint = printable(" ".join(map(str.strip, hint.splitlines())))
        super().__init__(self.message)
        self.slug = slug


def out_of_memory(what: str = "") -> StepScopeError:
    """The error for a task that needs more memory than there is; `what` names the task."""
    return StepScopeError(
        f"{what}: memory ran out" if what else "memory ran out",
        hint="ask for a part: fewer ranks with --rank, or import some steps with "
        "`stepscope import SRC --steps 3-5 -o DIR`",
        slug="out-of-memory",
    )


class SourceError(StepScopeError):
    """A file or folder cannot be read as a recording."""


class DamagedSourceError(SourceError):
    """A file needed repair and `--strict` was asked for."""


class StoreError(StepScopeError):
    """A store cannot be opened or written."""


class UsageError(StepScopeError):
    """The call itself is wrong: an unknown column, a step that does not exist. Exit code 2."""

    exit_code = 2


class CheckFailedError(StepScopeError):
    """A check or a gate did not hold. Exit code 3."""

    exit_code = 3
