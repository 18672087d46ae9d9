"""Rules about devices that are idle without evidence that they wait for the host."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.steps.gaps import KERNEL_WAIT_NS
from stepscope.base.units import time_text
from stepscope.findings.cures import compile_it, graphs, joined
from stepscope.findings.declare import AS_INPUT, Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.rules.low_utilization import low_use
from stepscope.findings.stream_waits import in_words, stream_waits

_DEPENDENCY = worth("time in which the device waits before work that was launched in time", 0.05, AS_INPUT)
_GAPS = worth("short gaps before work that was launched in time", 0.05, AS_INPUT)
_UNKNOWN = worth("idle time of unknown cause", 0.05, AS_INPUT)


@rule(
    "dependency-bound",
    "Devices that have their next work and wait for another stream, event or rank.",
    _DEPENDENCY,
    rests_on=("clocks",),
    silent_without=("device-work",),
)
def dependency_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device although its next work had been launched (other in `idle`: gaps of 30
    µs and more). The finding names the waiting streams, and where they wait: before or within replays of CUDA graphs,
    before or after a collective, after work on another stream, or between two pieces of their own. One rank's recording
    does not show what they wait for, so no saving is stated.
    """
    time_ns = sum(facts.idle_ns("other").values())
    if facts.part_of_step(time_ns) <= _DEPENDENCY.value:
        return
    waits = stream_waits(facts)
    places = in_words(waits)
    yield from _idle(
        facts,
        ("other",),
        _DEPENDENCY,
        metric="idle time before work that was launched in time, of the step",
        title="Dependency-bound: for {} the device has its next work but waits for another stream, event or rank, or for "
        "something not recorded" + (f"; {places}" if places else ""),
        advice=f"`stepscope idle` for the streams that wait.{_for_whom(facts)}",
        evidence=first(waits),
    )


@rule(
    "gap-bound",
    "Devices that lose time in short gaps between pieces of work.",
    _GAPS,
    rests_on=("clocks",),
    silent_without=("device-work",),
)
def gap_bound(facts: Facts) -> Iterator[Finding]:
    """The gaps below 30 µs before work that had been launched in time (kernel wait in `idle`): the device's own delay
    between two pieces of work. `small-kernels` says what fewer kernels could save.
    """
    replayed = facts.has_rows("host_event", "role = 'graph_launch'")
    cures = joined("fused operators", compile_it(facts), "" if replayed else graphs(facts))
    yield from _idle(
        facts,
        ("kernel wait",),
        _GAPS,
        metric=_GAPS.name,
        title=f"Gap-bound: {{}} is gaps below {time_text(KERNEL_WAIT_NS)} between work that was launched in time",
        advice=f"`stepscope kernels`: fewer, longer ones ({cures}) leave fewer gaps.",
    )


@rule(
    "idle",
    "Devices that are idle for reasons that are not in the recording.",
    _UNKNOWN,
    silent_without=("device-work",),
)
def idle(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device before work whose launch was not recorded (unlinked in `idle`): it is
    unknown whether it was launched late.
    """
    yield from _idle(
        facts,
        ("unlinked", None),
        _UNKNOWN,
        metric=_UNKNOWN.name,
        title="Idle: for {} nothing runs on the device, and the recording does not show why",
        advice="`stepscope idle`; the launches that would show why were not recorded.",
    )


def _for_whom(facts: Facts) -> str:
    """How to record next time what a stream waits for."""
    ranks = facts.scope.value("SELECT max(world_size) FROM rank") or 1
    ways = []
    if ranks > 1 and ranks > len(facts.scope.store.ranks):
        ways.append("Record all ranks")
    if facts.platform == "cuda" and facts.by_torch_profiler:
        config = "torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True)"
        ways.append(f"{'with' if ways else 'Record with'} experimental_config={config}")
    return f" {', and '.join(ways)}, to see for whom." if ways else ""


def _idle(
    facts: Facts,
    causes: tuple[str | None, ...],
    share: Threshold,
    *,
    metric: str,
    title: str,
    advice: str,
    evidence: tuple[Row, ...] = (),
) -> Iterator[Finding]:
    """Yields a finding if idle time of these causes (see `idle`) is more than a share of the step."""
    time_ns = sum(facts.idle_ns(*causes).values())
    if facts.part_of_step(time_ns) <= share.value:
        return
    yield of_step(
        "loss",
        facts.part_of_step(time_ns),
        metric,
        title=title.format(facts.amount(time_ns)) + low_use(facts),
        evidence=evidence,
        advice=advice,
    )
