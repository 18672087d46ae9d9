"""Threads and streams: the meaning and names of a trace's pids and tids."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.formats.kineto.gathering import codes, distinct
from stepscope.formats.tables import from_rows
from stepscope.formats.vocabulary import EXPORTED_PART

Ints = np.ndarray[Any, np.dtype[Any]]

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
        numbers: Ints = table[place]
        return numbers

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
        pairs = np.unique(np.stack((device.astype(np.int64), stream), axis=1), axis=0)
        rows = [
            {
                "device": int(on),
                "stream": int(number),
                "name": self._thread_names.get((str(on), str(number)))
                or self._thread_names.get((str(on), f"stream {number}")),
            }
            for on, number in pairs.tolist()
        ]
        return from_rows("stream", rows)


def _plain(tid: str) -> str:
    return tid.removeprefix("stream ").strip()
