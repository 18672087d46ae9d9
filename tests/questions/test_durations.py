"""Histograms of single events, held against counting one by one."""

import gzip
import json
from collections import Counter
from math import cbrt, ceil, floor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

import stepscope
from stepscope.query.ask import ask
from stepscope.query.event_filter import EventFilter
from stepscope.questions import find

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"
ROWS = {
    "step": [{"step": n, "start_ns": 10_000 * n, "end_ns": 10_000 * n + 5_000} for n in range(3)],
    "host_event": [
        {"id": 1, "name": "aten::mm", "start_ns": 0, "dur_ns": 100},
        {"id": 2, "name": "aten::mm", "start_ns": 200, "dur_ns": 130},
        {"id": 3, "name": "aten::mm", "start_ns": 400, "dur_ns": 100},
        {"id": 4, "name": "aten::mm", "start_ns": 600, "dur_ns": 6_399},
        {"id": 5, "name": "forward", "kind": "annotation", "start_ns": 0, "dur_ns": 7_000},
        {"id": 6, "name": "ProfilerStep#1", "kind": "annotation", "role": "step", "start_ns": 0, "dur_ns": 9_000},
        {"id": 7, "name": "cudaLaunchKernel", "kind": "runtime", "start_ns": 700, "dur_ns": 0},
    ],
    "device_event": [
        {"id": 1, "name": "gemm", "start_ns": 0, "dur_ns": 90},
        {"id": 2, "name": "Memcpy HtoD", "kind": "copy", "start_ns": 100, "dur_ns": 9},
        {"id": 3, "name": "a wait", "kind": "sync", "start_ns": 200, "dur_ns": 5_000},
    ],
}


def test_a_slow_first_call_leaves_the_others_apart(diff: Any) -> None:
    diff(
        "durations",
        ROWS,
        """
        name,from_ns,to_ns,count,count_share_ratio,total_ns,share_ratio,start_ns,dur_ns
        aten::mm,100,282,3,0.75,330,0.049041462327240305,200,130
        aten::mm,2262,6400,1,0.25,6399,0.9509585376727597,600,6399
        """,
    )


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("annotation", "forward,7000,7001,1"),
        ("runtime", "cudaLaunchKernel,0,1,1"),
        ("device", "gemm,90,91,1\nMemcpy HtoD,9,10,1"),
        ("step", "step,5000,5001,3"),
    ],
)
def test_each_form_has_its_events_and_no_others(diff: Any, by: str, expected: str) -> None:
    diff("durations", ROWS, f"name,from_ns,to_ns,count\n{expected}", by=by)


def test_one_name_is_asked_for_as_it_is_spelled(diff: Any) -> None:
    rows = {"host_event": [{"id": n, "name": name, "dur_ns": 5} for n, name in enumerate(("aten::*", "aten::mm"))]}
    diff("durations", rows, "name,count\naten::*,1", event="aten::*")
    diff("durations", rows, "name,count", event="mm")


def test_a_report_may_pick_the_rows_of_a_name(answer: Any) -> None:
    (event,) = (one for one in find("durations").parameters if one.picks is not None)
    (column,) = event.picks
    for by in ("operator", "device"):
        rows = answer("durations", ROWS, by=by).rows()
        for name in {row["name"] for row in rows}:
            picked = [row for row in rows if row[column] == name]
            assert answer("durations", ROWS, by=by, **{event.name: name}).rows() == picked


def test_what_a_window_cuts_is_not_short(diff: Any) -> None:
    diff("durations", ROWS, "name,from_ns,count\naten::mm,6399,1", part=EventFilter(window=(5_000, 6_000)))


def test_what_a_bin_holds_comes_from_every_rank(diff: Any) -> None:
    events = [{"rank": rank, "id": 1, "name": "aten::mm", "start_ns": 7, "dur_ns": 50} for rank in (0, 1)]
    diff("durations", {"host_event": events}, "rank,start_ns,count\n0,7,2")


TIMES = st.one_of(st.integers(0, 40), st.integers(0, 2**53))


def edges(times: list[int]) -> list[int]:
    """Of the bins of these durations, as the question's page has it."""
    low, end = min(times), max(times) + 1
    bins = min(20, ceil(2 * cbrt(len(times))))
    unit = max(low, 1)
    inner = [min(max(low, floor(unit * (end / unit) ** (edge / bins))), end) for edge in range(1, bins)]
    return sorted({low, *inner, end})


@given(st.dictionaries(st.sampled_from("abc"), st.lists(TIMES, min_size=1, max_size=40)))
@examples(40)
def test_every_event_is_counted_once_between_the_edges(durations: dict[str, list[int]]) -> None:
    events = [{"name": name, "dur_ns": one} for name, times in durations.items() for one in times]
    with literal_store({"device_event": events}) as store:
        found = ask(find("durations"), store, by="device").rows()
    counted: dict[str, int] = Counter()
    for row in found:
        times = durations[row["name"]]
        own = [one for one in times if row["from_ns"] <= one < row["to_ns"]]
        assert (row["count"], row["total_ns"], row["dur_ns"]) == (len(own), sum(own), max(own))
        assert row["count_share_ratio"] == len(own) / len(times)
        counted[row["name"]] += len(own)
    assert counted == {name: len(times) for name, times in durations.items()}
    assert len(found) == len({(row["name"], row["from_ns"]) for row in found})
    for name, times in durations.items():
        own = [row for row in found if row["name"] == name]
        cuts = edges(times)
        # Powers may differ by a unit in the last place, between Python and DuckDB.
        near = [min(abs(row[end] - cut) / max(cut, 1) for cut in cuts) for row in own for end in ("from_ns", "to_ns")]
        assert max(near) < 1e-9 or max(times) < 100


@pytest.mark.traces
@pytest.mark.parametrize(
    ("by", "category"), [("operator", "cpu_op"), ("device", "kernel"), ("runtime", "cuda_runtime")]
)
def test_a_recorded_traces_calls_are_those_of_its_file(by: str, category: str) -> None:
    folder = TRACES / "bert_small_h100"
    with gzip.open(folder / "trace.json.gz", "rt") as file:
        events = [one for one in json.load(file)["traceEvents"] if one.get("cat") == category and one["ph"] == "X"]
    recorded: dict[str, list[float]] = {}
    for event in events:
        recorded.setdefault(event["name"], []).append(event["dur"])
    with stepscope.open(folder) as trace:
        rows = trace.durations(by=by).rows()
    counted: dict[str, int] = Counter()
    for row in rows:
        if row["name"] in recorded:
            low, high = row["from_ns"] / 1000, row["to_ns"] / 1000
            assert row["count"] == sum(low <= round(one, 3) < high for one in recorded[row["name"]]), row
            counted[row["name"]] += row["count"]
    assert counted == {name: len(times) for name, times in recorded.items()}
