"""Who arrived last at a collective, and how long the others waited for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.link.across_ranks.matching import Matches
from stepscope.schema.arrays import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Waits:
    """For each matched collective (in order of `Matches.rows`), -1 if unknown.

    Args:
        last: index of the rank that arrived last.
        wait: time from its start until then, within its duration (ns).
    """

    last: Int32s
    wait: Int64s


def find_waits(
    matches: Matches, rank: Int32s, start: Int64s, end: Int64s, noise: NDArray[np.float64], waits: NDArray[np.bool_]
) -> Waits:
    """Compares the arrivals of the ranks.

    A difference within the error of the clocks counts as none: a rank that arrived so close to the last did not wait,
    and if the last two are so close, no rank is the last.

    Args:
        rank: for each matched collective, the index of its rank.
        start, end: by clocks that agree (ns).
        noise: for each, the error of its rank's clock (ns); NaN if unknown.
        waits: for each match, whether all its ranks wait for the last.
    """
    count = len(rank)
    last, wait = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
    if not count:
        return Waits(last, wait)
    first = matches.first
    comparable = np.logical_and.reduceat(~np.isnan(noise), first) & waits
    # The row of the last arrival of each match, and of the one before it.
    order = np.lexsort((start, matches.each(np.arange(len(matches)))))
    latest = order[np.append(first[1:], count) - 1]
    second = order[np.append(first[1:], count) - 2]
    is_certain = start[latest] - start[second] > noise[latest] + noise[second]
    last = matches.each(np.where(comparable & is_certain, rank[latest], -1)).astype(np.int32)
    gap = matches.each(start[latest]) - start
    gap[gap <= noise + matches.each(noise[latest])] = 0
    wait = np.where(matches.each(comparable), np.clip(gap, 0, end - start), -1)
    return Waits(last, wait)
