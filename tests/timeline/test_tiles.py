"""Lanes and tiles against brute force: nothing overlaps on a lane, and nothing is lost in a tile."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.link.lanes import MAX_LANES, blocks
from stepscope.timeline.lanes import Columns, Lane, Lanes, Merged, laid_out
from stepscope.timeline.tiles import BINS, Curve, Names, curve_tile, tile

EVENT = st.tuples(
    st.integers(0, 2),  # track
    st.integers(0, 2),  # depth
    st.integers(0, 5_000),  # start
    st.integers(0, 3_000),  # length
    st.integers(0, 2),  # name
)
NAMES = pa.array(["a", "b", "c"])


def columns(events):
    table = np.array(events, np.int64).reshape(-1, 5)
    start, length = table[:, 2], table[:, 3]
    return Columns(
        start, start + length, table[:, 4].astype(np.int32), np.zeros(len(table), np.int8),
        np.arange(len(table)),
    )  # fmt: skip


def lanes_of(events):
    table = np.array(events, np.int64).reshape(-1, 5)
    made = laid_out(columns(events), table[:, 0], table[:, 1], 3)
    return [Lanes(lanes, NAMES) for lanes in made]


@examples(100)
@given(st.lists(EVENT, max_size=25))
@example([(0, 0, 5, 0, 0), (0, 0, 5, 10, 1), (0, 0, 5, 5, 2)])
@example([(0, 0, 0, 100, 0)] * (MAX_LANES + 3))
def test_each_event_is_on_one_lane_of_its_track_and_a_lane_is_one_after_the_other(events):
    tracks = lanes_of(events)
    for number, track in enumerate(tracks):
        ids = sorted(int(one) for lane in track.lanes for one in lane.events.id)
        assert ids == [at for at, event in enumerate(events) if event[0] == number]
        for lane in track.lanes:
            own = lane.events
            assert (np.diff(own.start) >= 0).all()
            assert (lane.reach == np.maximum.accumulate(own.end)).all()
    crowded = len(events) > MAX_LANES
    if not crowded:
        for lane in (lane for track in tracks for lane in track.lanes):
            assert (lane.events.start[1:] >= lane.events.end[:-1]).all()


@examples(100)
@given(st.lists(EVENT, max_size=25), st.integers(0, 9), st.data())
@example([(0, 0, 1000, 0, 0), (0, 0, 1000, 30, 1), (0, 0, 1030, 0, 2)], 3, None)
def test_a_tile_counts_what_starts_in_it_and_what_reaches_into_it(events, level, data):
    most = (8_000 >> level) // BINS
    index = 0 if data is None else data.draw(st.integers(0, most))
    start, end = index * BINS << level, (index + 1) * BINS << level
    for number, track in enumerate(lanes_of(events)):
        names = Names()
        shown = tile(track, level, index, names)
        short = [e for e in events if e[0] == number and e[3] < 1 << level and start <= e[2] < end]
        long = [e for e in events if e[0] == number and e[3] >= 1 << level and e[2] < end and e[2] + e[3] > start]
        assert sum(shown["count"]) == len(short) + len(long)
        assert sum(shown["busy"]) == sum(e[3] for e in [*short, *long])
        assert {names.texts[one] for one in shown["name"]} <= {"abc"[e[4]] for e in [*short, *long]}
        for at in range(len(shown["lane"])):
            event = events[shown["id"][at]]
            assert shown["start"][at] + start <= event[2]
            assert event[2] + event[3] <= shown["end"][at] + start
            if shown["count"][at] == 1:
                assert (shown["start"][at] + start, shown["busy"][at]) == event[2:4]
            else:
                bins = (shown["start"][at] >> level, (event[2] - start) >> level)
                assert bins[0] == bins[1]
        key = list(zip(shown["lane"], shown["start"], strict=True))
        assert key == sorted(key)


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(-5, 5)), max_size=25), st.integers(0, 6))
def test_a_curve_has_each_value_in_its_bin_and_the_one_before(values, level):
    values.sort(key=lambda one: one[0])
    curve = Curve(np.array([t for t, _ in values], np.int64), np.array([v for _, v in values], np.float64))
    for index in range((5_000 >> level) // BINS + 1):
        start, end = index * BINS << level, (index + 1) * BINS << level
        shown = curve_tile(curve, level, index)
        inside = [(t, v) for t, v in values if start <= t < end]
        before = [(t, v) for t, v in values if t < start][-1:]
        assert sum(shown["count"]) == len(inside)
        assert shown["count"][:1] == [0] if before else 0 not in shown["count"]
        bins: dict[int, list[float]] = {}
        for t, v in inside:
            bins.setdefault((t - start) >> level, []).append(v)
        expected = [(min(b), max(b), b[-1]) for b in bins.values()]
        told = list(zip(shown["low"], shown["high"], shown["last"], strict=True))[len(before) :]
        assert told == expected


@examples(100)
@given(st.lists(EVENT, max_size=25), st.integers(0, 6), st.integers(1, 3))
def test_tiles_of_kept_blocks_stand_for_the_same_events(events, level, above):
    """They lie in the bin that their first event starts in: half a bin off at most."""
    zoom = level + above
    for track in lanes_of(events):
        kept = []
        for lane in track.lanes:
            own = lane.events
            some = blocks(own.start, own.end, level)
            rows = Columns(some.start, some.end, *own.at(some.row)[2:])
            alone = (some.events == 1) & (some.longest >= 1 << level)
            merged = Merged(some.events, some.busy, some.longest, alone)
            kept.append(Lane(rows, np.maximum.accumulate(some.end), merged))
        sums = []
        for lanes in (track, Lanes(tuple(kept), NAMES)):
            found = {}
            for index in range((8_000 >> zoom) // BINS + 1):
                drawn = tile(lanes, zoom, index, Names())
                for row in zip(*(drawn[c] for c in ("lane", "start", "end", "count", "busy")), strict=True):
                    own = found.setdefault(row[0], [0, 0])
                    own[0] += row[3]
                    own[1] += row[4]
                    assert row[2] - row[1] < (2 << zoom) or row[3] == 1
            sums.append(found)
        assert sums[0] == sums[1]


def test_a_block_says_what_it_stands_for():
    events = [(0, 0, 0, 3, 0), (0, 0, 4, 2, 1), (0, 0, 8, 20, 2), (0, 0, 40, 1, 0)]
    names = Names()
    (track, *_) = lanes_of(events)
    assert tile(track, 4, 0, names) == {
        "lane": [0, 0, 0], "start": [0, 8, 40], "end": [6, 28, 41], "count": [2, 1, 1],
        "busy": [5, 20, 1], "name": [0, 1, 0], "kind": [0, 0, 0], "id": [0, 2, 3],
    }  # fmt: skip
    assert names.texts == ["a", "c"]


def test_a_name_of_any_length_is_cut():
    names = Names()
    assert names.add("x" * 10_000) == names.add("x" * 9_000) == 0
    assert len(names.texts[0]) == 160


CASES = Path(__file__).parents[2] / "web/src/timeline/merge.cases.json"


@pytest.mark.parametrize("case", json.loads(CASES.read_text()))
def test_the_page_makes_the_same_tiles_of_what_a_report_holds(case):
    """The other half is `web/src/timeline/merge.test.ts`."""
    lanes = []
    for own in case["lanes"]:
        start, ids = np.cumsum(own["start"]), np.cumsum(own["id"])
        end = start + own["length"]
        events = Columns(start, end, np.array(own["name"], np.int32), np.array(own["kind"], np.int8), ids)
        lanes.append(Lane(events, np.maximum.accumulate(end)))
    names = Names(["a", "b", "c"], {"a": 0, "b": 1, "c": 2})
    assert tile(Lanes(tuple(lanes), NAMES), case["level"], case["index"], names) == case["tile"]
