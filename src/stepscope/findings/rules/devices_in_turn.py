"""`devices-in-turn`: the devices of one process compute one after another."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.recording import COMPUTATION, device_work, every_step, groups, rank_batches, union_of
from stepscope.base.units import ratio_text
from stepscope.findings.declare import Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.link.intervals import covered

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
