"""The modules of the model, and the module that each host event belongs to.

Three recordings name modules, and the first that a file has is used: Python frames (`nn.Module: Linear_0`, recorded
with stacks and modules), Kineto's `Module Hierarchy` of scripted models, and ranges in the style of a module. If the
recorder lists the modules of the model, its ranges come first: they have paths, and frames only have classes. What runs
in backward belongs to the module of its forward operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.formats.nesting import climb, levels
from stepscope.formats.vocabulary import COMPILED_CODE, is_compiled_code, module_name
from stepscope.link.backward import BACKWARD_PASS, Directions
from stepscope.link.columns import places, small_numbers, words
from stepscope.link.host import ANNOTATION, BACKWARD, COMMUNICATION, MODULE, NOWHERE, Host
from stepscope.link.module_names import ModuleName, hierarchy_module, model_path, range_module
from stepscope.schema.arrays import Int32s
from stepscope.schema.tables import TABLES

NO_MODULE = -1
DEEPEST_MODULE = 128
"""Deeper modules belong to the module at this depth: no model is as deep, and a path grows with it."""
_NOT_HERE = -2
"""Below a row with this mark nothing inherits a module."""


@dataclass(slots=True)
class Modules:
    """The nodes of the model, parents before children."""

    rule: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, parent: int, name: str, class_name: str | None, *, compiled: bool = False) -> int:
        """Adds a node and returns its number."""
        above = self.rows[parent] if parent >= 0 else None
        self.rows.append(
            {
                "module_id": len(self.rows),
                "parent_id": above and parent,
                "path": f"{above['path']}.{name}" if above else name,
                "name": name,
                "class": class_name,
                "depth": above["depth"] + 1 if above else 0,
                "compiled": compiled,
                "calls": 0,
                "rule": self.rule,
            }
        )
        return len(self.rows) - 1

    def table(self) -> pa.Table:
        """The nodes as a table."""
        declared = TABLES["module"]
        return pa.Table.from_pylist(self.rows, schema=declared.arrow(declared.linked_names))


def find_modules(host: Host, classes: Mapping[str, str] | None = None) -> tuple[Modules, Int32s]:
    """Finds the modules, and for each position the number of the module that it names, -1 for none."""
    named = np.full(len(host), NO_MODULE, dtype=np.int32)
    modules = (
        (_from_ranges(host, named, classes) if classes else None)
        or _from_python(host, named)
        or _from_hierarchy(host, named)
        or _from_ranges(host, named, {})
    )
    return modules or Modules("none"), named


def spread_modules(host: Host, modules: Modules, named: Int32s, forward: Int32s, direction: Directions) -> Int32s:
    """The module of each position (-1 for none); also counts the calls of `modules`."""
    if not modules.rows:
        return named
    calls = named[(named >= 0) & (direction != BACKWARD_PASS)]
    if modules.rule == "hierarchy":
        calls = _runs(modules, calls)
    counts = np.bincount(calls, minlength=len(modules.rows)).tolist()
    for row, count in zip(modules.rows, counts, strict=True):
        row["calls"] = count
    inherited = host.nesting.inherit(named.copy())
    return _with_backward(host, forward, direction, named, inherited)


def _runs(modules: Modules, nodes: Int32s) -> Int32s:
    """A node for each run of consecutive operators in it, in order of time: its calls.

    Operators state a hierarchy, which says nothing about calls; a module that is called twice in a
    row counts as one call.
    """
    runs = [nodes[:0]]
    depth_of = np.array([row["depth"] for row in modules.rows], np.int32)
    parent = np.array([-1 if row["parent_id"] is None else row["parent_id"] for row in modules.rows])
    at = np.arange(len(modules.rows), dtype=np.int32)  # the module at or above each, at most this deep
    for depth in range(int(depth_of.max()), -1, -1):
        row = np.where(depth_of[at] == depth, at, NO_MODULE)[nodes]
        runs.append(row[run_starts(row) & (row >= 0)])
        at = np.where((depth_of[at] == depth) & (depth > 0), parent[at], at)
    return np.concatenate(runs)


def _from_python(host: Host, named: Int32s) -> Modules | None:
    """Nodes from Python frames; frames with equal name and number under one parent are one module.

    So is all compiled code under one parent: its frames have one name, whichever piece they run.
    """
    place = np.flatnonzero(host.role == MODULE).astype(np.int32)
    if not len(place):
        return None
    modules = Modules("python")
    rows = host.nesting.row[place]
    text, texts = words(host.table, "name")
    text = text[rows]
    number = small_numbers(host.table, "python_module_id")[rows].astype(np.int64)
    number &= 0xFFFFFFFF
    _, first_of, instance = np.unique((text.astype(np.int64) << 32) | number, return_index=True, return_inverse=True)
    above = without_circles(_enclosing_modules(host, place))
    _set_recomputed_home(host, place, instance, above)
    above = without_circles(above)
    spelled = [module_name(frame) or frame for frame in texts]
    compiled = np.array([is_compiled_code(name) for name in spelled], bool)[text]
    if compiled.any():
        instance[compiled] = instance[compiled][0]
        remaining, above = _joined(compiled, above)
        place, instance = place[remaining], instance[remaining]
    level = levels(above)
    by_level = np.argsort(level, kind="stable")
    starts = np.searchsorted(level[by_level], np.arange(int(level.max()) + 2)).tolist()
    node = np.full(len(place), NO_MODULE, dtype=np.int32)
    for depth, (low, high) in enumerate(pairwise(starts)):
        here = by_level[low:high]
        if depth > DEEPEST_MODULE:
            node[here] = node[above[here]]
            continue
        parent = np.where(above[here] >= 0, node[above[here]], NO_MODULE)
        key = (parent.astype(np.int64) + 1) * len(first_of) + instance[here]
        distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        numbers_of = np.empty(len(distinct), dtype=np.int32)
        for which in np.argsort(first).tolist():  # in order of appearance
            parent_node, kind = divmod(int(distinct[which]), len(first_of))
            name = spelled[text[first_of[kind]]]
            kind_name, piece = name.rsplit("_", 1)[0], is_compiled_code(name)
            numbers_of[which] = modules.add(
                parent_node - 1, COMPILED_CODE if piece else name, kind_name, compiled=piece
            )
        node[here] = numbers_of[inverse]
    named[place] = node
    return modules


def _joined(compiled: NDArray[np.bool_], above: Int32s) -> tuple[NDArray[np.int64], Int32s]:
    """Which module frames remain when compiled code within compiled code becomes part of it, and the frame above
    each of these."""
    inner = compiled & (above >= 0)
    inner[inner] = compiled[above[inner]]
    while len(inside := np.flatnonzero((above >= 0) & inner[above])):
        above[inside] = above[above[inside]]
    remaining = np.flatnonzero(~inner)
    place = (np.cumsum(~inner) - 1).astype(np.int32)
    above = above[remaining]
    return remaining, np.where(above >= 0, place[above], -1).astype(np.int32)


def _enclosing_modules(host: Host, place: Int32s) -> Int32s:
    """For each module frame the index of the module frame that called it, or -1.

    Uses the frames' own numbers if they have them: these are right even where times do not nest.
    """
    index_at = np.full(len(host) + 1, -1, dtype=np.int32)
    index_at[place] = np.arange(len(place), dtype=np.int32)
    above = _callers(host, place)
    enclosing = index_at[climb(above[place], above, lambda _, at: index_at[at] >= 0)]
    enclosing[enclosing == np.arange(len(place))] = -1
    return enclosing


def _set_recomputed_home(host: Host, place: Int32s, instance: NDArray[np.int64], above: Int32s) -> None:
    """Gives modules that backward calls their caller in forward, in place.

    Under activation checkpointing backward recomputes their forward outside of the modules they are part of. A module
    that was recorded only in backward stays where it is.
    """
    in_backward = host.climb(place.copy(), host.role == BACKWARD) >= 0
    called_there = in_backward & ((above < 0) | ~in_backward[above])
    anew = np.flatnonzero(called_there)
    ahead = np.flatnonzero(~in_backward)
    if not len(anew) or not len(ahead):
        return
    ahead = ahead[np.argsort(host.start[place[ahead]], kind="stable")]
    instances, first = np.unique(instance[ahead], return_index=True)
    at = places(instances, instance[anew])
    anew, at = anew[at >= 0], at[at >= 0]
    above[anew] = above[ahead[first[at]]]


def _callers(host: Host, place: Int32s) -> Int32s:
    """The position of the frame that called each event, -1 for none; see `_enclosing_modules`."""
    above = host.nesting.parent
    called_by = small_numbers(host.table, "python_parent_id", missing=0)[host.nesting.row]
    frame_id = small_numbers(host.table, "python_id", missing=0)[host.nesting.row]
    highest = int(frame_id.max(initial=0))
    # Numbers are missing or damaged.
    if not (called_by[place] > 0).all() or not 0 < highest <= 4 * len(host):
        return above
    called_by[(called_by < 0) | (called_by > highest)] = 0
    position_of = np.full(highest + 1, NOWHERE, np.int32)
    framed = np.flatnonzero(frame_id > 0).astype(np.int32)
    position_of[frame_id[framed]] = framed
    callers: Int32s = position_of[called_by]
    return without_circles(callers)


def without_circles(above: Int32s) -> Int32s:
    """The indices of parents; members of circles, which damaged numbers may form, lose their parents.

    An index that has not left a circle after more steps than a forest can be high is a member of one.
    """
    if (above < np.arange(len(above))).all():
        return above  # parents come first: there is no circle
    at = above
    for _ in range(len(above).bit_length()):
        at = np.where(at >= 0, at[at], -1)
    cut: Int32s = above.copy()
    cut[at[at >= 0]] = -1
    return cut


def _from_hierarchy(host: Host, named: Int32s) -> Modules | None:
    text, texts = words(host.table, "module_hierarchy")
    names = [hierarchy_module(text) for text in texts]
    if not any(names):
        return None
    roots = {name.root for name in names if name and name.root}
    root = next(iter(roots)) if len(roots) == 1 else None
    tree = _PathTree(Modules("hierarchy"))
    top = tree.modules.add(NO_MODULE, root, root) if root else NO_MODULE
    node_of = [tree.node(name, top) if name else NO_MODULE for name in names]
    named[:] = np.array([*node_of, NO_MODULE], np.int32)[text[host.nesting.row]]
    return tree.modules


def _from_ranges(host: Host, named: Int32s, classes: Mapping[str, str]) -> Modules | None:
    """Nodes from ranges. Modules that the recorder lists are part of the model, whose own range has its class for a
    path; without a list, only paths show what is part of what.
    """
    ranges = np.flatnonzero(host.kind == ANNOTATION)
    if not len(ranges):
        return None
    text, texts = words(host.table, "name")
    text = text[host.nesting.row[ranges]]
    tree = _PathTree(Modules("annotation"))
    node_of = np.full(len(texts), NO_MODULE, dtype=np.int32)
    names = {which: range_module(texts[which]) for which in np.unique(text).tolist()}
    model = (model_path(classes),) if classes else None
    parts = {path.split(".", 1)[0] for path in classes if path}
    top = NO_MODULE
    if model and any(name and (name.path == model or name.path[0] in parts) for name in names.values()):
        top = tree.modules.add(NO_MODULE, model[0], model[0].strip("()"))
    for which, name in names.items():
        if name and name.path == model:
            node_of[which] = top
        elif name:
            node_of[which] = tree.node(name, top if name.path[0] in parts else NO_MODULE)
    modules = tree.modules
    if not modules.rows:
        return None
    for row in modules.rows:
        row["class"] = row["class"] or (classes.get(row["path"]) or "").rpartition(".")[2] or None
    named[ranges] = node_of[text]
    return modules


class _PathTree:
    """Modules that are known by their path from the root."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self._node_of: dict[tuple[int, tuple[str, ...]], int] = {}

    def node(self, name: ModuleName, top: int) -> int:
        """The number of a module; a new one is added with everything that it is part of."""
        if not name.path:
            return top
        node = top
        for length in range(1, min(len(name.path), DEEPEST_MODULE) + 1):
            key = (top, name.path[:length])
            if key not in self._node_of:
                self._node_of[key] = self.modules.add(node, name.path[length - 1], None)
                if top >= 0 and node == top:
                    # Paths name the parts of the model; its own name would only lengthen them.
                    self.modules.rows[self._node_of[key]]["path"] = name.path[0]
            node = self._node_of[key]
        row = self.modules.rows[node]
        row["class"] = name.class_name or row["class"]
        return node


def _with_backward(host: Host, forward: Int32s, direction: Directions, named: Int32s, inherited: Int32s) -> Int32s:
    """Gives rows of the backward the module of their forward operator.

    A gradient is accumulated right after the backward that made it (torch gives `AccumulateGrad` the highest number,
    and autograd runs the highest first), and has no number of its own in a trace: it belongs to the module of the
    backward before it. Reductions over ranks that start there gather the gradients of many modules and belong to none.
    """
    back = direction == BACKWARD_PASS
    if not back.any():
        return inherited
    linked = np.flatnonzero(forward >= 0)
    result: Int32s = inherited.copy()
    result[back] = named[back]
    result[linked] = np.maximum(inherited[forward[linked]], named[linked])
    above = host.nesting.parent
    outermost = np.flatnonzero((host.role == BACKWARD) & ((above < 0) | (direction[above] != BACKWARD_PASS)))
    if len(outermost):
        index = np.arange(len(outermost))
        has_forward = forward[outermost] >= 0
        before = np.maximum.accumulate(np.where(has_forward, index, -1))
        thread = host.thread_of(outermost.astype(np.int32))
        follows = np.flatnonzero(~has_forward & (before >= 0))
        follows = follows[thread[before[follows]] == thread[follows]]
        result[outermost[follows]] = result[outermost[before[follows]]]
        result[back & (host.role == COMMUNICATION) & (result == NO_MODULE)] = _NOT_HERE
    host.nesting.inherit(result, NO_MODULE)
    result[result == _NOT_HERE] = NO_MODULE
    return result
