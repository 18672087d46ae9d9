"""Turns start and end events into events with a duration.

py-spy, viztracer and other writers of Chrome's format write a `B` and an `E` row instead of one `X`.
An `E` closes the innermost open `B` of its thread. An `E` without a `B` is dropped and counted; a
`B` without an `E` lasts to the end of the recording and is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.formats.consecutive import run_starts

Ints = np.ndarray[Any, np.dtype[Any]]


def pair(thread: Ints, time_ns: Ints, is_start: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[Ints, Ints, int]:
    """Matches ends to starts.

    Args:
        thread: thread number of each row, in file order.
        time_ns: time of each row (ns).
        is_start: whether a row is a start.

    Returns:
        Row of each start; row of its end, -1 if it has none; number of ends without a start.
    """
    order = np.lexsort((np.arange(len(thread)), time_ns, thread))
    step = np.where(is_start[order], 1, -1)
    starts = np.flatnonzero(run_starts(thread[order]))
    unmatched = 0
    keep = np.ones(len(order), dtype=bool)
    level = np.zeros(len(order), dtype=np.int64)
    for low, end in zip(starts, [*starts[1:], len(order)][: len(starts)], strict=True):
        depth = np.cumsum(step[low:end])
        # Each new low of the depth below 0 is an end without a start.
        floor = np.minimum.accumulate(np.minimum(depth, 0))
        lost = np.diff(floor, prepend=0) < 0
        keep[low:end] = ~lost
        unmatched += int(lost.sum())
        level[low:end] = depth - floor + np.where(step[low:end] < 0, 1, 0)
    order, step, level = order[keep], step[keep], level[keep]
    # Within a thread and a level, starts and ends alternate.
    by_level = np.lexsort((np.arange(len(order)), level, thread[order]))
    order, step = order[by_level], step[by_level]
    level, threads = level[by_level], thread[order]
    opens = step > 0
    follows = np.zeros(len(order), dtype=bool)
    if len(order) > 1:
        follows[:-1] = opens[:-1] & ~opens[1:] & (threads[:-1] == threads[1:]) & (level[:-1] == level[1:])
    start_rows = order[opens]
    next_rows = np.concatenate((order[1:], [-1])) if len(order) else order
    end_rows = np.where(follows, next_rows, -1)[opens]
    in_order = np.argsort(start_rows, kind="stable")
    return start_rows[in_order], end_rows[in_order], unmatched
