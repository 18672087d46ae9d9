"""The critical path of recordings of a few events, which can be followed by eye."""

from typing import Any

import pytest

import stepscope


def call(number: int, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    """A runtime call; a launch unless its role is given."""
    return {"id": number, "kind": "runtime", "role": "launch", "name": name, "start_ns": start, "dur_ns": end - start} | more  # fmt: skip


def operator(number: int, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "operator", "name": name, "start_ns": start, "dur_ns": end - start} | more  # fmt: skip


def kernel(number: int, name: str, launch: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "computation", "name": name, "launch_id": launch, "start_ns": start, "dur_ns": end - start, "stream": 7, "step": 0} | more  # fmt: skip


ONE_STREAM = {
    "host_event": [
        operator(0, "aten::mm", 0, 40_000),
        call(1, "cudaLaunchKernel", 20_000, 25_000, parent_id=0, depth=1),
        operator(2, "aten::add", 40_000, 50_000),
        call(3, "cudaLaunchKernel", 42_000, 46_000, parent_id=2, depth=1),
        call(4, "cudaDeviceSynchronize", 50_000, 203_000, role="synchronize"),
    ],
    "device_event": [kernel(10, "gemm", 1, 30_000, 130_000), kernel(11, "relu_kernel", 3, 131_000, 200_000)],
    "step": [{"step": 0, "end_ns": 203_000, "host_end_ns": 203_000}],
}


def test_the_path_goes_back_through_the_stream_to_the_launch(diff: Any) -> None:
    # The second operator is hidden under the first kernel, and the wait under both.
    diff(
        "critical-path",
        ONE_STREAM,
        """
        step,start_ns,kind,class,name,path_ns
        0,0,operator,,aten::mm,20000
        0,20000,launch,,cudaLaunchKernel,5000
        0,25000,launch delay,,gemm,5000
        0,30000,computation,GEMM,gemm,100000
        0,130000,kernel gap,,relu_kernel,1000
        0,131000,computation,element-wise,relu_kernel,69000
        0,200000,synchronization,,cudaDeviceSynchronize,3000
        """,
        by="piece",
    )


def test_kinds_add_up_and_name_what_is_largest(diff: Any) -> None:
    diff(
        "critical-path",
        ONE_STREAM,
        """
        kind,class,pieces,path_ns,step_ns,max_part,max_part_ns
        computation,GEMM,1,100000,100000.0,gemm,100000
        computation,element-wise,1,69000,69000.0,relu_kernel,69000
        operator,,1,20000,20000.0,aten::mm,20000
        launch,,1,5000,5000.0,cudaLaunchKernel,5000
        launch delay,,1,5000,5000.0,gemm,5000
        synchronization,,1,3000,3000.0,cudaDeviceSynchronize,3000
        kernel gap,,1,1000,1000.0,relu_kernel,1000
        """,
    )


def test_the_parts_of_a_step_are_its_time(diff: Any) -> None:
    diff(
        "critical-path",
        ONE_STREAM,
        """
        step,start_ns,host_ns,input_ns,launch_ns,computation_ns,transfer_ns,communication_ns,waiting_ns,copy_ns,synchronization_ns,idle_ns,total_ns
        0,0,20000,0,10000,169000,0,0,0,0,3000,1000,203000
        """,
        by="step",
    )


def test_what_a_loader_does_within_the_loop_is_input(diff: Any) -> None:
    loader = operator(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10_000, 60_000)
    rows = {
        "host_event": [
            loader | {"kind": "annotation", "role": "dataloader"},
            operator(1, "aten::stack", 20_000, 50_000, parent_id=0, depth=1),
            operator(2, "aten::mm", 60_000, 80_000),
        ],
        "step": [{"step": 0, "end_ns": 80_000, "host_end_ns": 80_000}],
    }
    expected = """
        kind,path_ns,max_part
        input wait,50000,aten::stack
        operator,20000,aten::mm
        between operators,10000,(nothing recorded)
        """
    diff("critical-path", rows, expected)


def test_another_thread_is_followed_while_the_first_one_waits(diff: Any) -> None:
    rows = {
        "thread": [{"thread": 0}, {"thread": 1}],
        "host_event": [
            operator(0, "forward", 0, 20_000),
            operator(1, "backward", 30_000, 90_000, thread=1),
            operator(2, "optimizer", 95_000, 120_000),
        ],
        "step": [{"step": 0, "end_ns": 120_000, "host_end_ns": 120_000}],
    }
    diff(
        "critical-path",
        rows,
        """
        start_ns,kind,name,path_ns
        0,operator,forward,20000
        20000,between operators,,10000
        30000,operator,backward,60000
        90000,between operators,,5000
        95000,operator,optimizer,25000
        """,
        by="piece",
    )


def two_streams(**wait: Any) -> dict[str, Any]:
    """A collective waits for a kernel of another stream, 12 µs after its end."""
    return {
        "host_event": [
            call(0, "cudaLaunchKernel", 0, 5_000, correlation=1),
            call(1, "cudaEventRecord", 5_000, 6_000, role=None, correlation=2),
            call(2, "cudaStreamWaitEvent", 6_000, 7_000, role="synchronize", correlation=3),
            call(3, "cudaLaunchKernel", 7_000, 9_000, correlation=4),
        ],
        "device_event": [
            kernel(10, "gemm", 0, 10_000, 60_000),
            kernel(11, "reduce", 3, 72_000, 90_000, stream=20),
            *([{"id": 12, "kind": "sync", "role": "stream for event", "name": "Stream Wait Event", "stream": 20,
                "start_ns": 6_000, "dur_ns": 1_000, "correlation": 3, **wait}] if wait else []),
        ],
        "step": [{"step": 0, "end_ns": 90_000, "host_end_ns": 9_000}],
    }  # fmt: skip


PATH_OVER_STREAMS = """
    start_ns,kind,name,path_ns
    0,launch,cudaLaunchKernel,5000
    5000,launch delay,gemm,5000
    10000,computation,gemm,50000
    60000,kernel gap,reduce,12000
    72000,computation,reduce,18000
    """


def test_a_recorded_wait_leads_to_the_other_stream(diff: Any) -> None:
    rows = two_streams(wait_on_stream=7, wait_on_correlation=2)
    diff("critical-path", rows, PATH_OVER_STREAMS, by="piece")


def test_without_records_the_order_of_calls_tells_it(diff: Any) -> None:
    diff("critical-path", two_streams(), PATH_OVER_STREAMS, by="piece")


def test_work_that_starts_just_after_other_work_waited_for_it(diff: Any) -> None:
    rows = two_streams()
    rows["host_event"] = [one for one in rows["host_event"] if one["id"] in (0, 3)]
    rows["device_event"][1].update(start_ns=66_000, dur_ns=24_000)
    diff(
        "critical-path",
        rows,
        """
        start_ns,kind,name,path_ns
        0,launch,cudaLaunchKernel,5000
        5000,launch delay,gemm,5000
        10000,computation,gemm,50000
        60000,kernel gap,reduce,6000
        66000,computation,reduce,24000
        """,
        by="piece",
    )


def test_a_call_waits_for_work_whose_launch_is_not_known(diff: Any) -> None:
    rows = {
        "host_event": [
            operator(0, "aten::mm", 0, 20_000),
            call(1, "cudaStreamSynchronize", 20_000, 95_000, role="synchronize"),
        ],
        "device_event": [
            {"id": 10, "kind": "computation", "name": "gemm", "stream": 7, "start_ns": 30_000, "dur_ns": 60_000}
        ],
        "step": [{"step": 0, "end_ns": 95_000, "host_end_ns": 95_000}],
    }
    expected = """
        start_ns,kind,name,path_ns
        0,unexplained,,30000
        30000,computation,gemm,60000
        90000,synchronization,cudaStreamSynchronize,5000
        """
    diff("critical-path", rows, expected, by="piece")


def test_a_recorded_wait_is_believed_where_clocks_are_a_little_apart(diff: Any) -> None:
    # The copy ends 4 µs after the call that waited for it, and the first launch has no correlation.
    rows = {
        "host_event": [
            call(0, "cudaLaunchKernel", 0, 5_000),
            call(1, "cudaStreamSynchronize", 6_000, 60_000, role="synchronize", correlation=3),
        ],
        "device_event": [
            kernel(10, "gemm", 0, 10_000, 64_000),
            {"id": 11, "kind": "sync", "role": "host for stream", "name": "Stream Sync", "stream": 7,
             "start_ns": 6_000, "dur_ns": 54_000, "correlation": 3},
        ],
        "step": [{"step": 0, "end_ns": 60_000, "host_end_ns": 60_000}],
    }  # fmt: skip
    rows["device_event"][0]["step"] = None
    expected = """
        start_ns,kind,name,path_ns
        0,launch,cudaLaunchKernel,5000
        5000,launch delay,gemm,5000
        10000,computation,gemm,50000
        """
    diff("critical-path", rows, expected, by="piece")


def test_a_long_wait_without_a_reason_is_unexplained(diff: Any) -> None:
    rows = two_streams()
    rows["host_event"] = [one for one in rows["host_event"] if one["id"] in (0, 3)]
    rows["device_event"][1].update(start_ns=172_000)
    rows["step"] = [{"step": 0, "end_ns": 190_000, "host_end_ns": 9_000}]
    diff(
        "critical-path",
        rows,
        """
        kind,path_ns
        unexplained,155000
        computation,18000
        launch delay,8000
        launch,7000
        between operators,2000
        """,
    )


def matched(uncertainty: int | None = 0, last: int | None = 1) -> dict[str, Any]:
    """Two ranks meet in a collective for which rank 1 is 40 µs late."""
    both: dict[str, list[Any]] = {"host_event": [], "device_event": [], "step": [], "collective": [], "rank": []}
    for rank, late in ((0, 0), (1, 40_000)):
        both["rank"].append({"rank": rank, "clock_uncertainty_ns": uncertainty})
        both["host_event"] += [
            operator(0, "aten::mm", 0, 20_000 + late, rank=rank),
            call(1, "cudaLaunchKernel", 20_000 + late, 24_000 + late, rank=rank),
        ]
        both["device_event"].append(
            kernel(10, "ncclAllReduce", 1, 30_000 + late, 100_000, kind="communication", rank=rank)
        )
        both["step"].append({"rank": rank, "step": 0, "end_ns": 100_000, "host_end_ns": 24_000 + late})
        both["collective"].append({"rank": rank, "id": 10, "match_id": 5, "last_rank": last, "start_ns": 30_000 + late,
                                   "end_ns": 100_000, "wait_ns": 40_000 - late, "transfer_ns": 30_000})  # fmt: skip
    return both


def over_gloo() -> dict[str, Any]:
    """Two ranks whose loops wait for a collective on a thread of the library's; rank 1 is 80 µs late."""
    both: dict[str, list[Any]] = {name: [] for name in ("host_event", "step", "collective", "rank")}
    for rank, start in ((0, 20_000), (1, 100_000)):
        both["rank"].append({"rank": rank, "clock_uncertainty_ns": 0})
        exchange = {"role": "communication", "thread": 9, "start_ns": start, "dur_ns": 110_000 - start}
        both["host_event"] += [
            operator(0, "aten::mm", 0, start, rank=rank, thread=1),
            {"id": 1, "rank": rank, "kind": "annotation", "name": "gloo:all_reduce", **exchange},
            operator(2, "aten::add", 110_000, 120_000, rank=rank, thread=1),
        ]
        both["step"].append({"rank": rank, "step": 0, "end_ns": 120_000, "host_end_ns": 120_000})
        both["collective"].append({"rank": rank, "host_id": 1, "match_id": 5, "last_rank": 1, "start_ns": start,
                                   "end_ns": 110_000, "wait_ns": 100_000 - start, "operation": "all_reduce"})  # fmt: skip
    return both


def test_collectives_of_the_host_meet_as_those_of_devices_do(diff: Any) -> None:
    diff(
        "critical-path",
        over_gloo(),
        """
        rank,start_ns,kind,name,path_ns
        1,0,operator,aten::mm,100000
        0,100000,transfer,gloo:all_reduce,10000
        0,110000,operator,aten::add,10000
        """,
        by="piece",
    )


def test_at_a_collective_the_path_goes_on_at_the_last_rank(diff: Any) -> None:
    diff(
        "critical-path",
        matched(),
        """
        rank,start_ns,kind,name,path_ns
        1,0,operator,aten::mm,60000
        1,60000,launch,cudaLaunchKernel,4000
        1,64000,launch delay,ncclAllReduce,6000
        0,70000,transfer,ncclAllReduce,30000
        """,
        by="piece",
    )


ALONE = """
    start_ns,kind,name,path_ns
    0,operator,aten::mm,20000
    20000,launch,cudaLaunchKernel,4000
    24000,launch delay,ncclAllReduce,6000
    30000,waiting for a rank,ncclAllReduce,40000
    70000,transfer,ncclAllReduce,30000
    """


def test_of_one_rank_the_wait_for_others_is_told_apart(diff: Any) -> None:
    diff("critical-path", matched(), ALONE, by="piece", ranks=[0])


@pytest.mark.parametrize(("uncertainty", "last"), [(50_000, 1), (0, None)])
def test_where_clocks_do_not_tell_who_was_last_the_path_stays(uncertainty: int, last: int | None, diff: Any) -> None:
    diff(
        "critical-path",
        matched(uncertainty, last),
        """
        rank,start_ns,kind,path_ns
        0,0,operator,20000
        0,20000,launch,4000
        0,24000,launch delay,6000
        0,30000,transfer,70000
        """,
        by="piece",
    )


@pytest.mark.traces
def test_eight_ranks_wait_for_the_one_that_came_last(shared_traces: Any) -> None:
    with stepscope.open(shared_traces / "kineto" / "dlrm_8rank_v100") as trace:
        pieces = trace.critical_path(by="piece").rows()
        (step,) = trace.sql("SELECT max(end_ns) - min(start_ns) AS ns FROM step").rows()
    assert sum(piece["path_ns"] for piece in pieces) == step["ns"]
    (transfer,) = [piece for piece in pieces if piece["kind"] == "transfer"]
    before = [piece for piece in pieces if piece["start_ns"] < transfer["start_ns"]]
    # The first all-to-all waits for rank 7, whose host thread is what nobody else is late for.
    assert {piece["rank"] for piece in before} == {7}
    assert sum(piece["path_ns"] for piece in before if piece["kind"] == "between operators") > 6e6
