"""One sentence on what limits a step, from how its time is split. Rules and thresholds are all here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscope.analysis.gaps import KERNEL_WAIT_NS
from stepscope.floor.units import ratio_text, time_text
from stepscope.formats.evidence import bears_on

INPUT_THRESHOLD = 0.05
"""Exposed data loading above this is a loss (TensorBoard profiler plugin: DataLoader > 5 %)."""
COMMUNICATION_THRESHOLD = 0.10
"""Exposed communication above this is one (TensorBoard profiler plugin: > 10 %)."""
COPY_THRESHOLD = 0.05
"""Exposed copies above this are one (TraceLens: a direction of copies above 5 % of the total)."""
HOST_THRESHOLD = 0.15
"""Time in which the device does nothing above this is one, whatever it waits for (TraceLens: idle
above 15 %)."""
CAUSE_THRESHOLD = 0.05
"""A cause of such time above this is named beside the largest (ours, as for other losses)."""
LEADING_THRESHOLD = 0.15
"""A loss above this is what the verdict names (TraceLens: computation below 85 % of the total)."""
UTILIZATION_THRESHOLD = 0.50
"""GPU utilisation below this is low (TensorBoard profiler plugin): the largest loss is then named
whatever its size."""

_WAITING = ("runtime", "cpu_exec", "other")
"""What the host does while the device does nothing for a reason that is none of the rules' before."""
_CAUSES = {
    "host-bound": ("host wait", "no work follows"),
    "dependency-bound": ("other",),
    "gap-bound": ("kernel wait",),
    "idle": ("unlinked", None),
}
"""Causes of idle time (see `idle`) by the finding that they make; None for time without a cause."""

_RESTS_ON = ("host-times", "device-work", "device-times", "launches", "clocks", "steps")
"""The evidence on which a verdict rests."""
_SHOWN = 0.0005
"""Shares below this would read 0.0 %."""
_MOST_CHECKS_NAMED = 3
_WORK_MISSING = {"launch_without_kernel", "graph_replay_unattributed", "no_gpu_events"}
"""Checks that, when they fail, say that the device did more than was recorded: then it was not as
idle as it looks, and nobody can say that it waited."""


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
        idle_ns: mean time in which the device did nothing, by cause and activity; what is missing
            has no known cause.
    """

    mean_ns: Mapping[str, int | None]
    step_ns: int | None
    of: str = "the step"
    utilization: float | None = None
    operator: tuple[str, float] | None = None
    checks: Sequence[Mapping[str, Any]] = field(default=())
    idle_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def time(self, *activities: str) -> int:
        """What these activities take together (ns); 0 where not measured."""
        return sum(self.mean_ns.get(activity) or 0 for activity in activities)

    def share(self, *activities: str) -> float:
        """The part of the step that they take together."""
        return self.part(self.time(*activities))

    def part(self, ns: int) -> float:
        """A time as a part of the step."""
        return ns / self.step_ns if self.step_ns else 0.0

    def amount(self, ns: int) -> str:
        """`33.4 % of the step (59.3 ms)`."""
        return f"{ratio_text(self.part(ns))} of {self.of} ({time_text(ns)})"

    def waits(self, activity: str, *causes: str | None) -> int:
        """The part of an activity's time that is idle time of these causes (ns)."""
        known = {cause: own.get(activity, 0) for cause, own in self.idle_ns.items()}
        unknown = max(self.time(activity) - sum(known.values()), 0)
        return sum(unknown if cause is None else known.get(cause, 0) for cause in causes)

    def measured(self, activity: str) -> bool:
        """Whether the recording could show an activity."""
        return self.mean_ns.get(activity) is not None


@dataclass(frozen=True, slots=True)
class Finding:
    """A loss, or the absence of one.

    Args:
        code: `input-bound`, `communication-bound`, `copy-bound`, `host-bound`, `dependency-bound`,
            `gap-bound`, `idle`, `device-bound`, `host only`, `device only`, `unreliable data` or
            `nothing recorded`.
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
            time_ns = facts.time(*activities)
            text = f"{_name(code)}: for {facts.amount(time_ns)} {what}."
            found.append(Finding(code, text, then, share, time_ns))
    if has_device and facts.measured("cpu_exec"):
        found += _idle(facts)
    return found


def _idle(facts: Facts) -> list[Finding]:
    """The time in which the device does nothing, by what it waits for: the largest cause, and others
    that take enough. Together they are the idle time, but for what belongs to the rules above."""
    if facts.share(*_WAITING) <= HOST_THRESHOLD:
        return []
    causes = sorted(
        (
            (code, {part: facts.waits(part, *names) for part in _WAITING})
            for code, names in _CAUSES.items()
        ),
        key=lambda cause: -sum(cause[1].values()),
    )
    return [
        _IDLE_FINDING[code](facts, waits, "" if place else _low(facts))
        for place, (code, waits) in enumerate(causes)
        if place == 0 or sum(waits.values()) / (facts.step_ns or 1) > CAUSE_THRESHOLD
    ]


def _host_bound(facts: Facts, waits: Mapping[str, int], low: str) -> Finding:
    parts = [
        f"{words} {ratio_text(facts.part(waits[activity]))}"
        for activity, words in (
            ("cpu_exec", "operators and Python"),
            ("runtime", "runtime calls"),
            ("other", "nothing recorded"),
        )
        if facts.part(waits[activity]) >= _SHOWN
    ]
    then = (
        "`stepscope idle` for what the host does meanwhile, `stepscope launches` for launch cost; "
        "CUDA graphs or torch.compile launch less"
    )
    time_ns = sum(waits.values())
    if waits["other"] > time_ns / 2:
        then = "record with_stack=True to see the Python code that runs; then `stepscope idle`"
    return Finding(
        "host-bound",
        f"Host-bound: for {facts.amount(time_ns)} the device waits for the host "
        f"({', '.join(parts)}){low}.",
        then,
        facts.part(time_ns),
        time_ns,
    )


def _dependency_bound(facts: Facts, waits: Mapping[str, int], low: str) -> Finding:
    time_ns = sum(waits.values())
    return Finding(
        "dependency-bound",
        f"Dependency-bound: for {facts.amount(time_ns)} the device has its next work and waits for "
        f"another stream, event or rank, or for what was not recorded{low}.",
        "`stepscope idle` for the streams that wait; record all ranks to see for whom",
        facts.part(time_ns),
        time_ns,
    )


def _gap_bound(facts: Facts, waits: Mapping[str, int], low: str) -> Finding:
    time_ns = sum(waits.values())
    return Finding(
        "gap-bound",
        f"Gap-bound: for {facts.amount(time_ns)} the device is between two pieces of work that were "
        f"launched in time, each gap shorter than {time_text(KERNEL_WAIT_NS)}{low}.",
        "`stepscope kernels`: fewer, longer ones (fused operators, torch.compile, CUDA graphs) leave "
        "fewer gaps",
        facts.part(time_ns),
        time_ns,
    )


def _idle_for_unknown_reasons(facts: Facts, waits: Mapping[str, int], low: str) -> Finding:
    time_ns = sum(waits.values())
    return Finding(
        "idle",
        f"Idle: for {facts.amount(time_ns)} the device does nothing, for reasons not recorded{low}.",
        "`stepscope idle`; the launches that would say why are not in the recording",
        facts.part(time_ns),
        time_ns,
    )


def _low(facts: Facts) -> str:
    if facts.utilization is None or facts.utilization >= UTILIZATION_THRESHOLD:
        return ""
    return f"; GPU utilisation is {ratio_text(facts.utilization)}"


_IDLE_FINDING = {
    "host-bound": _host_bound,
    "dependency-bound": _dependency_bound,
    "gap-bound": _gap_bound,
    "idle": _idle_for_unknown_reasons,
}


def _device_bound(facts: Facts) -> Finding:
    used = (
        "" if facts.utilization is None else f"; GPU utilisation is {ratio_text(facts.utilization)}"
    )
    return Finding(
        "device-bound",
        f"Device-bound: kernels fill {facts.amount(facts.time('kernel'))}{used}.",
        "`stepscope kernels` and `stepscope operators`: the largest are where time can be won",
        facts.share("kernel"),
        facts.time("kernel"),
    )


def _host_only(facts: Facts) -> Finding:
    most = ""
    if facts.operator is not None:
        name, share = facts.operator
        most = f"; {name} has most of their self time ({ratio_text(share)})"
    return Finding(
        "host only",
        "No device in the recording: operators and Python on the host fill "
        f"{facts.amount(facts.time('cpu_exec'))}{most}.",
        "`stepscope operators`; record with ProfilerActivity.CUDA (XPU, ...) to see a device",
        facts.share("cpu_exec"),
        facts.time("cpu_exec"),
    )


def _device_only(facts: Facts) -> Finding:
    return Finding(
        "device only",
        f"No operators in the recording: kernels fill {facts.amount(facts.time('kernel'))}, and there is no "
        f"saying what the host did while the device was idle.",
        "`stepscope kernels`; record with ProfilerActivity.CPU too, to see operators and causes",
        facts.share("kernel"),
        facts.time("kernel"),
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
        if check["severity"] in ("warning", "error") and bears_on(check["affects"], _RESTS_ON)
    ]
    if not failing:
        return finding
    found = {str(check["check"]): None for check in failing}
    names = ", ".join([*found][:_MOST_CHECKS_NAMED])
    if len(found) > _MOST_CHECKS_NAMED:
        names += f" and {len(found) - _MOST_CHECKS_NAMED} more"
    grave = any(check["severity"] == "error" for check in failing)
    grave |= finding.code in _CAUSES and not _WORK_MISSING.isdisjoint(found)
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
