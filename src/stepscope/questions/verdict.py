"""One sentence on what limits a step, from how its time is split. Rules and thresholds are all here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscope.units import ratio_text, time_text

INPUT_THRESHOLD = 0.05
"""Exposed data loading above this is a loss (TensorBoard profiler plugin: DataLoader > 5 %)."""
COMMUNICATION_THRESHOLD = 0.10
"""Exposed communication above this is one (TensorBoard profiler plugin: > 10 %)."""
COPY_THRESHOLD = 0.05
"""Exposed copies above this are one (TraceLens: a direction of copies above 5 % of the total)."""
HOST_THRESHOLD = 0.15
"""Time in which the device waits for the host above this is one (TraceLens: idle above 15 %)."""
LEADING_THRESHOLD = 0.15
"""A loss above this is what the verdict names (TraceLens: computation below 85 % of the total)."""
UTILIZATION_THRESHOLD = 0.50
"""GPU utilisation below this is low (TensorBoard profiler plugin): the largest loss is then named
whatever its size."""

_JUDGED = {"summary", "steps", "device-time", "utilization"}
"""Questions on whose answers a verdict rests."""
_SHOWN = 0.0005
"""Shares below this would read 0.0 %."""
_MOST_CHECKS_NAMED = 3
_WORK_MISSING = {"launch_without_kernel", "graph_replay_unattributed", "no_gpu_events"}
"""Checks that, when they fail, say that the device did more than was recorded: then it was not as
idle as it looks, and nobody can say that it waited for the host."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a verdict is made of.

    Args:
        mean_ns: mean time of each activity of the step breakdown, None where it was not measured.
        step_ns: mean step time; None without steps.
        of: what these times are of, in words: the step, or what stands in for it.
        utilization: GPU utilisation; None without a device.
        operator: the operator with the largest self time on the host, and its part of that of all.
        checks: rows of `data_check` that found something.
    """

    mean_ns: Mapping[str, int | None]
    step_ns: int | None
    of: str = "the step"
    utilization: float | None = None
    operator: tuple[str, float] | None = None
    checks: Sequence[Mapping[str, Any]] = field(default=())

    def share(self, *activities: str) -> float:
        """The part of the step that these activities take together; 0 where not measured."""
        return (
            sum(self.mean_ns.get(a) or 0 for a in activities) / self.step_ns
            if self.step_ns
            else 0.0
        )

    def measured(self, activity: str) -> bool:
        """Whether the recording could show an activity."""
        return self.mean_ns.get(activity) is not None


@dataclass(frozen=True, slots=True)
class Finding:
    """A loss, or the absence of one.

    Args:
        code: `input-bound`, `communication-bound`, `copy-bound`, `host-bound`, `device-bound`,
            `host only`, `device only`, `unreliable data` or `nothing recorded`.
        text: one sentence with its evidence.
        next: what to look at next.
        share: the part of the step it is about.
        time_ns: the same, of a mean step.
    """

    code: str
    text: str
    next: str
    share: float | None = None
    time_ns: int | None = None


def judge(facts: Facts) -> list[Finding]:
    """What limits the step: the verdict first, then further losses above their thresholds."""
    if not facts.step_ns:
        return [_nothing()]
    has_device, has_host = facts.measured("kernel"), facts.measured("cpu_exec")
    losses = sorted(_losses(facts, has_device), key=lambda loss: -(loss.share or 0))
    working = facts.share("kernel" if has_device else "cpu_exec")
    limited = losses and (
        (losses[0].share or 0) > LEADING_THRESHOLD or working < UTILIZATION_THRESHOLD
    )
    if not has_host:
        found = [_device_only(facts), *losses]
    elif limited:
        found = losses
    else:
        found = [_device_bound(facts) if has_device else _host_only(facts), *losses]
    return [_with_reliability(found[0], facts), *found[1:]]


def _losses(facts: Facts, has_device: bool) -> list[Finding]:
    waits = "the device waits" if has_device else "training waits"
    rules = (
        (
            "input-bound",
            ("dataloader",),
            INPUT_THRESHOLD,
            f"{waits} for the next batch of the DataLoader",
            "`stepscope steps`, then the loader: more workers (num_workers), prefetching, cheaper "
            "transforms",
        ),
        (
            "communication-bound",
            ("communication",),
            COMMUNICATION_THRESHOLD,
            "ranks communicate, or wait for each other, with nothing to hide it",
            "`stepscope device-time` for exposed and hidden communication by rank",
        ),
        (
            "copy-bound",
            ("memcpy",),
            COPY_THRESHOLD,
            "the device copies and computes nothing meanwhile",
            "`stepscope copies` for direction, bandwidth and pageable memory",
        ),
    )
    found = []
    for code, activities, threshold, what, then in rules:
        share = facts.share(*activities)
        if share > threshold:
            text = f"{_name(code)}: for {_amount(facts, *activities)} {what}."
            found.append(Finding(code, text, then, share, _time(facts, *activities)))
    if has_device and facts.measured("cpu_exec"):
        found += _host_bound(facts)
    return found


def _host_bound(facts: Facts) -> list[Finding]:
    activities = ("runtime", "cpu_exec", "other")
    share = facts.share(*activities)
    if share <= HOST_THRESHOLD:
        return []
    parts = [
        f"{words} {ratio_text(facts.share(activity))}"
        for activity, words in (
            ("cpu_exec", "operators and Python"),
            ("runtime", "runtime calls"),
            ("other", "nothing recorded"),
        )
        if facts.share(activity) >= _SHOWN
    ]
    then = (
        "`stepscope idle` for what the host does meanwhile, `stepscope launches` for launch cost; "
        "CUDA graphs or torch.compile launch less"
    )
    if facts.share("other") > share / 2:
        then = "record with_stack=True to see the Python code that runs; then `stepscope idle`"
    low = ""
    if facts.utilization is not None and facts.utilization < UTILIZATION_THRESHOLD:
        low = f"; GPU utilisation is {ratio_text(facts.utilization)}"
    return [
        Finding(
            "host-bound",
            f"Host-bound: for {_amount(facts, *activities)} the device waits for the host "
            f"({', '.join(parts)}){low}.",
            then,
            share,
            _time(facts, *activities),
        )
    ]


def _device_bound(facts: Facts) -> Finding:
    used = (
        "" if facts.utilization is None else f"; GPU utilisation is {ratio_text(facts.utilization)}"
    )
    return Finding(
        "device-bound",
        f"Device-bound: kernels fill {_amount(facts, 'kernel')}{used}.",
        "`stepscope kernels` and `stepscope operators`: the largest are where time can be won",
        facts.share("kernel"),
        _time(facts, "kernel"),
    )


def _host_only(facts: Facts) -> Finding:
    most = ""
    if facts.operator is not None:
        name, share = facts.operator
        most = f"; {name} has most of their self time ({ratio_text(share)})"
    return Finding(
        "host only",
        "No device in the recording: operators and Python on the host fill "
        f"{_amount(facts, 'cpu_exec')}{most}.",
        "`stepscope operators`; record with ProfilerActivity.CUDA (XPU, ...) to see a device",
        facts.share("cpu_exec"),
        _time(facts, "cpu_exec"),
    )


def _device_only(facts: Facts) -> Finding:
    return Finding(
        "device only",
        f"No operators in the recording: kernels fill {_amount(facts, 'kernel')}, and there is no "
        f"saying what the host did while the device was idle.",
        "`stepscope kernels`; record with ProfilerActivity.CPU too, to see operators and causes",
        facts.share("kernel"),
        _time(facts, "kernel"),
    )


def _nothing() -> Finding:
    return Finding(
        "nothing recorded",
        "Nothing recorded: there is no host or device event to judge by.",
        "`stepscope sources` for what was read; `stepscope inline` and `stepscope phases` for what a "
        "job measured of itself",
    )


def _with_reliability(finding: Finding, facts: Facts) -> Finding:
    """The same, marked with the checks that make it unreliable: never a plain number then."""
    failing = [
        check
        for check in facts.checks
        if check["severity"] in ("warning", "error")
        and _JUDGED & {name.strip() for name in str(check["affects"]).split(",")}
    ]
    if not failing:
        return finding
    found = {str(check["check"]): None for check in failing}
    names = ", ".join([*found][:_MOST_CHECKS_NAMED])
    if len(found) > _MOST_CHECKS_NAMED:
        names += f" and {len(found) - _MOST_CHECKS_NAMED} more"
    grave = any(check["severity"] == "error" for check in failing)
    grave |= finding.code == "host-bound" and not _WORK_MISSING.isdisjoint(found)
    code = "unreliable data" if grave else finding.code
    text = finding.text
    if grave:
        text = f"Unreliable data ({names}), so with care: {text[0].lower()}{text[1:]}"
    else:
        text = f"{text} Read with care: {names}."
    return Finding(
        code, text, f"`stepscope checks`, then {finding.next}", finding.share, finding.time_ns
    )


def _name(code: str) -> str:
    return code[0].upper() + code[1:]


def _time(facts: Facts, *activities: str) -> int:
    return sum(facts.mean_ns.get(activity) or 0 for activity in activities)


def _amount(facts: Facts, *activities: str) -> str:
    return f"{ratio_text(facts.share(*activities))} of {facts.of} ({time_text(_time(facts, *activities))})"
