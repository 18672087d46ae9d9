"""Makes rows of two sides of a comparison: what changed, by how much, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stepscope.analysis.job.phase_times import OTHER_STEPS
from stepscope.compare.interval import interval_of_change
from stepscope.compare.sides import SUMMED, Part, Side
from stepscope.query.apportion import largest_remainder
from stepscope.query.declare import Column
from stepscope.query.rows import answer_dicts

if TYPE_CHECKING:
    import pyarrow as pa

COUNTED_CALLS = ("operator", "kernel", "module")
"""A trace would have shown these if they had run, so a missing one took no time."""
PROFILED_STEP = "profiled step"
"""The total of a trace's parts, if the step's time without the profiler is also known."""
CERTAIN = ("slower", "faster", "added", "removed")
"""Verdicts that are certain."""

COLUMNS = (
    Column("name", "text", "what is compared; the total is in the first row"),
    Column("path", "text", "names from below the step down to it, with ` / ` between them", visible=False),
    Column("depth", "int", "number of rows that it is part of", visible=False),
    Column("kind", "text", "step, direction, module, operator, range, kernel or idle", visible=False),
    Column(
        "matched",
        "text",
        "for a module: the other name that it had before, or where the one like it is that was moved",
        visible="varying",
    ),
    Column("before_ns", "int", "mean time per step before, averaged over ranks"),
    Column("after_ns", "int", "the same after"),
    Column("change_ns", "int", "after minus before; what only one side has counts in full"),
    Column("change_ratio", "float", "change divided by before", visible=False),
    Column("ci95_low_ns", "float", "95 % interval of the change, low end"),
    Column("ci95_high_ns", "float", "95 % interval of the change, high end"),
    Column(
        "verdict",
        "text",
        "slower, faster, unclear (the interval contains 0), untested (there is no interval), same, "
        "added, removed; only before or only after where the other side did not measure it",
    ),
    Column("share_ratio", "float", "its part of the total change; empty where that is unclear"),
    Column("calls_before", "float", "how often it ran per step before", "count", visible=False),
    Column("calls_after", "float", "how often it ran per step after", "count", visible=False),
    Column("inside", "text", "measured event around it on its stream"),
    Column("samples_before", "int", "steps of all ranks behind the mean before", "count", False),
    Column("samples_after", "int", "steps of all ranks behind the mean after", "count", False),
)


def compare_rows(before: Side, after: Side, by: str) -> pa.Table:
    """Each row is a part of the step on both sides; the total comes first.

    Raises:
        ValueError: parts do not add up to their total although they must: a defect of this module.
    """
    adds_up = by in SUMMED
    names = sorted({*before.parts, *after.parts})
    total_row = [row_of(before.of, before.total, after.total)] if before.total or after.total else []
    rows = []
    for name in names:
        left, right = before.parts.get(name), after.parts.get(name)
        # What a trace would have shown was not there; a phase or a label may not have been listened to.
        is_zero = by in COUNTED_CALLS or name == OTHER_STEPS
        if is_zero and left is None and before.total is not None:
            left = Part(before.total.timing.of_nothing(), before.calls.get(name, 0.0))
        if is_zero and right is None and after.total is not None:
            right = Part(after.total.timing.of_nothing(), after.calls.get(name, 0.0))
        rows.append(row_of(name, left, right))
    if adds_up:
        for side, column in ((before, "before_ns"), (after, "after_ns")):
            _round_together(side, column, total_row[0], rows)
    for row in (*total_row, *rows):
        finish(row, adds_up=adds_up)
    share_out(total_row[0] if total_row else None, (*total_row, *rows))
    if by == "label":
        for row in rows:
            row["name"] = _plain_label(row["name"], names)
    rows.sort(key=largest_change)
    names_shown = [column.name for column in COLUMNS if column.name not in _left_out(by)]
    return answer_dicts(COLUMNS, (*total_row, *rows), names_shown)


def _round_together(side: Side, column: str, total_row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Rounds a side's parts to integer ns that add up to its rounded total."""
    parts = [side.parts.get(row["name"]) for row in rows]
    rounded = largest_remainder([part.timing.mean_ns if part else Fraction(0) for part in parts])
    if side.total is not None:
        (total_row[column],) = largest_remainder([side.total.timing.mean_ns])
    if sum(rounded) != total_row[column]:
        raise ValueError(f"{column}: the parts of {side.of} do not add up to it")
    for row, part, value in zip(rows, parts, rounded, strict=True):
        row[column] = value if part or row[column] is not None else None


def _plain_label(name: str, names: Sequence[str]) -> str:
    """The label without its occurrence, if neither side has a second event of it."""
    label = name.removesuffix("#0")
    return name if f"{label}#1" in names else label


def share_out(total: Mapping[str, Any] | None, rows: Iterable[dict[str, Any]]) -> None:
    """Sets each row's share of the total's change, in place; a share of an unclear change means nothing."""
    if total is None or not total["change_ns"] or total["verdict"] in ("unclear", "same"):
        return
    for row in rows:
        if row["change_ns"] is not None:
            # Avoids -0.0 if nothing changed.
            row["share_ratio"] = row["change_ns"] / total["change_ns"] or 0.0


def largest_change(row: Mapping[str, Any]) -> tuple[bool, int, int, str]:
    """Sort key: the largest change first, then unchanged rows by length, then those without a change."""
    change = row["change_ns"]
    longest = max(row["before_ns"] or 0, row["after_ns"] or 0)
    return change is None, -abs(change or 0), -longest, row["name"]


OF_TREES = ("path", "depth", "kind", "matched")
"""Columns of trees only."""


def _left_out(by: str) -> tuple[str, ...]:
    calls = () if by in COUNTED_CALLS else ("calls_before", "calls_after")
    return (*OF_TREES, *calls) if by == "label" else (*OF_TREES, *calls, "inside")


def row_of(name: str, before: Part | None, after: Part | None) -> dict[str, Any]:
    """The times on both sides, and the interval of their difference."""
    row: dict[str, Any] = {"name": name}
    for part, side in ((before, "before"), (after, "after")):
        row[f"{side}_ns"] = None if part is None else round(part.timing.mean_ns)
        row[f"samples_{side}"] = None if part is None else part.timing.samples
        row[f"calls_{side}"] = None if part is None else part.calls
    row["inside"] = next((part.inside for part in (after, before) if part and part.inside), None)
    if before is not None and after is not None:
        interval = interval_of_change(before.timing, after.timing)
        row["ci95_low_ns"], row["ci95_high_ns"] = interval or (None, None)
    return row


def finish(row: dict[str, Any], *, adds_up: bool) -> None:
    """Derives the change and its verdict from the times of both sides, in place."""
    before, after = row["before_ns"], row["after_ns"]
    if before is None or after is None:
        row["verdict"] = "only before" if after is None else "only after"
        row["change_ns"] = (after or 0) - (before or 0) if adds_up else None
        return
    row["change_ns"] = change = after - before
    row["change_ratio"] = change / before if before else None
    row["verdict"] = _verdict(row, change)


def _verdict(row: Mapping[str, Any], change: int) -> str:
    if row["calls_before"] == 0.0 and row["calls_after"] != 0.0:
        return "added"
    if row["calls_after"] == 0.0 and row["calls_before"] != 0.0:
        return "removed"
    if not change:
        return "same"
    low, high = row.get("ci95_low_ns"), row.get("ci95_high_ns")
    if low is None or high is None:
        return "untested"
    if low <= 0 <= high:
        return "unclear"
    return "slower" if change > 0 else "faster"
