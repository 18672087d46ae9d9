"""Decimal text of a time, through DuckDB's doubles or around them, to integer nanoseconds."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read

DAYS_101 = 2**43 * 1000
EPOCH = 1_778_655_624_745_710_848


def starts(times_ns):
    """What the reader makes of times that are written in µs with three decimals."""
    events = ",".join(
        '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "dur": 0.001, '
        f'"ts": {time // 1000}.{time % 1000:03}}}'
        for time in times_ns
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text('{"baseTimeNanoseconds": 1, "traceEvents": [' + events + "]}")
        tables = read(next(iter(members(path))))
    first = tables.facts.start_epoch_ns - 1
    return [first + start for start in tables.host_event["start_ns"].to_pylist()]


@pytest.mark.parametrize("limits", [(1, DAYS_101 - 1), (EPOCH, EPOCH + 10**15)])
def test_no_time_loses_a_nanosecond(limits):
    @given(st.lists(st.integers(*limits), min_size=1, max_size=200))
    @examples(25)
    def check(times):
        assert starts(times) == times

    check()


def test_times_on_both_sides_of_what_doubles_hold():
    times = [DAYS_101 - 1, DAYS_101 + 1, EPOCH + 847]
    assert starts(times) == times


def test_durations_are_exact_too(tmp_path):
    path = tmp_path / "trace.json"
    durations = [1, 999, 1001, 57_843, 87_412_863, 10**15 + 7]
    events = [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": "@"} for _ in durations]
    text = json.dumps({"traceEvents": events})
    for duration in durations:
        text = text.replace('"@"', f"{duration // 1000}.{duration % 1000:03}", 1)
    path.write_text(text)
    tables = read(next(iter(members(path))))
    assert tables.host_event["dur_ns"].to_pylist() == durations
