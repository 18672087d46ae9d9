"""Finds calls made inside a call of their own kind, which a total must not count twice.

A call's total includes what it calls. Where `aten::to` calls `aten::to`, adding both totals counts
the inner one twice; adding those of the outermost calls alone counts it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stepscope.questions.scope import Scope

Integers = np.ndarray[Any, np.dtype[np.int64]]


def inner_calls(
    scope: Scope, calls: str, key: str = "name", tables: str = "host_event"
) -> dict[str, list[int]]:
    """The calls that an alike call encloses, at whatever distance: their `rank` and `id`, as lists.

    Calls that took no time and launched nothing may be left out: they add nothing to any total.

    Args:
        scope: where to look.
        calls: SQL condition on `host_event` for the calls that are compared.
        key: SQL list of what makes calls alike; `name` and what narrows it down.
        tables: SQL of the tables that the key is taken from, `host_event` among them.
    """
    found: dict[str, list[int]] = {"rank": [], "id": []}
    names = _names_at_several_depths(scope, calls)
    if not names:
        return found
    recordings = scope.sql("SELECT DISTINCT rank, span FROM host_event ORDER BY ALL").to_pylist()
    for recording in recordings:
        # 64 bits of hash stand for the key: comparing millions of texts would cost far more
        rows = scope.sql(
            f"""
            SELECT
                host_event.id,
                coalesce(host_event.parent_id, -1) AS parent_id,
                CASE
                    WHEN {calls} AND name IN (SELECT unnest($names)) THEN hash({key}) ELSE 0
                END AS key
            FROM {tables}
            WHERE host_event.rank = $rank AND host_event.span = $span
            """,
            {"names": names, **recording},
        )
        ids = rows.column("id").to_numpy()
        inner = ids[
            _inside_alike(ids, rows.column("parent_id").to_numpy(), rows.column("key").to_numpy())
        ]
        found["rank"] += [recording["rank"]] * len(inner)
        found["id"] += inner.tolist()
    return found


def _names_at_several_depths(scope: Scope, calls: str) -> list[str]:
    """Names that could enclose themselves: one of their calls lies deeper than another that
    encloses something. Only those are worth a climb.
    """
    rows = scope.sql(
        f"""
        SELECT name FROM host_event WHERE {calls} GROUP BY name
        HAVING max(depth) > min(depth) FILTER (
            WHERE self_ns < dur_ns OR device_ns > coalesce(device_self_ns, 0))
        """
    )
    names: list[str] = rows.column("name").to_pylist()
    return names


def _inside_alike(
    ids: Integers, parents: Integers, keys: np.ndarray[Any, np.dtype[np.uint64]]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows have an ancestor of the same key; key 0 is none. All rows climb together, one
    parent at a time, and those that arrive drop out.
    """
    parent_row = _rows_of(ids, parents)
    inside = np.zeros(len(ids), dtype=np.bool_)
    climbing = np.flatnonzero(keys).astype(np.int32)
    at, key = parent_row[climbing], keys[climbing]
    while len(climbing):
        on = at >= 0
        climbing, at, key = climbing[on], at[on], key[on]
        alike = keys[at] == key
        inside[climbing[alike]] = True
        on = ~alike
        climbing, at, key = climbing[on], parent_row[at[on]], key[on]
    return inside


def _rows_of(ids: Integers, wanted: Integers) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Row of each wanted id, -1 where there is none. Ids of one recording lie close together, and
    mostly are its row numbers moved by a constant.
    """
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int32)
    first, last = int(ids.min()), int(ids.max())
    offset = np.where((wanted >= first) & (wanted <= last), wanted - first, -1).astype(np.int32)
    if last - first + 1 == len(ids) and bool((ids[1:] > ids[:-1]).all()):
        return offset
    row_of = np.full(last - first + 2, -1, dtype=np.int32)  # one more, for offset -1
    row_of[ids - first] = np.arange(len(ids), dtype=np.int32)
    return row_of[offset]
