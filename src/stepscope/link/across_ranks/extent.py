"""Whether collectives stay within a node, and how many ranks those without a recorded group have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.link.across_ranks.gather import Collectives, RankInfo
from stepscope.link.across_ranks.groups import POINT_TO_POINT, recorded_ranks
from stepscope.link.across_ranks.matching import Matches
from stepscope.schema.arrays import Int32s

EXTENTS = ("intra_node", "inter_node")
INTRA, INTER = range(2)


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of each collective.

    Args:
        extent: index in `EXTENTS`; -1 if the nodes of its ranks are unknown.
        size: ranks in its group, if the recording does not state it; -1 if unknown.
    """

    extent: NDArray[np.int8]
    size: Int32s


def find_extent(
    collectives: Collectives, matches: Matches, ranks: Sequence[RankInfo], world_size: int | None
) -> Extent:
    """How far each collective goes.

    Its ranks are those of its group, or sender and receiver; if these are not recorded, those of its match. Ranks on
    two nodes suffice to know that it leaves a node; to know that it does not, the nodes of all its ranks must be known.
    A match of as many ranks as the job has belongs to a group of them all.

    """
    host_of = {item.rank: item.host for item in ranks if item.host is not None}
    matched_ranks = np.append(matches.ranks, 0)[matches.match]
    stated = np.array([-1 if item[3] is None else item[3] for item in collectives.groups] + [-1], np.int32)
    stated = stated[collectives.group]
    everyone = matched_ranks == (world_size or -1)
    size = np.where((stated < 0) & everyone, world_size or -1, -1).astype(np.int32)
    extent = np.full(len(collectives), -1, np.int8)
    shape = (max(len(collectives.groups), 1), max(len(collectives.kinds), 1), max(len(ranks), 1))
    code = np.ravel_multi_index((collectives.group, collectives.kind, collectives.rank), shape)
    distinct, of_row = np.unique(code, return_inverse=True)
    by_kind = [
        _within(_ranks(collectives, int(group), int(kind), ranks[place].rank), host_of)
        for group, kind, place in zip(*np.unravel_index(distinct, shape), strict=True)
    ]
    if len(collectives):
        extent = np.array(by_kind, np.int8)[of_row]
    if len(matches):
        numbers = {host: number for number, host in enumerate(sorted(set(host_of.values())))}
        host = np.array([numbers.get(item.host or "", -1) for item in ranks], np.int32)
        host = host[collectives.rank[matches.rows]]
        min_host = np.minimum.reduceat(np.where(host < 0, len(numbers), host), matches.first)
        max_host = np.maximum.reduceat(host, matches.first)
        complete = np.minimum.reduceat(host, matches.first) >= 0
        complete &= matches.ranks == np.maximum(stated, size)[matches.rows[matches.first]]
        of_match = np.where(max_host > min_host, INTER, np.where(complete, INTRA, -1))
        by_match = np.append(of_match, -1)[matches.match]
        extent = np.where(extent < 0, by_match, extent).astype(np.int8)
    return Extent(extent, size)


def _ranks(collectives: Collectives, group: int, kind: int, this_rank: int) -> frozenset[int]:
    """The recorded ranks of a collective; none if not recorded."""
    operation, _, _, source, destination = collectives.kinds[kind]
    if operation in POINT_TO_POINT:
        source = this_rank if source is None and operation == "send" else source
        destination = this_rank if destination is None and operation == "recv" else destination
        if source is not None and destination is not None:
            return frozenset((source, destination))
        return frozenset()
    return recorded_ranks(collectives.groups[group][2])


def _within(ranks: frozenset[int], host_of: dict[int, str]) -> int:
    hosts = {host_of[rank] for rank in ranks if rank in host_of}
    if len(hosts) > 1:
        return INTER
    return INTRA if ranks and all(rank in host_of for rank in ranks) else -1
