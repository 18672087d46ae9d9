"""Rules about time in which the device has nothing to do."""

from typing import Any

import pytest
from tests.findings.job import V100, Job

LOADING = {"kind": "annotation", "role": "dataloader"}
SYNC = {"kind": "runtime", "role": "synchronize"}


def input_bound(wait_ns: int) -> dict[str, Any]:
    job = Job().event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, wait_ns, **LOADING)
    return job.kernel("work", 500_000, gap_ns=wait_ns).rows()


def test_a_loader_that_the_device_waits_for_is_found(findings: Any) -> None:
    (row,) = findings(input_bound(300_000), "input-bound")
    assert row["title"] == (
        "Input-bound: for 30.0 % of the step (300.0 µs) the device waits for the next batch of the DataLoader"
    )
    assert (row["value"], row["unit"], row["severity"]) == (0.3, "ratio", "high")
    assert (row["window_start_ns"], row["window_end_ns"]) == (0, 2_000_000)
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 300_000)
    assert row["evidence"][0]["dataloader_ns"] == 300_000


def test_a_loader_below_five_per_cent_is_not(findings: Any) -> None:
    assert findings(input_bound(50_000), "input-bound") == []


def test_a_loader_behind_a_busy_device_is_not(findings: Any) -> None:
    job = Job().event("enumerate(DataLoader)#_Iter.__next__", 0, 400_000, **LOADING)
    assert findings(job.kernel("work", 900_000).rows(), "input-bound") == []


def test_batches_that_take_unlike_times_count_with_their_mean(findings: Any) -> None:
    rows = input_bound(100_000)
    loads = [row for row in rows["host_event"] if row.get("role") == "dataloader"]
    loads[0]["dur_ns"] = 40_000
    for row in rows["device_event"]:
        if row["name"] == "work" and row["step"] == 0:
            row["start_ns"] = 40_000
    (row,) = findings(rows, "input-bound")
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 70_000)


def host_bound(kernel_ns: int, *, late: bool) -> dict[str, Any]:
    job = Job().event("train_one_batch", 0, 1_000_000, kind="python")
    return job.kernel("work", kernel_ns, gap_ns=45_000, count=20, late=late).rows()


def test_a_host_that_launches_long_kernels_late_is_host_bound(findings: Any) -> None:
    rows = Job().event("python", 0, 1_000_000, kind="python")
    rows = rows.kernel("work", 12_000, gap_ns=4_000, count=62, late=True).rows()
    (row,) = findings(rows, "host-bound")
    assert row["value"] == 0.256  # 62 gaps, and 8 µs after the last kernel of a step
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 256_000)
    assert "launches" not in row["title"]
    assert "CUDA graphs" not in row["advice"]


def test_a_host_that_launches_short_kernels_late_is_host_bound_and_should_launch_less(findings: Any) -> None:
    rows = host_bound(5_000, late=True)
    (row,) = findings(rows, "host-bound")
    assert "launches 80 kernels, 100.0 % of them below 10 µs" in row["title"]
    assert row["saving_high_ns"] == 900_000
    assert "CUDA graphs" in row["advice"]


def test_a_device_that_waits_for_what_was_launched_in_time_is_neither(findings: Any) -> None:
    rows = Job().event("python", 0, 1_000_000, kind="python")
    rows = rows.kernel("work", 5_000, gap_ns=60_000, count=10).kernel("work", 350_000).rows()
    assert findings(rows, "host-bound") == []


def test_missing_kernels_silence_what_would_blame_the_host(findings: Any) -> None:
    rows = host_bound(5_000, late=True)
    rows["data_check"] = [{"check": "launch_without_kernel", "affects": "device-work"}]
    assert findings(rows, "host-bound") + findings(rows, "low-utilization") == []
    (first,) = findings(rows)
    assert (first["id"], first["severity"]) == ("data-quality", "note")
    assert first["title"].startswith("Unreliable data (launch_without_kernel): device work is missing")


def test_one_rank_whose_kernels_are_missing_is_named_and_the_others_are_judged(findings: Any) -> None:
    one = host_bound(5_000, late=True)
    alone = findings(one)
    job = {table: [row | {"rank": rank} for rank in range(3) for row in rows] for table, rows in one.items()}
    # Of rank 1 the device was recorded in part: it looks idle all the time.
    job["device_event"] = [row for place, row in enumerate(job["device_event"]) if row["rank"] != 1 or place % 50 == 0]
    job["data_check"] = [{"rank": 1, "check": "launch_without_kernel", "affects": "device-work", "explanation": ""}]
    first, *others = findings(job)
    assert (first["id"], first["value"]) == (alone[0]["id"], alone[0]["value"])
    assert first["title"].endswith(". Without rank 1, whose recording is damaged")
    cut = [row | {"check": "truncated", "affects": "file"} for row in job["data_check"]]
    assert findings(job | {"data_check": cut})[0]["title"] == first["title"]
    (mark,) = (row for row in others if row["id"] == "data-quality")
    assert mark["rank"] == 1
    assert mark["title"].endswith("the other findings are about the other 2 ranks")
    # One sound rank is enough: an answer that sums damaged ones in is wrong, however many they are.
    job["data_check"] += [row | {"rank": 2} for row in job["data_check"]]
    assert findings(job)[0]["title"].endswith("ranks 1, 2, whose recording is damaged")
    job["data_check"] += [row | {"rank": 0} for row in job["data_check"]]
    assert findings(job)[0]["title"].startswith("Unreliable data")


def test_a_failing_check_lowers_confidence_and_is_named(findings: Any) -> None:
    rows = host_bound(5_000, late=True)
    rows["data_check"] = [{"check": "clock_skew", "affects": "clocks"}]
    (row,) = findings(rows, "host-bound")
    assert (row["confidence"], row["saving_low_ns"], row["failing_checks"]) == ("low", 0, "clock_skew")


def test_a_test_of_one_operator_is_no_training_step(findings: Any) -> None:
    rows = host_bound(5_000, late=True)
    rows["device_event"] = [row for row in rows["device_event"] if row["name"] != "filler"]
    (row,) = findings(rows)
    assert (row["id"], row["confidence"], row["saving_high_ns"]) == ("host-bound", "low", None)


def test_low_utilization_asks_for_a_larger_batch_and_promises_nothing(findings: Any) -> None:
    (row,) = findings(host_bound(5_000, late=True), "low-utilization")
    assert row["value"] == 0.1
    assert (row["severity"], row["saving_high_ns"]) == ("note", None)


def test_utilization_that_input_explains_is_not_called_low(findings: Any) -> None:
    rows = input_bound(600_000)
    for row in rows["device_event"]:
        row["dur_ns"] = min(row["dur_ns"], 300_000)
    assert findings(rows, "low-utilization") == []


@pytest.mark.parametrize("launches", [True, False])
def test_a_larger_batch_is_not_advised_where_samples_are_prepared_one_by_one(findings: Any, launches: bool) -> None:
    rows = host_bound(5_000, late=True)
    prepares = [
        {"id": 10_000 + n, "name": "aten::div", "kind": "operator", "step": n // 20, "dur_ns": 40_000,
         "start_ns": n * 50_000, "device_ns": 5_000 if launches else None}
        for n in range(40)
    ]  # fmt: skip
    rows["host_event"] += prepares
    assert bool(findings(rows, "low-utilization")) == launches


def synchronizing(*, waits: bool) -> dict[str, Any]:
    job = Job().kernel("work", 300_000).kernel("next", 300_000, gap_ns=100_000, late=True)
    end = 320_000 if waits else 350_000
    job.event("aten::_local_scalar_dense", 100_000, end - 100_000)
    job.event("cudaStreamSynchronize", 200_000 if waits else 320_000, end - (200_000 if waits else 320_000), **SYNC)
    rows = job.rows()
    parents = {row["step"]: row["id"] for row in rows["host_event"] if "scalar" in row["name"]}
    for row in rows["host_event"]:
        if row["name"] == "cudaStreamSynchronize":
            row["parent_id"] = parents[row["step"]]
    return rows


def test_a_call_during_which_the_device_runs_dry_is_found_with_its_caller(findings: Any) -> None:
    (row,) = findings(synchronizing(waits=True), "synchronization")
    # Without the value the host does without all of the operator that fetches it.
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (100_000, 0, 220_000)
    assert row["evidence"] == [
        {"caller": "aten::_local_scalar_dense", "call": "cudaStreamSynchronize",
         "calls_per_step": 1.0, "idle_ns": 100_000.0}
    ]  # fmt: skip


@pytest.mark.parametrize(("memory", "blamed"), [("pageable", True), ("pinned", False)])
def test_a_copy_into_pageable_memory_waits_for_the_device(memory: str, blamed: bool, findings: Any) -> None:
    copy = {"kind": "copy", "copy_kind": "DtoH", "memory_kind": memory, "bytes": 4}
    job = Job().kernel("work", 300_000).kernel("Memcpy DtoH", 2_000, **copy)
    job.kernel("next", 300_000, gap_ns=100_000, late=True)
    job.event("cudaMemcpyAsync", 100_000, 205_000, kind="runtime", role="copy")
    rows = job.rows()
    calls = {row["step"]: row["id"] for row in rows["host_event"] if row.get("role") == "copy"}
    for row in rows["device_event"]:
        if row["name"] == "Memcpy DtoH":
            row["launch_id"] = calls[row["step"]]
    found = findings(rows, "synchronization")
    assert [row["value"] for row in found] == [100_000] * blamed


def test_a_call_that_begins_when_the_device_is_idle_already_is_not_blamed(findings: Any) -> None:
    assert findings(synchronizing(waits=False), "synchronization") == []


def test_what_the_loader_takes_after_a_call_is_not_the_calls(findings: Any) -> None:
    rows = synchronizing(waits=True)
    for step in (0, 1):
        rows["host_event"].append(
            {"id": 1_000 + step, "kind": "annotation", "role": "dataloader", "step": step,
             "start_ns": step * 1_000_000 + 330_000, "dur_ns": 60_000}
        )  # fmt: skip
    (row,) = findings(rows, "synchronization")
    assert row["value"] == 40_000


def test_waiting_for_a_device_that_goes_on_working_loses_nothing(findings: Any) -> None:
    job = Job().kernel("work", 900_000).event("cudaStreamSynchronize", 100_000, 500_000, **SYNC)
    assert findings(job.rows(), "synchronization") == []


def copying(memory: str, size: int = 1_000_000) -> dict[str, Any]:
    copy = {"kind": "copy", "copy_kind": "HtoD", "memory_kind": memory, "bytes": size}
    return Job().kernel("Memcpy HtoD", 100_000, **copy).kernel("work", 800_000).rows()


def test_copies_through_pageable_memory_are_found(findings: Any) -> None:
    (row,) = findings(copying("pageable"), "pageable-copies")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (100_000, 0, 100_000)
    assert row["evidence"][0]["bandwidth_bytes_per_s"] == 1e10


def test_pinned_and_small_copies_are_not(findings: Any) -> None:
    assert findings(copying("pinned"), "pageable-copies") == []
    assert findings(copying("pageable", 4), "pageable-copies") == []


def communicating(hidden: bool) -> dict[str, Any]:
    job = Job().kernel("ncclKernel_AllReduce", 200_000, kind="communication").kernel("work", 700_000)
    rows = job.rows()
    if hidden:
        for row in rows["device_event"]:
            row["start_ns"] -= 200_000 if row["name"] == "work" else 0
    return rows


def test_communication_that_nothing_hides_is_found(findings: Any) -> None:
    (row,) = findings(communicating(hidden=False), "communication-bound")
    assert (row["value"], row["saving_low_ns"], row["saving_high_ns"]) == (0.2, 0, 200_000)


def test_communication_behind_computation_is_not(findings: Any) -> None:
    assert findings(communicating(hidden=True), "communication-bound") == []


def uneven(*lengths: int) -> dict[str, Any]:
    job = Job(steps=len(lengths)).kernel("work", 400_000)
    job.lengths = dict(enumerate(lengths))
    return job.rows()


def test_a_long_step_among_others_is_found(findings: Any) -> None:
    rows = uneven(10**6, 10**6, 10**6, 3 * 10**6, 10**6)
    (row,) = findings(rows, "uneven-steps")
    assert (row["step"], row["value"], row["saving_high_ns"]) == (3, 0.5, 500_000)
    assert (row["window_start_ns"], row["window_end_ns"]) == (3_000_000, 6_000_000)
    assert findings(rows, "first-step") == []


def test_a_long_first_step_is_another_finding(findings: Any) -> None:
    rows = uneven(3 * 10**6, 10**6, 10**6, 10**6, 10**6)
    assert findings(rows, "uneven-steps") == []
    (row,) = findings(rows, "first-step")
    assert (row["step"], row["value"], row["saving_high_ns"]) == (0, 3.0, None)
    assert "means leave it out" in row["title"]
    assert "--step 0" in row["advice"]


def test_a_long_step_that_computes_more_is_long_with_good_reason(findings: Any) -> None:
    rows = uneven(10**6, 10**6, 10**6, 3 * 10**6, 10**6)
    for row in rows["device_event"]:
        if row["name"] == "work" and row["step"] == 3:
            row["dur_ns"] = 2_400_000
    assert findings(rows, "uneven-steps") == []


def test_even_steps_are_neither(findings: Any) -> None:
    rows = uneven(10**6, 1_020_000, 10**6, 1_010_000, 10**6)
    assert findings(rows, "uneven-steps") + findings(rows, "first-step") == []


def pinned(size: int, dur_ns: int = 300_000, device: Any = V100, **columns: Any) -> dict[str, Any]:
    copy = {"kind": "copy", "copy_kind": "HtoD", "memory_kind": "pinned", "bytes": size} | columns
    job = Job(device=device).kernel("Memcpy HtoD (Pinned -> Device)", dur_ns, **copy)
    return job.kernel("work", 600_000).rows()


def test_pinned_copies_at_two_fifths_of_the_link_are_slow(findings: Any) -> None:
    # A V100 has 16 GB/s: 1.92 MB take 120 µs there, and took 300.
    (row,) = findings(pinned(1_920_000), "slow-pinned-copies")
    assert (row["value"], row["unit"]) == (0.4, "ratio")
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 180_000)
    assert row["evidence"][0]["bandwidth_bytes_per_s"] == pytest.approx(6.4e9)


@pytest.mark.parametrize(
    "rows",
    [
        pinned(2_400_000),
        pinned(900_000),
        pinned(1_920_000, memory_kind="pageable"),
        pinned(1_920_000, copy_kind="DtoH"),
        pinned(1_920_000, device={**V100, "name": "A device of next year"}),
    ],
    ids=["half of the link", "small", "pageable", "to the host", "unknown link"],
)
def test_other_copies_are_not(findings: Any, rows: Any) -> None:
    assert findings(rows, "slow-pinned-copies") == []


def test_operators_that_launch_long_kernels_late_should_launch_less_too(findings: Any) -> None:
    rows = Job().event("aten::addmm", 0, 1_000_000, device_ns=744_000)
    rows = rows.kernel("work", 12_000, gap_ns=4_000, count=62, late=True).rows()
    (row,) = findings(rows, "host-bound")
    assert "launches 122 kernels, 49.2 % of them below 10 µs" in row["title"]
    assert "CUDA graphs" in row["advice"]


def paced_by_its_host(*, late: bool) -> dict[str, Any]:
    """In each step of 1 ms a product of 0.4 ms after 0.5 ms of Python, and 20 µs in which the host waits for it."""
    job = Job(device=V100).event("python", 0, 1_000_000, kind="python")
    job.event("cudaStreamSynchronize", 880_000, 20_000, **SYNC)
    job.event("cudaEventRecord", 10_000, 20_000, kind="runtime", role="event")
    floats = {"operator": "aten::mm", "types": ["float", "float"]}
    return job.kernel("volta_sgemm_128x64_nn", 400_000, gap_ns=500_000, late=late, **floats).rows()


def test_where_the_host_sets_the_pace_it_is_said_what_shorter_kernels_save(findings: Any, answer: Any) -> None:
    (row,) = findings(paced_by_its_host(late=True), "amp-off")
    assert row["advice"].endswith(
        " Steps are host-bound: speeding up kernels saves at most 20.00 µs until the host is faster."
    )
    assert row["saving_high_ns"] > 300_000
    summary = answer("summary", paced_by_its_host(late=True)).rows()
    (told,) = (one["text"] for one in summary if one["section"] == "bounds")
    assert told.startswith("amp-off: Steps are host-bound")
    assert row["advice"].endswith(told.removeprefix("amp-off:"))


def test_it_is_not_where_kernels_fill_the_step(findings: Any) -> None:
    job = Job(device=V100).event("cudaStreamSynchronize", 10_000, 20_000, **SYNC)
    floats = {"operator": "aten::mm", "types": ["float", "float"]}
    job.kernel("volta_sgemm_128x64_nn", 950_000, gap_ns=20_000, late=True, **floats)
    (row,) = findings(job.rows(), "amp-off")
    assert "host-bound" not in row["advice"]


def test_it_is_not_where_work_is_carried_over_or_the_host_may_poll(findings: Any) -> None:
    rows = paced_by_its_host(late=True)
    last = max(row["id"] for row in rows["host_event"])
    polls = [
        {"id": last + n, "name": "cudaEventQuery", "kind": "runtime", "role": "synchronize", "start_ns": 1_000 + n,
         "dur_ns": 1, "step": 0}
        for n in range(1, 300)
    ]  # fmt: skip
    for other in (paced_by_its_host(late=False), rows | {"host_event": [*rows["host_event"], *polls]}):
        (row,) = findings(other, "amp-off")
        assert "host-bound" not in row["advice"]
