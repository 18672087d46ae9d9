"""Which process group a collective is of, as far as its recording tells.

The same name may stand for several groups: those of tensor parallelism are often called the same on every node. What
tells them apart are their ranks, or the library's own number of the communicator.
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
"""How sure it is that collectives are of one group, by what tells: the ranks of the group, a communicator that several
ranks name, a name that no more ranks have than the group has, or nothing but that ranks do the same."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each collective.

    Args:
        group: number of its group among all that can be told apart; -1 where that cannot be told.
        certainty: of each group, how sure it is that what carries its number is of one group.
        size: of each group, its number of ranks where that is known, else 0.
    """

    group: Int32s
    certainty: NDArray[np.float64]
    size: Int32s


def find_groups(found: Collectives, ranks: Sequence[int]) -> Groups:
    """The group of each collective; a point-to-point transfer is of a group of its sender and receiver."""
    # Each recorded group on each rank that names it, and which of these each collective is.
    pairs, of_row = np.unique(found.group.astype(np.int64) * len(ranks) + found.rank, return_inverse=True)
    on = [(pair // len(ranks), ranks[pair % len(ranks)]) for pair in pairs.tolist()]
    sharing: dict[Any, set[int]] = {}
    for recorded, rank in on:
        communicator = found.groups[recorded][4]
        if communicator is not None:
            sharing.setdefault(communicator, set()).add(rank)
    told = [_told(recorded, sharing) for recorded in found.groups]
    holding: dict[tuple[str, Any], set[int]] = {}
    for recorded, rank in on:
        holding.setdefault(told[recorded][:2], set()).add(rank)
    numbers: dict[tuple[str, Any], int] = {}
    certainty: list[float] = []
    sizes: list[int] = []
    number_of_pair = []
    for recorded, rank in on:
        how, key, size, members = told[recorded]
        several = how in ("name", "nothing") and 0 < size < len(holding[how, key])
        if several or (members and rank not in members):
            number_of_pair.append(-1)
            continue
        number_of_pair.append(numbers.setdefault((how, key), len(numbers)))
        if len(numbers) > len(certainty):
            certainty.append(CERTAINTY[how])
            sizes.append(size)
    group = np.array(number_of_pair, np.int32)[of_row.reshape(-1)]
    return _with_peers(found, ranks, Groups(group, np.array(certainty), np.array(sizes, np.int32)))


def _told(recorded: tuple[Any, ...], sharing: dict[Any, set[int]]) -> tuple[str, Any, int, frozenset[int]]:
    """What tells a group from others, by what that is, its size (0: not known), and its ranks where they are known."""
    name, description, text, size, communicator = recorded
    members = recorded_ranks(text)
    if members:
        return "ranks", (name, description, members), len(members), members
    if communicator is not None and len(sharing[communicator]) > 1:
        return "communicator", (communicator, name, description), size or 0, members
    how = "nothing" if name is None and description is None else "name"
    return how, (name, description, size), size or 0, members


def recorded_ranks(text: str | None) -> frozenset[int]:
    """The ranks of a group, of their recorded list; none where it is no list of ranks."""
    if not text:
        return frozenset()
    try:
        ranks = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
        return frozenset()
    return frozenset(ranks)


def _with_peers(found: Collectives, ranks: Sequence[int], groups: Groups) -> Groups:
    """Gives point-to-point transfers groups of their own: sender and receiver within a group."""
    rows = np.flatnonzero(np.array([one[0] in POINT_TO_POINT for one in found.kinds], dtype=bool)[found.kind])
    if not len(rows):
        return groups
    group, certainty, sizes = groups.group.copy(), groups.certainty.tolist(), groups.size.tolist()
    numbers: dict[tuple[int, int, int], int] = {}
    triples = np.stack([group[rows], found.kind[rows], found.rank[rows]], axis=1)
    distinct, of_row = np.unique(triples, axis=0, return_inverse=True)
    known = []
    for within, kind, place in distinct.tolist():
        operation, _, _, source, destination = found.kinds[kind]
        own = ranks[place]
        source = own if source is None and operation == "send" else source
        destination = own if destination is None and operation == "recv" else destination
        peers = {source, destination}
        if within < 0 or None in peers or own not in peers or len(peers) < 2:
            known.append(-1)
            continue
        number = numbers.setdefault((within, source, destination), len(certainty))
        if number == len(certainty):
            certainty.append(certainty[within])
            sizes.append(2)
        known.append(number)
    group[rows] = np.array(known, np.int32)[of_row.reshape(-1)]
    return Groups(group, np.array(certainty), np.array(sizes, np.int32))
