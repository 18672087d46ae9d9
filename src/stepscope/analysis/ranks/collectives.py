"""Sums the collectives of a scope over those that are alike."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.analysis.ranks.parallelism import WITHIN, Parallelism, parallelism
from stepscope.analysis.ranks.pipeline import chains
from stepscope.analysis.steps.gaps import COMMUNICATES
from stepscope.costs import bus_factor

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

Row = dict[str, Any]


LACKS_RANKS = "coalesce(matched_ranks < group_size AND operation NOT IN ('send', 'recv', 'send_recv'), false)"
"""SQL: matched collectives that lack a rank of their group: it may have arrived last."""


def _in_window(column: str) -> str:
    """The part of a collective's time or amount that a window keeps: in proportion to its time."""
    return f"(c.{column}::HUGEINT * event.dur_ns // greatest(c.end_ns - c.start_ns, 1))::BIGINT"


_WITHIN = " ".join(f"WHEN regexp_matches(name, '{pattern}') THEN '{kind}'" for kind, pattern in WITHIN.items())
_GROUPS = f"""
    WITH event AS (
        SELECT rank, id, dur_ns, step FROM device_event WHERE kind = 'communication'
        UNION ALL SELECT rank, id, dur_ns, step FROM host_event WHERE {COMMUNICATES}
    ),
    around AS (
        -- Such ranges nest: the last to start may have ended while an outer one still runs.
        SELECT rank, span, thread, start_ns, max(end_ns) OVER earlier AS end_ns,
            arg_max(within, end_ns) OVER earlier AS within
        FROM (
            SELECT rank, span, thread, start_ns, start_ns + dur_ns AS end_ns,
                CASE {_WITHIN} END AS within
            FROM {{host}} WHERE kind IN ('annotation', 'operator')
        ) WHERE within IS NOT NULL
        WINDOW earlier AS (PARTITION BY rank, span, thread ORDER BY start_ns)
    ),
    on_host AS (
        SELECT rank, span, host_id, operation, row_number() OVER in_turn AS number, count(*) OVER alike AS count
        FROM {{collective}} WHERE id IS NULL
        WINDOW alike AS (PARTITION BY rank, span, operation), in_turn AS (alike ORDER BY start_ns, host_id)
    ),
    call AS (
        SELECT rank, span, id, operation, row_number() OVER in_turn AS number, count(*) OVER alike AS count
        FROM (SELECT rank, span, id, start_ns, regexp_replace(name, '[^a-z]', '', 'g') AS letters FROM {{host}}
            WHERE role = 'communication' AND name LIKE 'c10d::%')
        JOIN (SELECT DISTINCT operation FROM on_host) ON contains(letters, replace(operation, '_', ''))
        WINDOW alike AS (PARTITION BY rank, span, operation), in_turn AS (alike ORDER BY start_ns, id)
    ),
    asked AS (
        -- Collectives of the host run on a thread of the library: the n-th of an operation belongs to its n-th call.
        SELECT rank, host_id, id AS call_id FROM on_host JOIN call USING (rank, span, operation, number, count)
    ),
    caller AS (
        SELECT host.rank, host.id, host.module_id,
            CASE WHEN around.end_ns > host.start_ns THEN within END AS within
        FROM (
            SELECT rank, span, id, thread, start_ns, module_id FROM {{host}}
            WHERE (rank, id) IN (SELECT (rank, host_id) FROM collective UNION ALL SELECT (rank, call_id) FROM asked)
        ) AS host
        ASOF LEFT JOIN around
            ON (around.rank, around.span, around.thread) = (host.rank, host.span, host.thread)
                AND host.start_ns >= around.start_ns
    )
    SELECT
        c.rank, event.step, c.operation, c.library, c.extent, c.group_name, c.group_description,
        c.group_ranks,
        coalesce(c.group_size, CASE WHEN c.matched_ranks = own.world_size THEN c.matched_ranks END)
            AS group_size,
        c.dtype, c.bytes, module.path AS module, module.class AS module_class, caller.within,
        c.wait_ns IS NOT NULL AND NOT {LACKS_RANKS} AS measured,
        count(*) AS calls,
        sum(event.dur_ns)::BIGINT AS total_ns,
        sum({_in_window("exposed_ns")})::BIGINT AS exposed_ns,
        sum({_in_window("wait_ns")})::BIGINT AS wait_ns,
        sum({_in_window("bytes")})::BIGINT AS moved
    FROM collective AS c
    JOIN event ON (event.rank, event.id) = (c.rank, coalesce(c.id, c.host_id))
    JOIN rank AS own ON own.rank = c.rank
    LEFT JOIN asked ON (asked.rank, asked.host_id) = (c.rank, c.host_id)
    LEFT JOIN caller ON (caller.rank, caller.id) = (c.rank, coalesce(call_id, c.host_id))
    LEFT JOIN module
        ON (module.rank, module.span, module.module_id) = (c.rank, c.span, caller.module_id)
    GROUP BY ALL
    ORDER BY ALL
"""


class CollectiveGroup(NamedTuple):
    """Collectives of a rank with the same values in `row`; the parallelism that they serve.

    `row` has `operation`, `library`, `extent`, `group_name`, `group_description`, `group_ranks`, `group_size`, `dtype`,
    `bytes`, `module`, `rank`, `step` (None if unknown), `calls`, and sums: `total_ns`, `exposed_ns`, `moved` bytes,
    `wait_ns` of the `measured` ones.
    """

    row: Row
    serves: Parallelism


class Sums(NamedTuple):
    """Sums over collectives; None if nothing was measured.

    Args:
        measured: calls with a measured wait; `wait_ns` and `transfer_ns` are theirs.
        exposed_ns: time during which the device computed nothing.
        moved_bytes: messages of known size.
        algorithm_bytes_per_s, bus_bytes_per_s: as nccl-tests defines them.
        bandwidth_over: the time behind them: transfer, or duration if no wait was measured.
    """

    calls: int
    measured: int
    total_ns: int
    exposed_ns: int | None
    wait_ns: int | None
    transfer_ns: int | None
    moved_bytes: int | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    bandwidth_over: str | None


def group_collectives(scope: Scope) -> list[CollectiveGroup]:
    """Reads the collectives of a scope, a few thousand rows at most; one that a window cuts counts in proportion."""
    tables = {"host": scope.unfiltered("host_event"), "collective": scope.unfiltered("collective")}
    rows = scope.sql(_GROUPS.format(**tables)).to_pylist()
    linked = chains(scope)
    names = ("group_description", "within", "operation", "module_class")
    return [
        CollectiveGroup(
            row, parallelism(*map(row.get, names), chain=(row["group_name"], row["group_description"]) in linked)
        )
        for row in rows
    ]


def summed(groups: list[CollectiveGroup]) -> Sums:
    """Sums some collectives."""
    rows = [group.row for group in groups]
    measured = [row for row in rows if row["measured"]]
    exposed = [row["exposed_ns"] for row in rows if row["exposed_ns"] is not None]
    moved = [row["moved"] for row in rows if row["moved"] is not None]
    wait = sum(row["wait_ns"] for row in measured)
    over = "transfer" if any(row["moved"] is not None for row in measured) else "duration"
    timed = [
        (row["moved"], _time(row, over), bus_factor(row["operation"], row["group_size"]))
        for row in (measured if over == "transfer" else rows)
        if row["moved"] is not None
    ]
    algorithm = _rate([(Fraction(size), time) for size, time, _ in timed])
    bus = [(size * factor, time) for size, time, factor in timed if factor is not None]
    return Sums(
        calls=sum(row["calls"] for row in rows),
        measured=sum(row["calls"] for row in measured),
        total_ns=sum(row["total_ns"] for row in rows),
        exposed_ns=sum(exposed) if exposed else None,
        wait_ns=wait if measured else None,
        transfer_ns=sum(row["total_ns"] for row in measured) - wait if measured else None,
        moved_bytes=sum(moved) if moved else None,
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=_rate(bus),
        bandwidth_over=over if algorithm is not None else None,
    )


def _time(row: Row, over: str) -> int:
    total: int = row["total_ns"]
    return total - row["wait_ns"] if over == "transfer" else total


def _rate(parts: list[tuple[Fraction, int]]) -> float | None:
    time = sum(ns for _, ns in parts)
    return float(sum(size for size, _ in parts) * 1_000_000_000 / time) if time else None
