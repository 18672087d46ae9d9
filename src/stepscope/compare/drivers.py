"""What a comparison comes down to: the whole, and the parts that are the reason of its change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.compare.rows import CERTAIN

Row = Mapping[str, Any]

_WHOLES = ("step", "iteration", "device work", "host work")
_DRIVES = 0.1
"""Share of the whole change from which on a part is a reason of it."""
_MATTERS = 0.01
"""Part of the whole below which a change within an unchanged whole is left to the table: of hundreds
of rows some always seem to have changed."""


@dataclass(frozen=True, slots=True)
class Drivers:
    """Rows of a comparison that say what happened.

    Args:
        whole: the row of the whole; None where it was not measured on both sides.
        parts: the reasons of its change; what changed all the same where it did not change, or not
            clearly; what changed at all where there is no whole. The largest changes first.
    """

    whole: Row | None
    parts: tuple[Row, ...]


def drivers_of(rows: Sequence[Row]) -> Drivers:
    """The whole and the parts that drive it, of an answer's rows as `set_beside` orders them."""
    whole = rows[0] if rows and rows[0]["name"] in _WHOLES else None
    if whole is None or whole["change_ns"] is None:
        return Drivers(None, tuple(row for row in rows if row["verdict"] in CERTAIN))
    chosen = _matters if whole["verdict"] in ("same", "unclear") else _drives
    return Drivers(whole, tuple(row for row in rows[1:] if chosen(row, whole)))


def _drives(row: Row, whole: Row) -> bool:
    """Whether a part is a reason: its own change is clear, or as clear as the whole's."""
    known = row["verdict"] != "unclear" and row.get("inside") is None
    share = row["share_ratio"]
    return known and share is not None and share >= _DRIVES and whole["change_ns"] != 0


def _matters(row: Row, whole: Row) -> bool:
    """Whether a part changed for sure, and enough of an unchanged whole to speak of."""
    least = _MATTERS * max(whole["before_ns"] or 0, whole["after_ns"] or 0)
    clear = row["verdict"] in CERTAIN and row.get("inside") is None
    return clear and abs(row["change_ns"]) >= least
