"""Threads and streams: the meaning and names of a trace's pids and tids, and the start and end rows of a thread."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.formats.consecutive import run_starts
from stepscope.formats.kineto.columns import Ints, codes, distinct
from stepscope.formats.tables import from_rows
from stepscope.formats.vocabulary import EXPORTED_PART

_NUMBER = re.compile(r"^-?\d+$")
_TRACKS = frozenset({"Spans", "Traces", ""})


class Threads:
    """Numbers the (pid, tid) pairs of a recording in order of appearance."""

    def __init__(self, names: list[tuple[Any, ...]]) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._process_names: dict[str, str] = {}
        self._thread_names: dict[tuple[str, str], str] = {}
        self._part_of: dict[tuple[str, str], str] = {}
        for event, pid, tid, name in names:
            if name is None or pid is None:
                continue
            if event == "process_name":
                self._process_names[pid] = name
            elif event == "thread_name" and tid is not None:
                self._thread_names[pid, _plain(tid)] = name
            elif event == EXPORTED_PART and tid is not None:
                self._part_of[pid, tid] = name

    def number(self, pid: str, tid: str) -> int:
        """The thread's number; a new one for a new pair."""
        thread = pid, self._part_of.get((pid, tid), tid)
        return self._numbers.setdefault(thread, len(self._numbers))

    def numbers(self, pid: pa.ChunkedArray, tid: pa.ChunkedArray) -> Ints:
        """Thread numbers (int32) of dictionary-encoded pids and tids."""
        pid_codes, pids = codes(pid)
        tid_codes, tids = codes(tid)
        width = len(tids) + 1
        place = (pid_codes.astype(np.int64) + 1) * width + (tid_codes + 1)
        pairs, place = distinct(place, (len(pids) + 1) * width)
        first = np.empty(len(pairs), dtype=np.int64)
        first[place[::-1]] = np.arange(len(place) - 1, -1, -1)  # the last one written stays
        table = np.zeros(len(pairs), dtype=np.int32)
        for at in np.argsort(first).tolist():
            pid_code, tid_code = divmod(int(pairs[at]), width)
            table[at] = self.number(pids[pid_code - 1] if pid_code else "", tids[tid_code - 1] if tid_code else "")
        return table[place]

    def table(self) -> pa.Table:
        """Rows of the table `thread`."""
        rows = [
            {
                "thread": number,
                "pid": pid,
                "tid": tid,
                "process_name": self._process_names.get(pid),
                "thread_name": self._thread_names.get((pid, _plain(tid))),
                "kind": "track" if pid in _TRACKS or pid == "-1" or not _NUMBER.match(_plain(tid)) else "thread",
            }
            for (pid, tid), number in self._numbers.items()
        ]
        return from_rows("thread", rows)

    def streams(self, device: Ints, stream: Ints) -> pa.Table:
        """Rows of the table `stream` for the devices and streams of device events."""
        names = self._thread_names
        pairs = np.unique(np.stack((device.astype(np.int64), stream), axis=1), axis=0).tolist()
        rows = [
            {"device": on, "stream": number,
             "name": names.get((str(on), str(number))) or names.get((str(on), f"stream {number}"))}
            for on, number in pairs
        ]  # fmt: skip
        return from_rows("stream", rows)


def _plain(tid: str) -> str:
    return tid.removeprefix("stream ").strip()


def pair(thread: Ints, time_ns: Ints, is_start: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[Ints, Ints, int]:
    """Matches ends to starts: writers such as py-spy write a `B` and an `E` row instead of one `X`.

    An `E` closes the innermost open `B` of its thread.

    Returns:
        Row of each start; row of its end, -1 if it has none; number of ends without a start.
    """
    order = np.lexsort((np.arange(len(thread)), time_ns, thread))
    step = np.where(is_start[order], 1, -1)
    starts = np.flatnonzero(run_starts(thread[order]))
    unmatched = 0
    matched = np.ones(len(order), dtype=bool)
    level = np.zeros(len(order), dtype=np.int64)
    for low, high in zip(starts, [*starts[1:], len(order)][: len(starts)], strict=True):
        depth = np.cumsum(step[low:high])
        # Each new low of the depth below 0 is an end without a start.
        floor = np.minimum.accumulate(np.minimum(depth, 0))
        lost = np.diff(floor, prepend=0) < 0
        matched[low:high] = ~lost
        unmatched += int(lost.sum())
        level[low:high] = depth - floor + np.where(step[low:high] < 0, 1, 0)
    order, step, level = order[matched], step[matched], level[matched]
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
