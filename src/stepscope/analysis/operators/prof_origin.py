"""Finds what encloses kernels' launches, as numbers, for a million events at once.

From a kernel's operator (for backward, its forward operator) parents are followed to the outermost operator, the Python
function around it, the nearest call stack, the program's ranges and autograd's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.analysis.attribution import HOST_CALLS
from stepscope.analysis.operators.calls import Codes, coded, distinct_rows
from stepscope.analysis.recording import Array
from stepscope.formats.nesting import Forest
from stepscope.link.columns import places
from stepscope.query.scope import Scope

NO_EVENT = -1

_CALLS = HOST_CALLS.format(host="host_event")

_PARENTS = f"""
    SELECT id, coalesce(parent_id, -1) AS parent_id, coalesce(forward_id, -1) AS forward_id
    FROM ({_CALLS}) WHERE rank = $rank AND kind IN ('operator', 'annotation', 'python')
    ORDER BY id
"""

_DETAILS = f"""
    SELECT
        id,
        CASE
            WHEN category = 'pyprof' AND role IS NULL THEN 1
            WHEN kind = 'operator' AND role IS DISTINCT FROM 'backward' THEN 2
            WHEN kind = 'annotation' AND role IS NULL THEN 3
            ELSE 0
        END::TINYINT AS sort,
        CASE WHEN kind IN ('operator', 'annotation') OR category = 'pyprof' THEN name ELSE ''
            END AS name,
        coalesce(sequence_number, -1) AS sequence,
        coalesce(stack_id, -1) AS stack
    FROM ({_CALLS}) SEMI JOIN origin.chosen USING (id)
    WHERE rank = $rank ORDER BY id
"""

_FUNCTION, _OPERATOR, _RANGE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Origins:
    """What encloses each event, as indices of texts; -1 for nothing.

    `function`, `outer` and `inner` are indices in `names`: the outermost wrapped Python function, the outermost and
    innermost operator that is no autograd node. `ranges` is one in `paths`. `sequence` is the nearest autograd number,
    `other_sequence` the outermost if it differs, `stack` a call stack's number.
    """

    names: list[str]
    paths: list[str]
    function: Array
    outer: Array
    inner: Array
    ranges: Array
    sequence: Array
    other_sequence: Array
    stack: Array


def origins(scope: Scope, rank: int, operator: Array) -> Origins:
    """Finds what encloses each event, given the id of its operator or of another host event (-1 for none)."""
    table = scope.sql(_PARENTS, {"rank": rank})
    ids = table.column("id").to_numpy()
    parent = places(ids, table.column("parent_id").to_numpy())
    forward = places(ids, table.column("forward_id").to_numpy())
    start = places(ids, operator)
    origin = np.where(start >= 0, forward[start] if len(forward) else NO_EVENT, NO_EVENT)

    chosen = np.zeros(len(ids), dtype=bool)
    _mark_above(chosen, parent, start)
    _mark_above(chosen, parent, origin)
    place = np.flatnonzero(chosen)
    number = np.full(len(ids) + 1, NO_EVENT, dtype=np.int64)  # the last one is for -1
    number[place] = np.arange(len(place))
    with scope.with_temp_tables("origin", {"chosen": pa.table({"id": ids[place]})}):
        details = scope.sql(_DETAILS, {"rank": rank})
    above = _Above(number[parent[place]], details)
    of_kernel, source = number[start], number[origin]
    # The numbers and the kernel's own operator come from the backward, everything else from its forward.
    of_forward = np.where(source >= 0, source, of_kernel)

    def at(values: Array, where: Array) -> Array:
        return np.append(values, NO_EVENT)[where]

    ranges = at(above.ranges, of_forward)
    nearest = at(above.sequence, of_kernel)
    outermost = at(above.outer_sequence, of_kernel)
    stack = at(above.stack, of_forward)
    return Origins(
        names=above.names,
        paths=above.paths,
        function=at(above.function, of_forward),
        outer=at(above.outer, of_forward),
        inner=at(above.inner, of_kernel),
        ranges=ranges,
        sequence=nearest,
        other_sequence=np.where(outermost == nearest, NO_EVENT, outermost),
        stack=np.where(stack >= 0, stack, at(above.stack, of_kernel)),
    )


def _mark_above(chosen: Array, parent: Array, start: Array) -> None:
    here = start
    while len(here):
        reached = np.zeros(len(chosen) + 1, dtype=bool)
        reached[here] = True  # the last index is for -1
        fresh = np.flatnonzero(reached[:-1] & ~chosen)
        chosen[fresh] = True
        here = parent[fresh]


class _Above:
    """For each chosen host event, itself or what encloses it."""

    def __init__(self, parent: Array, details: Any) -> None:
        count = details.num_rows
        sort = details.column("sort").to_numpy()
        name, self.names = coded(details.column("name"))
        sequence = details.column("sequence").to_numpy()
        stack = details.column("stack").to_numpy()
        missing = np.full(count, NO_EVENT, dtype=np.int64)
        self.function = np.where(sort == _FUNCTION, name, NO_EVENT)
        self.outer = np.where(sort == _OPERATOR, name, NO_EVENT)
        self.inner = self.outer.copy()
        self.sequence, self.outer_sequence = sequence.copy(), sequence.copy()
        self.stack, self.ranges = stack.copy(), missing
        paths = Codes()
        for rows in Forest.of(parent).layers():
            up = parent[rows]
            within = up >= 0
            if within.any():
                rows_below, up = rows[within], up[within]
                _outermost(self.function, rows_below, up)
                _outermost(self.outer, rows_below, up)
                _outermost(self.outer_sequence, rows_below, up)
                _innermost(self.inner, rows_below, up)
                _innermost(self.sequence, rows_below, up)
                _innermost(self.stack, rows_below, up)
                self.ranges[rows_below] = self.ranges[up]
            named = rows[sort[rows] == _RANGE]
            if named.size:
                pairs, which = distinct_rows(self.ranges[named], name[named])
                self.ranges[named] = paths.all(pairs)[which]
        self.paths = _spelled(list(paths.of), self.names)


def _outermost(values: Array, rows: Array, up: Array) -> None:
    values[rows] = np.where(values[up] >= 0, values[up], values[rows])


def _innermost(values: Array, rows: Array, up: Array) -> None:
    values[rows] = np.where(values[rows] >= 0, values[rows], values[up])


def _spelled(pairs: list[Any], names: list[str]) -> list[str]:
    """Paths of ranges, from pairs of the enclosing path (-1 for none) and the range's name."""
    paths: list[str] = []
    for around, name in pairs:
        paths.append(f"{paths[around]}:{names[name]}" if around >= 0 else names[name])
    return paths
