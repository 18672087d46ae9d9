"""`stepscope export --chrome`: what is read again is what was written, and slices nest on every track."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.questions.test_critical_path import matched

import stepscope
from stepscope.base.errors import SourceError
from stepscope.cli.main import main
from stepscope.query.event_filter import EventFilter, event_filter
from stepscope.query.scope import Scope
from stepscope.report import trace_events
from stepscope.report.event_places import layers
from stepscope.report.trace_events import write_trace_events
from stepscope.store.open import Store

START_NS = 1_700_000_000_123_456_000

HOST = "category, kind, role, name, start_ns, dur_ns, self_ns, depth, step, direction, correlation, external_id, sequence_number, device_ns"
DEVICE = (
    "category, kind, name, device, stream, start_ns, dur_ns, correlation, launch_ns, operator_name, step, "
    "direction, grid_x, block_y, registers_per_thread, occupancy_ratio, bytes, copy_kind, memory_kind, graph_id"
)
INPUTS = 'e.name, e.start_ns, i.dims, i.types, i.strides, i."values"'


def trace(rank: int, start_ns: int = START_NS) -> dict[str, Any]:
    """A step with a forward and a backward operator, a kernel each, and a copy; times to the nanosecond."""

    def host(name: str, at: float, dur: float, cat: str = "cpu_op", tid: int = 11, **args: Any) -> Any:
        return {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": at, "dur": dur, "args": args}  # fmt: skip

    def work(name: str, at: float, dur: float, cat: str = "kernel", **args: Any) -> Any:
        return host(name, at, dur, cat, 7, device=0, stream=7, **args) | {"pid": 0}

    launch = "cudaLaunchKernel"
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": start_ns,
        "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        "traceEvents": [
            {"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": "main \"é\"\n"}},
            host("ProfilerStep#3", 1.001, 99.5, "user_annotation"),
            host("aten::mm", 2.002, 20.007, **{"External id": 1, "Sequence number": 5, "Fwd thread id": 0,
                 "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "odd key": "a\\\"b"}),
            host(launch, 3.003, 4.004, "cuda_runtime", correlation=101, **{"External id": 1}),
            host("MmBackward0", 40.5, 20.25, tid=12, **{"External id": 2, "Sequence number": 5, "Fwd thread id": 1}),
            host(launch, 41.0, 3.0, "cuda_runtime", 12, correlation=102, **{"External id": 2}),
            host("cudaMemcpyAsync", 70.0, 3.0, "cuda_runtime", correlation=103),
            work("void gemm<\"x\">(float*)", 12.345, 10.111, correlation=101, grid=[4, 2, 1], block=[32, 8, 1],
                 **{"registers per thread": 40, "est. achieved occupancy %": 37.5, "External id": 1}),
            work("gemm_dgrad", 50.0, 8.0, correlation=102),
            work("Memcpy HtoD (Pinned -> Device)", 75.0, 2.0, "gpu_memcpy", correlation=103, bytes=1000),
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 10, "tid": 11, "ts": 5.5,
             "args": {"Device Type": 1, "Device Id": 0, "Addr": 64, "bytes": 512, "Total Allocated": 512}},
            {"ph": "i", "name": "mark", "cat": "x", "pid": 10, "tid": 11, "ts": 6.5, "args": {"a": 1}},
            {"ph": "C", "name": "watts", "pid": 0, "ts": 7.25, "args": {"power": 300.5}},
        ],
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(rank: int = 0, **trace_args: Any) -> Path:
        file = tmp_path / "traces" / f"rank{rank}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(trace(rank, **trace_args)))
        return file

    return written


def export(target: Path, *sources: Path, **narrowed: Any) -> list[dict[str, Any]]:
    window = narrowed.pop("window", None)
    with (
        stepscope.open(*sources, cache=False) as opened,
        Scope(opened.store, part=event_filter(window=window), **narrowed) as scope,
    ):
        return events_of(scope, target)


def test_what_a_graph_replays_has_the_operator_of_its_capture(tmp_path: Path) -> None:
    def call(name: str, at: float, dur: float, cat: str = "cuda_runtime", **args: Any) -> Any:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": dur, "args": args}  # fmt: skip

    work = {"device": 0, "stream": 7}
    told = [
        call("cudaStreamBeginCapture", 10, 1),
        call("aten::linear", 20, 9, "cpu_op"),
        call("cudaLaunchKernel", 22, 2, correlation=1),
        call("cudaStreamEndCapture", 40, 1),
        call("cudaGraphLaunch", 50, 2, correlation=2),
        call("gemm", 60, 5, "kernel", correlation=2, **work) | {"pid": 0},
        call("cudaLaunchKernel", 70, 2, correlation=3),
        call("relu", 80, 5, "kernel", correlation=3, **work) | {"pid": 0},
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": told}))
    written = export(tmp_path / "out.json", file)
    found = {one["name"]: one["args"].get("stepscope", {}) for one in written if one.get("cat") == "kernel"}  # fmt: skip
    assert found["gemm"]["operator"] == "aten::linear"
    assert "operator" not in found["relu"]


def events_of(scope: Scope, target: Path) -> list[dict[str, Any]]:
    write_trace_events(scope, target)
    events: list[dict[str, Any]] = json.loads(target.read_text())["traceEvents"]
    return events


def assert_same(source: Path, exported: Path) -> None:
    """The same events at the same times, with the same links and arguments."""
    with stepscope.open(source, cache=False) as a, stepscope.open(exported, cache=False) as b:
        for query in (
            f"SELECT {HOST} FROM host_event ORDER BY ALL",
            f"SELECT {DEVICE} FROM device_event ORDER BY ALL",
            f"SELECT {INPUTS} FROM host_event e JOIN operator_input i USING (span, input_id) ORDER BY ALL",
            "SELECT e.start_ns, c.operation, c.group_name, c.group_ranks, c.sequence, c.elements_in, c.dtype "
            "FROM device_event e JOIN collective c USING (id) ORDER BY ALL",
            "SELECT * EXCLUDE (thread, operator_id) FROM memory_event ORDER BY ALL",
            "SELECT time_ns, category, name FROM instant ORDER BY ALL",
            "SELECT track, series, pid, time_ns, value FROM counter ORDER BY ALL",
            "SELECT start_epoch_ns, world_size, backend FROM rank",
            "SELECT * FROM device ORDER BY ALL",
            "SELECT * FROM step ORDER BY ALL",
            "SELECT events_dropped, events_repaired, truncated, unknown_categories FROM source",
        ):
            before, after = (one.sql(query).arrow.to_pylist() for one in (a, b))
            assert before == after, query


def crossing(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Slices that cross one that started before on their track; a brute-force reader of the format."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    found = []
    for track, slices in tracks.items():
        assert slices == sorted(slices, key=lambda one: (one[0], -one[1])), track
        open_ends: list[int] = []
        for start, end in slices:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and open_ends[-1] < end:
                found.append((track, (start, end)))
            open_ends.append(end)
    return found


def test_what_was_exported_is_read_again_to_the_nanosecond(write: Any, tmp_path: Path) -> None:
    source, exported = write(), tmp_path / "out.json"
    events = export(exported, source)
    assert_same(source, exported)
    assert crossing(events) == []


@pytest.mark.traces
@pytest.mark.parametrize(
    "name", ["resnet50_v100/worker0.1623143089861.pt.trace.json.gz", "nccl_args_a100", "mi250_toy", "bert_small_h100"]
)  # fmt: skip
def test_recorded_traces_come_back_as_they_were(shared_traces: Path, tmp_path: Path, name: str) -> None:
    source, exported = shared_traces / "kineto" / name, tmp_path / "out.json"
    assert crossing(export(exported, source)) == []
    assert_same(source, exported)


@pytest.mark.traces
def test_eight_ranks_stand_on_one_line(shared_traces: Path, tmp_path: Path) -> None:
    source = shared_traces / "kineto" / "dlrm_8rank_v100"
    events = export(tmp_path / "out.json", source)
    assert crossing(events) == []
    with stepscope.open(source) as opened:
        kernels = opened.sql("SELECT start_ns, name FROM device_event").arrow.to_pylist()
        first = opened.sql("SELECT min(start_ns) FROM device_event").rows()[0]
    wanted = sorted((row["start_ns"] - next(iter(first.values())), row["name"]) for row in kernels)
    found = [e for e in events if e["ph"] == "X" and "stream" in e["args"]]
    begin = min(round(e["ts"] * 1000) for e in found)
    assert sorted((round(e["ts"] * 1000) - begin, e["name"]) for e in found) == wanted


def test_arrows_lead_from_launch_to_kernel_and_from_forward_to_backward(write: Any, tmp_path: Path) -> None:
    events = export(tmp_path / "out.json", write())
    ends: dict[int, dict[str, tuple[Any, ...]]] = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            place = (event["cat"], event["pid"], event["tid"], round(event["ts"] * 1000))
            assert event["ph"] not in ends[event["id"]]
            ends[event["id"]][event["ph"]] = place
    begin = min(round(e["ts"] * 1000) for e in events if e["ph"] == "X") - 1001
    found = sorted((s[0], s[2], s[3] - begin, f[2], f[3] - begin) for s, f in (e.values() for e in ends.values()))
    assert found == [
        ("ac2g", 11, 3003, 7, 12345),
        ("ac2g", 11, 70000, 7, 75000),
        ("ac2g", 12, 41000, 7, 50000),
        ("fwdbwd", 11, 2002, 12, 40500),
    ]  # fmt: skip


def test_added_tracks_show_steps_the_queue_and_bandwidth(write: Any, tmp_path: Path) -> None:
    own = [e for e in export(tmp_path / "out.json", write()) if e.get("cat") == "stepscope"]
    begin = next(e["ts"] for e in own if e["name"] == "ProfilerStep#3") - 1.001
    values = [(e["name"], round(e["ts"] - begin, 3), e["args"]["now"]) for e in own if e["ph"] == "C"]
    assert values == [
        ("queue: device 0 stream 7", 7.007, 1),
        ("queue: device 0 stream 7", 12.345, 0),
        ("queue: device 0 stream 7", 44.0, 1),
        ("queue: device 0 stream 7", 50.0, 0),
        ("queue: device 0 stream 7", 70.0, 1),
        ("queue: device 0 stream 7", 75.0, 0),
        ("copies: device 0 HtoD (GB/s)", 75.0, 0.5),
        ("copies: device 0 HtoD (GB/s)", 77.0, 0.0),
        ("memory: cuda 0 allocated (bytes)", 5.5, 512),
    ]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (None, [(0, "ncclAllReduce", 70_000, 30_000), (1, "aten::mm", 0, 60_000),
                (1, "cudaLaunchKernel", 60_000, 4_000), (1, "ncclAllReduce", 64_000, 6_000)]),
        ((62_000, 80_000), [(0, "ncclAllReduce", 70_000, 10_000), (1, "cudaLaunchKernel", 62_000, 2_000),
                            (1, "ncclAllReduce", 64_000, 6_000)]),
    ],
)  # fmt: skip
def test_the_critical_path_is_a_track_of_the_ranks_that_it_runs_on(
    window: tuple[int, int] | None, expected: list[Any], make_scope: Any, tmp_path: Path
) -> None:
    events = events_of(make_scope(matched(), part=EventFilter(window=window)), tmp_path / "out.json")
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    ranks = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    path = [
        (int("rank 1" in ranks[e["pid"]]), e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in events
        if e["ph"] == "X" and tracks.get((e["pid"], e["tid"])) == "critical path"
    ]
    first = min(start for _, _, start, _ in path)
    least = min(start for _, _, start, _ in expected)
    assert sorted((rank, name, start - first + least, dur) for rank, name, start, dur in path) == expected
    assert crossing(events) == []


def test_modules_of_the_device_are_slices_inside_those_they_are_part_of(make_scope: Any, tmp_path: Path) -> None:
    modules = [
        {"module_id": 0, "path": "Net", "name": "Net", "depth": 0},
        {"module_id": 1, "path": "Net.a", "name": "a", "depth": 1, "parent_id": 0},
        {"module_id": 2, "path": "Net.b", "name": "b", "depth": 1, "parent_id": 0},
    ]
    work = [(0, 5, 1), (5, 5, 1), (20, 5, 2), (30, 5, None), (40, 5, 2)]
    rows = {
        "module": modules,
        "device_event": [
            {"start_ns": start, "dur_ns": dur, "module_id": module, "direction": "forward"}
            for start, dur, module in work
        ],
    }
    events = events_of(make_scope(rows), tmp_path / "out.json")
    found = [
        (e["name"], round(e["ts"] * 1000) - 1000, round(e["dur"] * 1000), e["args"]["path"])
        for e in events
        if e.get("cat") == "stepscope" and e["ph"] == "X"
    ]
    assert found == [
        ("Net (forward)", 0, 25, "Net"),
        ("a (forward)", 0, 10, "Net.a"),
        ("b (forward)", 20, 5, "Net.b"),
        ("Net (forward)", 40, 5, "Net"),
        ("b (forward)", 40, 5, "Net.b"),
    ]
    assert crossing(events) == []


def test_what_crossed_is_read_again_on_its_own_thread(tmp_path: Path) -> None:
    source, exported = tmp_path / "in.json", tmp_path / "out.json"
    made = trace(0)
    crossing_range = {"name": "range", "cat": "user_annotation", "ts": 15.0, "dur": 20.0}
    made["traceEvents"].append({"ph": "X", "pid": 10, "tid": 11, **crossing_range})
    source.write_text(json.dumps(made))
    events = export(exported, source)
    assert crossing(events) == []
    assert len({e["tid"] for e in events if e["ph"] == "X" and e["pid"] == 10}) == 3
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert sum(name.endswith("(overlapping)") for name in names) == 1
    assert_same(source, exported)


_SLICES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 15)), max_size=60)


@given(_SLICES)
@examples(200)
def test_layers_never_cross_and_lose_nothing(slices: list[tuple[int, int, int]]) -> None:
    rows = sorted((track, start, -(start + dur)) for track, start, dur in slices)
    track, start, end = (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (np.zeros(0, np.int64),) * 3  # fmt: skip
    end = -end
    layer = layers(track, start, end)
    assert len(layer) == len(rows)
    events = [
        {"ph": "X", "pid": int(a), "tid": int(b), "ts": int(c) / 1000, "dur": int(d - c) / 1000}
        for a, b, c, d in zip(track, layer, start, end, strict=True)
    ]
    assert crossing(events) == []


def test_many_that_cross_take_as_many_tracks_as_run_at_once() -> None:
    count = 5000
    start = np.arange(count)
    layer = layers(np.zeros(count, np.int64), start, start + 100)
    assert layer.max() == 99


def test_ids_of_several_ranks_are_told_apart(write: Any, tmp_path: Path) -> None:
    write(1, start_ns=START_NS + 5000)
    target = tmp_path / "out.json"
    events = export(target, write(0).parent)
    mine = {
        (e["args"]["stream"], e["pid"], round(e["ts"] * 1000))
        for e in events
        if e["ph"] == "X" and e["name"] == "gemm_dgrad"
    }
    (_, one, first), (_, other, second) = sorted(mine, key=lambda row: row[2])
    assert one != other
    assert second - first == 5000
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"rank 0: device 0 (NVIDIA H100 80GB HBM3)", "rank 1: device 0 (NVIDIA H100 80GB HBM3)"} <= names
    numbers = [e["id"] for e in events if e["ph"] == "s"]
    assert len(set(numbers)) == len(numbers)
    with pytest.raises(SourceError, match="an export of 2 ranks in one file"):
        stepscope.open(target, cache=False)


def test_one_rank_of_several_is_read_again_as_that_rank(write: Any, tmp_path: Path) -> None:
    write(0)
    target = tmp_path / "out.json"
    export(target, write(1, start_ns=START_NS + 5000).parent, ranks=[1])
    assert_same(write(1, start_ns=START_NS + 5000), target)
    with stepscope.open(target, cache=False) as again:
        assert again.ranks == (1,)


def test_a_window_cuts_what_reaches_out_of_it(write: Any, tmp_path: Path) -> None:
    events = export(tmp_path / "out.json", write(), window=(45_000, 55_000))
    work = [e for e in events if e["ph"] == "X" and "stream" in e["args"]]
    assert [(e["name"], e["dur"]) for e in work] == [("gemm_dgrad", 6.001)]


def test_chunks_write_what_one_text_would(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write()
    one = export(tmp_path / "one.json", source)
    monkeypatch.setattr(trace_events, "CHUNK", 2)
    many = export(tmp_path / "many.json", source)
    assert sorted(map(repr, one)) == sorted(map(repr, many))


def test_the_command_writes_compressed_files_and_says_so(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json.gz"
    assert main(["export", str(write()), "--no-cache", "--step", "3", "--chrome", str(target)]) == 0
    assert "9 events of rank 0" in capsys.readouterr().err
    assert json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]


def test_what_has_no_time_line_is_an_error_and_leaves_no_file(make_store: Callable[..., Store], tmp_path: Path) -> None:
    store = make_store({"phase": [{"phase": "step", "steps": 3, "mean_ns": 5.0}]})
    with Scope(store) as scope, pytest.raises(SourceError, match="no events on a time line"):
        write_trace_events(scope, tmp_path / "out.json")
    assert not list(tmp_path.iterdir())
