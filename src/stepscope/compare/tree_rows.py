"""Makes rows of two trees: a parent before its parts, the largest change first, with sums that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.compare.align import Pair, align
from stepscope.compare.interval import Timing
from stepscope.compare.rows import COLUMNS, finish, largest_change, row_of, share_out
from stepscope.compare.tree import Tree
from stepscope.query.apportion import largest_remainder
from stepscope.query.rows import answer_dicts

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS_SHOWN = tuple(column.name for column in COLUMNS if column.name != "inside")

Row = dict[str, Any]


def diff_trees(before: Tree, after: Tree) -> pa.Table:
    """Each row is a node on both sides; nodes of only one side took no time on the other."""
    root = align(before.root, after.root)
    total_row, timings = _rows_of(root, (before, after), ())
    for column, timing in zip(("before_ns", "after_ns"), timings, strict=True):
        (total_row[column],) = largest_remainder([timing.mean_ns])
    finish(total_row, adds_up=True)
    rows: list[Row] = []
    _add(root, total_row, (before, after), (), rows)
    share_out(total_row, rows)
    return answer_dicts(COLUMNS, rows, _COLUMNS_SHOWN)


def _add(pair: Pair, row: Row, trees: tuple[Tree, Tree], path: tuple[str, ...], rows: list[Row]) -> None:
    """Adds a node and its descendants, whose times in integer ns add up to the node's."""
    rows.append(row)
    parts = [(part, *_rows_of(part, trees, (*path, part.node.name))) for part in pair.parts]
    for place, column in enumerate(("before_ns", "after_ns")):
        means = [timings[place].mean_ns for _, _, timings in parts]
        rounded = largest_remainder(means, row[column] or 0) if parts else []
        for (_, part_row, _), ns in zip(parts, rounded, strict=True):
            # The host's activity is known only if it was recorded.
            part_row[column] = None if part_row["kind"] == "idle" and part_row[column] is None else ns
    for _, part_row, _ in parts:
        finish(part_row, adds_up=True)
    for part, part_row, _ in sorted(parts, key=lambda entry: largest_change(entry[1])):
        _add(part, part_row, trees, (*path, part.node.name), rows)


def _rows_of(pair: Pair, trees: tuple[Tree, Tree], path: tuple[str, ...]) -> tuple[Row, tuple[Timing, Timing]]:
    kind = pair.node.kind
    sides = [tree.part_of(node) for node, tree in zip((pair.before, pair.after), trees, strict=True)]
    row = row_of(pair.node.name if path else trees[1].of, *sides)
    row |= {"path": " / ".join(path), "depth": len(path), "kind": kind, "matched": pair.matched}
    for name, node in (("before", pair.before), ("after", pair.after)):
        if node is None and kind == "idle":
            row[f"{name}_ns"] = None
        elif node is not None and kind != "kernel":
            row[f"calls_{name}"] = None  # only kernels, copies and fills are counted
    return row, (sides[0].timing, sides[1].timing)
