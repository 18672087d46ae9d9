"""Waits that few gaps make, against waits that many launches make, and those in which the host waits."""

from typing import Any

import pytest
from tests.findings.job import Job

MS, S = 1_000_000, 1_000_000_000
LAUNCH = {"kind": "runtime", "role": "launch"}
ALLOCATE = {"kind": "runtime", "role": "allocate"}
WAITS = ("host-bound", "single-gaps", "cold-start", "unrecorded-work")


def waits(findings: Any, rows: Any) -> dict[str, dict[str, Any]]:
    """The findings about waiting for the host, which never count the same time twice."""
    found = {row["id"]: row for row in findings(rows) if row["id"] in WAITS}
    assert sum(row["value"] for row in found.values()) <= 1
    return found


def launches(count: int, *, slow: dict[int, int], steps: int = 1, step_ns: int = S) -> Any:
    """Kernels of names of their own, each launched when the device needs it: within 20 µs, or slowly."""
    job = Job(steps=steps, step_ns=step_ns).event("train.py(3): step", 0, step_ns, kind="python")
    at = 0
    for number in range(count):
        takes = slow.get(number, 20_000)
        job.event("cudaLaunchKernel", at + 1_000, takes, **LAUNCH)
        job.kernel(f"kernel {number}", 5_000, gap_ns=takes + 1_000, late=True)
        at += takes + 6_000
    rows = job.rows()
    # The work is tied to the long calls, which the helper knows nothing of.
    calls = {
        (row["step"], row["start_ns"]): row["id"]
        for row in rows["host_event"]
        if row.get("role") == "launch" and row["dur_ns"]
    }
    ends = {
        (row["step"], row["start_ns"] + row["dur_ns"]): (row["step"], row["start_ns"])
        for row in rows["host_event"]
        if row.get("role") == "launch" and row["dur_ns"]
    }
    for row in rows["device_event"]:
        if row["name"].startswith("kernel"):
            row["launch_id"] = calls[ends[row["step"], row["start_ns"]]]
    return rows


def test_modules_loaded_in_six_launches_are_a_cold_start(findings: Any) -> None:
    slow = dict(zip(range(0, 60, 10), (100 * MS, 130 * MS, 150 * MS, 180 * MS, 110 * MS, 300 * MS),
                    strict=True))  # fmt: skip
    found = waits(findings, launches(100, slow=slow))
    assert set(found) == {"cold-start"}
    assert found["cold-start"]["title"] == (
        "Cold start: for 97.0 % of the step (970.0 ms) the device waits for one-time work: "
        "`cudaLaunchKernel` 970.0 ms; GPU utilisation is 0.1 %"
    )
    assert found["cold-start"]["saving_high_ns"] is None
    assert "Warm up before recording" in found["cold-start"]["advice"]
    assert "graphs" not in found["cold-start"]["advice"]


def test_a_kernel_that_is_launched_slowly_again_is_no_cold_start(findings: Any) -> None:
    rows = launches(100, slow={0: 400 * MS, 50: 400 * MS}, step_ns=803 * MS)
    for row in rows["device_event"]:
        row["name"] = row["name"].partition(" ")[0]
    found = waits(findings, rows)
    # The first launch of the kernel may have loaded it; the second one did not.
    for name in ("cold-start", "single-gaps"):
        assert found[name]["value"] == pytest.approx(400 / 803, abs=1e-4)


def freed(steps: tuple[int, ...], of: int) -> Any:
    job = Job(steps=of, step_ns=7 * S).kernel("work", S, gap_ns=6 * S, late=True)
    job.event("aten::empty", 0, 6 * S).event("cudaFree", 0, 6 * S, **ALLOCATE)
    rows = job.rows()
    for name, events in rows.items():
        if name == "host_event":
            rows[name] = [row for row in events if row["name"] != "cudaFree" or row["step"] in steps]
    empty = {row["step"]: row["id"] for row in rows["host_event"] if row["name"] == "aten::empty"}
    for row in rows["host_event"]:
        if row["name"] == "cudaFree":
            row["parent_id"] = empty[row["step"]]
        if row["name"] == "cudaLaunchKernel" and row["start_ns"] % (7 * S):
            row["dur_ns"] = 1_000
    return rows


def test_one_call_of_six_seconds_is_named(findings: Any) -> None:
    found = waits(findings, freed((0,), of=1))
    assert set(found) == {"cold-start"}
    assert "one-time work: `cudaFree` in aten::empty 6.000 s" in found["cold-start"]["title"]
    (evidence,) = found["cold-start"]["evidence"]
    assert (evidence["host"], evidence["operator"], evidence["calls"]) == (
        "cudaFree", "aten::empty", 1,
    )  # fmt: skip
    assert evidence["gap_ns"] == evidence["covered_ns"] == 6 * S


def test_a_call_that_every_step_waits_for_is_no_cold_start(findings: Any) -> None:
    found = waits(findings, freed((0, 1, 2), of=3))
    assert set(found) == {"single-gaps"}
    assert "`cudaFree` in aten::empty 6.000 s" in found["single-gaps"]["title"]


def decoding(kind: str | None = "python") -> Any:
    job = Job(step_ns=300 * MS).kernel("work", 5_000, count=80, gap_ns=10_000, late=True)
    job.kernel("first", 81 * MS, gap_ns=218 * MS, late=True)
    job.event("aten::empty", 0, 1_000)
    if kind is not None:
        job.event("train.py(3): step", 0, 300 * MS, kind=kind)
        job.event("video.py(12): decode", 1_200_000, 218 * MS, kind=kind)
    return job.rows()


def test_a_decoder_in_python_is_named_and_is_no_matter_of_launches(findings: Any) -> None:
    found = waits(findings, decoding())
    assert set(found) == {"single-gaps"}
    row = found["single-gaps"]
    assert row["title"] == (
        "Single gaps: for 72.7 % of the step (218.0 ms) the device waits for the host in 1 long gap a "
        "step: `video.py(12): decode` 218.0 ms; GPU utilisation is 27.1 %"
    )
    assert (row["saving_low_ns"], row["saving_high_ns"]) == (0, 218 * MS)
    assert "graphs" not in row["advice"]


def test_what_fills_a_gap_and_began_before_it_is_saved_with_it(findings: Any) -> None:
    # The host decodes for 260 ms, 42 ms of them while the device works off what it had: without that, and the 82 ms of work
    # that follow, a step takes as long as its kernels.
    rows = decoding()
    for row in rows["host_event"]:
        if row["name"].startswith("video.py"):
            row["dur_ns"] = 260 * MS
    row = waits(findings, rows)["single-gaps"]
    assert 218 * MS < row["saving_high_ns"] <= 260 * MS


def test_a_gap_of_one_step_in_several_is_told_as_such(findings: Any) -> None:
    rows = freed((0,), of=3)
    for row in rows["host_event"]:
        if row["name"] == "cudaFree":
            row |= {"name": "save checkpoint", "kind": "annotation", "role": None}
    rows["host_event"] = [row for row in rows["host_event"] if row["name"] != "aten::empty"]
    for row in rows["device_event"]:
        if row["name"] == "work" and row["step"]:  # all but the first step are full of work
            row |= {"start_ns": 7 * S * row["step"], "dur_ns": 7 * S, "launch_id": None}
    title = waits(findings, rows)["single-gaps"]["title"]
    assert "waits for the host in 1 long gap in 3 steps, of 6.000 s: `save checkpoint` 2.000 s" in title


def test_a_gap_in_which_nothing_is_recorded_is_not_explained(findings: Any) -> None:
    found = waits(findings, decoding(None))
    assert set(found) == {"single-gaps"}
    assert ": nothing recorded on the host 218.0 ms" in found["single-gaps"]["title"]
    assert found["single-gaps"]["confidence"] == "low"
    assert "with_stack=True" in found["single-gaps"]["advice"]


@pytest.mark.parametrize("steps", [1, 3])
def test_many_launches_stay_host_bound(findings: Any, steps: int) -> None:
    rows = launches(60, slow={0: 150_000}, steps=steps, step_ns=1_900_000)
    found = waits(findings, rows)
    assert set(found) == {"host-bound"}
    assert "CUDA graphs" in found["host-bound"]["advice"]


def test_the_short_waits_beside_a_long_one_stay_host_bound(findings: Any) -> None:
    job = Job(step_ns=10 * MS).kernel("work", 5_000, count=80, gap_ns=45_000, late=True)
    job.kernel("last", MS, gap_ns=5 * MS, late=True).event("save", 4 * MS, 5 * MS)
    job.event("forward", 0, 4 * MS, kind="python")
    found = waits(findings, job.rows())
    assert {name: row["value"] for name, row in found.items()} == {"single-gaps": 0.5, "host-bound": 0.36}
    assert "CUDA graphs" in found["host-bound"]["advice"]
    assert "waits for the host in short gaps (" in found["host-bound"]["title"]


def test_a_larger_batch_is_not_advised_where_one_long_gap_waits(findings: Any) -> None:
    rows = decoding()
    for row in rows["device_event"]:
        row["dur_ns"] = min(row["dur_ns"], 20 * MS)
    assert findings(rows, "low-utilization") == []


def copying(call: str, blocked_ns: int, role: str = "copy") -> Any:
    """Each step a call that copies while the device does nothing recorded, then the copy itself."""
    job = Job(step_ns=100 * MS).kernel("work", 100_000, count=60)
    job.event("train.py(3): step", 0, 100 * MS, kind="python")
    job.event("aten::_local_scalar_dense", 7 * MS, blocked_ns + 10_000)
    job.event(call, 7 * MS, blocked_ns, kind="runtime", role=role)
    job.kernel("Memcpy DtoH", 5_000, kind="copy", gap_ns=MS + blocked_ns, late=True)
    return job.rows()


@pytest.mark.parametrize(("call", "role"), [("cudaMemcpy", "copy"), ("cudaStreamSynchronize", "synchronize")])
def test_a_host_that_waits_for_an_idle_device_is_not_what_it_waits_for(findings: Any, call: str, role: str) -> None:
    rows = copying(call, 90 * MS, role)
    found = waits(findings, rows)
    assert set(found) == {"unrecorded-work"}
    assert found["unrecorded-work"]["title"] == (
        "Unrecorded work: for 91.0 % of the step (91.00 ms) the host waits for a device without recorded work: "
        f"`{call}` in aten::_local_scalar_dense 90.00 ms"
    )
    assert found["unrecorded-work"]["saving_high_ns"] is None
    assert findings(rows, "synchronization") + findings(rows, "low-utilization") == []


def test_a_query_is_no_wait_for_the_device(findings: Any) -> None:
    found = waits(findings, copying("cudaEventQuery", 90 * MS, "synchronize"))
    assert set(found) == {"single-gaps"}


def test_a_range_in_which_nothing_was_recorded_is_not_called_operators(findings: Any) -> None:
    job = Job(step_ns=MS).kernel("work", 5_000, count=20, gap_ns=45_000, late=True)
    job.event("## forward ##", 0, MS, kind="annotation").event("aten::mm", 0, 245_000)
    rows = job.rows()
    ranges = {row["step"]: row["id"] for row in rows["host_event"] if "forward" in row["name"]}
    for row in rows["host_event"]:
        if row["name"] == "aten::mm":
            row["parent_id"] = ranges[row["step"]]
    (row,) = findings(rows, "host-bound")
    assert "(operators and Python 22.5 %, ranges with nothing recorded in them 67.5 %)" in row["title"]
    assert row["advice"].startswith("Record with_stack=True")
