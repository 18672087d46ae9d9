"""Summarises a comparison: the total, and the parts that explain its change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.compare.rows import CERTAIN, PROFILED_STEP

Row = Mapping[str, Any]

_WHOLES = ("step", PROFILED_STEP, "iteration", "device work", "host work")
_DRIVES = 0.1
"""A part with at least this share of the total change is a reason for it."""
_IS_IT = 0.8
"""A part with at least this share of a node's change represents the node."""
_MATTERS = 0.01
"""Within an unchanged total smaller changes are left to the table: among hundreds of rows some always seem to change.
"""

_ONE_SIDED = ("added", "removed")


@dataclass(frozen=True, slots=True)
class Drivers:
    """The rows of a comparison that explain it.

    Args:
        total: its row; None where it was not measured on both sides.
        parts: the reasons of its change; what changed anyway where it did not, or where there is no total.
        against: what changed as much the other way, where the total changed.
    """

    total: Row | None
    parts: tuple[Row, ...]
    against: tuple[Row, ...] = ()


def find_drivers(rows: Sequence[Row]) -> Drivers:
    """Finds the total and the parts that drive it, among an answer's rows as `compare_rows` orders them."""
    total = rows[0] if rows and rows[0]["name"] in _WHOLES else None
    if total is None or total["change_ns"] is None:
        return Drivers(None, tuple(row for row in rows if row["verdict"] in CERTAIN))

    def reasons(chosen: Callable[[Row], bool]) -> tuple[Row, ...]:
        if "depth" not in total:
            return tuple(row for row in rows[1:] if chosen(row))
        outermost = [place for place, row in enumerate(rows) if row["depth"] == 1 and chosen(row)]
        return tuple(sorted((_representative(rows, at) for at in outermost), key=lambda row: -abs(row["change_ns"])))

    if total["verdict"] in ("same", "unclear"):
        return Drivers(total, reasons(lambda row: _matters(row, total)))
    if not total["change_ns"]:
        return Drivers(total, ())
    # What changed as much the other way would have changed the total more without it.
    drives, opposes = (
        reasons(lambda row: _known_share(row) >= _DRIVES),
        reasons(lambda row: _known_share(row) <= -_DRIVES),
    )
    return Drivers(total, drives, opposes)


def _after(rows: Sequence[Row], place: int) -> int:
    end = place + 1
    while end < len(rows) and rows[end]["depth"] > rows[place]["depth"]:
        end += 1
    return end


def _representative(rows: Sequence[Row], place: int) -> Row:
    """The deepest node that represents a node's change; kernels are left to the table."""
    row = rows[place]
    # Parts are ordered by change, the largest first.
    inside = place + 1
    if inside < len(rows) and rows[inside]["depth"] > row["depth"]:
        part = rows[inside]
        is_main = part["kind"] != "kernel" and part["change_ns"] / row["change_ns"] >= _IS_IT
        if part["verdict"] not in _ONE_SIDED:
            return _representative(rows, inside) if is_main else row
        # A part on only one side may have been replaced by another on the other side.
        siblings = {
            sibling["verdict"] for sibling in rows[inside : _after(rows, place)] if sibling["depth"] == part["depth"]
        }
        if is_main and not siblings.issuperset(_ONE_SIDED):
            return part
    return row


def _known_share(row: Row) -> float:
    """A part's share of the total change; 0 if its own change is unclear."""
    certain = row["verdict"] != "unclear" and row.get("inside") is None
    return float(row["share_ratio"] or 0) if certain else 0.0


def _matters(row: Row, total: Row) -> bool:
    """Whether a part certainly changed, by a relevant share of an unchanged total."""
    threshold = _MATTERS * max(total["before_ns"] or 0, total["after_ns"] or 0)
    clear = row["verdict"] in CERTAIN and row.get("inside") is None
    return clear and abs(row["change_ns"]) >= threshold
