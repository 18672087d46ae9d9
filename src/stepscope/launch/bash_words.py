"""Words of a command line as bash reads them back, in a form that shellcheck has nothing to say about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_TYPED_AS_QUOTES = re.compile("[\u00a0\u2018-\u201f\u2028\u2029]")
"""Characters that bash takes as they are, and shellcheck for a slip of the keyboard."""
_RESERVED = re.compile("case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while")


def bash_word(word: str) -> str:
    r"""One word, quoted where it must be.

    `shlex.quote` makes words that bash reads alike; shellcheck wonders about a `$` between single quotes
    (SC2016) and about `'"'"'`.

    >>> bash_word("it's $5")
    '"it\'s \\$5"'
    """
    if _PLAIN.fullmatch(word) and not _RESERVED.fullmatch(word):
        return word
    if not word.isprintable() or _TYPED_AS_QUOTES.search(word):
        return "$'" + "".join(map(_escaped, word)) + "'"
    if not re.search(r"['$`\\]", word) and not word.startswith("~"):
        return f"'{word}'"
    home, rest = ("\\~", word[1:]) if word.startswith("~") else ("", word)
    return home + ('"' + re.sub(r'(["$`\\])', r"\\\1", rest) + '"' if rest else "")


def bash_words(words: Iterable[str]) -> str:
    """A command line of these words."""
    return " ".join(map(bash_word, words))


def _escaped(letter: str) -> str:
    """A letter inside `$'...'`, byte by byte where it is not ASCII: `\\u` depends on the locale."""
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isascii() and letter.isprintable():
        return letter
    # Three digits always: what follows may be a digit.
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))
