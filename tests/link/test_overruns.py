"""Durations that cannot be, and overlaps that can."""

import numpy as np
import pyarrow as pa
import pytest

from stepscope.formats import tables
from stepscope.link.device import clip_overruns, read_device


def back_to_back(recording, count, length=10):
    return [recording.kernel(n * length, (n + 1) * length, n + 1, name=f"kernel{n % 3}") for n in range(count)]


def test_row_that_runs_over_the_work_after_it_is_cut_to_the_next_begin(recording):
    back_to_back(recording, 40)
    recording.device_rows[5]["dur_ns"] = 250
    linked = recording.link()
    row = linked.device(5)
    assert (row["dur_ns"], row["raw_dur_ns"]) == (10, 250)
    assert linked.column("device_event", "raw_dur_ns").count(None) == 39
    check = linked.check("duration_overrun")
    assert (check["severity"], check["count"]) == ("warning", 1)


def test_row_of_seconds_over_one_other_is_cut_in_a_tiny_recording(recording):
    recording.kernel(0, 3_000_000_000, 1)
    recording.kernel(10, 20, 2)
    assert recording.link().device(0)["dur_ns"] == 10


def test_kernels_launched_ahead_of_the_end_of_the_one_before_stay(recording):
    # Programmatic dependent launch: each begins 3 ns before its predecessor ends.
    for n in range(40):
        recording.kernel(10 * n, 10 * n + 13, n + 1)
    linked = recording.link()
    assert set(linked.column("device_event", "raw_dur_ns")) == {None}
    check = linked.check("stream_overlap")
    assert (check["severity"], check["count"]) == ("warning", 39)


@pytest.mark.parametrize(
    "shared", [{"correlation": 7}, {"stream": -1}], ids=["nodes of one graph replay", "stream that is not known"]
)
def test_long_row_beside_its_own_kind_stays(recording, shared):
    for n in range(40):
        recording.kernel(10 * n + 5, 10 * n + 10, n + 1)
    recording.kernel(0, 300, 99)
    for row in recording.device_rows:
        row.update(shared)
    assert set(recording.link().column("device_event", "raw_dur_ns")) == {None}


def test_rows_that_nest_by_design_stay(recording):
    # A recorder that draws a module and its operations on one line: every fifth row encloses four.
    for n in range(0, 100, 5):
        recording.kernel(100 * n, 100 * n + 400, n + 1)
        for inner in range(4):
            recording.kernel(100 * n + 50 * inner + 10, 100 * n + 50 * inner + 50, n + inner + 2)
    assert set(recording.link().column("device_event", "raw_dur_ns")) == {None}


def test_events_of_no_duration_and_other_streams_cut_nothing(recording):
    recording.kernel(0, 300, 1)
    for n in range(20):
        recording.kernel(10 * n + 5, 10 * n + 10, n + 2, stream=8)
        recording.kernel(400 + n, 400 + n, 50 + n)
    assert set(recording.link().column("device_event", "raw_dur_ns")) == {None}


def test_seven_rows_in_55_thousand_no_longer_rule_the_ranking():
    # The shape of Hyperloom pull request 1116: 7 of 55 423 rows made up most of the device time.
    count = 55_423
    rng = np.random.default_rng(3)
    dur = rng.integers(2_000, 40_000, count)
    start = np.cumsum(dur + rng.integers(0, 3_000, count)) - dur
    kind = np.full(count, "computation", dtype=object)
    copies = np.arange(100, count, 1_000)
    kind[copies] = "copy"
    true_copy_ns = int(dur[copies].sum())
    true_ns = int(dur.sum())
    recorded = dur.copy()
    long = copies[[3, 9, 15, 21, 27, 33, 39]]
    recorded[long] = int(dur.sum()) // 5
    events = pa.table(
        {
            "category": pa.array(["kernel"] * count).dictionary_encode(),
            "kind": pa.array(kind, pa.string()).dictionary_encode(), "device": pa.array(np.zeros(count, np.int32)),
            "stream": pa.array(np.full(count, 7)), "start_ns": start, "dur_ns": recorded,
            "correlation": np.arange(1, count + 1),
        }
    )  # fmt: skip
    assert recorded[copies].sum() > 0.5 * recorded.sum()
    device = read_device(events)
    raw = clip_overruns(device)
    assert np.flatnonzero(raw >= 0).tolist() == long.tolist()
    assert device.dur[copies].sum() < 0.01 * device.dur.sum()
    assert abs(int(device.dur.sum()) - true_ns) < 7 * 3_000
    assert abs(int(device.dur[copies].sum()) - true_copy_ns) < 7 * 3_000
    assert events.schema.field("dur_ns").type == tables.READ["device_event"].field("dur_ns").type


@pytest.mark.parametrize("count", [10, 400])
def test_durations_and_sizes_of_any_number_add_up_within_64_bits(recording, count):
    for n in range(count):
        recording.kernel(n, n + (1 << 56), n + 1, stream=n)
        recording.device_rows[-1]["bytes"] = 1 << 61
    linked = recording.link()
    (attributed, *_) = linked.rows("attribution")
    assert 0 < attributed["device_ns"] <= 1 << 58
    assert 0 < sum(linked.column("device_event", "bytes")) <= 1 << 58
    assert recording.report.damage["cut_number"] == 2 * count
    assert linked.check("repaired")["count"] == 2 * count
