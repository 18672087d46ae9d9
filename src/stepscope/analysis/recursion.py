"""Finds calls made inside a call that is like them in more than its name.

Which calls lie inside one of their name is a column of the store (`recursive`); where calls of a name
are told apart, by their inputs say, only those can be inside their like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

Integers = np.ndarray[Any, np.dtype[np.int64]]


def inner_calls(
    scope: Scope, calls: str, key: str = "name", tables: str = "host_event"
) -> dict[str, list[int]]:
    """The calls that an alike call encloses, at whatever distance: their `rank` and `id`, as lists.

    Args:
        scope: where to look.
        calls: SQL condition on `host_event` for the calls that are compared, operators or ranges.
        key: SQL list of what makes calls alike; `name` and what narrows it down.
        tables: SQL of the tables that the key is taken from, `host_event` among them.
    """
    from stepscope.link.recursion import inside_alike

    found: dict[str, list[int]] = {"rank": [], "id": []}
    names = scope.sql(f"SELECT DISTINCT name FROM host_event WHERE recursive AND {calls}")
    if not names.num_rows:
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
                END AS key,
                recursive
            FROM {tables}
            WHERE host_event.rank = $rank AND host_event.span = $span
            """,
            {"names": names.column("name").to_pylist(), **recording},
        )
        ids = rows.column("id").to_numpy()
        inner = ids[
            inside_alike(
                _rows_of(ids, rows.column("parent_id").to_numpy()),
                rows.column("key").to_numpy(),
                rows.column("recursive").to_numpy(),
            )
        ]
        found["rank"] += [recording["rank"]] * len(inner)
        found["id"] += inner.tolist()
    return found


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
