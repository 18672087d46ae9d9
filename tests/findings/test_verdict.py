"""Which finding leads, at which thresholds, and when nothing may be claimed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepscope.analysis.overview import Times
from stepscope.analysis.steps.parts import IDLE_PARTS, PARTS
from stepscope.findings.engine import RankedFinding, judge
from stepscope.findings.facts import Facts
from stepscope.findings.rules import quick

STEP = 1_000_000
WORK = {"kernels": 10, "short": 0, "kernel_ns": 10, "work": 100}


class NoTables:
    """Tables without rows: a count of theirs is 0."""

    ranks = (0,)
    steps = ()
    store = SimpleNamespace(ranks=ranks, stored_steps=steps)

    @staticmethod
    def sql(query: str) -> pa.Table:
        return pa.table({})

    @staticmethod
    def value(query: str) -> int:
        return 0

    @staticmethod
    def has_none(*_tables: str) -> bool:
        return True

    @staticmethod
    def numpy(query: str) -> dict[str, Any]:
        return {name: np.empty(0) for name in ("rank", "span", "start_ns", "end_ns")}

    @staticmethod
    def cached(_key: object, make: Callable[[], Any]) -> Any:
        return make()


def known(**more: Any) -> Facts:
    """Facts of a marked step that are known without any table."""
    facts = Facts(NoTables())  # type: ignore[arg-type]
    facts.__dict__ |= {
        "times": Times(), "phases": None, "phases_alone": None, "rank_skew": None, "has_steps": True, "steps": 1,
        "checks": [], "counted": "true", "utilization": None, "kernels": WORK, "busiest_operator": None,
        "gaps": {}, "devices": [], "platform": "cuda", "optimizes": True, "loops_over_parameters": True, "trains": True, "has_loader": True,
        "by_torch_profiler": True, **more,
    }  # fmt: skip
    return facts


def facts(unmeasured: tuple[str, ...] = (), more: Any = (), **parts: float) -> Facts:
    """Facts of a step of 1 ms with these parts of it; the kernels have the rest."""
    parts.setdefault("kernel", 1 - sum(parts.values()))
    mean = {part: None if part in unmeasured else round(parts.get(part, 0) * STEP) for part in PARTS}
    idle = {cause: dict.fromkeys((*PARTS, *IDLE_PARTS), 0) for cause in CAUSES}
    idle["host wait"] |= {part: ns for part, ns in mean.items() if ns}
    return known(parts=mean, _idle_ns=idle, **dict(more))


CAUSES = ("host wait", "kernel wait", "other", "unlinked", "no work follows")


def waiting(more: Any = (), **shares: int) -> Facts:
    """Facts of a step of 100 ns in which the device waited so many percent for each cause, while
    operators ran on the host; kernels have the rest."""
    idle = {
        cause: dict.fromkeys(IDLE_PARTS, 0) | {"cpu_exec": shares.get(cause.replace(" ", "_"), 0)} for cause in CAUSES
    }
    parts = {"kernel": 100 - sum(shares.values()), "cpu_exec": sum(shares.values())}
    return known(parts=dict.fromkeys(PARTS, 0) | parts, _idle_ns=idle, **dict(more))


def verdict(facts: Facts) -> list[RankedFinding]:
    return [one for one in judge(facts, quick()) if one.limits]


def names(facts: Facts) -> list[str]:
    return [one.rule.id for one in verdict(facts)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"kernel": 1.0}, ["device-bound"]),
        ({"dataloader": 0.33, "cpu_exec": 0.04}, ["input-bound"]),
        ({"dataloader": 0.05}, ["device-bound"]),
        ({"dataloader": 0.06}, ["device-bound", "input-bound"]),
        ({"dataloader": 0.15, "copy": 0.1}, ["device-bound", "input-bound", "copy-bound"]),
        ({"dataloader": 0.16, "copy": 0.1}, ["input-bound", "copy-bound"]),
        ({"communication": 0.11, "copy": 0.06}, ["device-bound", "communication-bound", "copy-bound"]),
        # Kernels fill less than half of the step: the largest loss leads although it is no larger.
        (
            {"dataloader": 0.15, "communication": 0.14, "copy": 0.13, "other": 0.15},
            ["input-bound", "host-bound", "communication-bound", "copy-bound"],
        ),
        ({"communication": 0.10, "copy": 0.05, "other": 0.05}, ["device-bound"]),
        ({"cpu_exec": 0.1, "runtime": 0.1, "other": 0.1}, ["host-bound"]),
        ({"cpu_exec": 0.5, "dataloader": 0.3}, ["host-bound", "input-bound"]),
    ],
)
def test_the_largest_loss_above_its_threshold_leads(parts: dict[str, float], expected: list[str]) -> None:
    assert names(facts(**parts)) == expected


def test_the_evidence_is_in_the_sentence() -> None:
    (first,) = verdict(facts(dataloader=0.33))
    assert "33.0 % of the step (330.0 µs)" in first.finding.title
    assert (first.finding.share, first.finding.value) == (0.33, 0.33)


def test_low_utilisation_is_named_where_the_host_is_the_limit() -> None:
    for utilization, named in ((0.49, True), (0.51, False)):
        told = facts(cpu_exec=0.6, more={"utilization": utilization})
        assert ("GPU utilisation" in verdict(told)[0].finding.title) == named


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        ({"host_wait": 54, "other": 4}, {"host-bound": 54}),
        ({"no_work_follows": 30, "host_wait": 30}, {"host-bound": 60}),
        ({"other": 54, "unlinked": 7, "host_wait": 2}, {"dependency-bound": 54, "idle": 7}),
        ({"kernel_wait": 20, "other": 6, "host_wait": 5}, {"gap-bound": 20, "dependency-bound": 6}),
        ({"unlinked": 60}, {"idle": 60}),
        ({"host_wait": 9, "other": 8}, {"device-bound": 83, "host-bound": 9, "dependency-bound": 8}),
        ({"host_wait": 3, "other": 12}, {"device-bound": 85, "dependency-bound": 12}),
    ],
)
def test_idle_time_is_named_by_what_the_device_waits_for(idle: dict[str, int], expected: dict[str, int]) -> None:
    found = verdict(waiting(**idle))
    assert {one.rule.id: round(100 * (one.finding.share or 0)) for one in found} == expected


def test_only_waiting_for_the_host_is_called_that() -> None:
    title = verdict(waiting(other=54, host_wait=5))[0].finding.title
    assert "54.0 % of the step (54 ns)" in title
    assert "waits for another stream, event or rank" in title
    assert "waits for the host" not in title


def test_idle_time_without_a_known_cause_is_not_blamed_on_the_host() -> None:
    told = waiting(host_wait=20)
    for own in told.__dict__["_idle_ns"].values():
        own["cpu_exec"] = 0
    (first,) = verdict(told)
    assert (first.rule.id, first.finding.share) == ("idle", 0.2)


DEVICE = ("kernel", "copy", "memset")
HOST = ("runtime", "dataloader", "cpu_exec")


def test_without_a_device_the_host_is_answered() -> None:
    told = facts(
        unmeasured=(*DEVICE, "runtime"), kernel=0.0, cpu_exec=0.9, other=0.1,
        more={"busiest_operator": ("aten::mm", 0.4 * STEP)},
    )  # fmt: skip
    (first,) = verdict(told)
    assert first.rule.id == "host-only"
    assert "90.0 %" in first.finding.title
    assert "aten::mm alone takes 40.0 % of the step (400.0 µs)" in first.finding.title
    for loading, expected in ((0.5, ["input-bound"]), (0.06, ["host-only", "input-bound"])):
        loads = facts(unmeasured=DEVICE, kernel=0.0, cpu_exec=1 - loading, dataloader=loading)
        assert names(loads) == expected
        assert "training waits" in verdict(loads)[-1].finding.title


def test_without_host_events_no_cause_is_claimed() -> None:
    (first,) = verdict(facts(unmeasured=HOST, kernel=0.3, other=0.7))
    assert first.rule.id == "device-only"
    assert "what the host did while the device was idle is unknown" in first.finding.title


def test_a_recording_without_steps_is_not_called_a_step() -> None:
    told = facts(dataloader=0.4, more={"has_steps": False, "of": "the recording"})
    assert "40.0 % of the recording" in verdict(told)[0].finding.title


def check(name: str, severity: str, affects: str = "device-work") -> dict[str, Any]:
    return {"check": name, "severity": severity, "affects": affects}


@pytest.mark.parametrize(
    ("parts", "found", "expected", "marked"),
    [
        ({"cpu_exec": 0.9}, check("launch_without_kernel", "warning"), ["data-quality"], True),
        ({"dataloader": 0.9}, check("launch_without_kernel", "warning"), ["data-quality"], True),
        ({"cpu_exec": 0.9}, check("duration_overrun", "warning", "device-times"), ["host-bound"], True),
        ({"cpu_exec": 0.9}, check("stream_overlap", "warning", "stream-order"), ["host-bound"], False),
        ({"kernel": 0.99}, check("launch_without_kernel", "warning"), ["device-bound"], True),
        (
            {"kernel": 0.99},
            check("zero_ts", "error", "device-times"),
            ["data-quality", "device-bound"],
            True,
        ),
        ({"kernel": 0.99}, check("truncated", "warning", "file"), ["device-bound"], True),
    ],
)  # fmt: skip
def test_a_failing_check_marks_the_verdict_or_takes_its_place(
    parts: dict[str, float], found: dict[str, Any], expected: list[str], marked: bool
) -> None:
    told = facts(**parts, more={"checks": [found]})
    assert names(told) == expected
    first = verdict(told)[0].finding
    assert (found["check"] in first.title) == marked
    assert ("`stepscope checks`" in first.advice) == marked


def test_nothing_recorded_is_said() -> None:
    assert names(known(parts=dict.fromkeys(PARTS), has_steps=False)) == ["nothing-recorded"]
