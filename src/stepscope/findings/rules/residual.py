"""`residual`: a part of the step that belongs to none of its phases."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analysis.job.residual_places import FEWEST_SAMPLES, residual_places
from stepscope.base.units import ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.one_step import phase_in_one_step
from stepscope.query.script import script_of

_SHARE = worth("time outside of all phases", 0.15, "ours: every loop has some Python around its phases")
_SAMPLES = Threshold(
    "samples of the stack in it, for its places to be named",
    FEWEST_SAMPLES,
    "count",
    "a place with half of 20 samples has between 30 and 70 % of the time, with 95 % confidence",
)
_NAMED = 3


@rule(
    "residual",
    "Steps with much time outside of input, forward, backward and optimizer, of a job's own phases.",
    _SHARE,
    _SAMPLES,
    trade_off="This work has to run elsewhere or less often.",
)
def residual(facts: Facts) -> Iterator[Finding]:
    """The rest of the step besides its phases: batches that the loop makes itself, gradient clipping, logging, metrics,
    synchronisation, checkpoints, Python, and what runs in compiled code or a captured graph, where phases are not
    observed. If the recording has stack samples (those of `stepscope record` do), the finding names the lines of the
    program in which they fell, and what these called; otherwise the cause is unknown.

    Beside a trace that has a device, the trace is judged and this is silent: the host may do such things while the
    device works. Beside one without, the phases of the entire run say more than its few steps.

    At most all of it can be saved; it may be waiting for the device.
    """
    means = facts.phases_without_device
    time_ns = None if means is None else means.part_ns("residual")
    if means is None or time_ns is None or time_ns <= _SHARE.value * means.step_ns:
        return
    share = time_ns / means.step_ns
    places = residual_places(facts.scope)
    samples = sum(place.samples for place in places)
    named = ""
    if samples >= _SAMPLES.value:
        shares = [f"{place.samples} in {place.text}" for place in places[:_NAMED]]
        named = f"; of its {samples} samples {', '.join(shares)}"
    stacks = (
        "`stepscope hotspots` lists what the traced steps called"
        if facts.has_rows("host_event", "kind = 'python'")
        else f"take a trace with stacks: `stepscope record --stack -- {script_of(facts.scope)}`"
    )
    where, ranks = facts.on_ranks("residual", _SHARE.value)
    yield of_step(
        "loss",
        share,
        "time outside of all phases, of the step",
        title=f"Residual: {ratio_text(share)} of {facts.of_phases} ({time_text(time_ns)}) is outside loading, forward, backward "
        f"and optimizer"
        f"{where}{phase_in_one_step(facts, 'residual')}{named}",
        saving_ns=time_ns,
        step_ns=means.step_ns,
        evidence=(
            *(first(facts.by_recording("residual"), 8) if facts.phases_alone else ()),
            *(place._asdict() for place in places[:8]),
        ),
        advice="Look at these lines; `stepscope hotspots` lists what they call."
        if named
        else f"To see what it is: {stacks}; or name parts of the loop with `stepscope.region`.",
        query="stepscope phases SRC",
        ranks=ranks,
    )
