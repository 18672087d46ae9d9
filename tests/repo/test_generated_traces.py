"""A generated trace is a valid recording, however often its events are repeated."""

import io
import json
import sys
from collections import Counter
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _script(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def generator() -> Any:
    return _script("generate_trace")


SMALL = """{"schemaVersion": 1, "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 0, "args": {"name": "python"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 9, "tid": 9,
   "ts": 100.250, "dur": 20.500, "args": {"External id": 1, "Ev Idx": 0}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
   "ts": 101.001, "dur": 2, "args": {"cbid": 211, "correlation": 40}},
  {"ph": "s", "id": 40, "pid": 9, "tid": 9, "ts": 101.001, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "k<\\"ts\\": 5, 100%d>", "pid": 0, "tid": 7,
   "ts": 110, "dur": 30.125, "args": {"External id": 0, "correlation": 40, "stream": 7}},
  {"ph": "f", "id": 40, "pid": 0, "tid": 7, "ts": 110, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "s",
   "ts": 90, "dur": 60, "args": {"Op count": 0}}
], "traceName": "small.json"}"""


def _repeated(generator: Any, text: str, steps: int) -> list[dict[str, Any]]:
    template = generator.make_template(generator.split_recording(text))
    out = io.BytesIO()
    generator.write_trace(template, out, steps=steps)
    trace = json.loads(out.getvalue())
    assert trace["traceName"]
    events: list[dict[str, Any]] = trace["traceEvents"]
    return events


def test_the_second_copy_begins_after_the_first_ended(generator: Any) -> None:
    kernels = [e for e in _repeated(generator, SMALL, 2) if e.get("cat") == "kernel"]
    # The events span 100.250 to 140.125: 39.875 µs, rounded up, and the gap of 100 µs.
    assert [e["ts"] for e in kernels] == [110, 250]
    assert [e["dur"] for e in kernels] == [30.125, 30.125]


def test_fractions_of_a_microsecond_survive(generator: Any) -> None:
    launches = [e["ts"] for e in _repeated(generator, SMALL, 2) if e.get("cat") == "cuda_runtime"]
    assert launches == [101.001, 241.001]


def test_numbers_in_names_stay(generator: Any) -> None:
    kernels = [e for e in _repeated(generator, SMALL, 2) if e.get("cat") == "kernel"]
    assert {e["name"] for e in kernels} == {'k<"ts": 5, 100%d>'}


def test_links_stay_within_their_copy(generator: Any) -> None:
    events = _repeated(generator, SMALL, 3)
    links = [(e["ph"], e.get("id") or e["args"]["correlation"]) for e in events if e["name"] != "ac2g"
             if e.get("cat") in ("kernel", "cuda_runtime")]  # fmt: skip
    assert Counter(number for _, number in links) == {40: 2, 80: 2, 120: 2}
    flows = Counter((e["ph"], e["id"]) for e in events if e["ph"] in "sf")
    assert flows == {(phase, number): 1 for phase in "sf" for number in (40, 80, 120)}


def test_zero_stays_none(generator: Any) -> None:
    kernels = [e for e in _repeated(generator, SMALL, 2) if e.get("cat") == "kernel"]
    assert [e["args"]["External id"] for e in kernels] == [0, 0]


def test_steps_count_on(generator: Any) -> None:
    names = [e["name"] for e in _repeated(generator, SMALL, 3) if e.get("cat") == "user_annotation"]
    assert names == ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"]


def test_what_is_said_once_is_written_once(generator: Any) -> None:
    events = _repeated(generator, SMALL, 3)
    assert sum(e["ph"] == "M" for e in events) == 1
    (whole,) = [e for e in events if e.get("cat") == "Trace"]
    assert (whole["ts"], whole["dur"]) == (90, 60 + 2 * 140)


def test_the_builtin_shape_nests_and_links(generator: Any) -> None:
    events = _repeated(generator, generator.builtin_trace(), 6)
    assert len({e["name"] for e in events if e["name"].startswith("ProfilerStep#")}) == 6
    launches = Counter(e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime")
    device = Counter(
        e["args"]["correlation"] for e in events if e.get("pid") == 0 and "correlation" in e.get("args", {})
    )
    assert set(launches.values()) == set(device.values()) == {1}
    assert set(device) <= set(launches)
    for tid in (4242, 4300):
        spans = sorted(
            (round(e["ts"] * 1000), -round(e["dur"] * 1000))
            for e in events
            if e["ph"] == "X" and e["pid"] == 4242 and e["tid"] == tid
        )
        open_ends: list[int] = []
        for start, minus_duration in spans:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start - minus_duration <= open_ends[-1]
            open_ends.append(start - minus_duration)


def test_streams_of_the_builtin_shape_run_one_kernel_at_a_time(generator: Any) -> None:
    events = _repeated(generator, generator.builtin_trace(), 3)
    for stream in (7, 20):
        spans = sorted(
            (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("pid") == 0 and e["ph"] == "X" and e["tid"] == stream
        )
        assert len(spans) > 3
        assert all(after[0] >= before[1] - 1e-6 for before, after in pairwise(spans))


def test_the_ranks_of_a_job_repeat_at_the_same_moments(generator: Any, tmp_path: Path) -> None:
    made = generator.generate_job(tmp_path, ranks=2, hosts=1, size_bytes=500_000)
    assert made.steps == 6  # two copies of three steps
    ends, sequences = [], []
    for path in sorted(tmp_path.iterdir()):
        events = json.loads(path.read_text())["traceEvents"]
        shared = [e for e in events if e.get("cat") == "kernel" and "nccl" in e["name"]]
        ends.append([round((e["ts"] + e["dur"]) * 1000) for e in shared])
        sequences.append([e["args"]["Seq"] for e in shared])
    assert ends[0] == ends[1]
    assert sequences[0] == sequences[1] == [*range(1, 1 + len(ends[0]))]


def test_other_readers_are_given_all_events(tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    file.write_text(SMALL)
    loads = _script("loads")
    assert loads.duckdb([str(file), str(file)])["rows"] == 14
    assert loads.json_load([str(file)])["rows"] == 7


def test_a_part_that_is_measured_again_takes_its_own_place(tmp_path: Path) -> None:
    run, file = _script("run"), tmp_path / "RESULTS.md"
    for part, text in (("growth", "one"), ("start", "two"), ("growth", "three")):
        run.keep(file, part, f"## {part}\n\n{text}\n")
    assert file.read_text().split("\n\n") == [
        "# Results of `make bench`", "## start", "two", "## growth", "three\n"
    ]  # fmt: skip
