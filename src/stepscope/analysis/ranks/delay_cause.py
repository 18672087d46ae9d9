"""What a late rank did longer than the ranks that waited: causes, and their kernels and operators."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stepscope.analysis.ranks.skew import CAUSES, RankSkew
from stepscope.analysis.recording import Array
from stepscope.base.units import ratio_text
from stepscope.query.kernel_names import short_names
from stepscope.query.scope import Scope

_WINDOWS = """
    WITH stretch AS (
        SELECT unnest($rank::INTEGER[]) AS rank, unnest($span::SMALLINT[]) AS span,
            unnest($start_ns::BIGINT[]) AS from_ns, unnest($end_ns::BIGINT[]) AS to_ns,
            unnest($weight::DOUBLE[]) AS weight
    )
    SELECT name, sum(weight * {part} * (least(start_ns + dur_ns, to_ns) - greatest(start_ns, from_ns))
        / dur_ns)::DOUBLE AS time_ns
    FROM {table} JOIN stretch USING (rank, span)
    WHERE start_ns < to_ns AND start_ns + dur_ns > from_ns AND dur_ns > 0 AND {condition}
    GROUP BY name HAVING time_ns > 0 ORDER BY time_ns DESC, name LIMIT {limit}
"""
_WORTH_NAMING = 0.25
_MIN_SHARE = 0.2
_NAMED = {
    "computation": ("device_event", "dur_ns", "kind = 'computation'"),
    "host": (
        "host_event",
        "self_ns",
        "kind IN ('operator', 'runtime') AND coalesce(role, '') NOT IN ('synchronize', 'compile', 'dataloader')",
    ),
}
"""Causes that names of kernels, or of operators and calls, explain further."""


def slower_names(scope: Scope, skew: RankSkew, rank: int, cause: str, limit: int = 2) -> list[str]:
    """Kernels, or operators and calls, in which a late rank spent more time than the rank that waited longest for it,
    by difference; `cause` is one of `CAUSES` (only computation and host have names)."""
    rows = np.flatnonzero((skew.late == rank) & (skew.weight > 0))
    if cause not in _NAMED or not len(rows):
        return []
    order = rows[np.lexsort((-skew.wait_ns[rows], skew.late_end[rows]))]
    pairs = order[np.unique(skew.late_end[order], return_index=True)[1]]
    table, part, condition = _NAMED[cause]

    def both(late: Array, waiting: Array) -> list[float]:
        columns: Iterable[float] = np.concatenate([late[pairs], waiting[pairs]]).tolist()
        return list(columns)

    windows = {
        "rank": both(skew.late, skew.waiter),
        "span": both(skew.late_span, skew.wait_span),
        "start_ns": both(skew.late_start, skew.wait_start),
        "end_ns": both(skew.late_end, skew.wait_end),
        "weight": [1.0] * len(pairs) + [-1.0] * len(pairs),
    }
    query = _WINDOWS.format(table=table, part=part, condition=condition, limit=limit)
    with Scope(scope.store, all_times=True) as all_times:
        by_name = all_times.sql(query, windows).to_pylist()
    total_ns = sum(row["time_ns"] for row in by_name)
    return [row["name"] for row in by_name if row["time_ns"] >= _WORTH_NAMING * total_ns]


def cause_shares(charged_ns: Array) -> Array:
    """The share of each cause in all that a rank did longer; negative for what it did shorter."""
    return charged_ns / max(charged_ns.clip(min=0).sum(), 1)


def explain_delay(scope: Scope, skew: RankSkew, rank: int, *, recorded: bool = False) -> str:
    """Describes the main causes of a rank's delay, each with its share of all that it did longer; causes below a fifth
    are left out.

    Empty if nobody waited for it. With `recorded`, the time before its recording is ignored.
    """
    charged = skew.by_rank(skew.charged_ns)[rank]
    if recorded:
        charged[CAUSES.index("before the recording")] = 0
    if charged.sum() <= 0:
        return ""
    shares = cause_shares(charged)
    parts = []
    for place in (-charged).argsort(kind="stable").tolist():
        if shares[place] < _MIN_SHARE:
            break
        by_name = slower_names(scope, skew, rank, CAUSES[place])
        text = f"{CAUSES[place]} {ratio_text(shares[place])}"
        parts.append(f"{text} ({', '.join(short_names(by_name))})" if by_name else text)
    return ", ".join(parts)
