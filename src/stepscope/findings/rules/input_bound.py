"""`input-bound`: the device waits for the next batch."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, of_step, rule, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.one_step import part_in_one_step, phase_in_one_step

_SHARE = worth("waiting for the next batch", 0.05, "TensorBoard profiler plugin: DataLoader > 5 % of the step")


@rule(
    "input-bound",
    "Steps that wait for the next batch of the DataLoader.",
    _SHARE,
    trade_off="Workers load on the CPU cores that the training process launches from: where cores are few, the "
    "rest of the step gets longer.",
    rests_on=("host-times", "device-times"),
    silent_without=("device-work",),
)
def input_bound(facts: Facts) -> Iterator[Finding]:
    """The time in `DataLoader.__next__` in which nothing ran on a device and no runtime call was under way;
    for phases, the mean input wait of all ranks except those that the others wait for because of it. If a run has both,
    the phases, which cover the steps in which no profiler ran, are used, because a profiler slows the loader;
    with a device the smaller of both counts, because the host may wait while the device computes.

    At most all of it can be saved, if workers keep ahead; with a device, also the host's waits while the device
    works, because a host that gets ahead hides other waits. Nothing is certain: workers share the host's cores with the
    training process and may be no faster than it, and in phases even the device may be busy meanwhile.
    """
    wait_ns, share, untraced = facts.input_wait
    if share <= _SHARE.value:
        return
    where, ranks = facts.on_ranks("dataloader", _SHARE.value)
    amount, evidence = facts.amount(wait_ns), facts.by_recording("dataloader")
    of_phases = untraced is not None or facts.phases_alone is not None
    in_one_step = phase_in_one_step(facts, "input_wait") if of_phases else part_in_one_step(facts, "dataloader")
    if untraced is not None:
        amount = f"{ratio_text(share)} of {facts.of_phases} ({time_text(wait_ns)})"
        evidence = [
            {"rank": rank, "steps": of["steps"], "dataloader_ns": round(ns), "step_ns": round(of["mean_ns"])}
            for rank, ns in untraced.by_rank("dataloader").items()
            for of in [untraced.ranks[rank]["step"]]
        ]  # fmt: skip
    yield of_step(
        "loss",
        share,
        "waiting for the next batch, of the step",
        title=f"Input-bound: for {amount} {facts.who_waits} for the next batch of the DataLoader{where}{in_one_step}",
        saving_ns=wait_ns,
        hidden_ns=facts.hidden_in("role = 'dataloader'", wait_ns) if facts.has_device else 0.0,
        step_ns=None if untraced is None else untraced.step_ns,
        confidence=facts.confidence,
        evidence=first(evidence, 8),
        advice=f"{'`stepscope phases`' if untraced else facts.parts_command}, then the loader: more workers "
        "(num_workers, persistent_workers=True, prefetch_factor) where cores are free, else batched indexing (Dataset.__getitems__); cheaper transforms"
        + (", or transforms on the device" if facts.has_device or facts.phases_alone else "")
        + "; larger, fewer files.",
        query="stepscope phases SRC" if untraced else facts.parts_query,
        ranks=ranks,
    )
