"""The verdict's rules: which loss leads, at which thresholds, and when nothing may be claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepscope.analysis.breakdown import PARTS
from stepscope.judge.verdict import Facts, judge

STEP = 1_000_000


def facts(unmeasured: tuple[str, ...] = (), **parts: float) -> Facts:
    """Facts of a step of 1 ms with these parts of it; the kernels have the rest."""
    parts.setdefault("kernel", 1 - sum(parts.values()))
    mean = {
        part: None if part in unmeasured else round(parts.get(part, 0) * STEP) for part in PARTS
    }
    idle = {"host wait": {part: ns for part, ns in mean.items() if ns}}
    return Facts(mean_ns=mean, step_ns=STEP, idle_ns=idle)


def waiting(**shares: int) -> Facts:
    """Facts of a step of 100 ns in which the device waited so many percent for each cause, while
    operators ran on the host; kernels have the rest."""
    idle = {cause.replace("_", " "): {"cpu_exec": ns} for cause, ns in shares.items()}
    parts = {"kernel": 100 - sum(shares.values()), "cpu_exec": sum(shares.values())}
    return Facts(mean_ns=dict.fromkeys(PARTS, 0) | parts, step_ns=100, idle_ns=idle)


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ({"kernel": 1.0}, ["device-bound"]),
        ({"dataloader": 0.33, "cpu_exec": 0.08}, ["input-bound"]),
        ({"dataloader": 0.05}, ["device-bound"]),
        ({"dataloader": 0.06}, ["device-bound", "input-bound"]),
        ({"dataloader": 0.15, "memcpy": 0.1}, ["device-bound", "input-bound", "copy-bound"]),
        ({"dataloader": 0.16, "memcpy": 0.1}, ["input-bound", "copy-bound"]),
        (
            {"communication": 0.11, "memcpy": 0.06},
            ["device-bound", "communication-bound", "copy-bound"],
        ),
        (
            {"dataloader": 0.15, "communication": 0.14, "memcpy": 0.13, "other": 0.15},
            ["input-bound", "communication-bound", "copy-bound"],
        ),
        ({"communication": 0.10, "memcpy": 0.05, "other": 0.15}, ["device-bound"]),
        ({"cpu_exec": 0.1, "runtime": 0.1, "other": 0.1}, ["host-bound"]),
        ({"cpu_exec": 0.5, "dataloader": 0.3}, ["host-bound", "input-bound"]),
    ],
)
def test_the_largest_loss_above_its_threshold_leads(
    parts: dict[str, float], codes: list[str]
) -> None:
    assert [finding.code for finding in judge(facts(**parts))] == codes


def test_the_evidence_is_in_the_sentence() -> None:
    verdict = judge(facts(dataloader=0.33))[0]
    assert "33.0 % of the step (330.0 µs)" in verdict.text
    assert (verdict.share, verdict.time_ns) == (0.33, 330_000)


def test_low_utilisation_is_named_where_the_host_is_the_limit() -> None:
    known = facts(cpu_exec=0.6)
    for utilization, named in ((0.49, True), (0.51, False)):
        told = replace(known, utilization=utilization)
        assert ("GPU utilisation" in judge(told)[0].text) == named


@pytest.mark.parametrize(
    ("idle", "codes"),
    [
        ({"host_wait": 54, "other": 4}, {"host-bound": 54}),
        ({"no_work_follows": 30, "host_wait": 30}, {"host-bound": 60}),
        ({"other": 54, "unlinked": 7, "host_wait": 2}, {"dependency-bound": 54, "idle": 7}),
        ({"kernel_wait": 20, "other": 6, "host_wait": 5}, {"gap-bound": 20, "dependency-bound": 6}),
        ({"unlinked": 60}, {"idle": 60}),
        # Idle time above its threshold, no cause of it above that for leading.
        (
            {"host_wait": 9, "other": 8},
            {"device-bound": 83, "host-bound": 9, "dependency-bound": 8},
        ),
        ({"host_wait": 3, "other": 12}, {"device-bound": 85}),
    ],
)
def test_idle_time_is_named_by_what_the_device_waits_for(
    idle: dict[str, int], codes: dict[str, int]
) -> None:
    assert {found.code: found.time_ns for found in judge(waiting(**idle))} == codes


def test_only_waiting_for_the_host_is_called_that() -> None:
    verdict = judge(waiting(other=54, host_wait=5))[0]
    assert "54.0 % of the step (54 ns)" in verdict.text
    assert "waits for another stream, event or rank" in verdict.text
    assert "waits for the host" not in verdict.text


def test_idle_time_without_a_known_cause_is_not_blamed_on_the_host() -> None:
    known = waiting(host_wait=20)
    (verdict,) = judge(replace(known, idle_ns={}))
    assert (verdict.code, verdict.time_ns) == ("idle", 20)


def test_a_device_that_waits_while_work_is_missing_is_unreliable_data() -> None:
    missing = check("graph_replay_unattributed", "warning")
    assert judge(replace(waiting(other=54), checks=[missing]))[0].code == "unreliable data"


DEVICE = ("kernel", "memcpy", "memset")
HOST = ("runtime", "dataloader", "cpu_exec")


def test_without_a_device_the_host_is_answered() -> None:
    known = facts(unmeasured=(*DEVICE, "runtime"), kernel=0.0, cpu_exec=0.9, other=0.1)
    told = Facts(known.mean_ns, STEP, operator=("aten::mm", 0.4))
    (verdict,) = judge(told)
    assert verdict.code == "host only"
    assert "90.0 %" in verdict.text
    assert "aten::mm" in verdict.text
    for loading, codes in ((0.5, ["input-bound"]), (0.06, ["host only", "input-bound"])):
        loads = facts(unmeasured=DEVICE, kernel=0.0, cpu_exec=1 - loading, dataloader=loading)
        assert [finding.code for finding in judge(loads)] == codes


def test_without_host_events_no_cause_is_claimed() -> None:
    (verdict,) = judge(facts(unmeasured=HOST, kernel=0.3, other=0.7))
    assert verdict.code == "device only"
    assert "no saying what the host did" in verdict.text


def test_a_recording_without_steps_is_not_called_a_step() -> None:
    known = facts(dataloader=0.4)
    verdict = judge(Facts(known.mean_ns, STEP, of="the recording"))[0]
    assert "40.0 % of the recording" in verdict.text


def check(name: str, severity: str, affects: str = "device-work,device-times") -> dict[str, Any]:
    return {"check": name, "severity": severity, "affects": affects}


@pytest.mark.parametrize(
    ("known", "found", "code", "marked"),
    [
        (facts(cpu_exec=0.9), check("launch_without_kernel", "warning"), "unreliable data", True),
        (facts(cpu_exec=0.9), check("launch_without_kernel", "note"), "host-bound", False),
        (facts(cpu_exec=0.9), check("duration_overrun", "warning"), "host-bound", True),
        (
            facts(cpu_exec=0.9),
            check("stream_overlap", "warning", "stream-order"),
            "host-bound",
            False,
        ),
        (facts(kernel=0.99), check("launch_without_kernel", "warning"), "device-bound", True),
        (facts(kernel=0.99), check("zero_ts", "error"), "unreliable data", True),
    ],
)
def test_a_failing_check_marks_the_verdict(
    known: Facts, found: dict[str, Any], code: str, marked: bool
) -> None:
    verdict = judge(replace(known, checks=[found]))[0]
    assert verdict.code == code
    assert (found["check"] in verdict.text) == marked
    assert verdict.next.startswith("`stepscope checks`") == marked


def test_nothing_recorded_is_said() -> None:
    assert judge(Facts(dict.fromkeys(PARTS), None))[0].code == "nothing recorded"
