"""Call stacks that were sampled while threads ran, as rows of `stack_sample` and `call_stack`."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.nsys.export import LATEST_NS, STACKS, of_process
from stepscope.formats.nsys.host_rows import Threads
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport

_CHAINS = "SAMPLING_CALLCHAINS"
_DEEPEST = 1024
_FOLDERS = re.compile(r".*[/\\]")
_UNKNOWN = "[unknown]"


def stack_samples(
    database: Database, process: int | None, threads: Threads, stacks: int, report: ReadReport
) -> tuple[pa.Table, pa.Table]:
    """Tables `stack_sample`, with the times as recorded, and `call_stack`.

    A frame is written `library!function`, or `function` where its library is not known.

    Args:
        stacks: rows that `call_stack` has already; numbers of these go on after them.
    """
    rows = database.columns(STACKS, ("id", "start", "globalTid"), of_process("globalTid", process))
    if not rows.num_rows:
        return READ["stack_sample"].empty_table(), READ["call_stack"].empty_table()
    start = rows["start"]
    timed = pc.and_(pc.greater_equal(start, 0), pc.less(start, LATEST_NS)).fill_null(False)
    timed = pc.and_(timed, rows["id"].is_valid())
    lost = rows.num_rows - (pc.sum(timed).as_py() or 0)
    if lost:
        report.note("no_time", count=lost)
        report.dropped += lost
        rows = rows.filter(timed)
    ids = rows["id"].to_numpy()
    stack, texts = _chains(database, ids)
    count = len(ids)
    samples = pa.table(
        {
            "time_ns": rows["start"],
            "thread": threads.numbers(rows["globalTid"]).cast(pa.int32()),
            "stack_id": pa.array(stack + stacks, pa.int32(), mask=stack < 0),
            "weight": pa.array(np.ones(count, np.int64)),
        },
        schema=READ["stack_sample"],
    )
    numbers = pa.array(range(stacks, stacks + len(texts)), pa.int32())
    return samples, pa.table([numbers, pa.array(texts, pa.string())], schema=READ["call_stack"])


def _chains(
    database: Database, ids: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[str]]:
    """The number of each sample's stack, -1 for none, and the stacks, innermost frame first."""
    rows = database.columns(
        _CHAINS,
        ("id", "stackDepth", "symbol", "module", "unresolved"),
        symbol="name",
        module="name",
    )
    stack = np.full(len(ids), -1, np.int32)
    if not rows.num_rows:
        return stack, []
    frame, frames = _frames(rows)
    owner = rows["id"].fill_null(-1).to_numpy()
    depth = rows["stackDepth"].fill_null(0).to_numpy()
    order = np.lexsort((depth, owner))
    order = order[np.isin(owner[order], ids)]
    owner, frame = owner[order], frame[order]
    changed = np.ones(len(owner), bool)
    changed[1:] = owner[1:] != owner[:-1]
    starts = np.flatnonzero(changed)
    bounds = np.append(starts, len(owner)).tolist()
    numbering: dict[bytes, int] = {}
    texts: list[str] = []
    number_of = np.empty(len(starts), np.int32)
    for place, (low, high) in enumerate(pairwise(bounds)):
        one = frame[low : min(high, low + _DEEPEST)]
        key = one.tobytes()
        if key not in numbering:
            numbering[key] = len(numbering)
            texts.append(";".join(frames[number] for number in one.tolist()))
        number_of[place] = numbering[key]
    if len(starts):
        known = owner[starts]
        at = np.clip(np.searchsorted(known, ids), 0, len(known) - 1)
        stack = np.where(known[at] == ids, number_of[at], -1).astype(np.int32)
    return stack, texts


def _frames(rows: pa.Table) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[str]]:
    """The number of each row's frame, and the frames; addresses without a function are one."""
    symbol, module = rows["symbol"].combine_chunks(), rows["module"].combine_chunks()
    symbols = [*symbol.dictionary.to_pylist(), _UNKNOWN]
    modules = [*module.dictionary.to_pylist(), ""]
    known = pc.and_(
        symbol.is_valid(), pc.equal(rows["unresolved"].fill_null(0), 0).combine_chunks()
    )
    place = pc.if_else(known, symbol.indices, len(symbols) - 1).to_numpy(zero_copy_only=False)
    packed = place.astype(np.int64) * len(modules)
    packed += module.indices.fill_null(len(modules) - 1).to_numpy(zero_copy_only=False)
    distinct, frame = np.unique(packed, return_inverse=True)
    return frame, [
        _frame(symbols[one // len(modules)], modules[one % len(modules)])
        for one in distinct.tolist()
    ]


def _frame(symbol: str, module: str) -> str:
    library = _FOLDERS.sub("", module).strip("[]").replace(";", ",")
    function = symbol.replace(";", ",")
    return f"{library}!{function}" if library and library != "Unknown" else function
