"""Reads the operators that launched device work as distinct calls: a few thousand among millions, the only ones with
texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stepscope.analysis.recording import Array
from stepscope.costs import Row, element_type, forward_hints, model_of
from stepscope.link.columns import places
from stepscope.query.scope import Scope

_FEW_ROWS = 50_000
"""Up to this many texts are numbered in Python: Arrow's function is in a module that takes longer to load."""
_WIDEST = 1 << 31
_RELATIVES = 3
"""How many enclosing operators are consulted for inputs that a call lacks."""


_HOST = """
    SELECT id, coalesce(parent_id, -1) AS parent_id, span,
        kind = 'operator' AS is_operator, CASE WHEN kind = 'operator' THEN name ELSE '' END AS name,
        coalesce(input_id, -1) AS input_id
    FROM host_event WHERE rank = $rank AND ($all_operators OR device_ns IS NOT NULL OR id IN (
        SELECT operator_id FROM device_event WHERE rank = $rank
    ))
    UNION ALL
    SELECT id, coalesce(parent_id, -1), span, kind = 'operator',
        CASE WHEN kind = 'operator' THEN name ELSE '' END, coalesce(input_id, -1)
    FROM captured_event WHERE rank = $rank
    ORDER BY id
"""

_BACKWARD = """
    SELECT forward_id, span, arg_min(name, depth) AS name, arg_min(input_id, depth) AS input_id
    FROM host_event
    WHERE rank = $rank AND kind = 'operator' AND forward_id IS NOT NULL AND input_id IS NOT NULL
        AND name IN (SELECT unnest($telling::VARCHAR[]))
    GROUP BY ALL ORDER BY forward_id
"""


@dataclass(slots=True)
class Codes:
    """Numbers values in order of appearance."""

    of: dict[Hashable, int] = field(default_factory=dict)

    def __call__(self, thing: Hashable) -> int:
        """The number of a value."""
        return self.of.setdefault(thing, len(self.of))

    def all(self, things: Iterable[Hashable]) -> Array:
        """The numbers of values, in their order."""
        return np.fromiter((self(thing) for thing in things), dtype=np.int64)


def numbered(things: Iterable[Hashable]) -> tuple[Array, list[Any]]:
    """Values as numbers, and the distinct values in order of appearance."""
    codes = Codes()
    return codes.all(things), list(codes.of)


def coded(column: Any) -> tuple[Array, list[Any]]:
    """An Arrow column without NULL as numbers, and the distinct values."""
    import pyarrow as pa

    if len(column) <= _FEW_ROWS:
        return numbered(column.to_pylist())
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def distinct_rows(*columns: Array) -> tuple[list[tuple[int, ...]], Array]:
    """The distinct rows of integer columns, in order, and for each row the index of its distinct row.

    >>> rows, place = distinct_rows(np.array([7, 5, 7]), np.array([1, 0, 1]))
    >>> rows, place.tolist()
    ([(5, 0), (7, 1)], [1, 0, 1])
    """
    length = len(columns[0])
    if not length:
        return [], np.zeros(0, np.int64)
    code, extent = np.zeros(length, np.int64), 1
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if width > _WIDEST:
            values, column = np.unique(column, return_inverse=True)
            low, width = 0, len(values)
        if extent * width > _WIDEST:
            values, code = np.unique(code, return_inverse=True)
            extent = len(values)
        code = code * width + (column.astype(np.int64) - low)
        extent *= width
    if extent <= max(4 * length, 1 << 20):
        seen = np.zeros(extent, dtype=bool)
        seen[code] = True
        number = np.cumsum(seen) - 1
        place = number[code]
        first = np.empty(int(number[-1]) + 1, np.int64)
        first[place] = np.arange(length)
    else:
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
    listed = zip(*(column[first].tolist() for column in columns), strict=True)
    return list(listed), place.reshape(-1)


_Texts = tuple[str | None, str | None, str | None, str | None]
_SILENT: _Texts = (None, None, None, None)


class Calls(NamedTuple):
    """Operators of a rank by id: `parent` is an index among them (-1), `key` one in `keys` (name, span, input), `texts`
    the inputs by span and input."""

    ids: Array
    parent: Array
    key: Array
    keys: list[tuple[str, int, int]]
    texts: dict[tuple[int, int], _Texts]


def operators(scope: Scope, rank: int, *, all_operators: bool = False) -> Calls:
    """The operators of a rank that enclose launches of device work, or all."""
    table = scope.sql(_HOST, {"rank": rank, "all_operators": all_operators})
    ids, spans, inputs = (table.column(c).to_numpy() for c in ("id", "span", "input_id"))
    above = places(ids, table.column("parent_id").to_numpy())
    code, names = coded(table.column("name"))
    chosen = np.flatnonzero(table.column("is_operator").to_numpy())
    place = np.full(len(ids), -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    parent = above[chosen]
    while True:  # events between two operators (ranges, frames) are not part of the forest
        skipped = np.flatnonzero((parent >= 0) & (place[parent] < 0))
        if not skipped.size:
            break
        parent[skipped] = above[parent[skipped]]
    parent = np.where(parent >= 0, place[parent], -1)
    distinct, key = distinct_rows(code[chosen], spans[chosen], inputs[chosen])
    keys = [(names[name], span, given) for name, span, given in distinct]
    rows = scope.sql(
        'SELECT span, input_id, dims, types, strides, "values" FROM operator_input WHERE rank = $rank', {"rank": rank}
    )
    listed = zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
    texts: dict[tuple[int, int], _Texts] = {
        (span, given): (dims, types, strides, values) for span, given, dims, types, strides, values in listed
    }
    return Calls(ids[chosen], parent, key, keys, texts)


def _row(calls: Calls, key: tuple[str, int, int], list_dtype: str | None = None) -> Row:
    name, span, given = key
    return Row(name, *calls.texts.get((span, given), _SILENT), list_dtype)


def _asks_related(operator: str) -> bool:
    model = model_of(operator)
    return model is not None and model.asks_related


def distinct_calls(scope: Scope, rank: int, calls: Calls, kernel_of: list[str]) -> tuple[Array, list[Row]]:
    """For each operator the number of its distinct call, and these calls; `kernel_of` is the longest kernel of each key
    of `calls`."""
    rows = []
    for number, key in enumerate(calls.keys):
        types = calls.texts.get(key[1:], _SILENT)[1]
        in_lists = types is not None and "TensorList" in types
        kind = element_type(kernel_of[number]) if in_lists else None
        rows.append(_row(calls, key, list_dtype=kind))
    wanting = np.array([row.values is None and _asks_related(row.name) for row in rows], bool)
    if not wanting.any():
        return calls.key.copy(), rows
    chosen = np.flatnonzero(wanting[calls.key])
    chain = [chosen]
    for _level in range(_RELATIVES):
        below = chain[-1]
        chain.append(np.where(below >= 0, calls.parent[below], -1))
    backward = scope.sql(_BACKWARD, {"rank": rank, "telling": forward_hints()})
    forward_ids = backward.column("forward_id").to_numpy()
    gradient = np.full(len(chosen), -1, dtype=np.int64)
    for above in chain:
        matches = places(forward_ids, np.where(above >= 0, calls.ids[above], -1))
        gradient = np.where(gradient < 0, matches, gradient)
    listed = [backward.column(name).to_pylist() for name in ("name", "span", "input_id")]
    gradients = list(zip(*listed, strict=True))
    gradient_codes = Codes()
    codes_of = gradient_codes.all(gradients)
    gradient_code = np.where(gradient >= 0, codes_of[gradient] if len(codes_of) else -1, -1)
    key_columns = [np.where(above >= 0, calls.key[above], -1) for above in chain]
    distinct, which = distinct_rows(*key_columns, gradient_code)
    gradient_keys: list[Any] = list(gradient_codes.of)
    number = calls.key.copy()
    number[chosen] = len(rows) + which
    for call_key, *others, back in distinct:
        related = tuple(_row(calls, calls.keys[other]) for other in others if other >= 0)
        if back >= 0:
            related += (_row(calls, gradient_keys[back]),)
        base = rows[call_key]
        rows.append(Row(base.name, base.dims, base.types, base.strides, base.values, None, related))
    return number, rows
