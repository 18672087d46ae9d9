"""Quotes the words of a command line for bash, without warnings from shellcheck."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_TYPED_AS_QUOTES = re.compile("[\u00a0\u2018-\u201f\u2028\u2029]")
"""Characters that bash takes literally and shellcheck for a typing error."""
_RESERVED = re.compile("case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while")


def bash_word(word: str) -> str:
    r"""Quotes one word if necessary.

    `shlex.quote` is right for bash, but shellcheck warns about a `$` between single quotes (SC2016) and about `'"'"'`.

    >>> bash_word("it's $5")
    '"it\'s \\$5"'
    """
    if _PLAIN.fullmatch(word) and not _RESERVED.fullmatch(word):
        return word
    if not word.isprintable() or _TYPED_AS_QUOTES.search(word):
        return "$'" + "".join(map(_escaped, word)) + "'"
    if not re.search(r"['$`\\]", word) and not word.startswith("~"):
        return f"'{word}'"
    home, quoted = ("\\~", word[1:]) if word.startswith("~") else ("", word)
    return home + ('"' + re.sub(r'(["$`\\])', r"\\\1", quoted) + '"' if quoted else "")


def bash_words(words: Iterable[str]) -> str:
    """Quotes a command line."""
    return " ".join(map(bash_word, words))


def _escaped(letter: str) -> str:
    """Escapes a character for `$'...'`, byte by byte if it is not ASCII, because `\\u` depends on the locale."""
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isascii() and letter.isprintable():
        return letter
    # Always three digits, because a digit may follow.
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))
