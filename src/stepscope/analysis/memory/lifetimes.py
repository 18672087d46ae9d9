"""Finds when each allocation was made and freed: events of one device paired by address.

A *state* is the memory's content between two events: state k follows the k-th event. An allocation is alive in the
states from `start` to before `end`: from 0 if it precedes the recording, beyond the last if never freed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepscope.schema.arrays import Int64s

NO_EVENT = -1


class Lifetimes(NamedTuple):
    """The allocations of a device that events show."""

    start: Int64s
    """First state in which it is alive."""
    end: Int64s
    """First state in which it is not; the number of states if it is never freed."""
    bytes: Int64s
    taken: Int64s
    """The event that made it, NO_EVENT for one from before the recording."""
    given: Int64s
    """The event that freed it, NO_EVENT if none did."""


def lifetimes(address: Int64s, size: Int64s) -> Lifetimes:
    """The allocations that a device's events show, in the order of their events.

    If an event was lost, an allocation ends at the latest when its address is allocated again, and starts at the
    earliest when it was freed before.

    Args:
        address: of each event, in order of time.
        size: bytes allocated, negative if freed.

    >>> found = lifetimes(np.array([7, 7, 9, 8]), np.array([5, -5, -3, 2]))
    >>> found.start.tolist(), found.end.tolist(), found.bytes.tolist()
    ([1, 0, 4], [2, 3, 5], [5, 3, 2])
    """
    events = len(address)
    order = np.argsort(address, kind="stable")
    takes = size[order] > 0
    same_as_next = np.zeros(events, dtype=bool)
    same_as_next[:-1] = address[order][1:] == address[order][:-1]
    same_as_last = np.roll(same_as_next, 1)
    following = np.append(order[1:], 0)
    before = np.roll(order, 1)
    # Each event that allocates is an allocation, and so is each that frees what no event allocated.
    last_took = np.roll(takes, 1) & same_as_last
    unmatched_free = ~takes & ~last_took
    next_gives = same_as_next & ~np.append(takes[1:], False)
    end = np.where(same_as_next, following + 1, events + 1)
    start = np.where(same_as_last, before + 1, 0)
    taken = order[takes]
    lone = order[unmatched_free]
    first = np.concatenate([taken + 1, start[unmatched_free]])
    last = np.concatenate([end[takes], lone + 1])
    given = np.concatenate([np.where(next_gives, following, NO_EVENT)[takes], lone])
    alloc_event = np.concatenate([taken, np.full(len(lone), NO_EVENT)])
    event = np.concatenate([taken, lone])
    by_event = np.argsort(event, kind="stable")
    return Lifetimes(
        first[by_event], last[by_event], np.abs(size[event])[by_event], alloc_event[by_event], given[by_event]
    )


def alive_bytes(start: Int64s, end: Int64s, size: Int64s, states: int) -> Int64s:
    """Bytes of the allocations that are alive in each state."""
    change = np.zeros(states + 1, dtype=np.int64)
    np.add.at(change, start, size)
    np.add.at(change, np.minimum(end, states), -size)
    return np.cumsum(change)[:states]


def first_after(marks: Int64s, states: Any, otherwise: int) -> Int64s:
    """The first of some ordered marks that is at or after each state; `otherwise` if none is."""
    place = np.searchsorted(marks, states, side="left")
    return np.append(marks, otherwise)[place]
