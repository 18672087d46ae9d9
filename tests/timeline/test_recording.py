"""The timeline of literal rows: tracks, tiles, sums, search, and what is told of an event."""

import numpy as np
import pytest
from tests.browser.recordings import HOSTILE, LONG, training
from tests.literal import literal_store

from stepscope.base.errors import UsageError
from stepscope.store.columns import read_columns
from stepscope.store.open import Store
from stepscope.timeline.details import details
from stepscope.timeline.recording import Timeline
from stepscope.timeline.tiles import BINS

ROWS = {
    "thread": [
        {"thread": 0, "pid": "7", "tid": "8", "thread_name": "main"},
        {"thread": 1, "pid": "7", "tid": "9", "kind": "track"},
    ],
    "host_event": [
        {"id": 1, "name": "aten::linear", "start_ns": 0, "dur_ns": 100, "step": 1, "input_id": 0},
        {"id": 2, "name": "aten::mm", "start_ns": 10, "dur_ns": 50, "depth": 1, "parent_id": 1},
        {"id": 3, "name": "cudaLaunchKernel", "start_ns": 20, "dur_ns": 5, "depth": 2, "parent_id": 2,
         "category": "cuda_runtime", "correlation": 77},
        {"id": 4, "name": "MmBackward", "start_ns": 200, "dur_ns": 30, "forward_id": 2},
        {"id": 5, "name": "spans", "start_ns": 0, "dur_ns": 1, "thread": 1},
    ],
    "device_event": [
        {"id": 10, "name": "gemm", "start_ns": 60, "dur_ns": 40, "stream": 7, "launch_id": 3,
         "operator_id": 2, "operator_name": "aten::mm"},
        {"id": 11, "name": "all_reduce", "kind": "communication", "start_ns": 90, "dur_ns": 60, "stream": 9},
        {"id": 12, "name": "Copy", "kind": "copy", "start_ns": 95, "dur_ns": 10, "stream": 7},
        {"id": 13, "name": "range", "kind": "annotation", "start_ns": 60, "dur_ns": 90, "stream": 7},
    ],
    "operator_input": [{"input_id": 0, "dims": "[[2,3]]"}],
    "collective": [{"id": 11, "operation": "all_reduce", "start_ns": 90, "end_ns": 150, "bytes": 2048}],
    "step": [{"step": 1, "start_ns": 0, "end_ns": 180}, {"step": 2, "start_ns": 170, "end_ns": 240}],
    "counter": [{"track": "GPU 0", "series": "SM", "time_ns": t, "value": v, "unit": "%"}
                for t, v in ((5, 1.0), (50, 3.0), (60, float("nan")))],
    "memory_event": [{"time_ns": 30, "device_kind": "cuda", "device": 0, "bytes": 8, "total_allocated_bytes": 8}],
}  # fmt: skip


@pytest.fixture(scope="module")
def timeline():
    with literal_store(ROWS) as store:
        yield Timeline(store)


def test_tracks_are_of_ranks_streams_threads_and_counters(timeline):
    layout = timeline.layout()
    assert (layout["start_ns"], layout["end_ns"], layout["missing"]) == (0, 240, "")
    (rank,) = layout["ranks"]
    assert [(one["id"], one["title"], one["lanes"], one["events"], one["dull"]) for one in rank["tracks"]] == [
        ("0.steps", "steps", 1, 2, False),
        ("0.comm", "communication", 1, 1, False),
        ("0.o0", "overlap: device 0", 3, 1, False),
        ("0.s0.7", "device 0: stream 7", 1, 2, False),
        ("0.m0.7", "ranges and waits, device 0: stream 7", 1, 1, True),
        ("0.s0.9", "device 0: stream 9", 1, 1, False),
        ("0.mem.cuda0", "memory in use: cuda 0", 1, 1, False),
        ("0.h0", "main", 3, 4, False),
        ("0.h1", "thread 9", 1, 1, True),
        ("0.c0", "GPU 0: SM", 1, 2, False),
    ]  # fmt: skip


def test_what_overlaps_on_a_stream_gets_a_lane_of_its_own(timeline):
    drawn = timeline.tile(0, 0, ["0.s0.7", "0.comm", "0.steps", "0.c0"])
    assert drawn["names"] == ["gemm", "Copy", "all_reduce 2.000 KiB", "ProfilerStep#1", "ProfilerStep#2"]
    stream = drawn["tracks"]["0.s0.7"]
    assert (stream["rows"], stream["lane"], stream["start"], stream["end"]) == (2, [0, 1], [60, 95], [100, 105])
    steps = drawn["tracks"]["0.steps"]  # a step is drawn until the next one starts
    assert (steps["rows"], steps["start"], steps["end"]) == (1, [0, 170], [170, 240])
    assert drawn["tracks"]["0.c0"]["last"] == [1.0, 3.0]


def test_a_measured_range_tells_what_lies_in_it(timeline):
    measured = timeline.measure(50, 95, ["0.s0.7", "0.h0", "0.c0"])
    told = [(row["track"], row["name"], row["count"], row["total_ns"], row["max_ns"]) for row in measured["rows"]]
    assert told == [
        ("0.h0", "aten::linear", 1, 45, 45),
        ("0.s0.7", "gemm", 1, 35, 35),
        ("0.h0", "aten::mm", 1, 10, 10),
    ]  # fmt: skip
    assert measured["names"] == 3
    assert timeline.measure(300, 400, ["0.h0"]) == {"rows": [], "names": 0}


def test_search_goes_through_all_in_order_of_time(timeline):
    first = timeline.find("MM")
    assert (first["total"], first["number"], first["place"]["id"]) == (3, 0, 2)
    assert [timeline.find("mm", number=n)["place"]["id"] for n in (1, 2, 3, -1)] == [10, 4, 2, 4]
    assert timeline.find("mm", at=61)["number"] == 2
    assert timeline.find("g*m")["total"] == 1
    assert timeline.find("/^aten::(mm|linear)$/")["total"] == 2
    assert timeline.find('"aten::mm"')["total"] == 1
    assert timeline.find('"aten::m"')["total"] == timeline.find('"ATEN::MM"')["total"] == 0
    assert timeline.find("nothing") == {"total": 0, "number": 0, "place": None}
    with pytest.raises(UsageError, match="not a regular expression"):
        timeline.find("/(/")


def test_an_event_tells_all_that_the_store_has_and_what_belongs_to_it(timeline):
    told = details(timeline, timeline.track("0.s0.7"), 10)
    assert told["place"] == {
        "track": "0.s0.7", "lane": 0, "start_ns": 60, "end_ns": 100, "id": 10, "name": "gemm",
        "kind": "computation",
    }  # fmt: skip
    fields = {one["title"]: one["value"] for one in told["fields"]}
    assert (fields["duration"], fields["operator name"]) == (40, "aten::mm")
    assert "registers per thread" not in fields
    assert [(one["relation"], [place["id"] for place in one["places"]]) for one in told["links"]] == [
        ("launched by", [3]), ("operator", [2]),
    ]  # fmt: skip
    operator = details(timeline, timeline.track("0.h0"), 2)
    assert [(one["relation"], [place["id"] for place in one["places"]]) for one in operator["links"]] == [
        ("launched", [10]), ("backward", [4]), ("called by", [1]),
    ]  # fmt: skip
    shapes = details(timeline, timeline.track("0.h0"), 1)["fields"]
    assert ("input dims", "[[2,3]]") in [(one["title"], one["value"]) for one in shapes]
    collective = details(timeline, timeline.track("0.comm"), 11)
    assert collective["place"]["track"] == "0.comm"
    assert ("collective bytes", 2048) in [(one["title"], one["value"]) for one in collective["fields"]]
    step = details(timeline, timeline.track("0.steps"), 2)
    assert (step["place"]["start_ns"], step["table"]) == (170, "step")


def test_what_is_not_there_is_refused(timeline):
    for ask in (
        lambda: timeline.tile(0, 0, ["0.h9"]),
        lambda: timeline.tile(51, 0, ["0.h0"]),
        lambda: timeline.tile(50, 1 << 40, ["0.h0"]),
        lambda: timeline.measure(5, 4, ["0.h0"]),
        lambda: details(timeline, timeline.track("0.h0"), 999),
        lambda: details(timeline, timeline.track("0.steps"), 999),
    ):
        with pytest.raises(UsageError):
            ask()


def test_every_event_of_a_made_recording_is_counted_at_every_zoom():
    with literal_store(training(ranks=2)) as store:
        timeline = Timeline(store)
        tracks = [one for one in timeline.tracks.values() if one.kind in ("thread", "stream")]
        assert sum(one.events for one in tracks) == 48
        for level in (6, 12, 20, 30):
            for track in tracks:
                alone = set()
                count = 0
                for index in range((4_000_000 >> level) // BINS + 1):
                    shown = timeline.tile(level, index, [track.id])["tracks"][track.id]
                    for start, several in zip(shown["start"], shown["count"], strict=True):
                        if several == 1:
                            alone.add(start + (index * BINS << level))
                        else:
                            count += several
                assert len(alone) + count == track.events
        names = timeline.tile(20, 0, [one.id for one in tracks])["names"]
        assert HOSTILE in names
        assert all(len(one) <= 160 for one in names)
        assert timeline.find(HOSTILE)["total"] == 12
        assert details(timeline, tracks[0], timeline.find(LONG[:200])["place"]["id"])["name"] == LONG


def test_a_recording_without_events_says_what_it_has():
    empty = Timeline(literal_store({})).layout()
    assert empty["missing"] == "This recording has no events that start and end at known times."
    phases = {"phase": [{"phase": "step", "steps": 3, "mean_ns": 5.0}]}
    assert "It has the phases of its steps" in Timeline(literal_store(phases)).layout()["missing"]


def test_warm_up_is_what_compiles_and_a_slow_first_step():
    rows = {
        "step": [{"step": n, "start_ns": 100 * n, "end_ns": 100 * n + 90, "is_warmup": n == 0} for n in range(4)],
        "host_event": [{"name": "compile", "role": "compile", "start_ns": 80, "dur_ns": 30}],
    }  # fmt: skip
    layout = Timeline(literal_store(rows)).layout()
    assert layout["warm_up"] == [[0, 110]]
    assert layout["first"] == (100, 290)


def test_columns_are_read_from_files_as_sql_reads_them(tmp_path):
    from tests.store.conftest import write_directory

    rows = {
        "rank": [{"rank": 0, "start_epoch_ns": 1_000, "clock_drift_ppb": 1.0},
                 {"rank": 1, "start_epoch_ns": 1_700, "clock_offset_ns": 40}],
        "source": [{"rank": 0, "span": 0, "path": "a", "drift_ns": 9}, {"rank": 1, "path": "b"}],
        "host_event": [{"rank": r, "name": n, "start_ns": s, "dur_ns": 1}
                       for r in (0, 1) for s, n in ((5, "a"), (6, "b"), (7, "a"))],
    }  # fmt: skip
    with Store.open(write_directory(tmp_path / "s", rows)) as store:
        for rank in (0, 1):
            read = read_columns(store, "host_event", rank, ["name", "start_ns"])
            told = store.sql(f"SELECT name, start_ns FROM host_event WHERE rank = {rank} ORDER BY id")
            assert read["start_ns"].to_pylist() == told["start_ns"].to_pylist()
            assert read["name"].to_pylist() == told["name"].to_pylist()
            assert np.ptp(read["start_ns"].to_numpy()) == 2
        assert read_columns(store, "device_event", 0, ["id", "name"]).num_rows == 0


def test_what_overlaps_and_which_modules_work_have_lanes_of_their_own():
    work = [
        {"id": 1, "name": "a", "stream": 7, "start_ns": 0, "dur_ns": 10, "module_id": 1, "direction": "forward"},
        {"id": 2, "name": "b", "stream": 7, "start_ns": 10, "dur_ns": 10, "module_id": 2, "direction": "forward"},
        {"id": 3, "name": "c", "stream": 8, "start_ns": 5, "dur_ns": 10},
        {"id": 4, "name": "all_reduce", "stream": 9, "start_ns": 15, "dur_ns": 20, "kind": "communication"},
    ]  # fmt: skip
    modules = [
        {"module_id": 0, "path": "net", "name": "net", "depth": 0},
        {"module_id": 1, "path": "net.a", "name": "a", "depth": 1, "parent_id": 0},
        {"module_id": 2, "path": "net.b", "name": "b", "depth": 1, "parent_id": 0},
    ]
    with literal_store({"device_event": work, "module": modules}) as store:
        timeline = Timeline(store)
        titles = {one.id: one.title for one in timeline.tracks.values()}
        assert titles["0.o0"] == "overlap: device 0"
        assert titles["0.n0.7"] == "modules, device 0: stream 7"
        drawn = timeline.tile(0, 0, ["0.o0", "0.n0.7"])
        shown = {
            track: [
                (lane, drawn["names"][name], start, end)
                for lane, name, start, end in zip(*(own[c] for c in ("lane", "name", "start", "end")), strict=True)
            ]
            for track, own in drawn["tracks"].items()
        }  # fmt: skip
        assert shown["0.o0"] == [
            (0, "computation", 0, 20),
            (1, "communication", 15, 35),
            (2, "exposed communication", 20, 35),
        ]
        assert shown["0.n0.7"] == [(0, "net (forward)", 0, 20), (1, "a (forward)", 0, 10), (1, "b (forward)", 10, 20)]
        (row, *_) = timeline.measure(18, 40, ["0.o0"])["rows"]
        assert (row["name"], row["total_ns"]) == ("communication", 17)
        told = details(timeline, timeline.track("0.o0"), drawn["tracks"]["0.o0"]["id"][2])
        assert (told["name"], told["fields"][0]["value"]) == ("exposed communication", 15)
        assert timeline.find("*all*", at=0, rank=0)["place"]["id"] == 4


def test_a_search_from_a_rank_starts_there():
    rows = [{"rank": r, "id": r, "name": "k", "start_ns": 10 * r, "dur_ns": 5} for r in range(3)]
    with literal_store({"device_event": rows}) as store:
        timeline = Timeline(store)
        assert timeline.find("k", rank=2)["number"] == 2
        assert timeline.find("k", number=0)["place"]["track"].startswith("0.")


def test_steps_that_only_repeat_are_numbered_and_counters_of_later_are_left_out():
    counter = {"track": "job", "series": "memory", "value": 1.0}
    rows = {
        "step": [{"step": n, "start_ns": 10 * n, "end_ns": 10 * n + 10, "name": "aten::cat"} for n in (1, 2)],
        "counter": [{**counter, "time_ns": 15}, {**counter, "series": "read", "time_ns": 99}],
    }
    with literal_store(rows) as store:
        timeline = Timeline(store)
        (rank,) = timeline.layout()["ranks"]
        assert [one["title"] for one in rank["tracks"]] == ["steps", "job: memory"]
        assert timeline.tile(0, 0, ["0.steps"])["names"] == ["step 1, aten::cat", "step 2, aten::cat"]
