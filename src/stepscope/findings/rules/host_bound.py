"""`host-bound`: the device waits for the host to give it work."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.steps.parts import WAITING
from stepscope.base.units import count_text, ratio_text
from stepscope.findings.cures import graphs, launch_less, show_the_host
from stepscope.findings.declare import AS_INPUT, Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts
from stepscope.findings.rules.low_utilization import low_use, operators_launch

_SHARE = worth("time in which the device waits for the host", 0.05, AS_INPUT)
_SHORT = Threshold(
    "kernels below 10 µs, of all kernels, from which launching is the cause",
    0.5,
    "ratio",
    "TraceLens calls a kernel below 10 µs short; half of them: ours",
)
_RAN_DRY = Threshold(
    "steps in which the device had finished backward before the host launched the optimizer, of phases",
    0.80,
    "ratio",
    "ours: a device that is behind the host has in hardly any",
)
_VISIBLE = 0.0005
"""Smaller shares would be shown as 0.0 %."""
_ELSEWHERE = "Python moved out of the step has to run elsewhere."
_CAPTURED = "Captured graphs fix shapes and addresses and have their own memory."
_COMPILED = "torch.compile takes time at the start and for each new shape."


@rule(
    "host-bound",
    "Devices that wait for the host to give them work.",
    _SHARE,
    _SHORT,
    _RAN_DRY,
    trade_off=f"{_ELSEWHERE} {_CAPTURED} {_COMPILED}",
    rests_on=("clocks", "launches"),
    silent_without=("device-work",),
)
def host_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which nothing ran on a device because its next work was launched only then, or none followed (host
    wait and no work follows in `idle`), while the host was in runtime calls, operators, ranges, Python or nothing that
    was recorded, and not in the DataLoader. Idle time before work that had been launched in time does not count: the
    device waited for another stream or rank. Neither do single long waits that make up most of a step's (`single-gaps`,
    `cold-start`), nor those in which the host itself waits (`unrecorded-work`). If most kernels are short, or operators
    that launch work fill most of these waits, an operator takes the host longer than its kernel takes the device, and
    launching less is the cure.

    For phases, which do not contain the device's idle time, it is reported if the device had run out of work in most
    steps; its share is the host's time in forward, backward and optimizer.

    At most all of it can be saved, plus the other waits for the host and its loader, which a host that gets ahead
    hides; the recorder itself slows the host. Phases, and less work than a training step has, give no saving.
    """
    if facts.phases_alone is not None:
        yield from _of_phases(facts)
        return
    waits = facts.host_waits.many
    time_ns = sum(waits.values())
    share = facts.part_of_step(time_ns)
    if share <= _SHARE.value:
        return
    unknown = waits["other"] + waits["range"] > time_ns / 2
    kernels = facts.kernels
    short = kernels["short"] / kernels["kernels"] if kernels["kernels"] else 0.0
    launching, advice = (
        "",
        "move logging, metrics and data preparation out of the step, "
        + "avoid Python loops over tensors, " * facts.in_pytorch
        + "launch ahead of the device.",
    )
    if facts.enough_work and (short >= _SHORT.value or operators_launch(facts)):
        launching = (
            f", which launches {count_text(round(kernels['kernels'] / facts.steps))} kernels, "
            f"{ratio_text(short)} of them below 10 µs"
        )
        advice = launch_less(facts)
    advice = f"`stepscope idle` for what the host does meanwhile; {advice}"
    if unknown:
        advice = show_the_host(facts)
    has_long = facts.part_of_step(facts.host_waits.mean_ns(facts.host_waits.long)) > _SHARE.value
    parts = ", ".join(
        f"{words} {ratio_text(facts.part_of_step(waits[part]))}"
        for part, words in WAITING.items()
        if facts.part_of_step(waits[part]) >= _VISIBLE
    )
    yield of_step(
        "loss",
        share,
        "time in which the device waits for the host, of the step",
        title=f"Host-bound: for {facts.amount(time_ns)} the device waits for the host"
        f"{' in short gaps' if has_long else ''} ({parts})"
        f"{launching}{low_use(facts)}",
        saving_ns=time_ns if facts.enough_work else None,
        hidden_ns=facts.time("dataloader") + facts.host_waits.mean_ns(facts.host_waits.long),
        confidence="low" if unknown or not facts.enough_work else "medium",
        evidence=(
            {
                **{f"{part}_ns": ns for part, ns in waits.items()},
                "kernels_per_step": kernels["kernels"] / facts.steps,
                "short_per_step": kernels["short"] / facts.steps,
                "kernel_ns": kernels["kernel_ns"] / facts.steps,
                "step_ns": facts.step_ns,
            },
        ),
        advice=advice,
        trade_off=_of_launching_less(facts) if launching else _ELSEWHERE,
    )


def _of_launching_less(facts: Facts) -> str:
    """The costs of the cures that `launch_less` names."""
    cures = ((graphs(facts), _CAPTURED), (facts.in_pytorch, _COMPILED))
    return " ".join(words for named, words in cures if named)


def _of_phases(facts: Facts) -> Iterator[Finding]:
    phases = facts.phases_alone
    checked = 0 if phases is None else phases.total("checked_steps")
    if phases is None or not checked:
        return
    idle = phases.total("idle_steps") / checked
    # A device that only gets its work late (the job waits for it every step) is slower than the host.
    if idle < _RAN_DRY.value or phases.host_ns() < 0.9 * phases.device_ns():
        return
    share = facts.share("compute")
    if share <= _SHARE.value:
        return
    yield of_step(
        "loss",
        share,
        "forward, backward and optimizer on the host, of the step",
        title=f"Host-bound: in {ratio_text(idle)} of the steps the device had run out of work before "
        "the host gave it more",
        evidence=({"checked_steps": checked, "idle_steps": phases.total("idle_steps")},),
        advice=f"Record a trace; {launch_less(facts)}",
        query=facts.parts_query,
        ranks=facts.on_ranks("compute", _SHARE.value)[1],
    )
