"""Finds calls nested in a call with the same key. `recursive` marks calls inside one of their name; only these can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.query.scope import Scope


def inner_calls(scope: Scope, calls: str, key: str = "name", tables: str = "host_event") -> dict[str, list[int]]:
    """The calls that an equal call encloses at any depth: their `rank` and `id`, as lists.

    Args:
        calls: SQL condition on `host_event` for the compared calls.
        key: SQL list of what makes calls equal; `name` and what narrows it down.
        tables: SQL of the tables that the key is taken from, `host_event` among them.
    """
    from stepscope.link.columns import places
    from stepscope.link.recursion import inside_same_key

    result: dict[str, list[int]] = {"rank": [], "id": []}
    names = scope.sql(f"SELECT DISTINCT name FROM host_event WHERE recursive AND {calls}")
    if not names.num_rows:
        return result
    recordings = scope.sql("SELECT DISTINCT rank, span FROM host_event ORDER BY ALL").to_pylist()
    for recording in recordings:
        # a 64-bit hash represents the key: comparing millions of texts would cost far more
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
            WHERE host_event.rank = $rank AND host_event.span = $span ORDER BY host_event.id
            """,
            {"names": names.column("name").to_pylist(), **recording},
        )
        ids = rows.column("id").to_numpy()
        inner = ids[
            inside_same_key(
                places(ids, rows.column("parent_id").to_numpy()),
                rows.column("key").to_numpy(),
                rows.column("recursive").to_numpy(),
            )
        ]
        result["rank"] += [recording["rank"]] * len(inner)
        result["id"] += inner.tolist()
    return result
