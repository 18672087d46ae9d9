"""How long after an operator's start its device work starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stepscope.analysis.operators.calls import coded, distinct_rows
from stepscope.analysis.recording import Array, once
from stepscope.link.columns import places
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_HOST = """
    SELECT id, coalesce(parent_id, -1) AS parent_id, start_ns, depth, {condition} AS is_operator,
        CASE WHEN kind = 'operator' THEN name ELSE '' END AS name, coalesce(span, -1) AS span,
        coalesce(input_id, -1) AS input_id, coalesce(stack_id, -1) AS stack_id
    FROM {host} WHERE rank = $rank AND (device_ns IS NOT NULL OR id IN (
        SELECT operator_id FROM {device} WHERE rank = $rank
    ))
    ORDER BY id
"""
_DEVICE = """
    SELECT coalesce(CASE WHEN captured_id IS NULL THEN operator_id END, launch_id) AS id, min(start_ns) AS first_ns,
        max(start_ns + dur_ns) AS last_ns
    FROM {device}
    WHERE rank = $rank AND {work} AND coalesce(operator_id, launch_id) IS NOT NULL
    GROUP BY ALL ORDER BY id
"""
_NEVER = np.iinfo(np.int64).max


class _Launching(NamedTuple):
    """Calls of a rank that launched device work: their keys (`name` an index in `names`), and ns from each start to its
    first work's start and last work's end."""

    names: list[str]
    columns: dict[str, Array]
    first_ns: Array
    last_ns: Array

    @property
    def nbytes(self) -> int:
        return (2 + len(self.columns)) * int(self.first_ns.nbytes)


def operator_delays(scope: Scope, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Summed delays of operators' calls to their first and last device work, by group; `keys` are integer columns of
    `host_event` that separate calls of a name.

    Returns:
        columns `name`, `rank`, the keys (None if NULL), `first_ns` and `last_ns`, summed over the `launching` calls.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("name", "rank", *keys, "first_ns", "last_ns", "launching")}
    for rank in scope.ranks:
        calls = _launching(scope, rank)
        groups, which = distinct_rows(*(calls.columns[key] for key in ("name", *keys)))
        for group in groups:
            columns["name"].append(calls.names[group[0]])
            columns["rank"].append(rank)
            for key, value in zip(keys, group[1:], strict=True):
                columns[key].append(None if value < 0 else value)
        for column in ("first_ns", "last_ns"):
            total = np.zeros(len(groups), dtype=np.int64)
            np.add.at(total, which, getattr(calls, column))
            columns[column] += total.tolist()
        columns["launching"] += np.bincount(which, minlength=len(groups)).tolist()
    return columns


@once
def _launching(scope: Scope, rank: int) -> _Launching:
    # A call's work is everything launched in it, whatever part of the recording is requested.
    tables = {"host": scope.unfiltered("host_event"), "device": scope.unfiltered("device_event")}
    condition = "kind = 'operator'"
    if scope.part:
        condition += " AND id IN (SELECT id FROM host_event WHERE rank = $rank)"
    host = scope.rows(_HOST.format(condition=condition, **tables), {"rank": rank})
    first, last = _extents(scope, rank, host)
    calls = np.flatnonzero(host.column("is_operator").to_numpy(zero_copy_only=False) & (first < _NEVER))
    name, names = coded(host.column("name"))
    columns = {key: host.column(key).to_numpy().astype(np.int64)[calls] for key in ("span", "input_id", "stack_id")}
    start = host.column("start_ns").to_numpy()[calls]
    return _Launching(names, {"name": name[calls], **columns}, first[calls] - start, last[calls] - start)


def _extents(scope: Scope, rank: int, host: Any) -> tuple[Array, Array]:
    """When the first work of each host event starts and its last ends, including all events below it."""
    ids = host.column("id").to_numpy()
    parent = places(ids, host.column("parent_id").to_numpy())
    depth = host.column("depth").to_numpy()
    work = scope.sql(_DEVICE.format(work=WORK, device=scope.unfiltered("device_event")), {"rank": rank})
    place = places(ids, work.column("id").to_numpy())
    has_row = place >= 0
    first = np.full(len(ids), _NEVER, dtype=np.int64)
    last = np.full(len(ids), -_NEVER, dtype=np.int64)
    first[place[has_row]] = work.column("first_ns").to_numpy()[has_row]
    last[place[has_row]] = work.column("last_ns").to_numpy()[has_row]
    order = np.argsort(-depth.astype(np.int64), kind="stable")
    order = order[parent[order] >= 0]
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        np.minimum.at(first, parent[level], first[level])
        np.maximum.at(last, parent[level], last[level])
    return first, last
