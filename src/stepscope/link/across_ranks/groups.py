"""The process group of each collective, as far as its recording shows.

One name may belong to several groups: those of tensor parallelism often have the same name on every node. Their ranks,
or the library's own number of the communicator, distinguish them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.link.across_ranks.gather import Collectives
from stepscope.schema.arrays import Int32s

POINT_TO_POINT = ("send", "recv", "send_recv")

CERTAINTY = {"ranks": 1.0, "communicator": 1.0, "name": 0.9, "nothing": 0.5}
"""How certain it is that collectives belong to one group, by the evidence: the ranks of the group, a communicator that
several ranks name, a name that no more ranks have than the group has, or only that ranks do the same."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each collective.

    Args:
        group: number of its group among all that can be distinguished; -1 if unknown.
        certainty: for each group, how certain it is that the collectives with its number belong to one group.
        size: for each group its number of ranks, 0 if unknown.
    """

    group: Int32s
    certainty: NDArray[np.float64]
    size: Int32s


def find_groups(collectives: Collectives, ranks: Sequence[int]) -> Groups:
    """The group of each collective; a point-to-point transfer gets a group of its sender and receiver."""
    # Each recorded group on each rank that names it, and the index of this pair for each collective.
    pairs, of_row = np.unique(collectives.group.astype(np.int64) * len(ranks) + collectives.rank, return_inverse=True)
    on = [(pair // len(ranks), ranks[pair % len(ranks)]) for pair in pairs.tolist()]
    sharing: dict[Any, set[int]] = {}
    for recorded, rank in on:
        communicator = collectives.groups[recorded][4]
        if communicator is not None:
            sharing.setdefault(communicator, set()).add(rank)
    evidence = [_evidence(recorded, sharing) for recorded in collectives.groups]
    holding: dict[tuple[str, Any], set[int]] = {}
    for recorded, rank in on:
        holding.setdefault(evidence[recorded][:2], set()).add(rank)
    numbers: dict[tuple[str, Any], int] = {}
    certainty: list[float] = []
    sizes: list[int] = []
    number_of_pair = []
    for recorded, rank in on:
        how, key, size, members = evidence[recorded]
        several = how in ("name", "nothing") and 0 < size < len(holding[how, key])
        if several or (members and rank not in members):
            number_of_pair.append(-1)
            continue
        number_of_pair.append(numbers.setdefault((how, key), len(numbers)))
        if len(numbers) > len(certainty):
            certainty.append(CERTAINTY[how])
            sizes.append(size)
    group = np.array(number_of_pair, np.int32)[of_row.reshape(-1)]
    return _with_peers(collectives, ranks, Groups(group, np.array(certainty), np.array(sizes, np.int32)))


def _evidence(recorded: tuple[Any, ...], sharing: dict[Any, set[int]]) -> tuple[str, Any, int, frozenset[int]]:
    """What distinguishes a group: the kind of evidence, its value, the group's size (0: unknown) and known ranks."""
    name, description, text, size, communicator = recorded
    members = recorded_ranks(text)
    if members:
        return "ranks", (name, description, members), len(members), members
    if communicator is not None and len(sharing[communicator]) > 1:
        return "communicator", (communicator, name, description), size or 0, members
    how = "nothing" if name is None and description is None else "name"
    return how, (name, description, size), size or 0, members


def recorded_ranks(text: str | None) -> frozenset[int]:
    """The ranks of a group from their recorded list; none if it is not a list of ranks."""
    if not text:
        return frozenset()
    try:
        ranks = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
        return frozenset()
    return frozenset(ranks)


def _with_peers(collectives: Collectives, ranks: Sequence[int], groups: Groups) -> Groups:
    """Gives point-to-point transfers groups of their own: sender and receiver within a group."""
    rows = np.flatnonzero(
        np.array([kind_fields[0] in POINT_TO_POINT for kind_fields in collectives.kinds], dtype=bool)[collectives.kind]
    )
    if not len(rows):
        return groups
    group, certainty, sizes = groups.group.copy(), groups.certainty.tolist(), groups.size.tolist()
    numbers: dict[tuple[int, int, int], int] = {}
    triples = np.stack([group[rows], collectives.kind[rows], collectives.rank[rows]], axis=1)
    distinct, of_row = np.unique(triples, axis=0, return_inverse=True)
    pair_groups = []
    for within, kind, place in distinct.tolist():
        operation, _, _, source, destination = collectives.kinds[kind]
        this_rank = ranks[place]
        source = this_rank if source is None and operation == "send" else source
        destination = this_rank if destination is None and operation == "recv" else destination
        peers = {source, destination}
        if within < 0 or None in peers or this_rank not in peers or len(peers) < 2:
            pair_groups.append(-1)
            continue
        number = numbers.setdefault((within, source, destination), len(certainty))
        if number == len(certainty):
            certainty.append(certainty[within])
            sizes.append(2)
        pair_groups.append(number)
    group[rows] = np.array(pair_groups, np.int32)[of_row.reshape(-1)]
    return Groups(group, np.array(certainty), np.array(sizes, np.int32))
