"""What ranks communicate, how long they wait for it, and how fast it is."""

from typing import Any

import pytest
from tests.simulated_job import Job, simulate

import stepscope
from stepscope.query.ask import ask
from stepscope.query.event_filter import EventFilter
from stepscope.questions.communication import communication
from stepscope.store.build import import_source
from stepscope.store.open import Store

REDUCE = {
    "operation": "all_reduce",
    "group_name": "0",
    "group_size": 4,
    "dtype": "Float",
    "library": "nccl",
    "exposed_ns": 0,
}


def recording(*collectives: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """Collectives as rows with `start_ns` and `dur_ns` of their kernels."""
    kernels = [
        {
            "id": 100 + number,
            "kind": "communication",
            "start_ns": one.pop("start_ns", 0),
            "dur_ns": one.pop("dur_ns", 10),
            "rank": one.get("rank", 0),
            "name": "ncclDevKernel_AllReduce",
        }
        for number, one in enumerate(collectives)
    ]
    rows = [{"id": 100 + number} | one for number, one in enumerate(collectives)]
    return {"device_event": kernels, "collective": rows, **tables}


def test_bandwidths_are_those_of_nccl_tests_in_decimal_units(diff: Any) -> None:
    # 8000 bytes in 1000 ns are 8 GB/s; four ranks carry 2 · 3/4 of that over a link.
    diff(
        "communication",
        recording(
            REDUCE | {"bytes": 8000, "dur_ns": 1000},
            REDUCE | {"bytes": 8000, "dur_ns": 3000},
            REDUCE | {"operation": "all_gather", "bytes": 8000, "dur_ns": 500},
            REDUCE | {"operation": "broadcast", "bytes": 8000, "dur_ns": 400},
            REDUCE | {"operation": "all_to_all", "bytes": 8000, "group_size": None, "dur_ns": 200},
            REDUCE | {"operation": "barrier", "dur_ns": 100},
        ),
        """
        operation,calls,total_ns,moved_bytes,algorithm_bytes_per_s,bus_bytes_per_s,bandwidth_over
        all_reduce,2,4000,16000,4000000000.0,6000000000.0,duration
        all_gather,1,500,8000,16000000000.0,12000000000.0,duration
        broadcast,1,400,8000,20000000000.0,20000000000.0,duration
        all_to_all,1,200,8000,40000000000.0,,duration
        barrier,1,100,,,,
        """,
    )


def test_where_waits_are_measured_bandwidth_is_that_of_the_transfer(diff: Any) -> None:
    matched = REDUCE | {"bytes": 8000, "match_id": 3, "exposed_ns": 900}
    diff(
        "communication",
        recording(
            matched | {"dur_ns": 4000, "wait_ns": 3000, "transfer_ns": 1000},
            matched | {"dur_ns": 1000, "wait_ns": 0, "transfer_ns": 1000},
            REDUCE | {"bytes": 8000, "dur_ns": 5000},
        ),
        """
        operation,calls,measured,total_ns,exposed_ns,exposed_ratio,wait_ns,transfer_ns,algorithm_bytes_per_s,bandwidth_over
        all_reduce,3,2,10000,1800,0.18,3000,2000,8000000000.0,transfer
        """,
    )


def test_what_a_library_does_on_its_own_thread_is_for_what_asked_it(diff: Any) -> None:
    exchange = {"kind": "annotation", "role": "communication", "thread": 9, "name": "gloo:all_reduce"}
    call = {"kind": "operator", "role": "communication", "name": "c10d::allreduce_", "dur_ns": 5}
    rows = {
        "host_event": [
            {"id": 0, "kind": "operator", "name": "torch::autograd::AccumulateGrad", "dur_ns": 20},
            {"id": 1, "start_ns": 3, **call},
            {"id": 2, "start_ns": 40, **call},
            {"id": 3, "start_ns": 6, "dur_ns": 30, **exchange},
            {"id": 4, "start_ns": 45, "dur_ns": 10, **exchange},
        ],
        "collective": [
            {"host_id": number, "start_ns": start, "end_ns": end, "operation": "all_reduce", "library": "gloo"}
            for number, start, end in ((3, 6, 36), (4, 45, 55))
        ],
    }  # fmt: skip
    diff(
        "communication",
        rows,
        """
        operation,parallelism,source,calls,total_ns
        all_reduce,data,gradients,1,30
        all_reduce,,,1,10
        """,
    )


def test_parallelism_is_told_by_description_by_hooks_of_gradients_and_by_modules(diff: Any) -> None:
    host = [
        {"id": 0, "kind": "operator", "name": "torch::autograd::AccumulateGrad", "dur_ns": 50},
        {"id": 1, "kind": "operator", "name": "AccumulateGrad", "start_ns": 5, "dur_ns": 9},
        {"id": 2, "kind": "operator", "role": "communication", "start_ns": 20, "dur_ns": 9},
        {"id": 3, "kind": "operator", "role": "communication", "start_ns": 60, "dur_ns": 9,
         "module_id": 4},
        {"id": 4, "kind": "operator", "role": "communication", "start_ns": 80, "dur_ns": 9},
    ]  # fmt: skip
    diff(
        "communication",
        recording(
            REDUCE | {"group_description": "mesh_tp", "dur_ns": 40, "host_id": 2},
            REDUCE | {"group_description": "undefined", "dur_ns": 30, "host_id": 2},
            REDUCE | {"dur_ns": 20, "host_id": 3},
            REDUCE | {"dur_ns": 10, "host_id": 4},
            host_event=host,
            module=[{"module_id": 4, "name": "out", "class": "RowParallelLinear"}],
        ),
        """
        parallelism,source,calls,total_ns
        tensor,description,1,40
        data,gradients,1,30
        tensor,module class,1,20
        ,,1,10
        """,
        by="parallelism",
    )


def test_what_fsdp_gathers_is_told_by_the_module_it_was_launched_in(diff: Any) -> None:
    host = [
        {"id": 0, "kind": "annotation", "name": "FSDP::all_gather", "dur_ns": 50},
        {"id": 1, "kind": "annotation", "name": "FSDP::all_gather_copy_in", "dur_ns": 9},
        {"id": 2, "role": "communication", "start_ns": 20, "module_id": 1},
        {"id": 3, "role": "communication", "start_ns": 60, "module_id": 2},
    ]
    gather = REDUCE | {"operation": "all_gather"}
    diff(
        "communication",
        recording(
            gather | {"host_id": 2, "dur_ns": 30},
            gather | {"host_id": 2, "dur_ns": 30},
            gather | {"host_id": 3, "dur_ns": 10},
            host_event=host,
            module=[{"module_id": 1, "name": "layers.0"}, {"module_id": 2, "name": "layers.1"}],
        ),
        """
        module,operation,parallelism,source,calls,total_ns
        layers.0,all_gather,data,FSDP,2,60
        layers.1,all_gather,,,1,10
        """,
        by="module",
    )


def test_a_product_that_communicates_is_named_and_not_counted(answer: Any) -> None:
    rows = recording(REDUCE | {})
    rows["device_event"] += [{"kind": "computation", "name": "gemm_allreduce_kernel"}] * 2
    table = answer("communication", rows)
    assert [row["calls"] for row in table.rows()] == [1]
    assert "2 kernels multiply and communicate in one" in table.note


def test_gloo_counts_though_no_kernel_runs(diff: Any) -> None:
    diff(
        "communication",
        {
            "host_event": [
                {"id": 0, "kind": "annotation", "role": "communication", "name": "gloo:all_reduce",
                 "dur_ns": 70},
                {"id": 1, "kind": "annotation", "role": "communication", "name": "nccl:all_reduce",
                 "dur_ns": 9},
            ],
            "collective": [{"host_id": 0, "operation": "all_reduce", "library": "gloo"}],
        },
        "operation,library,calls,total_ns,exposed_ns\nall_reduce,gloo,1,70,",
    )  # fmt: skip


def test_what_a_window_cuts_counts_in_proportion(answer: Any) -> None:
    rows = recording(REDUCE | {"bytes": 8000, "dur_ns": 1000, "exposed_ns": 500})
    (row,) = answer("communication", rows, part=EventFilter(window=(0, 250))).rows()
    assert (row["total_ns"], row["exposed_ns"], row["moved_bytes"]) == (250, 125, 2000)


@pytest.mark.traces
@pytest.mark.parametrize(
    "trace",
    ["nccl_args_a100", "ddp_a100_rank3of8", "dlrm_8rank_v100", "alltoall_rank0of16",
     "eager_b200_rank0of8"],
)  # fmt: skip
def test_exposed_times_add_up_to_those_of_device_time(shared_traces: Any, trace: str) -> None:
    with stepscope.open(shared_traces / "kineto" / trace) as opened:
        own = opened.communication(by="rank").rows()
        devices = opened.device_time().rows()
        kernels = [row for row in opened.kernels().rows() if row["kind"] == "communication"]
    assert sum(row["exposed_ns"] for row in own) == sum(row["exposed_communication_ns"] for row in devices)
    assert sum(row["total_ns"] for row in own) == sum(row["total_ns"] for row in kernels)


@pytest.mark.traces
def test_bandwidth_of_recorded_arguments_by_hand_and_by_the_roofline(shared_traces: Any) -> None:
    with stepscope.open(shared_traces / "kineto" / "nccl_args_a100") as opened:
        sizes = opened.communication(by="size").rows()
        (reduce, broadcast) = opened.communication().rows()
        roofline = [row for row in opened.roofline().rows() if row["name"] == "all_reduce"]
    # 7 875 584 floats of 4 bytes, three times, in 11 081 355 ns; two ranks: 2 · (2 - 1)/2 = 1.
    row = next(row for row in sizes if row["message_bytes"] == 4 * 7_875_584)
    assert (row["calls"], row["dtype"], row["total_ns"]) == (3, "Float", 11_081_355)
    assert row["algorithm_bytes_per_s"] == pytest.approx(3 * 31_502_336 / 11_081_355e-9)
    assert row["bus_bytes_per_s"] == row["algorithm_bytes_per_s"]
    assert min(row["message_bytes"] for row in sizes if row["operation"] == "all_reduce") == (4 * 2_049_000)
    assert (reduce["parallelism"], broadcast["parallelism"]) == ("data", "data")
    carried = sum(row["attainable_ns"] * row["peak_bytes_per_s"] for row in roofline) / 1e9
    assert carried == pytest.approx(reduce["bus_bytes_per_s"] * reduce["total_ns"] / 1e9, rel=1e-3)


def test_of_a_simulated_job_waits_bandwidths_reach_and_parallelism_are_its_own(tmp_path: Any) -> None:
    # What a link of the simulation carries: 40 GB/s within a node and 10 GB/s between them, without latency.
    job = simulate(Job(ranks=4, hosts=2, tensor_parallel=2, steps=3, layers=2, latency_ns=0, jitter=0.0))
    job.write(tmp_path / "traces")
    with Store.open(import_source(tmp_path / "traces", tmp_path / "store")) as store:
        rows = {row["parallelism"]: row for row in ask(communication, store).rows()}
    assert {kind: (row["extent"], row["group_size"], row["source"]) for kind, row in rows.items()} == {
        "tensor": ("intra_node", 2, "description"),
        "data": ("inter_node", 2, "description"),
    }
    for kind, speed in (("tensor", 40e9), ("data", 10e9)):
        known = {group.name for group in job.groups if group.description == kind}
        of_kind = [one for one in job.collectives if one.group in known]
        waits = sum(max(one.arrivals_ns.values()) - at for one in of_kind for at in one.arrivals_ns.values())
        assert rows[kind]["calls"] == rows[kind]["measured"] == 2 * len(of_kind)
        assert rows[kind]["wait_ns"] == pytest.approx(waits, abs=100 * len(of_kind))
        assert rows[kind]["bus_bytes_per_s"] == pytest.approx(speed, rel=0.02)


def exchange(rank: int, sent: str | None, received: str | None, **more: Any) -> dict[str, Any]:
    return {
        "rank": rank, "id": 9, "operation": "all_to_all", "group_name": "ep", "group_size": 2,
        "group_ranks": "[2, 5]", "dtype": "Half", "elements_in": 100, "elements_out": 100, "bytes": 200,
        "sent": sent, "received": received, **more,
    }  # fmt: skip


def all_to_all_recording(*rows: dict[str, Any]) -> dict[str, Any]:
    kernels = [{"rank": row["rank"], "id": 9, "kind": "communication"} for row in rows]
    return {"device_event": kernels, "collective": list(rows)}


def test_the_matrix_has_ranks_of_the_job_and_bytes_in_proportion(diff: Any) -> None:
    diff(
        "communication",
        all_to_all_recording(
            exchange(2, "[1, 3]", "[1, 1]", elements_out=50), exchange(5, "[25, 75]", "[75, 75]", elements_out=150)
        ),
        """
        group,source_rank,destination_rank,calls,bytes,share_ratio
        ep,2,5,1,150,0.375
        ep,5,5,1,150,0.375
        ep,2,2,1,50,0.125
        ep,5,2,1,50,0.125
        """,
        by="pair",
    )


def test_what_a_rank_sent_that_was_not_recorded_is_told_by_who_received_it(diff: Any) -> None:
    diff(
        "communication",
        all_to_all_recording(exchange(5, "[]", "[20, 80]")),
        """
        source_rank,destination_rank,bytes
        5,2,100
        5,5,100
        2,5,40
        """,
        by="pair",
    )


def test_uneven_ranks_stand_out(diff: Any) -> None:
    diff(
        "communication",
        all_to_all_recording(exchange(2, None, None, elements_out=50), exchange(5, None, None, elements_out=150)),
        """
        rank,calls,sent_bytes,sent_over_mean,received_bytes,received_over_mean
        2,1,200,1.0,100,0.5
        5,1,200,1.0,300,1.5
        """,
        by="load",
    )


def test_exchanges_that_are_uneven_come_first(diff: Any) -> None:
    even = [exchange(rank, None, None, match_id=0, matched_ranks=2) for rank in (2, 5)]
    uneven = [
        exchange(rank, None, None, match_id=1, matched_ranks=2, elements_out=elements, id=10)
        for rank, elements in ((2, 30), (5, 90))
    ]
    alone = [exchange(2, None, None, match_id=2, matched_ranks=1, id=11)]
    rows = all_to_all_recording(*even, *uneven, *alone)
    for kernel, row in zip(rows["device_event"], rows["collective"], strict=True):
        kernel["id"] = row["id"]
    diff(
        "communication",
        rows,
        "group,matched_ranks,total_bytes,max_over_mean,max_rank\nep,2,240,1.5,5\nep,2,400,1.0,",
        by="exchange",
    )


def test_it_says_what_the_recording_lacks(answer: Any) -> None:
    some = all_to_all_recording(exchange(2, None, None), exchange(5, "[1, 1]", "[1, 1]"))
    assert "1 of 2 exchanges" in answer("communication", some, by="pair").note
    # lists that do not fit the group, or that cannot be even
    for sent in ("[1, 2, 3]", "[0, 0]"):
        assert answer("communication", all_to_all_recording(exchange(2, sent, None)), by="pair").rows() == []
    odd = all_to_all_recording(exchange(2, "[]", None, elements_in=101, bytes=202))
    assert answer("communication", odd, by="pair").rows() == []
    unsized = all_to_all_recording(exchange(2, None, None, bytes=None))
    (row,) = answer("communication", unsized, by="load").rows()
    assert row["sent_bytes"] is None
