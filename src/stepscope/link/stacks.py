"""The call stack of each operator and runtime call: the frames of the program that lead to it.

Old traces state stacks as a text of each operator, current ones record every Python frame as an event. Here both become
rows of `call_stack`. Of the frames, those of the program's own code are stored, or, if there are none, all that are in a file. What runs in backward has the stack of its forward operator, as in torch's own tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.formats.tables import READ
from stepscope.formats.vocabulary import lies_in_file
from stepscope.link.columns import small_numbers, words
from stepscope.link.host import NOWHERE, PROGRAM, PYTHON, Host
from stepscope.schema.arrays import Int32s, Int64s

NO_STACK = -1

_MAX_FRAMES = 32
_MAX_TEXT = 1 << 26
"""Characters of all stacks together. Beyond it stacks keep fewer frames: the innermost."""


def find_stacks(host: Host, forward: Int32s, recorded: pa.Table) -> tuple[Int32s, pa.Table]:
    """The stack of each position, -1 for none, and the table of stacks."""
    stack = small_numbers(host.table, "stack_id")[host.nesting.row]
    framed = host.kind == PYTHON
    if not (framed.any() or recorded.num_rows):
        return stack, recorded
    # Kineto writes an empty text if it recorded no stack.
    silent = recorded.filter(pc.equal(recorded["frames"], "")).column("stack_id").to_numpy()
    stack[np.isin(stack, silent)] = NO_STACK
    if framed.any():
        recorded = _add_frames(host, framed, stack, recorded)
    back = np.flatnonzero(forward >= 0)
    forward_stack = stack[forward[back]]
    stack[back] = np.where(forward_stack >= 0, forward_stack, stack[back])
    return stack, recorded


def _add_frames(host: Host, framed: NDArray[np.bool_], stack: Int32s, recorded: pa.Table) -> pa.Table:
    """Gives a stack of frames to each position without one, in place, and adds it to the table."""
    program = _nearest(host, host.role == PROGRAM)
    innermost = np.where(program >= 0, program, _nearest(host, _in_files(host, framed)))
    rows = np.flatnonzero((stack < 0) & ~framed & (innermost >= 0))
    if not len(rows):
        return recorded
    first = recorded.num_rows
    number, texts = _distinct_stacks(host, program, innermost, rows)
    stack[rows] = number + first
    numbers = pa.array(range(first, first + len(texts)), pa.int32())
    added = pa.table([numbers, pa.array(texts, pa.string())], schema=READ["call_stack"])
    return pa.concat_tables([recorded, added])


def _in_files(host: Host, framed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which events are Python frames in a file."""
    text, texts = words(host.table, "name")
    text = text[host.nesting.row]
    named = np.zeros(len(texts) + 1, dtype=bool)
    for which in np.unique(text[framed]).tolist():
        named[which] = lies_in_file(texts[which])
    return framed & named[text]


def _nearest(host: Host, chosen: NDArray[np.bool_]) -> Int32s:
    """The innermost wanted position at or above each one, -1 for none."""
    place = np.where(chosen, np.arange(len(host), dtype=np.int32), np.int32(NOWHERE))
    return host.nesting.inherit(place)


@dataclass(slots=True)
class _Tree:
    """The frames as a call tree: the node above each node, -1 for none, and the node's name."""

    above: Int64s
    name: Int64s


def _distinct_stacks(host: Host, program: Int32s, innermost: Int32s, rows: Int64s) -> tuple[Int64s, list[str]]:
    """The number of the stack for each asked position, and the texts of the stacks."""
    text, texts = words(host.table, "name")
    text = text[host.nesting.row]
    node_of, tree = _tree(host, program, innermost, text, len(texts))
    nodes, which = np.unique(node_of[innermost[rows]], return_inverse=True)
    length = np.array([len(number) + 1 for number in texts], dtype=np.int64)
    columns: list[Int64s] = []
    at, total = nodes, 0
    for _ in range(_MAX_FRAMES):
        name = np.where(at >= 0, tree.name[at], -1)
        total += int(length[name[name >= 0]].sum())
        if columns and total > _MAX_TEXT:
            break
        columns.append(name)
        at = np.where(at >= 0, tree.above[at], -1)
        if not (at >= 0).any():
            break
    number_of: dict[str, int] = {}
    numbers = [
        number_of.setdefault(";".join(texts[number] for number in names if number >= 0), len(number_of))
        for names in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return np.array(numbers, dtype=np.int64)[which], list(number_of)


def _tree(host: Host, program: Int32s, innermost: Int32s, text: Int32s, width: int) -> tuple[Int64s, _Tree]:
    """The node of each frame, -1 elsewhere: frames with one name and caller are one node.

    Callers of the program's frames are only frames of the program.
    """
    nesting = host.nesting
    is_frame = innermost == np.arange(len(host))
    node = np.full(len(host), -1, dtype=np.int64)
    above: list[Any] = []
    name: list[Any] = []
    count = 0
    for depth in range(len(nesting.level) - 1):
        here = nesting.by_depth[nesting.level[depth] : nesting.level[depth + 1]]
        here = here[is_frame[here]]
        if not len(here):
            continue
        parent = nesting.parent[here]
        above_it = np.where(program[here] >= 0, program[parent], innermost[parent])
        caller = np.where(parent >= 0, above_it, NOWHERE)
        key = (np.where(caller >= 0, node[caller], -1) + 1) * width + text[here]
        distinct, inverse = np.unique(key, return_inverse=True)
        node[here] = count + inverse
        above.append(distinct // width - 1)
        name.append(distinct % width)
        count += len(distinct)
    return node, _Tree(np.concatenate(above), np.concatenate(name))
