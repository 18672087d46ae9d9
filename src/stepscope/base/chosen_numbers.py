"""Ranks and steps that people choose by number, and the errors if there is none of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

from stepscope.base.errors import UsageError

ERRORS = {
    "bad-number-list": "Ranks and steps are written as numbers and ranges: `3`, `0,2-5`.",
    "unknown-rank": "The recording has no such rank; the hint lists those it has.",
    "unknown-step": "The recording has no such step; the hint lists those it has.",
    "wrong-argument": "A Python function was given something of another type than it takes; the hint has an example.",
}


MAX_NUMBERS = 1_000_000
"""Most ranks or steps that can be chosen at once; a recording has fewer."""
_MAX_DIGITS = 18


def parse_numbers(text: str) -> tuple[int, ...]:
    """`"0,2-5"` to `(0, 2, 3, 4, 5)`: numbers and ranges, both ends included, in order, once each.

    Raises:
        UsageError: the text is not of that form, a range runs backwards, or they are too many.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise _bad_numbers(text)
        if max(len(first), len(last)) > _MAX_DIGITS:
            raise _bad_numbers(text)
        start, end = int(first), int(last or first)
        if end < start:
            raise _bad_numbers(text)
        if len(numbers) + end - start >= MAX_NUMBERS:
            raise UsageError(
                f"{text!r} names more than {MAX_NUMBERS} numbers",
                hint="leave the option out to have all",
                slug="bad-number-list",
            )
        numbers.update(range(start, end + 1))
    return tuple(sorted(numbers))


def _bad_numbers(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a list of numbers", hint="write numbers and ranges, as in 0,2-5", slug="bad-number-list"
    )


def numbers_text(numbers: Iterable[int]) -> str:
    """`(0, 2, 3, 4)` to `"0, 2-4"`; `"none"` when there are none.

    >>> numbers_text([7, 5, 6, 1])
    '1, 5-7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs) or "none"


def numbers_typed(numbers: Iterable[int]) -> str:
    """The same in the form that `parse_numbers` reads.

    >>> numbers_typed([7, 5, 6, 1])
    '1,5-7'
    """
    return numbers_text(numbers).replace(" ", "")


def numbers_of(given: int | Iterable[int], what: str) -> tuple[int, ...]:
    """One number or several as a tuple; `what` is `"rank"` or `"step"`.

    Raises:
        UsageError: it is neither a number nor several.
    """
    several = (given,) if isinstance(given, int) or not isinstance(given, Iterable) else tuple(given)
    # True is an int in Python, and NumPy's integers are none.
    if isinstance(given, str) or any(
        isinstance(number, bool) or not hasattr(number, "__index__") for number in several
    ):
        raise wrong_argument(f"{what}={given!r} is not a number", f"give {what}=0 or {what}=[0, 1]")
    return tuple(map(index, several))


def wrong_argument(message: str, hint: str) -> UsageError:
    """The error for an argument of another type to a Python function."""
    return UsageError(message, hint=hint, slug="wrong-argument")


def check_known(
    requested: Iterable[int], available: Sequence[int], what: str, *, of: str = "this recording"
) -> tuple[int, ...]:
    """The wanted numbers in order, once each; `what` is `"rank"` or `"step"`, `of` says whose.

    Raises:
        UsageError: one of them is not known. Says which there are.
    """
    numbers = sorted(set(requested))
    existing = set(available)
    missing = [number for number in numbers if number not in existing]
    if missing:
        raise UsageError(
            f"no {what} {numbers_text(missing)} in {of}",
            hint=f"it has {what} {numbers_text(available)}" if available else f"it has no {what}s",
            slug=f"unknown-{what}",
        )
    return tuple(numbers)
