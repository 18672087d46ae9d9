"""What holds a job back, from made-up summaries whose answer can be seen."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.record.phases.verdict import findings

MS = 1_000_000


def _summary(**parts: Any) -> dict[str, Any]:
    """A step of 100 ms: what is not given goes to forward, backward and optimizer."""
    given = {name: parts.get(name, 0) for name in ("input_wait", "host_to_device", "residual")}
    left = 100 - sum(given.values())
    times = {**given, "forward": left * 0.3, "backward": left * 0.6, "optimizer": left * 0.1}
    return {
        "step": {"mean_ns": 100 * MS},
        "counted_steps": 100,
        "first_batch_ns": parts.get("first_batch", []),
        "phases": {
            name: {"mean_ns": time * MS, "share_ratio": time / 100} for name, time in times.items()
        },
        "device": parts.get("device"),
        "communication": parts.get("communication"),
        "steps": 100,
        "copied": parts.get("copied"),
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


@pytest.mark.parametrize(
    ("pageable", "says", "advises"),
    [(50, "50 % of it from memory that is not pinned", "pin the loader"), (0, "0 % of it", "less")],
)
def test_copies_say_what_is_copied_and_from_what_memory(
    pageable: int, says: str, advises: str
) -> None:
    copied = {"bytes": 100 * 2**20, "pageable_bytes": pageable * 2**20}
    (finding,) = findings(_summary(host_to_device=15, copied=copied))
    assert "1.0 MiB per step" in finding.evidence
    assert says in finding.evidence
    assert advises in finding.next_step


def test_only_communication_that_nothing_hides_counts() -> None:
    hidden = {"exposed_ns": 5 * MS, "backward_ns": 60 * MS}
    bare = {"exposed_ns": 40 * MS, "backward_ns": 60 * MS}
    assert _kinds(_summary(communication=hidden)) == ["compute-bound"]
    assert _kinds(_summary(communication=bare)) == ["communication-bound"]


def test_all_reduce_that_ddp_timed_in_slow_first_steps_is_a_part_of_todays_backward() -> None:
    (finding,) = findings(_summary(communication={"exposed_ns": 500 * MS, "backward_ns": 600 * MS}))
    assert finding.share_ratio == pytest.approx(0.6 * 5 / 6)
    assert "50.0 ms" in finding.evidence


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


def test_waiting_for_the_first_batch_of_every_epoch_is_found_beside_the_rest() -> None:
    first, start = findings(_summary(first_batch=[400 * MS, 600 * MS]))
    assert (first.kind, start.kind) == ("compute-bound", "slow-first-batch")
    assert "takes 500 ms, in 2 epochs, which adds 10 %" in start.evidence


def test_one_slow_start_or_short_ones_are_not_worth_words() -> None:
    assert _kinds(_summary(first_batch=[5000 * MS])) == ["compute-bound"]
    assert _kinds(_summary(first_batch=[100 * MS] * 4)) == ["compute-bound"]
