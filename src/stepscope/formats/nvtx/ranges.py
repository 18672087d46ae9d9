"""Ranges of the markers as columns, nested, with the operator and inputs of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.nesting import Nesting, nest
from stepscope.formats.nvtx.calls import Inputs, call_inputs, operator_name, stated_inputs
from stepscope.formats.nvtx.markers import Marker, base_name, types_of_operators
from stepscope.formats.scratch import spill
from stepscope.schema.arrays import Int32s, Int64s

Flags = NDArray[np.bool_]
Value = TypeVar("Value", bound=Hashable)

NONE = -1


class Numbering(Generic[Value]):
    """Numbers distinct values in order of appearance."""

    def __init__(self) -> None:
        self.of: dict[Value, int] = {}

    def number(self, value: Value | None) -> int:
        """The number of a value; -1 for None."""
        return NONE if value is None else self.of.setdefault(value, len(self.of))

    def listed(self) -> list[Value]:
        """The values by number."""
        return list(self.of)


@dataclass(slots=True)
class Ranges:
    """Ranges of all threads, in any order; arrays of one length.

    Args:
        thread: integers, number of the thread of each, from 0.
        start_ns, end_ns: int64, as recorded.
        marker: int32, number of its marker.
        sequence: int64, autograd's number of an operator, -1 for none.
        other: int32, number of what else was recorded for it, -1 for nothing.
        markers: the markers.
        others: what else was recorded: its domain, its category, the program's payload.
        collective: int32, number of the arguments of the collective that each called, -1 for none.
    """

    thread: NDArray[Any]
    start_ns: Int64s
    end_ns: Int64s
    marker: Int32s
    sequence: Int64s
    other: Int32s
    markers: Sequence[Marker]
    others: Sequence[dict[str, Any]]
    collective: Int32s | None = None

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.thread)

    def order(self, row: Int32s) -> None:
        """Reorders the ranges, in place: there may be millions."""
        for name in ("thread", "start_ns", "end_ns", "marker", "sequence", "other", "collective"):
            if getattr(self, name) is not None:
                setattr(self, name, spill(getattr(self, name)[row]))


@dataclass(slots=True)
class Nested:
    """Ranges in the order of their nesting: by thread and time, outer ones before inner ones.

    Args:
        ranges: the ranges, in this order.
        nesting: which encloses which.
        names: names of operators, by number.
        inputs: inputs of operators, by number.
        operator: int32, number of the operator that each is, `aten::mm` or `MmBackward`; -1 for none.
        given: int32, number of its inputs, -1 if they are not known.
        from_forward: whether the inputs follow from those of a forward call.
    """

    ranges: Ranges
    nesting: Nesting
    names: Numbering[str]
    inputs: Numbering[Inputs]
    operator: Int32s
    given: Int32s
    from_forward: Flags

    def of_marker(self, of: Callable[[Marker], int]) -> Int32s:
        """A number for each range, worked out once for each marker."""
        return per_marker(self.ranges, of)

    def of_operator(self, of: Callable[[str], int]) -> Int32s:
        """A number for each range that is an operator, worked out once for each name; -1 for others."""
        table = [of(name) for name in self.names.of]
        return np.array([*table, NONE], np.int32)[self.operator]

    def nearest_above(self, flags: Flags) -> Int32s:
        """Position of the nearest wanted range at or above each one, -1 for none."""
        at = np.where(flags, np.arange(len(flags), dtype=np.int32), np.int32(NONE))
        return self.nesting.inherit(at.astype(np.int32))


def per_marker(ranges: Ranges, of: Callable[[Marker], int]) -> Int32s:
    """A number for each range, worked out once for each marker."""
    table = np.array([of(marker) for marker in ranges.markers], np.int32)
    return table[ranges.marker] if len(ranges) else np.empty(0, np.int32)


def nested(ranges: Ranges) -> Nested:
    """Orders ranges, in place, and decides which are operators and which inputs those called from Python got.

    torch marks its operators when `emit_nvtx` is on; PyProf marks the Python functions around them.
    A call's arguments go to the operator with its name within it. If torch marked nothing, the call
    stands for the operator itself.
    """
    kinds = np.zeros(len(ranges), np.int8)
    nesting = nest(ranges.thread, ranges.start_ns, ranges.end_ns - ranges.start_ns, kinds)
    ranges.order(nesting.row)
    names: Numbering[str] = Numbering()
    inputs: Numbering[Inputs] = Numbering()

    def operator_of(marker: Marker) -> int:
        return names.number(marker.name if marker.sort == "operator" else None)

    types = types_of_operators(ranges.markers)

    def inputs_of(marker: Marker) -> int:
        if marker.sort != "operator":
            return NONE
        typed = None if marker.types else types.get((marker.name, marker.sizes or ""))
        if typed is not None:
            marker = replace(marker, types=typed.types, values=typed.values)
        return inputs.number(stated_inputs(marker))

    tree = Nested(
        ranges,
        nesting,
        names,
        inputs,
        spill(per_marker(ranges, operator_of)),
        spill(per_marker(ranges, inputs_of)),
        np.zeros(len(ranges), bool),
    )
    if any(marker.sort == "call" for marker in ranges.markers):
        _name_calls(tree)
    return tree


def _name_calls(tree: Nested) -> None:
    """Passes the arguments of Python functions to the operators within, or makes the functions the operators."""
    markers = tree.ranges.markers
    call_name = tree.of_marker(
        lambda marker: tree.names.number(operator_name(marker)) if marker.sort == "call" else NONE
    )
    is_call = tree.of_marker(lambda marker: marker.sort == "call") == 1
    marked = tree.of_marker(lambda marker: marker.sort == "operator") == 1
    listed = tree.names.listed()

    above = tree.nesting.parent
    holds = tree.nesting.spread_up(is_call | marked)
    holding = np.zeros(len(above), bool)
    holding[above[holds & (above >= 0)]] = True
    calls = np.flatnonzero((call_name >= 0) & ~holding)
    tree.operator[calls] = call_name[calls]
    tree.given[calls] = by_pair(
        tree.ranges.marker[calls],
        call_name[calls],
        lambda call, operator: tree.inputs.number(call_inputs(markers[call], listed[operator])),
    )

    # A call's own operators are those that no call within it made.
    owner = tree.nearest_above(is_call)
    bases: Numbering[str] = Numbering()
    base = tree.of_marker(lambda marker: bases.number(base_name(marker.name)))
    of_name = np.array([*(bases.number(base_name(name)) for name in listed), NONE], np.int32)
    operators = np.flatnonzero(marked & (owner >= 0))
    names_of_owners = call_name[owner[operators]]
    operators = operators[(names_of_owners >= 0) & (of_name[names_of_owners] == base[operators])]
    _, first = np.unique(owner[operators], return_index=True)
    operators = operators[first]
    given = by_pair(
        tree.ranges.marker[owner[operators]],
        tree.ranges.marker[operators],
        lambda call, operator: tree.inputs.number(call_inputs(markers[call], markers[operator].name)),
    )
    tree.given[operators] = np.where(given >= 0, given, tree.given[operators])


def by_pair(left: NDArray[Any], right: NDArray[Any], of: Callable[[int, int], int]) -> Int32s:
    """A number for each pair, worked out once for each distinct one."""
    pairs, place = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
    table = np.array([of(int(first), int(second)) for first, second in pairs.T], np.int32)
    return table[place.ravel()] if len(table) else np.empty(0, np.int32)
