"""Finds names that match a typed pattern, with the same rules as the page's tables."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.base.errors import UsageError


def expression(pattern: str) -> Callable[[pa.StringArray], NDArray[np.bool_]]:
    """A function that marks the names that match: a part of a name, a GLOB for all of it, or `/a regular expression/`,
    each ignoring case; or `"an exact name"`. Linear in the names for any expression (RE2).

    Raises:
        UsageError: the regular expression is invalid.
    """
    typed = pattern.strip()
    if len(typed) > 2 and typed[0] == typed[-1] == '"':
        return lambda names: _marks(pc.equal(names, typed[1:-1]))
    if len(typed) > 2 and typed[0] == typed[-1] == "/":
        text = typed[1:-1]
    elif set("*?").intersection(typed):
        wild = {"*": ".*", "?": "."}
        text = f"(?s)^{''.join(wild.get(letter) or re.escape(letter) for letter in typed)}$"
    else:
        text = re.escape(typed)

    def matching(names: pa.StringArray) -> NDArray[np.bool_]:
        return _marks(pc.match_substring_regex(names, text, ignore_case=True))

    try:
        matching(pa.array(["a"]))
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"{typed} is not a regular expression", hint=str(error).splitlines()[0], slug="bad-pattern"
        ) from None
    return matching


def _marks(matches: pa.BooleanArray) -> NDArray[np.bool_]:
    return pc.fill_null(matches, False).to_numpy(zero_copy_only=False)
