"""`host-bound`: the device waits for what the host does, other than launching many short kernels."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.judge.declare import Finding, Threshold, rule
from stepscope.judge.facts import Facts, first

WAITING = ("runtime", "cpu_exec", "other")

SHARE = Threshold(
    "time in which the device waits for the host, of the step",
    0.15,
    "ratio",
    "TraceLens: idle > 15 % of the total",
)
SHORT = Threshold(
    "kernels below 10 µs, of all kernels",
    0.5,
    "ratio",
    "TraceLens calls a kernel below 10 µs short; half of them: ours, so that launching is what the "
    "host mostly does",
)
RECORDER = Threshold(
    "what recording costs the host, per event",
    1_000,
    "ns",
    "ours: about a microsecond an operator or frame on today's processors; it only lowers the lower "
    "bound",
)

WORK_MISSING = ("launch_without_kernel", "graph_replay_unattributed", "no_gpu_events")
"""Checks that say that the device did more than was recorded."""

_CALLS = """
    SELECT name AS call, count(*) AS calls, sum(self_ns)::BIGINT AS self_ns
    FROM host_event WHERE kind = 'runtime' AND {counted} GROUP BY name ORDER BY self_ns DESC, name
"""


def waiting_ns(facts: Facts) -> float:
    """How long the device waits for the host in a step (ns); 0 where it is not for long, or where the
    recording does not show both sides."""
    measured = facts.parts.get("kernel") is not None and facts.parts.get("cpu_exec") is not None
    if not measured or facts.share(*WAITING) <= SHARE.value or not facts.enough_work:
        return 0
    # What was launched in time and did not run waits for another stream or rank, not for the host.
    time_ns = min(float(facts.time(*WAITING)), facts.host_wait_ns)
    return time_ns if facts.part_of_step(time_ns) > SHARE.value else 0


def mostly_short(facts: Facts) -> bool:
    """Whether most kernels are short."""
    kernels = facts.kernels
    return bool(kernels["kernels"]) and kernels["short"] / kernels["kernels"] >= SHORT.value


def saving(facts: Facts) -> tuple[float, float]:
    """Bounds of what could be saved: all of the waiting, less what the recorder itself may cost."""
    high = waiting_ns(facts)
    events = facts.scope.value("SELECT count(*) FROM host_event") / max(1, facts.times.steps)
    return max(0.0, high - RECORDER.value * events), high


@rule(
    "host-bound",
    "Devices that wait for the host, which is busy with more than launching short kernels.",
    SHARE,
    SHORT,
    RECORDER,
    saves="waiting",
    unreliable_with=("clock_skew", "unlinked_kernel_fraction", "first_step_starved"),
    silent_with=WORK_MISSING,
)
def host_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device because its next work was launched only then (host wait
    in `idle`), as far as the host was in runtime calls, operators, ranges and Python or in nothing
    that was recorded, and not in the DataLoader. Idle time before work that had been launched in time
    does not count: the device waited for another stream or rank.

    At most all of it can be saved. The recorder itself slows the host: the lower bound leaves out
    about a microsecond for each recorded host event. Where most kernels are short, `launch-bound`
    says the same with its own cure.
    """
    if not waiting_ns(facts) or mostly_short(facts):
        return
    low, high = saving(facts)
    unknown = facts.time("other") > high / 2
    advice = (
        "Look at `stepscope idle` for what the host does meanwhile: move logging, metrics and "
        "data preparation out of the step, avoid Python loops over tensors, launch ahead of the device."
    )
    if unknown:
        advice = "Record with_stack=True to see what the host does, then look at `stepscope idle`."
    yield Finding(
        title=f"Host-bound: for {facts.amount(high)} the device waits for the host",
        metric="time in which the device waits for the host, of the step",
        value=facts.part_of_step(high),
        unit="ratio",
        saving_ns=(0 if unknown else low, high),
        confidence="low" if unknown else "medium",
        evidence=first(facts.host(_CALLS)),
        advice=advice,
        query="stepscope findings SRC --id host-bound --json",
    )
