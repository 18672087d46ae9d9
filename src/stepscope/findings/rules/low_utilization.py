"""`low-utilization`: kernels run for less than half of the time."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.recording import recordings, union_of
from stepscope.base.units import ratio_text
from stepscope.findings.declare import Finding, Threshold, rule, worth
from stepscope.findings.facts import Facts, first
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
