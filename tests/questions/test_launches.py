"""Launch phases A, Q, K, T."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

import stepscope
from stepscope.query.ask import ask
from stepscope.questions import find

LAUNCHES = {
    "host_event": [
        {"id": 1, "kind": "runtime", "name": "cudaLaunchKernel", "start_ns": 0, "dur_ns": 10},
        {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "start_ns": 20, "dur_ns": 10},
        {"id": 3, "kind": "runtime", "name": "cuLaunchKernel", "start_ns": 100, "dur_ns": 20},
    ],
    "device_event": [
        {"name": "gemm", "start_ns": 15, "dur_ns": 20, "launch_id": 1},
        {"name": "gemm", "start_ns": 36, "dur_ns": 40, "launch_id": 2},
        {"name": "triton", "start_ns": 110, "dur_ns": 5, "launch_id": 3},
        {"name": "lost", "start_ns": 500, "dur_ns": 7},
        {"name": "Memcpy", "kind": "copy", "start_ns": 600, "dur_ns": 7, "launch_id": 1},
    ],
}


def test_the_four_phases_by_kernel(diff: Any) -> None:
    diff(
        "launches",
        LAUNCHES,
        """
        name,kernels,launches,api_ns,queued,queue_ns,kernel_ns,total_ns,unlinked
        gemm,2,2,20,2,11,60,91,0
        triton,1,1,20,0,0,5,20,0
        lost,0,0,,0,,,,1
        """,
    )


def test_means_and_medians_by_call_leave_out_launches_that_did_not_queue(diff: Any) -> None:
    diff(
        "launches",
        {**LAUNCHES, "device_event": LAUNCHES["device_event"][:3]},
        """
        call,api_mean_ns,api_median_ns,queue_mean_ns,queue_median_ns,kernel_mean_ns,total_mean_ns,total_median_ns
        cudaLaunchKernel,10.0,10.0,5.5,5.5,30.0,45.5,45.5
        cuLaunchKernel,20.0,20.0,,,5.0,20.0,20.0
        """,
        by="call",
    )


def test_a_launch_of_many_kernels_counts_once(diff: Any) -> None:
    rows = {
        "host_event": [{"id": 1, "kind": "runtime", "name": "cudaGraphLaunch", "start_ns": 0, "dur_ns": 10}],
        "device_event": [
            {"name": "b", "start_ns": 30, "dur_ns": 10, "launch_id": 1},
            {"name": "a", "start_ns": 50, "dur_ns": 10, "launch_id": 1},
            {"name": "b", "start_ns": 70, "dur_ns": 30, "launch_id": 1},
        ],
    }
    diff("launches", rows, "name,kernels,launches,api_ns,queue_ns,kernel_ns,total_ns\nb,2,1,10,20,40,100\na,1,0,,,10,")
    diff("launches", rows, "rank,kernels,launches,api_ns,total_ns\n0,3,1,10,100", by="rank")


def test_launches_that_stand_out(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 50_000},
            {"id": 2, "kind": "runtime", "start_ns": 100_000, "dur_ns": 50_001},
            {"id": 3, "kind": "runtime", "start_ns": 200_000, "dur_ns": 1_000},
            {"id": 4, "kind": "runtime", "start_ns": 300_000, "dur_ns": 1_000},
        ],
        "device_event": [
            {"start_ns": 60_000, "dur_ns": 49_999, "launch_id": 1},
            {"start_ns": 160_000, "dur_ns": 10, "launch_id": 2},
            {"start_ns": 301_000, "dur_ns": 1_000, "launch_id": 3},
            {"start_ns": 401_001, "dur_ns": 1_000, "launch_id": 4},
        ],
    }
    diff("launches", rows, "short_kernels,slow_calls,late_starts\n1,1,1")


def test_ranks_with_equal_ids_are_not_mixed(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 10},
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 30, "rank": 1},
        ],
        "device_event": [
            {"start_ns": 40, "dur_ns": 1, "launch_id": 1},
            {"start_ns": 40, "dur_ns": 2, "launch_id": 1, "rank": 1},
        ],
    }
    diff("launches", rows, "rank,api_ns,kernel_ns,total_ns\n1,30,2,42\n0,10,1,41", by="rank")


def recording(*work: tuple[int | None, int, int, int], **tables: Any) -> dict[str, Any]:
    """Work as (launched at or None, start, duration, stream), with its launch calls, which end then."""
    return {
        "host_event": [
            {"id": number, "kind": "runtime", "role": "launch", "start_ns": launch - 2, "dur_ns": 2}
            for number, (launch, *_) in enumerate(work)
            if launch is not None
        ],
        "device_event": [
            {"start_ns": start, "dur_ns": dur, "stream": stream} | ({} if launch is None else {"launch_id": number})
            for number, (launch, start, dur, stream) in enumerate(work)
        ],
        **tables,
    }


QUEUE = "stream,window_ns,started,mean_queued,max_queued,queued_ns,running_ns,starved_ns,empty_ratio"


def test_work_is_queued_from_its_launch_until_it_starts(diff: Any) -> None:
    rows = recording(
        (0, 20, 30, 7),
        (10, 50, 10, 7),  # from 10 to 20 two wait on stream 7
        (20, 40, 5, 8),
        (80, 90, 10, 7),  # from 60 to 80 there is nothing to do
        step=[{"end_ns": 100}],
    )
    diff(
        "launches",
        rows,
        f"""
        {QUEUE}
        ,100,4,0.9,2,60,20,20,0.4
        7,100,3,0.7,2,60,20,20,0.4
        8,100,1,0.2,1,20,5,75,0.8
        """,
        by="stream",
    )


def test_pieces_of_time_follow_the_queue(diff: Any) -> None:
    rows = recording((2, 1_500, 1_000, 7), step=[{"end_ns": 2_500}])
    diff(
        "launches",
        rows,
        """
        stream,start_ns,window_ns,mean_queued,starved_ns
        ,0,1000,0.998,2
        ,1000,1500,0.3333333333333333,0
        7,0,1000,0.998,2
        7,1000,1500,0.3333333333333333,0
        """,
        by="time",
    )


def test_nothing_is_said_of_a_queue_whose_launches_are_not_known(diff: Any) -> None:
    rows = recording((None, 10, 30, 7), (0, 50, 10, 8), step=[{"end_ns": 100}])
    diff(
        "launches",
        rows,
        """
        stream,started,unlinked,mean_queued,queued_ns,running_ns,starved_ns,empty_ratio
        ,2,1,0.5,50,10,40,0.5
        7,1,1,,,,,
        8,1,0,0.5,50,10,40,0.5
        """,
        by="stream",
    )


def test_a_first_launch_that_takes_seconds_is_no_queueing(diff: Any) -> None:
    rows = {
        "host_event": [{"id": 0, "kind": "runtime", "role": "launch", "dur_ns": 2_000}],
        "device_event": [{"start_ns": 2_010, "dur_ns": 30, "launch_id": 0}],
        "step": [{"end_ns": 2_100}],
    }
    diff("launches", rows, "stream,queued_ns,running_ns,starved_ns\n,10,30,2060\n0,10,30,2060", by="stream")


def test_work_that_starts_during_its_call_and_a_copy_that_its_call_waits_for(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 0, "kind": "runtime", "role": "launch", "start_ns": 10, "dur_ns": 20},
            {"id": 1, "kind": "runtime", "role": "copy", "start_ns": 40, "dur_ns": 50},
        ],
        "device_event": [
            {"start_ns": 20, "dur_ns": 15, "launch_id": 0},
            {"start_ns": 60, "dur_ns": 25, "launch_id": 1, "kind": "copy"},
        ],
        "step": [{"end_ns": 100}],
    }
    diff("launches", rows, "stream,max_queued,queued_ns,starved_ns\n,1,20,40\n0,1,20,40", by="stream")


def test_a_queue_at_its_limit_is_blocked_and_a_graph_is_one_launch(diff: Any) -> None:
    rows = recording(
        (2, 20, 5, 7),
        (4, 30, 5, 7),  # from 2 to 20 two launches are outstanding
        (40, 60, 5, 8),
        (40, 70, 5, 8),
        (50, 80, 5, 8),  # three pieces of two launches from 48 to 60
        step=[{"end_ns": 100}],
    )
    rows["device_event"][3]["launch_id"] = 2
    expected = """
        stream,max_queued,max_launches,blocked_ns
        ,3,2,30
        7,2,2,18
        8,3,2,12
        """
    diff("launches", rows, expected, limit=2, by="stream")
    diff("launches", rows, "stream,blocked_ns\n,0\n7,0\n8,0", by="stream")


WORK = st.lists(
    st.tuples(st.none() | st.integers(0, 45), st.integers(0, 40), st.integers(0, 12), st.integers(0, 1)),
    min_size=1,
    max_size=7,
)


@examples(15)
@given(WORK, st.integers(0, 30), st.integers(1, 30))
def test_it_is_what_counting_at_every_nanosecond_gives(work: list[Any], first: int, length: int) -> None:
    edges = [first, first + 9, first + 9 + length]
    steps = [{"step": n + 1, "start_ns": edges[n], "end_ns": edges[n + 1]} for n in (0, 1)]
    with literal_store(recording(*work, step=steps)) as store:
        answers = {
            None: ask(find("launches"), store, by="stream").rows(),
            1: ask(find("launches"), store, by="stream", steps=[1]).rows(),
            2: ask(find("launches"), store, by="stream", steps=[2]).rows(),
        }
        by_step = ask(find("launches"), store, by="step").rows()
    for step, rows in answers.items():
        at_times = range(edges[0 if step is None else step - 1], edges[step or 2])
        for row in rows:
            own = [piece for piece in work if row["stream"] in (None, piece[3])]
            if all(launch is None for launch, *_ in own):
                assert row["queued_ns"] is None
                continue
            waiting = [sum(launch is not None and launch <= at < start for launch, start, *_ in own) for at in at_times]
            running = [any(start <= at < start + dur for _, start, dur, _ in own) for at in at_times]
            empty = [not count for count in waiting]
            assert row["mean_queued"] == pytest.approx(sum(waiting) / len(at_times))
            assert row["max_queued"] == max(waiting)
            assert row["queued_ns"] == len(at_times) - sum(empty)
            assert row["running_ns"] == sum(a and b for a, b in zip(empty, running, strict=True))
            assert row["queued_ns"] + row["running_ns"] + row["starved_ns"] == row["window_ns"]
            assert row["started"] == sum(start in at_times for _, start, *_ in own)
    for step in (1, 2):
        same = [{k: v for k, v in row.items() if k in answers[step][0]} for row in by_step if row["step"] == step]
        assert same == answers[step]


@pytest.mark.traces
@pytest.mark.parametrize(
    "trace", ["resnet50_v100", "ddp_v100_rank1of2", "vllm_decode_graph", "gpu_only_mi210", "event_sync"]
)
def test_parts_and_streams_of_real_traces_add_up(shared_traces: Any, trace: str) -> None:
    with stepscope.open(shared_traces / "kineto" / trace) as opened:
        for by in ("stream", "step", "time"):
            rows = opened.ask("launches", by=by).rows()
            for row in rows:
                if row["queued_ns"] is not None:
                    parts = row["queued_ns"] + row["running_ns"] + row["starved_ns"]
                    assert parts == row["window_ns"]
            for count in ("started", "unlinked"):
                totals = [
                    sum(row[count] for row in rows if (row["stream"] is None) is of_device)
                    for of_device in (True, False)
                ]
                assert totals[0] == totals[1]
