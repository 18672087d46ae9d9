"""How much each rank sent to each other rank in all-to-all exchanges."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

_EXCHANGES = """
    SELECT c.rank, c.group_name, c.group_ranks, c.group_size, own.world_size, c.dtype, c.bytes,
        c.elements_in, c.elements_out, c.sent, c.received, c.matched_ranks, count(*) AS calls
    FROM collective AS c JOIN rank AS own ON own.rank = c.rank
    WHERE c.operation = 'all_to_all'
    GROUP BY ALL ORDER BY ALL
"""


_EACH = """
    SELECT any_value(group_name) AS "group", min(start_ns) AS start_ns, count(*) AS matched_ranks,
        sum(got)::BIGINT AS total_bytes, max(got) / nullif(avg(got), 0) AS max_over_mean,
        CASE WHEN max(got) > min(got) THEN arg_max(rank, (got, -rank)) END AS max_rank
    FROM (
        SELECT *, elements_out * bytes // nullif(elements_in, 0) AS got FROM collective
        WHERE operation = 'all_to_all' AND match_id IS NOT NULL
    )
    GROUP BY match_id
    HAVING count(*) = any_value(coalesce(group_size, matched_ranks)) AND count(got) = count(*)
    ORDER BY max_over_mean DESC NULLS LAST, start_ns, match_id
"""


class Pair(NamedTuple):
    """The data that a rank sent to another in exchanges of a group; the group's name is None if not recorded."""

    group: str | None
    source: int
    destination: int


class Exchanges(NamedTuple):
    """All-to-all exchanges of a scope; groups without a recorded name are None.

    Args:
        calls, split: their number on every rank, and how many of them record how much goes to whom.
        moved: bytes from each rank to each other, and to itself.
        pairs: the number of exchanges behind each.
        sent, received: bytes of each group and rank; None if a size is unknown.
        of_rank: exchanges of each group and rank.
    """

    calls: int
    split: int
    moved: dict[Pair, int]
    pairs: dict[Pair, int]
    sent: dict[tuple[str | None, int], int | None]
    received: dict[tuple[str | None, int], int | None]
    of_rank: dict[tuple[str | None, int], int]


def exchanges(scope: Scope) -> Exchanges:
    """Sums the all-to-all exchanges of a scope, from the sender's arguments, else the receiver's."""
    rows = scope.sql(_EXCHANGES).to_pylist()
    totals = Exchanges(0, 0, {}, {}, {}, {}, {})
    calls = split = 0
    for row in rows:
        key, count = (row["group_name"], row["rank"]), row["calls"]
        calls += count
        totals.of_rank[key] = totals.of_rank.get(key, 0) + count
        size = _element_bytes(row)
        for sums, elements in ((totals.sent, "elements_in"), (totals.received, "elements_out")):
            before, elements_of_rank = sums.get(key, 0), row[elements]
            complete = before is not None and elements_of_rank is not None and size is not None
            sums[key] = before + count * elements_of_rank * size if complete else None
        split += count if _add_pairs(totals, row, size, set(scope.ranks)) else 0
    return totals._replace(calls=calls, split=split)


def pair_rows(totals: Exchanges) -> list[dict[str, Any]]:
    """What each rank sent to each other, the largest amounts of a group first."""
    of_group: dict[str | None, int] = {}
    for pair, size in totals.moved.items():
        of_group[pair.group] = of_group.get(pair.group, 0) + size
    rows = [
        {
            "group": pair.group,
            "source_rank": pair.source,
            "destination_rank": pair.destination,
            "calls": totals.pairs[pair],
            "bytes": size,
            "share_ratio": size / of_group[pair.group] if of_group[pair.group] else None,
        }
        for pair, size in totals.moved.items()
    ]
    return sorted(rows, key=lambda row: (str(row["group"]), -row["bytes"], row["source_rank"], row["destination_rank"]))


def load_rows(totals: Exchanges) -> list[dict[str, Any]]:
    """What each rank sent and received, over the mean of its group."""
    rows = []
    for (group, rank), calls in sorted(totals.of_rank.items(), key=lambda item: (str(item[0][0]), item[0][1])):
        row: dict[str, Any] = {"group": group, "rank": rank, "calls": calls}
        for name, amounts in (("sent", totals.sent), ("received", totals.received)):
            of_group = [size for (other, _), size in amounts.items() if other == group]
            size, total = amounts[group, rank], sum(size for size in of_group if size is not None)
            comparable = len(of_group) > 1 and None not in of_group and total > 0
            row[f"{name}_bytes"] = size
            row[f"{name}_over_mean"] = size * len(of_group) / total if comparable and size is not None else None
        rows.append(row)
    return rows


def exchange_rows(scope: Scope) -> list[dict[str, Any]]:
    """The exchanges whose sizes are known on all ranks of their group, the most uneven first; `max_rank` is None if
    all received the same amount."""
    return scope.sql(_EACH).to_pylist()


def _element_bytes(row: dict[str, Any]) -> int | None:
    """Bytes of an element: a message's bytes over its elements."""
    if row["bytes"] is None or not row["elements_in"]:
        return 0 if row["elements_in"] == 0 else None
    return int(row["bytes"] // row["elements_in"])


def _add_pairs(totals: Exchanges, row: dict[str, Any], size: int | None, recorded: set[int]) -> bool:
    """Adds an exchange to what each rank sent to each other; false if that is not recorded."""
    ranks = _ranks(row)
    sent = _shares(row["sent"], row["elements_in"], ranks)
    if ranks is None or sent is None or size is None:
        return False
    received = _shares(row["received"], row["elements_out"], ranks)
    rank = row["rank"]
    listed = [(Pair(row["group_name"], rank, to), n) for to, n in zip(ranks, sent, strict=True)]
    if received is not None:
        incoming = zip(ranks, received, strict=True)
        listed += [(Pair(row["group_name"], source, rank), n) for source, n in incoming if source not in recorded]
    for pair, elements in listed:
        totals.moved[pair] = totals.moved.get(pair, 0) + round(elements * size * row["calls"])
        totals.pairs[pair] = totals.pairs.get(pair, 0) + row["calls"]
    return True


def _ranks(row: dict[str, Any]) -> list[int] | None:
    if row["group_ranks"]:
        ranks = json.loads(row["group_ranks"])
        return ranks if len(ranks) == row["group_size"] or row["group_size"] is None else None
    size = row["group_size"] or row["matched_ranks"]
    return list(range(size)) if size is not None and size == row["world_size"] else None


def _shares(recorded: str | None, elements: int | None, ranks: list[int] | None) -> list[Fraction] | None:
    """Elements that go to each rank, from the recorded shares; None if they do not fit the group."""
    if recorded is None or elements is None or not ranks:
        return None
    shares = json.loads(recorded)
    if not shares:
        return [Fraction(elements, len(ranks))] * len(ranks) if elements % len(ranks) == 0 else None
    if len(shares) != len(ranks) or (not sum(shares) and elements):
        return None
    return [Fraction(elements * share, max(sum(shares), 1)) for share in shares]
