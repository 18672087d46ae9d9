"""Rules about waiting for the DataLoader."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.one_step import part_in_one_step, phase_in_one_step

_WAIT = worth("waiting for the next batch", 0.05, "TensorBoard profiler plugin: DataLoader > 5 % of the step")


@rule(
    "input-bound",
    "Steps that wait for the next batch of the DataLoader.",
    _WAIT,
    trade_off="Workers share the CPU cores with the training process: where cores are few, the rest of the step gets longer.",
    rests_on=("host-times", "device-times"),
    silent_without=("device-work",),
)
def input_bound(facts: Facts) -> Iterator[Finding]:
    """The time in `DataLoader.__next__` in which nothing ran on a device and no runtime call was under way; for phases,
    the mean input wait of all ranks except those that the others wait for because of it. If a run has both, the phases,
    which cover the steps in which no profiler ran, are used, because a profiler slows the loader; with a device the
    smaller of both counts, because the host may wait while the device computes.

    At most all of it can be saved, if workers keep ahead; with a device, also the host's waits while the device works,
    because a host that gets ahead hides other waits. Workers share the host's cores with the training process and may
    be no faster than it, and in phases even the device may be busy meanwhile.
    """
    wait_ns, share, untraced = facts.input_wait
    if share <= _WAIT.value:
        return
    where, ranks = facts.on_ranks("dataloader", _WAIT.value)
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
        "(num_workers, persistent_workers=True, prefetch_factor) if cores are free, else batched indexing (Dataset.__getitems__); "
        "cheaper transforms"
        + (", or transforms on the device" if facts.has_device or facts.phases_alone else "")
        + "; larger, fewer files.",
        query="stepscope phases SRC" if untraced else facts.parts_query,
        ranks=ranks,
    )


_FIRST_BATCHES = Threshold(
    "waiting for the first batches of epochs, over the time of all counted steps",
    0.05,
    "ratio",
    "ours: as for the other batches",
)
_EPOCHS = Threshold("epochs", 2, "count", "ours: what happens once is no habit")


@rule("slow-first-batch", "Epochs that start with a long wait, of a job's own phases.", _FIRST_BATCHES, _EPOCHS)
def slow_first_batch(facts: Facts) -> Iterator[Finding]:
    """The waits in which a loader starts over, which are in no counted step, compared with the time of all counted
    steps, on the worst rank. They are not part of a step, so no saving in one is stated.
    """
    if facts.phases is None:
        return
    rank, ratio, step = max(
        (
            (rank, (of["first_batches_ns"] or 0.0) / (of["mean_ns"] * of["steps"]), of)
            for rank, phases in facts.phases.ranks.items()
            for of in [phases["step"]]
            if of["mean_ns"] > 0
        ),
        key=lambda rank_ratio: rank_ratio[1],
        default=(None, 0.0, {"first_batches": 0}),
    )
    epochs = step["first_batches"] or 0
    if epochs < _EPOCHS.value or ratio <= _FIRST_BATCHES.value:
        return
    mean_ns = step["first_batches_ns"] / epochs
    yield Finding(
        title=f"The first batch of an epoch takes {time_text(mean_ns)}; in {epochs} epochs that adds {ratio_text(ratio)} to "
        "the time of the steps",
        metric="waiting for first batches, over the time of all counted steps",
        value=ratio,
        unit="ratio",
        confidence="high",
        evidence=({"rank": rank, "epochs": epochs, "first_batch_ns": mean_ns},),
        rank=rank,
        advice="Keep the workers between epochs (persistent_workers=True), or make the dataset cheaper to start.",
        query="stepscope phases SRC --json",
    )
