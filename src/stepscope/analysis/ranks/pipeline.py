"""Pipelines: groups of ranks that each hold a part of the model, and how long their stages wait for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepscope.analysis.ranks.parallelism import described
from stepscope.base.quoting import sql_literal
from stepscope.link.across_ranks.groups import recorded_ranks

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

Group = tuple[str | None, str | None]
"""Name and description of a process group."""

_PEERS = """
    SELECT group_name, group_description, any_value(group_size) AS size, rank,
        list(DISTINCT coalesce(destination_rank, -1)) FILTER (operation = 'send') AS "to",
        list(DISTINCT coalesce(source_rank, -1)) FILTER (operation = 'recv') AS "from"
    FROM {collective} WHERE operation IN ('send', 'recv') GROUP BY ALL ORDER BY ALL
"""
_OF_GROUPS = """
    SELECT group_name, group_description, group_ranks, operation IN ('send', 'recv', 'send_recv') AS to_peer,
        count(*) AS calls, count(*) FILTER (wait_ns IS NULL) AS unmeasured
    FROM collective GROUP BY ALL ORDER BY ALL
"""


def chains(scope: Scope) -> frozenset[Group]:
    """Groups that send and receive like pipeline stages: to and from the same ranks, at most two, and not all others.

    Rings send to one neighbour and receive from the other; exchanges made of transfers have all ranks as peers. With
    two ranks these cannot be distinguished.
    """
    groups: dict[Group, list[tuple[set[int], bool]]] = {}
    for row in scope.sql(_PEERS.format(collective=scope.unfiltered("collective"))).to_pylist():
        to, source = set(row["to"] or ()), set(row["from"] or ())
        fits = to == source and -1 not in to and len(to) <= 2
        inner = fits and len(to) == 2 and (row["size"] or 0) > 3
        members = groups.setdefault((row["group_name"], row["group_description"]), [])
        members.append((to if fits else set(), inner))
    return frozenset(
        group
        for group, members in groups.items()
        if all(peers for peers, _ in members)
        and (
            any(inner for _, inner in members)
            or {len(peers) for peers, _ in members} == {1, 2}  # both ends and the middle
        )
    )


class Pipelines(NamedTuple):
    """The pipelines of a scope.

    Args:
        condition: SQL: the rows of `collective` in which stages wait for one another.
        stage: the stage of each rank whose pipeline was recorded completely, from 0.
        stages: their number; 0 if unknown or different between pipelines.
        calls, unmeasured: transfers between stages on every rank, and those whose wait is unknown.
    """

    condition: str
    stage: dict[int, int]
    stages: int
    calls: int
    unmeasured: int


def pipelines(scope: Scope) -> Pipelines | None:
    """Finds the pipelines of a scope by group descriptions, else by who sends to whom; None without a sign of one."""
    rows = scope.sql(_OF_GROUPS).to_pylist()
    if not any(row["to_peer"] for row in rows):
        return None
    linked = chains(scope)
    chosen = [row for row in rows if _is_pipeline(row["group_name"], row["group_description"], linked)]
    if not any(row["to_peer"] for row in chosen):
        return None
    conditions = {
        " AND ".join(
            f"{name} IS NOT DISTINCT FROM {'NULL' if row[name] is None else sql_literal(row[name])}"
            for name in ("group_name", "group_description")
        )
        for row in chosen
    }
    members = [sorted(recorded_ranks(row["group_ranks"])) for row in chosen if row["to_peer"] and row["group_ranks"]]
    sizes = {len(ranks) for ranks in members if ranks}
    return Pipelines(
        " OR ".join(f"({condition})" for condition in sorted(conditions)),
        {rank: place for ranks in members for place, rank in enumerate(ranks)},
        sizes.pop() if len(sizes) == 1 else 0,
        sum(row["calls"] for row in chosen),
        sum(row["unmeasured"] for row in chosen),
    )


def _is_pipeline(name: str | None, description: str | None, linked: frozenset[Group]) -> bool:
    kind = described(description) if description else None
    return "pipeline" in kind.split("+") if kind else (name, description) in linked
