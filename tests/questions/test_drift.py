"""Durations that change over the recording, and those that only differ."""

from typing import Any

import pytest


def job(steps: int = 20, *, slowdown: int = 0, rank: int = 0) -> dict[str, Any]:
    """Steps of 10 µs with two launches of `gemm`, of two shapes, and one of `relu`; all become slower by so
    many ns a step."""
    kernels = [("gemm", 1, 3_000), ("gemm", 8, 1_000), ("relu", 1, 2_000)]
    return {
        "step": [{"rank": rank, "step": n, "start_ns": n * 10_000, "end_ns": (n + 1) * 10_000} for n in range(steps)],
        "device_event": [
            {
                "rank": rank,
                "step": n,
                "name": name,
                "grid_x": grid,
                "start_ns": n * 10_000 + place * 3_000,
                "dur_ns": dur + n * slowdown * dur // 1_000,
            }
            for n in range(steps)
            for place, (name, grid, dur) in enumerate(kernels)
        ],
    }


def test_kernels_that_become_slower_are_named_with_their_change(diff: Any, answer: Any) -> None:
    rows = job(slowdown=10)  # 1 % of what each takes in step 0, a step
    diff(
        "drift",
        rows,
        """
        rank,name,trend,steps,events,outliers
        0,all kernels,slower,20,60,0
        0,gemm,slower,20,40,0
        0,relu,slower,20,20,0
        """,
    )
    table = answer("drift", rows)
    # 19 % of the first step's is 17.35 % of the median, which is 1.095 times as long.
    assert table["change_ratio"] == pytest.approx([0.19 / 1.095] * 3, abs=1e-3)
    assert table["first_ns"][2] == pytest.approx(2_030, abs=5)
    assert table["last_ns"][2] == pytest.approx(2_350, abs=5)
    assert "Kernels of rank 0 that compute become slower together, by 17.4 %" in table.note


def test_one_kernel_that_grows_is_no_matter_of_clocks(answer: Any) -> None:
    rows = job(slowdown=10)
    for event in rows["device_event"]:
        event["dur_ns"] = 2_000 if event["name"] == "relu" else event["dur_ns"]
    table = answer("drift", rows)
    trends = {row["name"]: row["trend"] for row in table.rows()}
    assert trends == {"all kernels": "slower", "gemm": "slower", "relu": "steady"}
    assert "become slower" not in (table.note or "")


def test_another_shape_at_the_end_is_no_drift(diff: Any) -> None:
    rows = job()
    for event in rows["device_event"]:
        if event["step"] >= 10 and event["name"] == "relu":
            event |= {"grid_x": 64, "dur_ns": 4_000}
    diff("drift", rows, "name,trend\nall kernels,steady\ngemm,steady\nrelu,steady")


def test_steady_noise_and_single_slow_ones_are_no_drift(diff: Any) -> None:
    rows = job()
    for event in rows["device_event"]:
        event["dur_ns"] += event["start_ns"] * 7919 % 50
        if event["name"] == "relu" and event["step"] == 19:
            event["dur_ns"] = 9_000
    diff("drift", rows, "name,trend,outliers\nall kernels,steady,1\ngemm,steady,0\nrelu,steady,1")


def test_few_steps_say_nothing(answer: Any) -> None:
    table = answer("drift", job(steps=9, slowdown=50))
    assert not len(table)
    assert table.note == "Too little was recorded to tell a trend: that takes 10 steps."


def test_what_ran_in_few_steps_has_no_row_and_is_counted(diff: Any, answer: Any) -> None:
    rows = job()
    rows["device_event"] += [{"step": 3, "name": name, "start_ns": 35_000, "dur_ns": 90} for name in ("a", "b")]
    diff("drift", rows, "name,trend\nall kernels,steady\ngemm,steady\nrelu,steady")
    assert answer("drift", rows).note == "2 more kernels ran in fewer than 10 steps, too few to tell a trend."


def test_communication_that_waits_longer_is_not_a_slower_device(diff: Any) -> None:
    rows = job()
    for event in rows["device_event"]:
        if event["name"] == "relu":
            event |= {"kind": "communication", "dur_ns": 1_000 + 50 * event["step"]}
    diff("drift", rows, "name,trend\nrelu,slower\ngemm,steady")


def test_steps_and_operators_are_looked_at_alike(diff: Any) -> None:
    rows = {
        "step": [{"step": n, "start_ns": n * 1_000, "end_ns": n * 1_000 + 500 + 10 * n} for n in range(12)],
        "host_event": [
            {"step": n, "name": "aten::mm", "kind": "operator", "start_ns": n * 1_000, "dur_ns": 90} for n in range(12)
        ],
    }
    diff("drift", rows, "name,trend,events,first_ns,last_ns\nstep,slower,12,505.0,605.0", of="step")
    diff("drift", rows, "name,trend,events\naten::mm,steady,12", of="operator")
