"""Turns any error of a request or command into one that can be shown."""

from __future__ import annotations

from stepscope import __version__
from stepscope.base.errors import StepScopeError, out_of_memory


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
    """The JSON form of errors."""
    return {"message": error.message, "hint": error.hint, "slug": error.slug}
