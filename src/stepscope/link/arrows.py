"""The arrows that a recorder drew between two events (table `flow`), each with its start and its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stepscope.link.columns import codes, numbers, places, words
from stepscope.schema.arrays import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Arrows:
    """Arrows whose start is known, one entry for each end. Times in ns.

    Args:
        start_thread, end_thread: number of the host thread there, -1 for none.
        end_pid, end_tid: the end's ids, as indices of `pids` and `tids`.
    """

    start_thread: Int64s
    start_ns: Int64s
    end_thread: Int64s
    end_ns: Int64s
    end_pid: Int32s
    end_tid: Int32s
    pids: list[str]
    tids: list[str]


def read_arrows(flow: pa.Table, category: str, thread: pa.Table) -> Arrows:
    """The arrows of a category; if one arrow has several starts, the first in the file counts."""
    chosen = np.flatnonzero(codes(flow, "category", {category: 0}) == 0)
    phase = codes(flow, "phase", {"s": 0, "f": 2})[chosen]
    flow_id = numbers(flow, "flow_id")[chosen]
    time = numbers(flow, "time_ns")[chosen]
    pid, pids = words(flow, "pid")
    tid, tids = words(flow, "tid")
    pid, tid = pid[chosen], tid[chosen]
    number_of = {(row["pid"], row["tid"]): row["thread"] for row in thread.select(["pid", "tid", "thread"]).to_pylist()}
    tracks, track = np.unique(pid.astype(np.int64) * len(tids) + tid, return_inverse=True)
    pairs = [(pids[pair // len(tids)], tids[pair % len(tids)]) for pair in tracks.tolist()]
    thread_of = np.array([number_of.get(pair, -1) for pair in pairs], dtype=np.int64)[track]
    starts, ends = np.flatnonzero(phase == 0), np.flatnonzero(phase == 2)
    starts = starts[np.argsort(flow_id[starts], kind="stable")]
    at = places(flow_id[starts], flow_id[ends])
    starts, ends = starts[at[at >= 0]], ends[at >= 0]
    return Arrows(thread_of[starts], time[starts], thread_of[ends], time[ends], pid[ends], tid[ends], pids, tids)
