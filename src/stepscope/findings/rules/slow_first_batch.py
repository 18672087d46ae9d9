"""`slow-first-batch`: epochs whose first batch takes long."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_SHARE = Threshold(
    "waiting for the first batches of epochs, over the time of all counted steps",
    0.05,
    "ratio",
    "ours: as for waiting for the other batches",
)
_EPOCHS = Threshold("epochs", 2, "count", "ours: what happens once is no habit")


@rule("slow-first-batch", "Epochs that start with a long wait, of a job's own phases.", _SHARE, _EPOCHS)
def slow_first_batch(facts: Facts) -> Iterator[Finding]:
    """The waits in which a loader starts over, which are in no counted step, compared with the time of all
    counted steps, on the worst rank. They are not part of a step, so no saving in one is stated.
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
    if epochs < _EPOCHS.value or ratio <= _SHARE.value:
        return
    mean_ns = step["first_batches_ns"] / epochs
    yield Finding(
        title=f"The first batch of an epoch takes {time_text(mean_ns)}, in {epochs} epochs, which adds "
        f"{ratio_text(ratio)} to the time of the steps",
        metric="waiting for first batches, over the time of all counted steps",
        value=ratio,
        unit="ratio",
        confidence="high",
        evidence=({"rank": rank, "epochs": epochs, "first_batch_ns": mean_ns},),
        rank=rank,
        advice="Keep the DataLoader's workers between epochs (persistent_workers=True), or make the "
        "start of the dataset cheaper.",
        query="stepscope phases SRC --json",
    )
