import json
from importlib import import_module

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.query.event_filter import EventFilter

# `from stepscope.questions import annotations` would find what `from __future__` left there
annotations = import_module("stepscope.questions.annotations")


def launch(event_id: int, start_ns: int, **more) -> dict[str, object]:
    return {"id": event_id, "kind": "runtime", "name": "cudaLaunchKernel", "start_ns": start_ns, "dur_ns": 2, **more}


def test_busy_leaves_gaps_out_and_counts_overlap_once_and_projected_keeps_gaps(diff):
    # Kernels 50-60 and 55-70 overlap, 90-100 follows after a gap of 20.
    diff(
        "annotations",
        {
            "host_event": [
                {"id": 0, "kind": "annotation", "name": "loss", "start_ns": 0, "dur_ns": 40},
                launch(1, 10, parent_id=0),
                launch(2, 20, parent_id=0),
                launch(3, 30, parent_id=0),
            ],
            "device_event": [
                {"id": 10, "launch_id": 1, "start_ns": 50, "dur_ns": 10, "stream": 7},
                {"id": 11, "launch_id": 2, "start_ns": 55, "dur_ns": 15, "stream": 8},
                {"id": 12, "launch_id": 3, "start_ns": 90, "dur_ns": 10, "stream": 7},
            ],
        },
        """
        name,calls,host_total_ns,host_self_ns,host_mean_ns,device_busy_ns,device_total_ns,projected_ns,device_events
        loss,1,40,34,40.0,30,35,50,3
        """,
    )


def test_work_launched_outside_or_on_another_thread_or_span_or_rank_is_not_in_the_range(diff):
    elsewhere = [
        launch(1, 9),  # before it begins
        launch(2, 40),  # when it is over
        launch(3, 20, thread=1),
        launch(4, 20, span=1),
        launch(1, 20, rank=1),
    ]
    diff(
        "annotations",
        {
            "host_event": [{"id": 0, "kind": "annotation", "name": "r", "start_ns": 10, "dur_ns": 30}, *elsewhere],
            "device_event": [
                {
                    "id": 10 + n,
                    "rank": e.get("rank", 0),
                    "span": e.get("span", 0),
                    "launch_id": e["id"],
                    "start_ns": 50,
                    "dur_ns": 10,
                }
                for n, e in enumerate(elsewhere)
            ]
            + [{"id": 30, "start_ns": 10, "dur_ns": 30}],  # no launch at all
        },
        "name,device_busy_ns,device_total_ns,projected_ns,device_events\nr,0,0,0,0",
    )


def test_a_range_around_backward_is_said_to_lack_its_work(answer):
    rows = {
        "host_event": [
            {"id": 0, "kind": "annotation", "name": "backward", "start_ns": 0, "dur_ns": 40},
            launch(1, 10, thread=1),
        ],
        "device_event": [{"id": 10, "launch_id": 1, "start_ns": 50, "dur_ns": 10, "direction": "backward"}],
    }
    found = answer("annotations", rows)
    assert found.rows()[0]["device_busy_ns"] == 0
    assert found.note.startswith("Threads of autograd launch the backward pass")
    rows["device_event"][0]["direction"] = "forward"
    assert not answer("annotations", rows).note


def test_recursion_counts_once(diff):
    diff(
        "annotations",
        {
            "host_event": [
                {"id": 0, "kind": "annotation", "name": "block", "dur_ns": 100},
                {"id": 1, "kind": "annotation", "name": "between", "dur_ns": 90, "parent_id": 0},
                {"id": 2, "kind": "annotation", "name": "block", "start_ns": 10, "dur_ns": 50, "parent_id": 1},
                launch(3, 20, parent_id=2),
            ],
            "device_event": [{"id": 9, "launch_id": 3, "start_ns": 30, "dur_ns": 5}],
        },
        """
        name,calls,host_total_ns,host_self_ns,device_busy_ns,device_total_ns,projected_ns,device_events
        block,2,100,58,5,5,5,1
        between,1,90,40,5,5,5,1
        """,
    )


def test_calls_are_summed_over_ranks_and_spans_and_never_united_across_them(diff):
    def call(rank: int, span: int, device: int = 0) -> tuple[list[object], object]:
        first = 10 * span
        host = [{"id": first, "kind": "annotation", "name": "f", "dur_ns": 10}, launch(first + 1, 5, parent_id=first)]
        where = {"rank": rank, "span": span}
        event = {"id": 90 + first, "device": device, "launch_id": first + 1, "start_ns": 20}
        return [{**row, **where} for row in host], {**event, **where, "dur_ns": 8}

    calls = [call(0, 0), call(0, 1), call(1, 0, device=1)]
    diff(
        "annotations",
        {"host_event": [row for host, _ in calls for row in host], "device_event": [event for _, event in calls]},
        "name,calls,host_total_ns,device_busy_ns,device_total_ns,projected_ns\nf,3,30,24,24,24",
    )


def test_ranges_drawn_on_the_device_are_neither_ranges_nor_work(diff):
    diff(
        "annotations",
        {
            "host_event": [{"id": 0, "kind": "annotation", "name": "f", "dur_ns": 10}, launch(1, 3, parent_id=0)],
            "device_event": [
                {"id": 8, "kind": "annotation", "name": "f", "launch_id": 1, "dur_ns": 99},
                {"id": 9, "kind": "fill", "launch_id": 1, "start_ns": 5, "dur_ns": 1},
            ],
        },
        "name,calls,device_busy_ns,device_events\nf,1,1,1",
    )


def test_steps_are_left_out_unless_all_are_asked_for(diff):
    rows = {
        "host_event": [
            {"kind": "annotation", "role": "step", "name": "ProfilerStep#1", "dur_ns": 9},
            {"kind": "annotation", "role": "optimizer", "name": "Optimizer.step#SGD", "dur_ns": 2},
            {"kind": "operator", "name": "aten::mm", "dur_ns": 5},
        ]
    }
    diff("annotations", rows, "name,host_total_ns\nOptimizer.step#SGD,2")
    diff("annotations", rows, "name,host_total_ns\nProfilerStep#1,9\nOptimizer.step#SGD,2", all=True)


def test_without_launches_device_times_are_not_measured(diff):
    diff(
        "annotations",
        {
            "host_event": [{"kind": "annotation", "name": "f", "dur_ns": 0}],
            "device_event": [{"start_ns": 0, "dur_ns": 5}],
        },
        """
        name,calls,host_total_ns,host_mean_ns,device_busy_ns,device_total_ns,projected_ns,device_events
        f,1,0,0.0,,,,
        """,
    )


INTERVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=12
)


@given(INTERVALS, st.integers(0, 2**45))
@examples(60)
def test_busy_time_is_the_count_of_moments_with_work(monkeypatch, intervals, origin):
    monkeypatch.setattr(annotations, "_FARTHEST", 40)  # so that few groups fit at once
    expected = [len({(p, t) for n, p, s, d in intervals if n == name for t in range(s, s + d)}) for name in range(3)]
    name, place, start, duration = np.array(intervals, dtype=np.int64).reshape(-1, 4).T
    busy = annotations._busy(name, place, start + origin, start + duration + origin, 3)
    assert busy.tolist() == expected


def named(event_id, name, start_ns, dur_ns, **more):
    return {"id": event_id, "kind": "annotation", "name": name, "start_ns": start_ns,
            "dur_ns": dur_ns, **more}  # fmt: skip


TREE = [
    named(0, "epoch", 0, 100),
    named(1, "load", 0, 20, parent_id=0, depth=1),
    {"id": 2, "kind": "operator", "name": "aten::mm", "start_ns": 30, "dur_ns": 60, "depth": 1},
    named(3, "block", 30, 50, parent_id=2, depth=2),
    named(4, "block", 40, 30, parent_id=3, depth=3, recursive=True),
    named(5, "load", 0, 7, thread=1),
]


def test_by_path_a_range_stands_below_the_one_around_it_on_its_thread(diff):
    diff(
        "annotations",
        {
            "host_event": [*TREE, launch(6, 45, parent_id=4)],
            "device_event": [{"id": 9, "launch_id": 6, "start_ns": 50, "dur_ns": 5}],
        },
        """
        name,path,depth,calls,host_total_ns,host_exclusive_ns,device_busy_ns
        epoch,epoch,0,1,100,30,5
        block,epoch/block,1,1,50,20,5
        block,epoch/block/block,2,1,30,30,5
        load,epoch/load,1,1,20,20,0
        load,load,0,1,7,7,0
        """,
        by="path",
    )


def test_a_kept_range_keeps_its_place_among_those_that_are_not(diff):
    diff(
        "annotations",
        {"host_event": TREE},
        """
        name,path,depth,calls,host_total_ns,host_exclusive_ns
        block,epoch/block,1,1,50,20
        block,epoch/block/block,2,1,30,30
        """,
        by="path",
        part=EventFilter(name="block"),
    )


def test_a_window_cuts_the_ranges_and_what_is_inside_them(diff):
    diff(
        "annotations",
        {"host_event": TREE},
        """
        name,path,host_total_ns,host_exclusive_ns
        epoch,epoch,45,5
        block,epoch/block,40,10
        block,epoch/block/block,30,30
        """,
        by="path",
        part=EventFilter(window=(40, 85)),
    )


def test_a_name_in_two_domains_is_two_rows_and_neither_is_inside_the_other(diff):
    def of(domain, **more):
        return {"other_args": json.dumps({"domain": domain, **more})}

    diff(
        "annotations",
        {
            "host_event": [
                named(0, "all_reduce", 0, 50, **of("DDP")),
                named(1, "all_reduce", 10, 30, parent_id=0, depth=1, recursive=True, **of("NCCL")),
                named(2, "all_reduce", 60, 20, **of("NCCL", category="ring")),
            ]
        },
        """
        name,domain,category,calls,host_total_ns,host_exclusive_ns
        all_reduce,DDP,,1,50,20
        all_reduce,NCCL,,1,30,30
        all_reduce,NCCL,ring,1,20,20
        """,
    )


def test_ranges_nested_by_thousands_have_paths_that_do_not_grow_with_them(answer):
    deep = [named(n, "f" * 50, n, 20_000 - 2 * n, depth=min(n, 99)) for n in range(3000)]
    rows = answer("annotations", {"host_event": deep}, by="path").rows()
    assert rows[-1]["depth"] == 2999
    assert max(len(row["path"]) for row in rows) < 2200
