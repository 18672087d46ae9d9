import json

import stepscope
from stepscope.query.event_filter import EventFilter


def test_metrics_of_kernels_and_samples_over_time(diff):
    diff(
        "counters",
        {
            "device_event": [{"id": 1, "category": "cuda_profiler_range", "name": "gemm"}],
            "kernel_metric": [
                {"id": 1, "kernel": "gemm", "metric": "dram__bytes.sum", "value": value,
                 "tool": "CUPTI"}
                for value in (10.0, 30.0)
            ],
            "counter": [
                {"track": "CUPTI PM Sampling", "series": "sm__throughput.avg.pct", "pid": "1",
                 "time_ns": at, "value": value}
                for at, value in ((0, 70.0), (5, None), (10, 50.0))
            ],
        },
        """
        name,pid,counter,samples,total,mean,min,max
        gemm,,dram__bytes.sum,2,40.0,20.0,10.0,30.0
        CUPTI PM Sampling,1,sm__throughput.avg.pct,2,120.0,60.0,50.0,70.0
        """,
    )  # fmt: skip


def sample(time_ns, value, kind="sm_active", **more):
    return {
        "track": "device metrics", "series": kind, "kind": kind, "unit": "%", "pid": "0",
        "time_ns": time_ns, "value": value, **more,
    }  # fmt: skip


STEPS = [{"step": 1, "start_ns": 0, "end_ns": 1000}, {"step": 2, "start_ns": 1000, "end_ns": 3000}]
SAMPLES = [
    sample(-100, 5.0),  # before anything else
    sample(0, 10.0),
    sample(500, 20.0),
    sample(1000, 90.0),
    sample(2000, 70.0),
    sample(3000, 0.0),
    sample(500, 4.0, "dram_read"),
    sample(500, 1.0, kind=None, series="other"),
    sample(500, None),
]
ROWS = {"counter": SAMPLES, "step": STEPS}


def test_each_metric_of_a_known_kind_is_a_row(diff):
    diff(
        "counters",
        ROWS,
        """
        rank,device,metric,unit,samples,mean,min,max
        0,0,dram_read,%,1,4.0,4.0,4.0
        0,0,sm_active,%,6,32.5,0.0,90.0
        """,
        by="metric",
    )


def test_a_sample_is_in_the_step_in_which_it_was_taken(diff):
    diff(
        "counters",
        ROWS,
        """
        step,start_ns,window_ns,metric,samples,mean
        1,0,1000,dram_read,1,4.0
        1,0,1000,sm_active,2,15.0
        2,1000,2000,sm_active,2,80.0
        """,
        by="step",
    )


def test_chosen_steps_are_one_window(diff):
    expected = "metric,samples,mean\nsm_active,2,80.0"
    diff("counters", ROWS, expected, by="metric", steps=[2])


def test_pieces_of_time_are_as_in_utilization(diff):
    rows = [sample(1000 * n, float(n)) for n in range(250)]
    diff(
        "counters",
        {"counter": rows},
        "start_ns,window_ns,samples,mean\n0,10000,10,4.5\n10000,10000,10,14.5",
        by="time",
        top=2,
    )


def test_the_last_piece_takes_what_remains(answer):
    rows = [sample(1000 * n, 1.0) for n in range(206)]
    pieces = answer("counters", {"counter": rows}, by="time").rows()
    assert len(pieces) == 20
    assert (pieces[-1]["start_ns"], pieces[-1]["window_ns"]) == (190_000, 15_001)
    assert sum(piece["samples"] for piece in pieces) == 206


def test_parts_of_a_link_add_up_at_each_moment(diff):
    rows = [
        sample(0, 3.0, "nvlink_send", series="NVLink TX Requests User Data"),
        sample(0, 5.0, "nvlink_send", series="NVLink TX Responses User Data"),
        sample(9, 2.0, "nvlink_send", series="NVLink TX Requests User Data"),
        sample(0, 7.0, "nvlink_send", pid="1"),
    ]
    diff(
        "counters",
        {"counter": rows},
        "device,metric,samples,mean,max\n0,nvlink_send,2,5.0,8.0\n1,nvlink_send,1,7.0,7.0",
        by="metric",
    )


def test_a_window_takes_the_samples_in_it(diff):
    expected = "metric,samples,mean\nsm_active,2,80.0"
    running = {"host_event": [{"name": "aten::mm", "dur_ns": 3000}]}
    diff("counters", ROWS | running, expected, by="metric", part=EventFilter(window=(600, 2500)))


def test_samples_of_kineto_are_told_by_kind(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
        *(
            {"ph": "C", "name": "PM Sampling", "pid": 0, "ts": at, "args": {"SMs Active": value}}
            for at, value in ((1, 40), (2, 60))
        ),
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    with stepscope.open(file, cache=False) as trace:
        (row,) = trace.counters(by="metric").rows()
    assert (row["metric"], row["samples"], row["mean"]) == ("sm_active", 2, 50.0)
