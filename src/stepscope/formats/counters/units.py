"""Numbers and units of tools that scale and spell both in their own way: `1.234,5 Kbyte/s` is 1234500 byte/s."""

from __future__ import annotations

import re
from functools import cache

from stepscope.formats.bounded import real_in

_APART = str.maketrans("", "", " '\u00a0\u2009\u202f")
"""Characters between groups of three digits in some languages."""
_NUMBER = re.compile(r"[-+]?(\d[\d.,]*|[.,]\d+)(e[-+]?\d+)?\Z", re.IGNORECASE)
_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {
    "s": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6,
    "ns": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
_BASES = {"byte": "byte", "B": "byte", "hz": "hz", "Hz": "hz"}
_SCALED = re.compile(rf"([KkMGTP]i?|)({'|'.join(_BASES)})\Z")


def decimal_mark(text: str) -> str | None:
    """The decimal mark of a number, `.` or `,`; None if it could be either.

    Example:
        >>> decimal_mark("4.963.609,19"), decimal_mark("61.84"), decimal_mark("1,024")
        (',', '.', None)
    """
    number = text.strip().translate(_APART).lstrip("+-")
    if not _NUMBER.match(number):
        return None
    marks = [mark for mark in number if mark in ".,"]
    if not marks:
        return None
    last = marks[-1]
    if len(set(marks)) == 2:
        return last if marks.count(last) == 1 else None
    if len(marks) > 1:
        return "," if last == "." else "."
    before, _, after = number.partition(last)
    grouped = len(after) == 3 and after.isdigit() and 1 <= len(before) <= 3
    return None if grouped and not before.startswith("0") else last


def number_of(text: str, mark: str) -> float | None:
    """A number with this decimal mark, else None.

    A number of several instances, `12 (4; 8)`, is the first one.
    """
    number = text.partition("(")[0].strip().translate(_APART)
    if not _NUMBER.match(number):
        return None
    groups = "." if mark == "," else ","
    before, _, after = number.partition(mark)
    if groups in after or mark in after:
        return None
    if any(len(group) != 3 for group in before.lstrip("+-").split(groups)[1:]):
        return None
    return real_in(f"{before.replace(groups, '')}.{after or '0'}" if after else before.replace(groups, ""))


@cache
def base_unit(unit: str) -> tuple[str | None, float]:
    """A unit without prefixes, and the factor that converts values to it. Times are in ns.

    Example:
        >>> base_unit("Kbyte/s"), base_unit("usecond"), base_unit("cycle/nsecond"), base_unit("inst/cycle")
        (('byte/s', 1000.0), ('ns', 1000.0), ('hz', 1000000000.0), ('inst/cycle', 1.0))
    """
    unit = unit.strip()
    if not unit:
        return None, 1.0
    if unit in _SECONDS:
        return "ns", float(round(_SECONDS[unit] * 1e9))
    above, slash, below = unit.partition("/")
    name, factor = above, 1.0
    match = _SCALED.match(above)
    if match:
        name = _BASES[match[2]]
        factor = _BINARY.get(match[1]) or _PREFIXES[match[1].removesuffix("i")]
    if not slash:
        return name, factor
    if below in _SECONDS:
        factor = factor / _SECONDS[below] if below not in ("s", "second") else factor
        factor = float(round(factor)) if factor >= 1 else factor
        return ("hz" if name == "cycle" else f"{name}/s"), factor
    return f"{name}/{below}", factor
