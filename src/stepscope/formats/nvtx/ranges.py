"""Ranges of the markers, nested, each with what it stands for and what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stepscope.formats.nvtx.calls import Inputs, call_inputs, operator_name, stated_inputs
from stepscope.formats.nvtx.markers import Marker, base_name


@dataclass(slots=True, eq=False)
class Range:
    """A range on a host thread.

    Args:
        marker: what its text says.
        thread: number of its thread.
        start_ns: begin, as recorded.
        end_ns: end, as recorded.
        parent: the range that encloses it.
        children: ranges that it encloses directly, in order.
        operator: the operator that it is, `aten::mm` or `MmBackward`; None for none.
        inputs: what that operator was given, where it is known.
        from_forward: whether the inputs follow from those of a forward call.
        frames: the call stack that was recorded around it, outermost first.
        others: what else was recorded of it: its domain and category.
    """

    marker: Marker
    thread: int
    start_ns: int
    end_ns: int
    parent: Range | None = None
    children: list[Range] = field(default_factory=list)
    operator: str | None = None
    inputs: Inputs | None = None
    from_forward: bool = False
    frames: tuple[str, ...] = ()
    others: dict[str, str] = field(default_factory=dict)

    def below(self) -> Iterator[Range]:
        """All that it encloses, at any depth, in order of time."""
        waiting = self.children[::-1]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))

    def above(self) -> Iterator[Range]:
        """All that encloses it, innermost first."""
        one = self.parent
        while one is not None:
            yield one
            one = one.parent


def nest(ranges: list[Range]) -> None:
    """Orders ranges by thread and time, and links what encloses what.

    Ranges that cross, which only a damaged file has, count as one after the other.
    """
    ranges.sort(key=lambda one: (one.thread, one.start_ns, -one.end_ns))
    open_: list[Range] = []
    for one in ranges:
        while open_ and (open_[-1].thread != one.thread or open_[-1].end_ns < one.end_ns):
            open_.pop()
        if open_:
            one.parent = open_[-1]
            open_[-1].children.append(one)
        inherited = one.parent.frames if one.parent else ()
        one.frames = one.marker.frames or inherited
        open_.append(one)


def name_operators(ranges: list[Range]) -> None:
    """Decides which ranges are operators, and gives those that Python called what they were given.

    torch marks its operators when `emit_nvtx` is on; PyProf marks the Python functions around them.
    A call's arguments go to the operator of its name within it. Where torch marked nothing, the call
    stands for the operator itself.
    """
    for one in ranges:
        if one.marker.sort == "operator":
            one.operator = one.marker.name
            one.inputs = stated_inputs(one.marker)
    for one in ranges:
        if one.marker.sort != "call":
            continue
        operator = operator_name(one.marker)
        if operator is None:
            continue
        if not any(below.marker.sort in ("operator", "call") for below in one.below()):
            one.operator, one.inputs = operator, call_inputs(one.marker, operator)
            continue
        for below in _own_operators(one):
            if base_name(below.marker.name) == base_name(operator):
                below.inputs = call_inputs(one.marker, below.marker.name) or below.inputs
                break


def _own_operators(call: Range) -> Iterator[Range]:
    """Operators that a call made, not those that calls within it made."""
    waiting = call.children[::-1]
    while waiting:
        one = waiting.pop()
        if one.marker.sort == "operator":
            yield one
        if one.marker.sort != "call":
            waiting.extend(reversed(one.children))
