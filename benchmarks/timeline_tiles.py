"""Measures the timeline's tiles on a generated store, requested from the server as the page does.

python benchmarks/timeline_tiles.py --events 20000000 -o tiles.json
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.api.trace import open_trace
from stepscope.report.page_data import OpenRecording
from stepscope.serve.asking import Recordings
from stepscope.serve.timeline import ask_timeline
from stepscope.store.manifest import write_store_file
from stepscope.store.write import write_tables

THREADS, STREAMS, DEPTH = 2, 2, 6
NAMES = [f"aten::operator_{number}" for number in range(400)]
WIDTH = 1_100
"""Pixels of the timeline in a window of 1 440."""
ASKED = 200
SOURCE = {
    "path": "generated", "format": "kineto", "bytes": 0, "events_repaired": 0, "events_dropped": 0, "truncated": False,
}  # fmt: skip


def write_store(directory: Path, events: int) -> Path:
    """Writes a store of one rank: calls nested six deep on two threads, work on two streams."""
    rng = np.random.default_rng(7)
    on_device = events // 4
    rows = (events - on_device) // (THREADS * DEPTH)
    host: dict[str, list[Any]] = {name: [] for name in ("thread", "depth", "start_ns", "dur_ns", "name")}
    for thread in range(THREADS):
        gap = rng.integers(200, 4_000, rows)
        length = rng.integers(DEPTH * 20, 20_000, rows)
        start = np.cumsum(gap + np.concatenate(([0], length[:-1])))
        for depth in range(DEPTH):
            host["thread"].append(np.full(rows, thread, np.int32))
            host["depth"].append(np.full(rows, depth, np.int16))
            host["start_ns"].append(start + 5 * depth)
            host["dur_ns"].append(length - 10 * depth)
            host["name"].append(rng.integers(0, len(NAMES), rows, np.int32))
    columns = {name: np.concatenate(parts) for name, parts in host.items()}
    order = np.argsort(columns["start_ns"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    count = len(order)
    device_rows = on_device // STREAMS
    device: dict[str, list[Any]] = {name: [] for name in ("stream", "start_ns", "dur_ns", "name")}
    for stream in range(STREAMS):
        length = rng.integers(500, 9_000, device_rows)
        device["stream"].append(np.full(device_rows, 7 + stream, np.int64))
        device["start_ns"].append(np.cumsum(rng.integers(0, 3_000, device_rows) + np.concatenate(([0], length[:-1]))))
        device["dur_ns"].append(length)
        device["name"].append(rng.integers(0, len(NAMES), device_rows, np.int32))
    work = {name: np.concatenate(parts) for name, parts in device.items()}
    tables = {
        "rank": pa.Table.from_pylist([{"resolution_ns": 1, "rank_rule": "single"}]),
        "source": pa.Table.from_pylist([SOURCE | {"events_read": count + device_rows * STREAMS}]),
        "thread": pa.Table.from_pylist(
            [{"thread": n, "pid": "1", "tid": str(n + 1), "kind": "thread"} for n in range(THREADS)]
        ),
        "host_event": _table(columns, count, 0, {"category": "cpu_op", "kind": "operator"}),
        "device_event": _table(
            work, device_rows * STREAMS, count, {"category": "kernel", "kind": "computation"}, device=0
        ),
    }  # fmt: skip
    write_tables(directory, tables, rank=0, span=0)
    write_store_file(directory, {"source": "generated", "ranks": []})
    return directory


def _table(columns: dict[str, Any], rows: int, first: int, words: dict[str, str], **same: int) -> pa.Table:
    made: dict[str, Any] = {"id": np.arange(first, first + rows)}
    for name, column in columns.items():
        made[name] = pa.DictionaryArray.from_arrays(pa.array(column), NAMES) if name == "name" else column
    for name, word in words.items():
        made[name] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [word])
    for name, value in same.items():
        made[name] = np.full(rows, value, np.int32)
    return pa.table(made)


def asked_tiles(layout: dict[str, Any], rng: random.Random) -> Sequence[tuple[int, int]]:
    """Level and index of tiles, as requested by a user who zooms to random places."""
    start, end = layout["start_ns"], layout["end_ns"]
    tiles = []
    for _ in range(ASKED):
        length = (end - start) * 10 ** -rng.uniform(0, 5)
        at = rng.uniform(start, end)
        level = max(0, math.floor(math.log2(length / WIDTH)))
        tiles.append((level, int(at) // (layout["bins"] << level)))
    return tiles


def measured(store: Path) -> dict[str, Any]:
    trace = open_trace(store)
    recordings = Recordings([OpenRecording("generated", trace)])

    def ask(what: str, **more: Any) -> tuple[float, dict[str, Any], int]:
        began = time.perf_counter()
        told = ask_timeline(recordings, what, {name: str(value) for name, value in more.items()})
        size = len(json.dumps(told, separators=(",", ":")).encode())
        return time.perf_counter() - began, told, size

    before = time.process_time()
    layout_s, layout, _ = ask("layout")
    tracks = ",".join(one["id"] for one in layout["ranks"][0]["tracks"])
    level = max(0, math.floor(math.log2((layout["end_ns"] - layout["start_ns"]) / WIDTH)))
    first_s, _, _ = ask("tile", level=level, index=0, tracks=tracks)
    first_processor_s = time.process_time() - before
    rng = random.Random(1)  # noqa: S311  # places to look at, no secrets
    times, processor, sizes = [], [], []
    for level, index in asked_tiles(layout, rng):
        began = time.process_time()
        took, _, size = ask("tile", level=level, index=index, tracks=tracks)
        processor.append(time.process_time() - began)
        times.append(took)
        sizes.append(size)
    whole = [ask("tile", level=level, index=0, tracks=tracks)[0] for level in [_widest(layout)] * 20]
    find_s, found, _ = ask("find", name="*operator_7")
    event_s, _, _ = ask("event", track=found["place"]["track"], id=found["place"]["id"])
    range_s, _, _ = ask("range", start=layout["start_ns"], end=layout["end_ns"], tracks=tracks)
    trace.close()
    return {
        "events": sum(one["events"] for one in layout["ranks"][0]["tracks"]),
        "layout_s": layout_s,
        "first_tile_s": first_s,
        "both_processor_s": first_processor_s,
        "tile_median_ms": 1e3 * statistics.median(times),
        "tile_p95_ms": 1e3 * _p95(times),
        "tile_p95_processor_ms": 1e3 * _p95(processor),
        "tile_longest_ms": 1e3 * max(times),
        "tile_of_everything_ms": 1e3 * statistics.median(whole),
        "tile_kib_median": statistics.median(sizes) / 1024,
        "find_s": find_s,
        "event_s": event_s,
        "range_of_everything_s": range_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def _widest(layout: dict[str, Any]) -> int:
    return math.ceil(math.log2((layout["end_ns"] - layout["start_ns"]) / layout["bins"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--store", type=Path, help="where the store is, or is made and kept")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as space:
        store = given.store or Path(space) / "store"
        if not store.exists():
            # In a separate process, so that its memory is not counted as the server's.
            writing = multiprocessing.get_context("spawn").Process(target=write_store, args=(store, given.events))
            writing.start()
            writing.join()
        told = measured(store)
    for name, value in told.items():
        print(f"{name:24} {value:14,.1f}" if isinstance(value, float) else f"{name:24} {value:14,}")
    if given.output:
        given.output.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
