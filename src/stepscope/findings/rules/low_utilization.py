"""Rules about devices that are used little: kernels run for less than half of the time, or devices take turns."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.recording import (
    COMPUTATION,
    device_work,
    every_step,
    groups,
    rank_batches,
    recordings,
    union_of,
)
from stepscope.base.units import ratio_text
from stepscope.findings.declare import Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.link.intervals import covered

_USE = Threshold("GPU utilisation", 0.50, "ratio", "TensorBoard profiler plugin: GPU utilisation < 50 %")
_OTHER = worth("DataLoader and communication together", 0.15, "ours: above it they are the cause")
_LAUNCHING = Threshold(
    "waits that many launches make, without operators that launch nothing, of the time without kernels",
    0.50,
    "ratio",
    "ours: a larger batch does not lengthen them, as it does preprocessing and long single waits",
)

_OUTERMOST = """
    SELECT own.rank, own.span, own.start_ns, own.start_ns + own.dur_ns AS end_ns
    FROM (SELECT * FROM host_event
        WHERE kind = 'operator' AND device_ns IS {launching} NULL AND {counted}) AS own
    ANTI JOIN (SELECT rank, id FROM host_event WHERE kind = 'operator') AS above
        ON above.rank = own.rank AND above.id = own.parent_id
"""
"""Operators that no other operator called: those that launch nothing, or those that launch something."""


@rule(
    "low-utilization",
    "Devices on which kernels run for less than half of the time.",
    _USE,
    _OTHER,
    _LAUNCHING,
    rests_on=("launches",),
    silent_without=("device-work",),
)
def low_utilization(facts: Facts) -> Iterator[Finding]:
    """Utilisation is the share of the steps in which at least one kernel runs. The loss is counted under its cause
    (`host-bound`), so no saving is stated here. It is silent if the cause is input or communication, single long waits,
    or operators on the host that launch nothing, which a larger batch lengthens too (preprocessing of each sample,
    say); if the recording has no host side; and if no steps are found, because outside of them the device waits for no
    one.
    """
    use = facts.utilization
    if use is None or use >= _USE.value or not facts.enough_work or not facts.has_host:
        return
    if facts.share("dataloader", "communication") > _OTHER.value:
        return
    launching_ns = facts.host_waits.many_ns - _operators_ns(facts, launching=False)
    if facts.part_of_step(launching_ns) < _LAUNCHING.value * (1 - use):
        return
    rows = [
        {"rank": rank, "utilization_ratio": value}
        for rank, value in sorted(facts.times.use_of_rank.items(), key=lambda pair: pair[1])
    ]
    yield Finding(
        title=f"GPU utilisation is {ratio_text(use)}: a larger batch would cost little more time",
        metric="GPU utilisation",
        value=use,
        unit="ratio",
        evidence=first(rows, 8),
        advice=f"Raise the batch size as far as memory and {'convergence' if facts.trains else 'latency'} allow: the host's time "
        "per step hardly grows with it. Or share the device among several processes.",
        query="stepscope utilization SRC",
    )


def operators_launch(facts: Facts) -> bool:
    """Whether operators that launch work fill most of the short waits for the host."""
    return 2 * _operators_ns(facts, launching=True) > facts.host_waits.many_ns


def _operators_ns(facts: Facts, *, launching: bool) -> float:
    """How long operators that launch work, or that do not, ran while the device waited for the host, per step (ns)."""
    key = f"operators {'that launch' if launching else 'without work'} in waits"
    return facts.scope.cached(key, lambda: _measure(facts, launching=launching))


def _measure(facts: Facts, *, launching: bool) -> float:
    waits = {(broken.rank, broken.span): broken.waits for broken in facts.times.broken}
    total_ns = 0
    query = _OUTERMOST.replace("{counted}", facts.counted)
    query = query.replace("{launching}", "NOT" if launching else "")
    for key, operators in recordings(facts.scope.numpy(query)).items():
        if (of := waits.get(key)) is not None:
            total_ns += int(covered(union_of(operators), of.start, of.end).sum())
    return total_ns / facts.times.idle_over


def low_use(facts: Facts) -> str:
    """The end of a sentence about a device that waits: its utilisation, if low."""
    use = facts.utilization
    return "" if use is None or use >= _USE.value else f"; GPU utilisation is {ratio_text(use)}"


_SHARE = worth("time in which a device of a process computes nothing while another computes", 0.10)
_TAKES_PART = Threshold(
    "computation of a device, of that of the busiest one of its process",
    0.10,
    "ratio",
    "ours: what computes less has a stray tensor or a side job, and no turn",
)


@rule(
    "devices-in-turn",
    "Devices of one process of which one computes while the others wait.",
    _SHARE,
    _TAKES_PART,
    trade_off="Micro-batches make smaller kernels, and each stage keeps the activations of several.",
    rests_on=("devices", "device-times"),
    silent_without=("device-work",),
)
def devices_in_turn(facts: Facts) -> Iterator[Finding]:
    """A process that drives several devices: the time in which any of them computes, minus the mean time for which one
    does. It is 0 if all compute at once, and half of the step or more if a model is spread over two devices and each
    batch runs through one after the other. Steps look filled then (a moment is Kernel if any device computes), but each
    device is idle for most of them. Devices that compute next to nothing do not count.

    At most this time can be saved, if the same work is always spread evenly over all devices, plus the time of copies
    between them with nothing else running; the work of one may need another's.
    """
    if not facts.has_steps or len(facts.devices) <= len(facts.scope.ranks):
        return
    rows = _by_device(facts)
    lost_ns = sum(row["waits_ns"] for row in rows) / max(1, len(rows))
    if facts.part_of_step(lost_ns) <= _SHARE.value:
        return
    used = sum(row["computes_ns"] for row in rows) / len(rows)
    yield of_step(
        "loss",
        facts.part_of_step(lost_ns),
        _SHARE.name,
        title=f"Devices take turns: on average a device waits {facts.amount(lost_ns)} while another of its process computes; "
        f"each computes {ratio_text(facts.part_of_step(used))} of it",
        saving_ns=lost_ns + facts.time("copy"),
        confidence="high",
        evidence=first(rows, 8),
        advice="`stepscope utilization` for each device. Split the batch into micro-batches so that stages work at once "
        "(torch.distributed.pipelining), or give each device a process that has all of the model or a shard of it "
        "(DistributedDataParallel, fully_shard)."
        if facts.in_pytorch
        else "`stepscope utilization` for each device. Give all devices work at once: parts of the batch in a pipeline, or a "
        "process for each device.",
        query="stepscope utilization SRC",
    )


def _by_device(facts: Facts) -> list[Row]:
    """How long each device of a rank with several computes, and waits while another one does, in a mean step."""
    steps = {(broken.rank, broken.span): broken.counted_windows for broken in facts.times.broken}
    rows: list[Row] = []
    with every_step(facts.scope) as all_steps:
        for ranks in rank_batches(facts.scope):
            for key, work in device_work(all_steps, ranks).items():
                by_device = groups(work, "device")
                windows = steps.get(key)
                if len(by_device) < 2 or windows is None or not len(windows["step"]):
                    continue
                edges = windows["start_ns"], windows["end_ns"]
                computing, *each = (
                    float(covered(union_of(events, events["work"] == COMPUTATION), *edges).mean())
                    for events in (work, *by_device.values())
                )
                taking = [
                    {"rank": key[0], "device": device, "computes_ns": ns, "waits_ns": computing - ns}
                    for (device,), ns in zip(by_device, each, strict=True)
                    if ns > _TAKES_PART.value * max(each)
                ]
                rows += taking if len(taking) > 1 else []
    return sorted(rows, key=lambda row: -row["waits_ns"])
