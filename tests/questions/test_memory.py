"""What was in memory: the peak, what it was for, steps, pools, and what an out-of-memory ran into."""

import gzip
import pickle
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store
from tests.memory_snapshots import Allocator, training

import stepscope
from stepscope.analysis.memory import out_of_memory
from stepscope.analysis.memory.curve import thinned
from stepscope.api.trace import Trace
from stepscope.query.event_filter import EventFilter
from stepscope.questions import find

EVENT = {"device_kind": "cuda", "device": 0}


def event(time: int, address: int, size: int, total: int, **more: Any) -> dict[str, Any]:
    return {
        **EVENT, "time_ns": time, "sequence": time, "address": address, "bytes": size,
        "total_allocated_bytes": total, "total_reserved_bytes": 1000, **more,
    }  # fmt: skip


RECORDING = {
    "memory_event": [
        event(10, 1, 40, 140, operator_id=1),
        event(20, 2, 60, 200, operator_id=2),
        event(30, 1, -40, 160),
        event(40, 3, -30, 130),  # it was there before
    ],
    "host_event": [
        {"id": 0, "kind": "operator", "name": "aten::add", "module_id": 0, "direction": "forward", "dur_ns": 100},
        {
            "id": 1,
            "kind": "operator",
            "name": "aten::empty",
            "module_id": 0,
            "direction": "forward",
            "dur_ns": 100,
            "parent_id": 0,
        },
        {"id": 2, "kind": "operator", "name": "aten::mm", "module_id": 0, "direction": "forward", "dur_ns": 100},
    ],
    "module": [{"module_id": 0, "path": "net.fc"}],
}


@pytest.fixture
def opened(tmp_path):
    """Opens a snapshot that an allocator played."""
    traces = []

    def open_it(played: Allocator) -> Any:
        path = tmp_path / f"{len(traces)}.pickle"
        path.write_bytes(pickle.dumps(played.snapshot()))
        traces.append(stepscope.open(path, cache=False))
        return traces[-1]

    yield open_it
    for trace in traces:
        trace.close()


def test_the_peak_and_the_moments_around_it(diff):
    diff(
        "memory",
        RECORDING,
        """
        device,at_ns,peak_bytes,allocations,reserved_bytes,free_bytes,start_bytes,end_bytes,alloc_bytes
        0,20,200,3,1000,800,100,130,100
        """,
    )


def test_parts_add_up_to_the_peak_with_what_was_there_before(diff):
    diff(
        "memory",
        RECORDING,
        """
        operator,bytes,share_ratio,allocations
        (before the recording),100,0.5,1
        aten::mm,60,0.3,1
        aten::add,40,0.2,1
        """,
        by="operator",
    )
    diff("memory", RECORDING, "module,bytes\nnet.fc,100\n(before the recording),100", by="module")


def test_what_was_there_before_is_said_beside_the_categories(answer):
    assert "Of what is unknown, 100 B was there before" in answer("memory", RECORDING, by="category").note
    assert "before" not in answer("memory", RECORDING, by="operator").note


def test_another_moment_may_be_asked_for(diff):
    diff(
        "memory",
        RECORDING,
        """
        at_ns,operator,bytes
        35,(before the recording),100
        35,aten::mm,60
        35,aten::add,0
        """,
        by="operator",
        at_ns=35,
    )


def test_a_stretch_of_time_has_a_peak_of_its_own(answer):
    found = answer(
        "memory", RECORDING, part=EventFilter(window=(25, 45)), columns=["at_ns", "peak_bytes", "start_bytes"]
    )
    assert found.to_csv() == "at_ns,peak_bytes,start_bytes\n20,200,200\n"
    found = answer("memory", RECORDING, part=EventFilter(window=(31, 45)), columns=["peak_bytes"])
    assert found.to_csv() == "peak_bytes\n160\n"


def test_without_addresses_totals_remain_and_nothing_is_told_of_parts(diff, answer):
    rows = {"memory_event": [event(1, 0, 5, 5) | {"address": None}, event(2, 0, 7, 12) | {"address": None}]}
    diff("memory", rows, "peak_bytes,allocations,allocs\n12,,")
    diff("memory", rows, "operator,bytes,allocs\n(addresses were not recorded),12,", by="operator")
    assert not answer("memory", rows).note
    for row in rows["memory_event"]:
        row["total_allocated_bytes"] = None
    assert "The totals of the device start at 0" in answer("memory", rows).note


def test_lost_events_leave_a_part_that_nothing_explains(diff):
    rows = {"memory_event": [event(1, 1, 5, 5), event(2, 2, 7, 20)]}
    diff("memory", rows, "operator,bytes\n,12\n(not explained by the recorded events),8", by="operator")


def test_no_memory_events_are_no_rows(answer):
    for by in ("device", "category", "step", "pool", "oom"):
        assert len(answer("memory", {}, by=by)) == 0
    assert len(answer("memory", {}, by="time")) == 0
    assert len(answer("memory", {}, by="allocation")) == 0


def test_a_training_by_category_and_step(opened):
    trace = opened(training())
    rows = {row["category"]: row for row in trace.memory(by="category").rows()}
    assert {name: row["bytes"] for name, row in rows.items() if row["bytes"]} == {
        "unknown": 10_000,  # parameters of before the recording, of which no stack tells
        "activations": 4_000,
        "gradients": 10_000,
        "temporaries": 2_000,
        "optimizer state": 20_000,
    }
    steps = trace.memory(by="step").rows()
    assert [(row["step"], row["peak_bytes"], row["growth_bytes"]) for row in steps] == [
        (0, 41_000, None), (1, 46_000, 0), (2, 46_000, 0),
    ]  # fmt: skip
    assert [row["retained_bytes"] for row in steps] == [20_000, 0, 0]


def test_memory_that_a_step_keeps_is_its_growth(opened):
    steps = opened(training(4, leaks=300)).memory(by="step").rows()
    assert [row["growth_bytes"] for row in steps] == [None, 300, 300, 300]


def test_pools_say_what_is_free_and_what_rounding_takes(opened):
    played = Allocator()
    played.reserve(0, 8192)
    played.take(0, 700)
    played.take(4096, 100)
    (row,) = opened(played).memory(by="pool").rows()
    assert (row["reserved_bytes"], row["allocated_bytes"], row["free_bytes"]) == (8192, 1536, 6656)
    assert (row["max_free_block_bytes"], row["rounding_bytes"]) == (3584, 736)


def test_an_out_of_memory_says_what_was_free_then(opened):
    played = Allocator()
    played.reserve(0, 8192)
    played.reserve(1 << 20, 4096, seen=False)
    played.take(0, 1024)
    played.take(4096, 1024)
    played.out_of_memory(6000, 50)
    played.free(4096)
    played.give_back(1 << 20)
    trace = opened(played)
    (row,) = trace.memory(by="oom").rows()
    assert (row["requested_bytes"], row["device_free_bytes"]) == (6000, 50)
    assert (row["allocated_bytes"], row["reserved_bytes"]) == (2048, 8192 + 4096)
    # 3072 bytes on either side of the second block, and the other segment of 4096.
    assert (row["free_bytes"], row["max_free_block_bytes"]) == (3072 + 3072 + 4096, 4096)
    assert row["stack"].startswith("/job/model.py(12): forward")
    assert trace.memory().rows()[0]["out_of_memory"] == 1


def test_a_segment_that_came_later_was_not_free_before(opened):
    played = Allocator()
    played.reserve(0, 4096, seen=False)
    played.take(0, 1024)
    played.out_of_memory(6000, 50)
    played.free(0)
    played.reserve(1 << 20, 1 << 20)
    (row,) = opened(played).memory(by="oom").rows()
    assert (row["free_bytes"], row["max_free_block_bytes"]) == (3072, 3072)


def test_of_a_trace_an_out_of_memory_says_what_it_states_and_no_more(diff):
    held = {"device_kind": "cuda", "device": 0}
    after = {"total_allocated_bytes": 512, "total_reserved_bytes": 2048}
    rows = {
        "memory_event": [{"time_ns": 0, "address": 1, "bytes": 512} | held | after],
        "allocator_event": [{"time_ns": 5, "kind": "oom", "bytes": 4096} | held | after],
    }
    diff(
        "memory",
        rows,
        """
        at_ns,requested_bytes,device_free_bytes,allocated_bytes,pending_bytes,reserved_bytes,free_bytes,max_free_block_bytes
        5,4096,,512,,2048,1536,
        """,
        by="oom",
    )


def test_a_device_that_a_process_sees_and_does_not_use_has_no_row(opened):
    played = Allocator(devices=8)
    for device in (0, 3):
        played.reserve(0, device=device)
        played.take(0, 1000, device=device)
    rows = opened(played).memory().rows()
    assert [(row["device"], row["peak_bytes"], row["reserved_bytes"]) for row in rows] == [
        (0, 1000, 1 << 20), (3, 1000, 1 << 20),
    ]  # fmt: skip


@pytest.mark.parametrize("devices", [0, 1, 4])
def test_without_a_history_it_says_what_is_held_and_nothing_of_a_peak(opened, devices):
    played = Allocator(devices)
    played.reserve(0, 8192, seen=False)
    played.take(0, 700, seen=False)
    played.take(4096, 100, seen=False)
    trace = opened(played)
    table = trace.memory()
    (row,) = table.rows()
    assert (row["end_bytes"], row["allocations"], row["reserved_bytes"]) == (800, 2, 8192)
    assert (row["free_bytes"], row["max_free_block_bytes"]) == (6656, 3584)
    assert {row[name] for name in ("at_ns", "peak_bytes", "start_bytes", "allocs", "peak_reserved_bytes")} == {None}
    assert "Without a history" in table.note
    (part,) = trace.memory(by="category").rows()
    assert (part["category"], part["bytes"], part["share_ratio"], part["allocs"]) == ("unknown", 800, 1.0, None)
    assert [one["bytes"] for one in trace.memory(by="allocation").rows()] == [700, 100]
    for asked in ({"by": "time"}, {"at_ns": 5}):
        curve = trace.memory(**asked)
        assert (curve.rows(), "Without a history" in curve.note) == ([], True)
    assert {found["id"] for found in trace.findings().rows()} == {"nothing-recorded"}


def test_segments_whose_blocks_are_not_known_hold_memory_of_which_nothing_is_said(opened, monkeypatch):
    played = Allocator()
    played.reserve(0, 8192, seen=False)
    segments = [segment | {"blocks": []} for segment in played.snapshot()["segments"]]
    monkeypatch.setattr(played, "snapshot", lambda: {"segments": segments, "device_traces": [[]]})
    trace = opened(played)
    (pool,) = trace.memory(by="pool").rows()
    assert (pool["reserved_bytes"], pool["unused_ratio"]) == (8192, None)
    (row,) = trace.memory().rows()
    assert (row["end_bytes"], row["free_bytes"], row["allocations"]) == (None, None, None)


def test_a_history_without_segments_is_counted_from_its_start(opened, monkeypatch):
    played = Allocator()
    played.take(0, 100)
    monkeypatch.setattr(played, "snapshot", lambda: {"segments": [], "device_traces": played.events})
    table = opened(played).memory()
    assert [(row["peak_bytes"], row["reserved_bytes"]) for row in table.rows()] == [(100, None)]
    assert "start at 0 with the recording" in table.note


def test_a_failure_alone_is_listed(opened):
    played = Allocator()
    played.out_of_memory(1 << 30, 5)
    trace = opened(played)
    assert [row["requested_bytes"] for row in trace.memory(by="oom").rows()] == [1 << 30]
    assert [(row["peak_bytes"], row["out_of_memory"]) for row in trace.memory().rows()] == [(None, 1)]


def test_of_very_many_failures_the_first_are_replayed(opened, monkeypatch):
    """Each is a replay of all that came after it."""
    replays = []
    monkeypatch.setattr(out_of_memory, "free_ranges", lambda *asked: replays.append(asked))
    monkeypatch.setattr(out_of_memory, "_REPLAYED", 100_000)
    for count in (200, 400):
        played = Allocator()
        played.reserve(0)
        for _ in range(count):
            played.out_of_memory(1 << 30, 5)
        rows = opened(played).memory(by="oom").rows()
        assert (len(rows), len(replays) < 100) == (count, True)
        assert rows[-1]["free_bytes"] == rows[-1]["reserved_bytes"] == 1 << 20
        replays.clear()


def test_two_devices_and_ranks_are_apart(tmp_path):
    for rank in (0, 1):
        played = Allocator(devices=2)
        played.take(0, 100 + rank, device=0)
        played.take(0, 200 + rank, device=1)
        (tmp_path / f"train-{rank}-of-2.pickle").write_bytes(pickle.dumps(played.snapshot()))
    with stepscope.open(tmp_path, cache=False) as trace:
        rows = trace.memory().rows()
        assert [(row["rank"], row["device"], row["peak_bytes"]) for row in rows] == [
            (0, 0, 100), (0, 1, 200), (1, 0, 101), (1, 1, 201),
        ]  # fmt: skip


def test_a_recording_of_memory_alone_says_so_and_where_to_look(opened):
    first = opened(training()).findings().rows()[0]
    assert first["id"] == "nothing-recorded"
    assert first["title"].startswith("Only memory was recorded")
    assert "stepscope memory" in first["advice"]


# -- the shared recordings, against a replay of their events as they stand in the files ---------------------


def replayed(snapshot: dict[str, Any]) -> tuple[int, Counter[str], int, int]:
    """The peak of a snapshot's device, what is alive at it by site, the number of its allocations, and
    what is allocated at the end: forwards, from what was there before.
    """
    (events,) = snapshot["device_traces"]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    end = {b["address"]: b for b in blocks if b["state"] == "active_allocated"}
    alive: dict[int, tuple[int, str]] = {}
    first: dict[int, dict[str, Any]] = {}
    for one in events:
        if one["action"] in ("alloc", "free_requested"):
            first.setdefault(one["addr"], one)
    for address, one in first.items():
        if one["action"] == "free_requested":
            alive[address] = one["size"], "before"
    for address, block in end.items():
        if address not in first:
            alive[address] = block["requested_size"], "before"
    held = sum(size for size, _ in alive.values())
    peak, at_peak = held, dict(alive)
    for one in events:
        if one["action"] == "alloc":
            own = [f for f in one["frames"] if "/home/lin/" in f["filename"] and "site-packages" not in f["filename"]]
            alive[one["addr"]] = (one["size"], f"{own[0]['filename']}({own[0]['line']})" if own else "none")
            held += one["size"]
        elif one["action"] == "free_requested":
            held -= alive.pop(one["addr"])[0]
        if held > peak:
            peak, at_peak = held, dict(alive)
    sites: Counter[str] = Counter()
    for size, site in at_peak.values():
        sites[site] += size
    return peak, sites, len(at_peak), held


@pytest.mark.traces
@pytest.mark.parametrize("name", ["lm_training", "lm_inference"])
def test_peak_of_the_shared_snapshots_and_what_is_alive_equal_a_replay(shared_traces, name):
    path = shared_traces / "memory" / f"{name}.pickle.gz"
    snapshot = pickle.loads(gzip.decompress(path.read_bytes()))  # noqa: S301 - a test's own file
    peak, sites, count, end = replayed(snapshot)
    with stepscope.open(path) as trace:
        (row,) = trace.memory().rows()
        assert (row["peak_bytes"], row["allocations"], row["end_bytes"]) == (peak, count, end)
        found: dict[str, int] = defaultdict(int)
        for one in trace.memory(by="stack").rows():
            frame = (one["stack"] or "").partition(":")[0]
            found[frame if ".py(" in frame else "other"] += one["bytes"]
        wanted: dict[str, int] = defaultdict(int)
        for site, size in sites.items():
            wanted[site if ".py(" in site else "other"] += size
        assert {k: v for k, v in found.items() if v} == wanted
        for by in ("category", "operator", "module", "stack"):
            assert sum(one["bytes"] for one in trace.memory(by=by).rows()) == peak
        assert max(one["allocated_bytes"] for one in trace.memory(by="time").rows()) == peak
        assert sum(one["bytes"] for one in trace.memory(by="allocation", at_peak=True).rows()) == peak


KINETO = (
    "bert_small_h100/trace.json.gz",
    "nsfw_mi300/trace.json.gz",
    "resnet50_v100/worker0.1623143089861.pt.trace.json.gz",
)


@pytest.mark.traces
@pytest.mark.parametrize("name", KINETO)
def test_peak_of_shared_traces_equals_a_replay_of_their_memory_events(shared_traces, name):
    import json

    path = shared_traces / "kineto" / name
    events = [
        one for one in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one.get("name") == "[memory]"
    ]
    with stepscope.open(path) as trace:
        for row in trace.memory().rows():
            own = [
                one["args"]
                for one in sorted(events, key=lambda one: float(one["ts"]))
                if (one["args"]["Device Type"] == 0) == (row["kind"] == "cpu")
            ]
            if "Total Allocated" in own[0]:
                assert row["peak_bytes"] == max(one["Total Allocated"] for one in own)
                assert row["end_bytes"] == own[-1]["Total Allocated"]
            if "Addr" in own[0]:
                alive: dict[int, int] = {}
                most = 0
                for one in own:
                    if one["Bytes"] > 0:
                        alive[one["Addr"]] = one["Bytes"]
                    else:
                        alive.pop(one["Addr"], None)
                    most = max(most, sum(alive.values()))
                parts = trace.memory(by="operator").rows()
                own_parts = [
                    one for one in parts
                    if one["kind"] == row["kind"] and one["operator"] != "(before the recording)"
                ]  # fmt: skip
                assert sum(one["bytes"] for one in own_parts) == most
        for by in ("category", "operator", "module", "stack"):
            of: dict[str, int] = defaultdict(int)
            for one in trace.memory(by=by).rows():
                of[one["kind"]] += one["bytes"]
            assert of == {row["kind"]: row["peak_bytes"] for row in trace.memory().rows()}


def test_memory_is_never_below_nothing(answer):
    """Without totals and addresses, what is given back and was not seen to be taken was there before."""
    rows = {
        "memory_event": [
            {**EVENT, "time_ns": time, "sequence": time, "bytes": size} for time, size in ((1, 10), (2, -40), (3, 25))
        ]
    }
    (row,) = answer("memory", rows).rows()
    assert (row["start_bytes"], row["end_bytes"], row["peak_bytes"]) == (30, 25, 40)


def curve_event(time, address, size, total, **more):
    return {
        "device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time, "address": address,
        "bytes": size, "total_allocated_bytes": total, "total_reserved_bytes": 500, **more,
    }  # fmt: skip


ROWS = {
    "memory_event": [
        curve_event(5, 1, 10, 110, role="forward"),
        curve_event(6, 2, 20, 130, role="backward"),
        curve_event(7, 1, -10, 120, role="backward"),
    ]
}


def test_a_row_is_what_was_in_use_from_then_on(diff):
    diff(
        "memory",
        ROWS,
        """
        time_ns,allocated_bytes,reserved_bytes,activations_bytes,unknown_bytes,events
        5,100,500,0,100,1
        5,110,500,10,100,1
        6,130,500,10,120,1
        7,120,500,0,120,1
        """,
        by="time",
    )


def test_memory_of_the_host_has_no_reserved(diff):
    rows = {"memory_event": [curve_event(1, 1, 4, 4, device=None, device_kind="cpu", total_reserved_bytes=0)]}
    diff("memory", rows, "kind,device,allocated_bytes,reserved_bytes\ncpu,,0,\ncpu,,4,", by="time")


def test_a_thinned_curve_says_so(answer):
    rows = {"memory_event": [curve_event(n, n, 1, n + 1) for n in range(100)]}
    found = answer("memory", rows, by="time", points=8)
    assert "Thinned out" in found.note
    assert sum(row["events"] for row in found.rows()) == 101
    assert answer("memory", rows, by="time", points=0).note == ""


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=60), st.integers(0, 20))
@examples(100)
def test_first_last_lowest_and_highest_are_always_kept(moments, points):
    time = np.array(sorted(time for time, _ in moments))
    values = np.array([value for _, value in moments])
    kept = thinned(time, values, points).tolist()
    assert kept == sorted(set(kept))
    assert {0, len(values) - 1} <= set(kept)
    assert {values.min(), values.max()} <= set(values[kept].tolist())
    assert points == 0 or len(kept) <= max(points, 4)


def allocation_event(time, address, size, **more):
    return {
        "device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time, "address": address,
        "bytes": size, "total_allocated_bytes": None, **more,
    }  # fmt: skip


ALLOCATION_ROWS = {
    "memory_event": [
        allocation_event(10, 1, 40, operator_name="aten::mm", role="forward", stack_id=0),
        allocation_event(20, 2, 60, operator_name="aten::add", role="forward"),
        allocation_event(30, 1, -40),
        allocation_event(40, 3, -30),
        allocation_event(50, 4, 5, role="backward"),
        allocation_event(60, 2, -60),
    ],
    "call_stack": [{"stack_id": 0, "frames": "net.py(3): forward"}],
    "step": [
        {"step": 7, "rule": "ProfilerStep", "complete": True, "host_start_ns": 0, "host_end_ns": 35},
        {"step": 8, "rule": "ProfilerStep", "complete": True, "host_start_ns": 35, "host_end_ns": 99},
    ],
}


def test_each_allocation_has_its_lifetime_and_what_made_it(diff):
    diff(
        "memory",
        ALLOCATION_ROWS,
        """
        bytes,alloc_ns,free_ns,lifetime_ns,category,operator,alloc_step,free_step,stack
        60,20,60,40,activations,aten::add,7,8,
        40,10,30,20,temporaries,aten::mm,7,7,net.py(3): forward
        30,,40,,unknown,,,8,
        5,50,,,unknown,,8,,
        """,
        by="allocation",
    )


def test_what_is_alive_at_a_moment_at_the_peak_or_in_a_stretch(diff):
    diff("memory", ALLOCATION_ROWS, "bytes\n60\n30", at_ns=35, by="allocation")
    diff("memory", ALLOCATION_ROWS, "bytes\n60\n40\n30", at_peak=True, by="allocation")
    diff("memory", ALLOCATION_ROWS, "bytes\n60\n5", part=EventFilter(window=(45, 99)), by="allocation")
    diff("memory", ALLOCATION_ROWS, "bytes\n60\n30\n5", steps=[8], by="allocation")


def test_a_report_may_pick_what_is_alive_at_a_moment():
    (moment,) = (one for one in find("memory").parameters if one.name == "at_ns")
    since, until = moment.picks
    with literal_store(ALLOCATION_ROWS) as store:
        trace = Trace(store)
        for at in (5, 10, 30, 35, 55, 60):
            lasting = [
                row
                for row in trace.memory(by="allocation").to_dict()["rows"]
                if (row[since] or 0) <= at and (row[until] is None or at < row[until])
            ]
            assert trace.memory(by="allocation", at_ns=at).to_dict()["rows"] == lasting, at


def test_those_of_an_operator_or_a_category(diff):
    diff("memory", ALLOCATION_ROWS, "bytes\n60", operator="aten::add", by="allocation")
    diff("memory", ALLOCATION_ROWS, "bytes\n30\n5", category="unknown", by="allocation")
