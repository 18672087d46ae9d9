"""Turns any error of a request or command into one that can be shown."""

from __future__ import annotations

from stepscope import __version__
from stepscope.base.errors import StepScopeError, out_of_memory

MAX_CHARACTERS = 2_000
"""Of an error's message and of its hint."""


def to_user_error(
    error: Exception, shown_by: str = "what the same question prints on the command line"
) -> StepScopeError:
    """Returns any error as one of ours; an unknown error is a bug, to be reported with what `shown_by` names."""
    if isinstance(error, StepScopeError):
        return error
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return out_of_memory()
    return StepScopeError(
        f"a bug in StepScope {__version__}: {type(error).__name__}: {error}",
        hint=f"please report it, with {shown_by}",
        slug="",
    )


def error_json(error: StepScopeError) -> dict[str, str]:
    """The JSON form of errors, with the first part of long texts: they may repeat what a request said."""
    message, hint = (
        text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…" for text in (error.message, error.hint)
    )
    return {"message": message, "hint": hint, "slug": error.slug}
