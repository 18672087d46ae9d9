"""`host-metrics`: what was measured of the host, beside thresholds, and in full."""

from typing import Any


def metric(kind: str, value: float | None = None, unit: str | None = None, **more: Any) -> dict[str, Any]:
    return {"report": "StepScope", "metric": kind, "kind": kind, "value": value, "unit": unit, "confirmed": True} | more


RUN = [
    metric("elapsed", 10.0, "s"),
    metric("cpu_utilization", 40.0, "%"),
    metric("run_queue_wait", 3.0, "%"),
    metric("thread_time", 4.0, "s", subject_kind="Thread", subject="worker"),
]


def test_metrics_are_judged_by_thresholds_that_name_their_source(diff: Any) -> None:
    diff(
        "host-metrics",
        {"host_metric": RUN},
        """
        aspect,metric,value,unit,target,judged
        run,elapsed,10.0,s,,
        processors,cpu_utilization,40.0,%,at least 80 %,missed
        threads,run_queue_wait,3.0,%,at most 10 %,met
        """,
    )


def test_processors_of_a_job_with_a_device_are_not_judged(diff: Any) -> None:
    phase = [{"phase": "forward", "mean_ns": 1.0, "device_mean_ns": 1.0}]
    diff(
        "host-metrics",
        {"host_metric": RUN, "phase": phase},
        """
        metric,judged
        elapsed,
        cpu_utilization,
        run_queue_wait,met
        """,
    )


def test_ranks_are_one_row_with_their_extremes(diff: Any) -> None:
    rows = [metric("cpu_utilization", value, "%", rank=rank) for rank, value in enumerate((60.0, 100.0))]
    diff(
        "host-metrics",
        {"rank": [{"rank": 0}, {"rank": 1}], "host_metric": rows},
        "metric,value,min,max,ranks,judged\ncpu_utilization,80.0,60.0,100.0,2,met",
    )


def test_what_its_tool_flags_is_flagged_and_shares_are_compared(diff: Any) -> None:
    rows = [
        metric("mpi_time", 20.0, "s", report="APS", share_ratio=0.2, advice="MPI bound."),
        metric("memory_stalls", 60.0, "%", report="APS", share_ratio=0.6, advice="Stalled."),
        metric("ipc", 1.5, report="APS"),
    ]
    diff(
        "host-metrics",
        {"host_metric": rows},
        """
        metric,target,judged,advice
        memory_stalls,,flagged,Stalled.
        mpi_time,at most 15 %,missed,MPI bound.
        ipc,,,
        """,
    )


def test_every_metric_is_listed_and_can_be_chosen(diff: Any) -> None:
    diff("host-metrics", {"host_metric": RUN}, "subject,metric,value,unit\nworker,thread_time,4.0,s", metric="THREAD")


def test_metrics_without_a_meaning_of_ours_are_shown_as_they_stand(diff: Any) -> None:
    diff(
        "host-metrics",
        {"host_metric": [{"report": "uarch", "metric": "Retiring", "value": 12.5, "unit": "%", "confirmed": False}]},
        "report,metric,value,unit,confirmed\nuarch,Retiring,12.5,%,False",
        by="metric",
    )
