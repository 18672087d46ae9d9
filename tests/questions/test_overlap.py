"""Which types of work ran at once, how much communication is hidden, and which kernels it slows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

import stepscope
from stepscope.query.ask import ask
from stepscope.questions import find


def work(kind: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "start_ns": start, "dur_ns": end - start, **more}


def test_hidden_and_exposed_time_are_told_apart_by_device(diff: Any) -> None:
    diff(
        "device-time",
        {
            "device_event": [
                work("communication", 0, 100, stream=1),
                work("communication", 50, 120, stream=2),  # at once with the first
                work("computation", 40, 90),
                work("copy", 90, 110),
                work("computation", 0, 10, device=1),
            ]
        },
        """
        rank,device,communication_ns,hidden_communication_ns,exposed_communication_ns,overlap_ratio,computation_ns
        0,0,120,50,70,0.4166666666666667,50
        0,1,0,0,0,,10
        """,
    )


def test_types_that_run_at_once_are_a_row_of_their_own(diff: Any) -> None:
    diff(
        "overlap",
        {
            "device_event": [
                work("computation", 0, 50),
                work("fill", 50, 60),
                work("communication", 30, 80),
                work("copy", 40, 90),
                work("copy", 95, 100),
            ]
        },
        """
        types,time_ns,span_ratio
        computation,30,0.3
        computation + communication + copy,20,0.2
        communication + copy,20,0.2
        copy,15,0.15
        computation + communication,10,0.1
        idle,5,0.05
        """,
    )


EVENTS = st.lists(
    st.tuples(st.sampled_from(["computation", "fill", "communication", "copy"]), st.integers(0, 30), st.integers(0, 9)),
    min_size=1,
    max_size=7,
)


@examples(25)
@given(EVENTS)
def test_types_are_what_counting_at_every_nanosecond_gives(events: list[Any]) -> None:
    rows = [work(kind, start, start + length) for kind, start, length in events]
    with literal_store({"device_event": rows}) as store:
        answered = {row["types"]: row["time_ns"] for row in ask(find("overlap"), store).rows()}
    first, last = min(e[1] for e in events), max(e[1] + e[2] for e in events)
    counted: dict[str, int] = {}
    for moment in range(first, last):
        ran = {k.replace("fill", "computation") for k, at, ns in events if at <= moment < at + ns}
        types = " + ".join(t for t in ("computation", "communication", "copy") if t in ran)
        counted[types or "idle"] = counted.get(types or "idle", 0) + 1
    counted.setdefault("idle", 0)
    assert answered == counted


def runs(name: str, lengths: list[int], start: int, **more: Any) -> list[dict[str, Any]]:
    return [
        work("computation", start + 100 * n, start + 100 * n + ns, name=name, **more) for n, ns in enumerate(lengths)
    ]


def test_a_kernel_beside_communication_is_compared_with_the_same_without(answer: Any) -> None:
    rows = {
        "device_event": [
            work("communication", 0, 1000, stream=9),
            *runs("slow", [30, 31, 29, 30, 30], 0),
            *runs("slow", [20, 21, 19, 20, 20], 2000),
            *runs("alike", [20, 22, 18, 20, 20], 500),
            *runs("alike", [20, 21, 19, 20, 20], 3000),
            *runs("slow", [60] * 5, 4000, grid_x=7),  # of another shape, never beside
            *runs("rare", [90] * 4, 0),
            *runs("rare", [10] * 9, 5000),
            *runs("half", [40] * 5, 980),  # the first runs on without it
        ]
    }
    table = answer("overlap", rows, by="kernel")
    slow, alike = table.rows()
    assert (slow["name"], slow["overlapped"], slow["isolated"]) == ("slow", 5, 5)
    assert (slow["isolated_mean_ns"], slow["overlapped_mean_ns"]) == (20, 30)
    assert slow["slower_ratio"] == pytest.approx(0.5)
    assert 0.4 < slow["slower_low_ratio"] < 0.5 < slow["slower_high_ratio"] < 0.6
    assert slow["slowdown_ns"] == 50
    assert alike["slower_low_ratio"] < 0 < alike["slower_high_ratio"]
    assert "1 kernels" in table.note


def test_of_few_runs_nothing_is_said(answer: Any) -> None:
    rows = {"device_event": [work("communication", 0, 500), *runs("k", [30] * 4, 0)]}
    assert answer("overlap", rows, by="kernel").rows() == []


@pytest.mark.traces
@pytest.mark.parametrize("trace", ["ddp_v100_rank1of2", "dlrm_8rank_v100", "nccl_args_a100"])
def test_types_add_up_to_device_time(shared_traces: Any, trace: str) -> None:
    with stepscope.open(shared_traces / "kineto" / trace) as opened:
        for by in ("device", "step"):
            devices = opened.device_time(by=by).rows()
            types = opened.overlap(by=by).rows()
            assert sum(row["time_ns"] for row in types) == sum(row["span_ns"] for row in devices)
            for kind in ("computation", "communication", "copy"):
                assert sum(row["time_ns"] for row in types if kind in row["types"]) == sum(
                    row[f"{kind}_ns"] for row in devices
                )
