"""Every shared trace, read by us and, independently, with exact decimals by json."""

import collections
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest

from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read
from stepscope.formats.runs import find_run
from stepscope.formats.vocabulary import category

SHARED_TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"

pytestmark = pytest.mark.traces

FILES = sorted((SHARED_TRACES / "kineto").glob("*/*.json.gz")) if SHARED_TRACES.is_dir() else []


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def by_json(path):
    """Counts of events by phase and summed durations (ns) by category, from the decimal text."""
    with gzip.open(path, "rt") as file:
        trace = json.load(file, parse_float=Decimal)
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    durations = collections.Counter()
    counts = collections.Counter()
    first = min(Decimal(event["ts"]) for event in events if event["ph"] == "X")
    starts = collections.Counter()
    for event in events:
        if event["ph"] != "X":
            continue
        name = category(event["cat"], str(event["pid"])).name
        counts[name] += 1
        durations[name] += int(Decimal(event["dur"]) * 1000)
        starts[name] += int((Decimal(event["ts"]) - first) * 1000)
    return len(events), counts, durations, starts


def by_us(tables):
    counts, durations, starts = (collections.Counter() for _ in range(3))
    for table in (tables.host_event, tables.device_event):
        columns = (table[name].to_pylist() for name in ("category", "dur_ns", "start_ns"))
        for name, duration, start in zip(*columns, strict=True):
            counts[name] += 1
            durations[name] += duration
            starts[name] += start
    return tables.report.read, counts, durations, starts


@pytest.mark.sweep(3)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_event_is_kept_with_its_exact_time(path):
    tables = read(next(iter(members(path))))
    assert by_us(tables) == by_json(path)
    assert tables.report.damage == {}
    assert tables.report.unknown_categories == {}


@pytest.mark.parametrize("path", [path for path in FILES if path.stat().st_size < 100_000][:6], ids=name_of)
def test_name_and_compression_do_not_matter(path, tmp_path):
    plain = tmp_path / "unknown"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    run = find_run(plain)
    assert run.recordings[0].format.name == "kineto"
    original, renamed = (read(next(iter(members(file)))) for file in (path, plain))
    for table in ("host_event", "device_event", "flow", "memory_event", "operator_input"):
        assert getattr(original, table).equals(getattr(renamed, table))
