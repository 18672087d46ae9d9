"""The width of a text in a terminal: letters of East Asian scripts and emoji take two columns."""

from __future__ import annotations

import unicodedata


def cells(text: str) -> int:
    """Columns of a terminal that the text takes.

    >>> cells("gemm"), cells("行列"), cells("e\N{COMBINING ACUTE ACCENT}")
    (4, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def first_cells(text: str, width: int) -> str:
    """The longest start of the text that fits into so many columns.

    >>> first_cells("行列", 3)
    '行'
    """
    if text.isascii():
        return text[: max(width, 0)]
    for end, letter in enumerate(text):
        width -= _cells(letter)
        if width < 0:
            return text[:end]
    return text


def last_cells(text: str, width: int) -> str:
    """The longest end of the text that fits into so many columns."""
    return first_cells(text[::-1], width)[::-1]


def left(text: str, width: int) -> str:
    """The text, padded with spaces after it to so many columns."""
    return text + " " * (width - cells(text))


def right(text: str, width: int) -> str:
    """The text, padded with spaces before it to so many columns."""
    return " " * (width - cells(text)) + text
