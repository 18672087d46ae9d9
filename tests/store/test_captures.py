"""`--capture`: a recording of the capture of a job's graphs, beside those of the job."""

import csv
import json

import pytest

import stepscope
from stepscope.base.errors import SourceError, UsageError
from stepscope.cli.choices import typed_sources
from stepscope.store.build import import_source

KERNELS = ["gemm", "relu"]


def event(category, name, at, lasts, pid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid, "ts": at, "dur": lasts, "args": args}


def write(path, events, rank=0, world_size=1):
    about = {"distributedInfo": {"rank": rank, "world_size": world_size}}
    path.write_text(json.dumps(about | {"traceEvents": events}))
    return path


@pytest.fixture
def recorded(tmp_path):
    capture = [
        event("cuda_runtime", "cudaStreamBeginCapture", 10, 1),
        event("cpu_op", "aten::linear", 20, 9),
        event("cuda_runtime", "cudaLaunchKernel", 22, 2, kernel="gemm", correlation=1),
        event("cpu_op", "aten::relu", 40, 9),
        event("cuda_runtime", "cudaLaunchKernel", 42, 2, kernel="relu", correlation=2),
        event("cuda_runtime", "cudaStreamEndCapture", 90, 1),
    ]
    write(tmp_path / "capture.json", capture)
    replay = [
        event("cuda_runtime", "cudaGraphLaunch", 10, 2, correlation=7),
        *(
            event("kernel", name, 20 + 10 * place, 5, 0, device=0, stream=7, correlation=7)
            for place, name in enumerate(KERNELS)
        ),
    ]
    write(tmp_path / "replay.json", replay)
    return tmp_path


_OPERATORS = "SELECT rank, operator_name FROM device_event ORDER BY rank, start_ns"


def test_the_capture_of_a_folder_is_no_second_recording_and_is_kept_in_the_store(recorded):
    store = import_source(recorded, recorded / "store", captures=[recorded / "capture.json"])
    with stepscope.open(store) as trace:
        assert trace.ranks == (0,)
        assert [row["path"] for row in trace.ask("sources").rows()] == [str(recorded / "replay.json")]
        assert [row["operator_name"] for row in trace.sql(_OPERATORS).rows()] == ["aten::linear", "aten::relu"]
        (row,) = trace.sql("SELECT path, rule, replays FROM capture").rows()
        assert row == {"path": str(recorded / "capture.json"), "rule": "file", "replays": 1}


def test_a_capture_within_an_earlier_recording_of_the_rank_counts_for_later_ones(recorded):
    for place, name in enumerate(("capture", "replay", "replay")):
        told = json.loads((recorded / f"{name}.json").read_text())
        base = {"baseTimeNanoseconds": 1_700_000_000_000_000_000 + place * 10**9}
        (recorded / f"cycle{place}.json").write_text(json.dumps(base | told))
    cycles = [recorded / f"cycle{place}.json" for place in range(3)]
    with stepscope.open(*cycles) as trace:
        assert trace.ranks == (0,)
        found = [row["operator_name"] for row in trace.sql(_OPERATORS).rows()]
        assert found == ["aten::linear", "aten::relu"] * 2
        rows = trace.sql("SELECT span, path, rule, replays FROM capture ORDER BY span").rows()
    assert [tuple(row.values()) for row in rows] == [
        (0, None, "trace", 0), (1, str(cycles[0]), "earlier", 1), (2, str(cycles[0]), "earlier", 1),
    ]  # fmt: skip


def test_a_capture_that_we_recorded_is_read_with_the_trace_beside_it(recorded):
    capture = json.loads((recorded / "capture.json").read_text())
    capture = {"stepscope": {"graph_capture": 0}} | capture  # torch writes it in front of the events
    (recorded / "job.capture0-0-of-1.json").write_text(json.dumps(capture))
    (recorded / "capture.json").unlink()
    with stepscope.open(recorded) as trace:
        assert trace.ranks == (0,)
        assert trace.sql(_OPERATORS).rows()[0]["operator_name"] == "aten::linear"
        assert len(trace.ask("sources").rows()) == 1


def test_what_is_kept_for_the_next_question_depends_on_the_capture(recorded):
    for capture, known in (((), None), (recorded / "capture.json", "aten::linear")):
        with stepscope.open(recorded / "replay.json", capture=capture) as trace:
            assert trace.sql(_OPERATORS).rows()[0]["operator_name"] == known


def test_what_is_typed_next_has_the_capture():
    assert typed_sources(["a b.json"], None, ["c.json"]) == "'a b.json' --capture c.json"


def test_captures_of_several_ranks_are_each_for_their_own(recorded):
    captures = []
    for rank, operator in enumerate(("aten::linear", "aten::bmm")):
        for name in ("capture", "replay"):
            told = json.loads((recorded / f"{name}.json").read_text())["traceEvents"]
            told = [{**one, "name": one["name"].replace("aten::linear", operator)} for one in told]
            write(recorded / f"{name}_{rank}.json", told, rank, 2)
        captures.append(recorded / f"capture_{rank}.json")
    replays = [recorded / f"replay_{rank}.json" for rank in range(2)]
    with stepscope.open(*replays, capture=captures) as trace:
        found = [(row["rank"], row["operator_name"]) for row in trace.sql(_OPERATORS).rows()]
    assert found[::2] == [(0, "aten::linear"), (1, "aten::bmm")]


def test_a_file_without_a_capture_is_refused(recorded):
    with pytest.raises(SourceError, match="no CUDA graph was captured") as error:
        stepscope.open(recorded / "capture.json", capture=recorded / "replay.json")
    assert error.value.slug == "no-capture"


def test_a_store_has_been_read_without_it(recorded):
    store = import_source(recorded / "replay.json", recorded / "store")
    with pytest.raises(UsageError, match="--capture"):
        stepscope.open(store, capture=recorded / "capture.json")


@pytest.mark.traces
def test_a_decoding_graph_is_attributed_as_tracelens_does(shared_traces):
    folder = shared_traces / "kineto" / "vllm_decode_graph"
    capture = shared_traces / "capture" / "vllm_decode_graph_capture.json.gz"
    with stepscope.open(folder / "graph_execution.json.gz", capture=capture) as trace:
        (row,) = trace.sql("SELECT * FROM capture").rows()
        assert (row["launches"], row["replays"]) == (421, 1)
        assert row["confidence"] == "order, count and names"
        captured = trace.sql(
            "SELECT operator_name AS name, count(*) AS pieces, sum(dur_ns) AS ns FROM device_event "
            "WHERE captured_id IS NOT NULL GROUP BY ALL"
        ).rows()
        assert sum(one["pieces"] for one in captured) == 421
        assert all(one["name"] for one in captured)
        ours = {one["name"]: one for one in trace.operators().rows()}
        assert {row["link"]: row["captured_ns"] for row in trace.sql("FROM attribution").rows()} == {
            "launch": 0, "operator": 10388482, "module": 10388482, "direction": 10388482, "step": 0,
        }  # fmt: skip
        checks = {one["check"]: one for one in trace.ask("checks").rows()}
        assert checks["graph_replay_unattributed"]["severity"] == "note"
    table = folder / "tracelens_csv" / "ops_summary.csv"
    theirs = {row["name"]: row for row in csv.DictReader(table.open())}
    for one in captured:
        known = theirs[one["name"]]
        in_us = float(known["total_direct_kernel_time_sum"])
        # TraceLens holds times since the node's start as doubles: 1 ns is their last digit.
        by_ns = pytest.approx(1000 * in_us, abs=one["pieces"])
        assert ours[one["name"]]["device_self_ns"] == by_ns
        assert ours[one["name"]]["calls"] == int(known["Count"])
