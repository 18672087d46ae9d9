"""Cuts a trace and flips its bytes at random, and counts what is still read.

Every trial damages a copy of the trace, reads it, and compares the result with what `json` reads from the intact file:
an event that ends before the first damaged byte must be present, with its name, time and duration. Only the error for a
file that is no longer a trace may be raised.

    python benchmarks/fuzz_damage.py TRACE [--cuts 1000] [--flips 1000] [--bytes 100] [--packed 100]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read
from stepscope.formats.tables import RankTables

Row = tuple[str, int, int]
"""Name, start and duration (ns) of an event with a duration."""


@dataclass(frozen=True)
class Original:
    """An intact trace.

    Attributes:
        text: its bytes.
        first: offset at which its first event ends.
        events: offset after each event, in order, and its row if it has a duration.
    """

    text: bytes
    first: int
    events: list[tuple[int, Row | None]]

    def before(self, offset: int) -> tuple[int, Counter[Row]]:
        """The number of events that end at or before an offset, and their rows."""
        whole = [row for end, row in self.events if end <= offset]
        return len(whole), Counter(row for row in whole if row is not None)


@dataclass
class Outcome:
    """The results of the trials of one kind.

    Attributes:
        worst: smallest fraction of the events before the damage that was read.
        worst_untouched: smallest fraction of all events without a damaged byte that was read.
        refused: trials in which nothing like a trace was left.
        tracebacks: trials that raised anything else.
    """

    trials: int = 0
    worst: float = 1.0
    worst_untouched: float = 1.0
    refused: int = 0
    tracebacks: int = 0


def original(text: bytes) -> Original:
    """Parses an intact trace with `json`, event by event."""
    decoded = text.decode("latin-1")  # one character per byte
    index = decoded.index("[", decoded.index('"traceEvents"')) + 1
    decoder = json.JSONDecoder(parse_float=Decimal, strict=False)
    events: list[tuple[int, Row | None]] = []
    while True:
        while decoded[index] in " \t\r\n,":
            index += 1
        if decoded[index] == "]":
            break
        start = index
        _, index = decoder.raw_decode(decoded, index)
        event = decoder.decode(text[start:index].decode())
        row = None
        if event.get("ph") == "X":
            ts, dur = (int(Decimal(event[key]) * 1000) for key in ("ts", "dur"))
            row = (event["name"], ts, dur)
        events.append((index, row))
    return Original(text, events[0][0], events)


def rows_of(trace: Original, tables: RankTables) -> Counter[Row]:
    """The rows that were read, with their times as in the file.

    Times that were read count from the first event that was read, which may not be the file's first; the offset is the
    commonest difference between rows and originals with the same name and duration.
    """
    names: Counter[tuple[str, int]] = Counter()
    starts: dict[tuple[str, int], int] = {}
    for _, row in trace.events:
        if row is not None:
            names[row[0], row[2]] += 1
            starts[row[0], row[2]] = row[1]
    rows: list[Row] = []
    for table in (tables.host_event, tables.device_event):
        columns = (table[name].to_pylist() for name in ("name", "start_ns", "dur_ns"))
        rows += zip(*columns, strict=True)
    shifts = Counter(starts[name, dur] - start for name, start, dur in rows if names[name, dur] == 1)
    shift = shifts.most_common(1)[0][0] if shifts else 0
    return Counter((name, start + shift, dur) for name, start, dur in rows)


def cut(trace: Original, rng: random.Random) -> tuple[bytes, int]:
    """The trace cut at a random byte after its first event, and that offset."""
    at = rng.randrange(trace.first, len(trace.text))
    return trace.text[:at], at


def flipped(text: bytes, rng: random.Random, count: int) -> tuple[bytes, list[int]]:
    """The bytes with some changed at random, and their offsets."""
    damaged = bytearray(text)
    places = sorted(rng.sample(range(len(text)), count))
    for at in places:
        damaged[at] ^= rng.randrange(1, 256)
    return bytes(damaged), places


def read_bytes(data: bytes, folder: Path) -> RankTables:
    """Reads a file with these bytes."""
    path = folder / "trace.json"
    path.write_bytes(data)
    (member,) = members(path)
    return read(member)


def fraction_before(trace: Original, tables: RankTables, offset: int) -> float:
    """The fraction of the events ending before an offset that was read."""
    count, rows = trace.before(offset)
    if not count:
        return 1.0
    by_row = (rows & rows_of(trace, tables)).total() / rows.total() if rows else 1.0
    return min(by_row, tables.report.read / count)


def fraction_untouched(trace: Original, tables: RankTables, places: list[int]) -> float:
    """The fraction of the events with a duration and without damaged bytes that was read."""
    rows: Counter[Row] = Counter()
    at, begin = 0, 0
    for end, row in trace.events:
        while at < len(places) and places[at] < begin:
            at += 1
        if row is not None and not (at < len(places) and places[at] < end):
            rows[row] += 1
        begin = end
    return (rows & rows_of(trace, tables)).total() / rows.total() if rows else 1.0


def trials(
    trace: Original, kind: str, count: int, seed: int, flips: int = 100
) -> Iterator[tuple[bytes, int, list[int]]]:
    """Yields damaged copies, with the first damaged offset and all of them (none after a cut)."""
    for number in range(count):
        rng = random.Random(f"{kind} {seed} {number}")  # noqa: S311
        if kind == "cut":
            data, at = cut(trace, rng)
            yield data, at, []
        else:
            data, places = flipped(trace.text, rng, flips)
            yield data, places[0], places


def run(trace: Original, kind: str, count: int, seed: int, flips: int = 100) -> Outcome:
    """Runs the trials of one kind, and prints tracebacks."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        for data, first, places in trials(trace, kind, count, seed, flips):
            outcome.trials += 1
            try:
                tables = read_bytes(data, Path(folder))
            except SourceError:
                outcome.refused += 1
                outcome.worst = min(outcome.worst, 0.0 if trace.before(first)[0] else 1.0)
                continue
            except Exception:
                outcome.tracebacks += 1
                traceback.print_exc()
                continue
            outcome.worst = min(outcome.worst, fraction_before(trace, tables, first))
            if places:
                outcome.worst_untouched = min(outcome.worst_untouched, fraction_untouched(trace, tables, places))
    return outcome


def run_packed(trace: Original, count: int, seed: int, flips: int) -> Outcome:
    """Flips bytes of the trace's gzip file; whatever is left, nothing may be raised."""
    outcome = Outcome()
    packed = gzip.compress(trace.text)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            rng = random.Random(f"packed {seed} {number}")  # noqa: S311
            data, _ = flipped(packed, rng, min(flips, 1 + number % 5))
            outcome.trials += 1
            try:
                read_bytes(data, Path(folder))
            except SourceError:
                outcome.refused += 1
            except Exception:
                outcome.tracebacks += 1
                traceback.print_exc()
    return outcome


def small_trace() -> bytes:
    """A trace like Kineto's, of some hundred events, with constructs that are hard to read."""
    rng = random.Random(7)  # noqa: S311
    lines = []
    ts = Decimal("6869181217913.045")
    for number in range(120):
        ts += Decimal(rng.randrange(1, 90_000)) / 1000
        dur = Decimal(rng.randrange(0, 40_000)) / 1000
        name = rng.choice(["aten::mm", "aten::add_", "größe", 'say \\"hi\\"', "C:\\\\train.py(3): f", "autograd"])
        lines.append(
            f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 11, "tid": 11,\n'
            f'    "ts": {ts}, "dur": {dur},\n    "args": {{\n      "External id": {number}, '
            f'"Input Dims": [[2, 3], []], "Input type": ["float", ""], "Sequence number": {number}\n'
            f"    }}\n  }}"
        )
        lines.append(
            f'  {{\n    "ph": "X", "cat": "kernel", "name": "gemm<{number % 5}>", "pid": 0, "tid": 7,\n'
            f'    "ts": {ts + 5}, "dur": {dur},\n    "args": {{\n      "device": 0, "stream": 7, '
            f'"correlation": {number}, "grid": [1, 2, 3], "block": [128, 1, 1]\n    }}\n  }}'
        )
        lines.append(
            f'  {{\n    "ph": "f", "id": {number}, "pid": 0, "tid": 7, "ts": {ts + 5},\n'
            f'    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }}'
        )
    head = '{\n  "schemaVersion": 1,\n  "distributedInfo": {"rank": 0},\n  "traceEvents": [\n'
    tail = '\n  ],\n  "traceName": "t.json",\n  "baseTimeNanoseconds": 1700000000000000000\n}\n'
    return (head + ",\n".join(lines) + tail).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", nargs="?", type=Path, help="a plain or gzipped JSON trace")
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--packed", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=100, help="bytes changed per trial of flips")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    data = options.trace.read_bytes() if options.trace else small_trace()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    trace = original(text)
    print(f"{len(trace.events)} events, {len(text)} bytes")
    bad = 0
    for kind, count in (("cut", options.cuts), ("flip", options.flips), ("packed", options.packed)):
        began = time.perf_counter()
        if kind == "packed":
            outcome = run_packed(trace, count, options.seed, options.bytes)
        else:
            outcome = run(trace, kind, count, options.seed, options.bytes)
        bad += outcome.tracebacks + (outcome.worst < 0.99)
        print(
            f"{kind}: {outcome.trials} trials, {outcome.tracebacks} tracebacks, "
            f"{outcome.refused} no trace any more, worst fraction kept before the damage "
            f"{outcome.worst:.5f}, of all untouched {outcome.worst_untouched:.5f}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
