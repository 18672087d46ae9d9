"""Aligns two trees of steps: finds the node of one that corresponds to each node of the other.

Nodes of one name and kind with the same parent correspond. Of the rest, modules with the same parent were renamed if
class and parts agree, and a module that agrees with one elsewhere was moved; an operator or range that only one side
has around the same part is skipped. Uncertain cases are shown as removed and added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stepscope.compare.tree import Key, Node

_WRAPPERS = ("operator", "range")
_AGREE = 0.5
"""Share of a leaf module's operators, among those of either side, that two must have in common."""


@dataclass(slots=True)
class Pair:
    """A node of both trees, or of one. `matched` is the other side's name or place, if different."""

    before: Node | None
    after: Node | None
    matched: str | None = None
    parts: list[Pair] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """Its node after the change, else the one before."""
        node = self.after or self.before
        assert node is not None  # noqa: S101  # a pair of nothing is never made
        return node


def align(before: Node, after: Node) -> Pair:
    """Merges two trees into one."""
    root = _pair(before, after)
    _mark_moved(root)
    return root


def _pair(before: Node | None, after: Node | None) -> Pair:
    pair = Pair(before, after)
    if before is not None and after is not None and before.name != after.name:
        pair.matched = f"was {before.name}"
    mine = dict(before.parts) if before else {}
    theirs = dict(after.parts) if after else {}
    if before is not None and after is not None:
        _pass_over(mine, theirs)
        _pass_over(theirs, mine)
        renamed = _renamed(_without(mine, theirs), _without(theirs, mine))
    else:
        renamed = {}
    for key, node in mine.items():
        other = theirs.get(renamed.get(key, key))
        pair.parts.append(_pair(node, other))
    taken = set(renamed.values())
    pair.parts += [_pair(None, node) for key, node in theirs.items() if key not in mine and key not in taken]
    return pair


def _without(parts: dict[Key, Node], others: dict[Key, Node]) -> list[Node]:
    return [node for key, node in parts.items() if key not in others]


def _pass_over(parts: dict[Key, Node], others: dict[Key, Node]) -> None:
    """Moves the contents of wrappers up in place, if the other side has them unwrapped and they are most of the
    wrapper."""
    for wrapper in _without(parts, others):
        if wrapper.kind not in _WRAPPERS:
            continue
        moved = {
            key: part
            for key, part in wrapper.parts.items()
            if key in others and key not in parts and key[0] in _WRAPPERS
        }
        if not moved or 2 * sum(part.total_ns for part in moved.values()) < wrapper.total_ns:
            continue
        left = {key: part for key, part in wrapper.parts.items() if key not in moved}
        del parts[wrapper.key]
        parts.update(moved)
        if left or wrapper.self_ns:
            parts[wrapper.key] = Node(wrapper.kind, wrapper.name, None, left, wrapper.self_ns, wrapper.self_count)


def _renamed(removed: Iterable[Node], new: Iterable[Node]) -> dict[Key, Key]:
    """Modules with another name on the other side: those of one class with like parts, in order."""
    renames: dict[Key, Key] = {}
    mine, theirs = _by_shape(removed), _by_shape(new)
    for shape in mine.keys() & theirs.keys():
        if len(mine[shape]) != len(theirs[shape]):
            continue
        pairs = list(zip(mine[shape], theirs[shape], strict=True))
        if all(_do_similar(left, right) for left, right in pairs):
            renames |= {left.key: right.key for left, right in pairs}
    return renames


def _by_shape(nodes: Iterable[Node]) -> dict[Any, list[Node]]:
    shapes: dict[Any, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind == "module" and node.class_name is not None:
            shapes[_shape(node)].append(node)
    return shapes


def _shape(node: Node) -> tuple[Any, ...]:
    modules = [part for part in node.parts.values() if part.kind == "module"]
    return node.class_name, tuple((part.name, _shape(part)) for part in sorted(modules, key=lambda part: part.name))


def _do_similar(left: Node, right: Node) -> bool:
    """Whether modules without inner modules run mostly the same operators."""
    if any(part.kind == "module" for part in left.parts.values()):
        return True
    mine = {key for key in left.parts if key[0] in _WRAPPERS}
    theirs = {key for key in right.parts if key[0] in _WRAPPERS}
    return len(mine & theirs) >= _AGREE * len(mine | theirs)


def _mark_moved(root: Pair) -> None:
    """Links modules removed in one place to those added in another: the only one of a shape, with inner modules or its
    name."""
    removed: dict[Any, list[tuple[str, Pair]]] = defaultdict(list)
    new: dict[Any, list[tuple[str, Pair]]] = defaultdict(list)
    for path, pair in _one_sided(root, ()):
        node = pair.node
        shape = _shape(node)
        what = shape if shape[1] else (shape, node.name)
        (removed if pair.after is None else new)[path[0], what].append((".".join(path[1:]), pair))
    for what, places in removed.items():
        others = new.get(what, [])
        if len(places) == len(others) == 1:
            ((mine, left),), ((theirs, arrived),) = places, others
            left.matched, arrived.matched = f"moved to {theirs}", f"moved from {mine}"


def _one_sided(pair: Pair, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Pair]]:
    """The outermost modules that only one side has, each with its direction and its path in the model."""
    for part in pair.parts:
        if part.node.kind not in ("direction", "module"):
            continue
        here = (*path, part.node.name)
        if part.before is not None and part.after is not None:
            yield from _one_sided(part, here)
        elif part.node.kind == "module" and part.node.class_name is not None:
            yield here, part
