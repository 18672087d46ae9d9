"""What holds a job back, from made-up summaries whose answer can be seen."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.record.verdict import findings, straggler

MS = 1_000_000


def _summary(rank: int = 0, **parts: Any) -> dict[str, Any]:
    """A step of 100 ms: what is not given goes to forward, backward and optimizer."""
    given = {name: parts.get(name, 0) for name in ("input_wait", "host_to_device", "residual")}
    left = 100 - sum(given.values())
    times = {**given, "forward": left * 0.3, "backward": left * 0.6, "optimizer": left * 0.1}
    times["forward"] += parts.get("late_forward", 0)
    return {
        "rank": rank,
        "step": {"mean_ns": 100 * MS},
        "phases": {
            name: {"mean_ns": time * MS, "share_ratio": time / 100} for name, time in times.items()
        },
        "device": parts.get("device"),
        "communication": parts.get("communication"),
        "memory": {"samples": parts.get("memory", [])},
    }


def _kinds(summary: dict[str, Any]) -> list[str]:
    return [finding.kind for finding in findings(summary)]


def test_a_step_of_compute_is_compute_bound() -> None:
    (finding,) = findings(_summary())
    assert finding.kind == "compute-bound"
    assert finding.share_ratio == pytest.approx(1.0)


def test_waiting_for_batches_is_input_bound_with_its_time() -> None:
    (finding,) = findings(_summary(input_wait=50))
    assert (finding.kind, finding.share_ratio) == ("input-bound", 0.5)
    assert "50.0 ms" in finding.evidence


def test_the_largest_share_comes_first() -> None:
    assert _kinds(_summary(input_wait=20, residual=30)) == ["residual", "input-bound"]


def test_a_small_wait_is_not_worth_words() -> None:
    assert _kinds(_summary(input_wait=9)) == ["compute-bound"]


def test_copies_are_told_apart_from_waiting() -> None:
    assert _kinds(_summary(host_to_device=15)) == ["copy-bound"]


def test_only_communication_that_nothing_hides_counts() -> None:
    hidden = {"communication_ns": 60 * MS, "overlap_ns": 55 * MS, "exposed_ns": 5 * MS}
    bare = {"communication_ns": 60 * MS, "overlap_ns": 20 * MS, "exposed_ns": 40 * MS}
    assert _kinds(_summary(communication=hidden)) == ["compute-bound"]
    assert _kinds(_summary(communication=bare)) == ["communication-bound"]


def _device(idle: int, mean_ms: float) -> dict[str, Any]:
    share = {"forward": 0.3, "backward": 0.6, "optimizer": 0.1}
    return {
        "checked_steps": 100,
        "idle_steps": idle,
        "mean_ns": {name: mean_ms * MS * part for name, part in share.items()},
    }


def test_a_device_that_waits_for_the_host_is_host_bound() -> None:
    assert _kinds(_summary(device=_device(95, 100))) == ["host-bound"]


def test_a_device_that_is_behind_the_host_is_not() -> None:
    assert _kinds(_summary(device=_device(3, 100))) == ["compute-bound"]


def test_a_device_that_is_slower_than_the_host_is_not_host_bound_when_the_job_waits_for_it() -> (
    None
):
    # The job reads its loss every step: the device is always idle when asked, but not for want of work.
    assert _kinds(_summary(residual=10, device=_device(95, 180))) == ["compute-bound"]


def test_memory_that_grows_on_is_found_with_its_rate() -> None:
    samples = [[10 * k, 10**9 + 10**6 * k] for k in range(60)]
    first, growth = findings(_summary(memory=samples))
    assert (first.kind, growth.kind) == ("compute-bound", "growing-memory")
    assert "97.7 KiB per step" in growth.evidence


def test_memory_that_levels_off_is_a_cache_filling_up() -> None:
    samples = [[10 * k, 10**9 + 10**7 * min(k, 20)] for k in range(60)]
    assert _kinds(_summary(memory=samples)) == ["compute-bound"]


def test_no_counted_step_has_no_verdict() -> None:
    assert findings({**_summary(), "step": None}) == []


def test_a_late_rank_is_named_with_what_it_does_before_backward() -> None:
    ranks = [_summary(rank) for rank in range(4)]
    ranks[2] = _summary(2, late_forward=20)
    found = straggler(ranks)
    assert found is not None
    assert found.evidence.startswith("rank 2 needs 20.0 ms more per step")
    assert "forward" in found.evidence


def test_equal_ranks_have_no_straggler() -> None:
    assert straggler([_summary(0), _summary(1)]) is None
    assert straggler([_summary(0)]) is None
