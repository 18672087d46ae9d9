"""What a step is filled with when no loss leads, and what cannot be said about half a recording."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.answers.script import script_of
from stepscope.floor.units import ratio_text
from stepscope.judge.declare import FILLED, LEADING, Finding, Threshold, of_step, rule
from stepscope.judge.facts import Facts, first
from stepscope.judge.rules.data_quality import hides_idle

_HOST = Threshold("recorded operators and ranges", 0, "count", "ours: any one shows the host")


@rule("device-only", "Recordings of a device without operators.", _HOST)
def device_only(facts: Facts) -> Iterator[Finding]:
    """Device work was recorded and no operator, range or Python frame. What kernels fill of the time is
    known; what the host did while the device was idle is not. Where launches were recorded and no kernel, neither is.
    """
    if not facts.has_device or facts.has_host or not facts.step_ns:
        return
    share = facts.share("kernel")
    title = (
        f"No operators in the recording: kernels fill {facts.amount(facts.time('kernel'))}, and "
        "there is no saying what the host did while the device was idle"
    )
    again = (
        "ProfilerActivity.CPU"
        if facts.by_torch_profiler
        else "NVTX ranges (in PyTorch those of emit_nvtx)"
    )
    advice = f"`stepscope kernels`; record with {again} too, to see operators and causes."
    lost = sum(row["count"] for row in facts.checks if row["check"] == "launch_without_kernel")
    if lost and not facts.time("kernel", "communication"):
        share = 0
        title = (
            f"{lost} kernel {'launch' if lost == 1 else 'launches'} and no kernel: the device's work is not in "
            "the recording, and there is no saying how long it computed"
        )
        again = "ProfilerActivity.CUDA" if facts.by_torch_profiler else "nsys profile --trace=cuda"
        advice = f"`stepscope launches`; record again with {again}, while no other profiler holds the device."
    yield of_step(
        "obstacle",
        share,
        "kernels' part of the step",
        title=title,
        confidence="high",
        advice=advice,
        query=facts.parts_query,
    )


@rule("device-bound", "Steps that kernels fill.", LEADING, FILLED)
def device_bound(facts: Facts) -> Iterator[Finding]:
    """What is left when no loss leads: the time in which a kernel computes. Nothing is saved by
    waiting less then; the largest kernels and operators are where time can be won. It is silent where device work is
    missing and the device looks idle.
    """
    if not facts.has_device or not facts.has_host or hides_idle(facts):
        return
    used = facts.utilization
    yield of_step(
        "work",
        facts.share("kernel"),
        "kernels' part of the step",
        title=f"Device-bound: kernels fill {facts.amount(facts.time('kernel'))}"
        + ("" if used is None else f"; GPU utilisation is {ratio_text(used)}")
        + (", communication included" if used is not None and facts.time("communication") else ""),
        confidence="high",
        advice="`stepscope kernels` and `stepscope operators`: the largest are where time can be won.",
        query=facts.parts_query,
    )


@rule(
    "host-only",
    "Recordings without a device, whose steps the host's operators fill.",
    LEADING,
    FILLED,
)
def host_only(facts: Facts) -> Iterator[Finding]:
    """The time in operators, ranges and Python, which stands for the device's where none is recorded,
    and the operator with the largest self time. It is silent where a check says that device work is missing.
    """
    if facts.has_device or not facts.has_host or hides_idle(facts):
        return
    most = ""
    if facts.busiest_operator is not None:
        name, share = facts.busiest_operator
        most = f"; {name} has most of their self time ({ratio_text(share)})"
    yield of_step(
        "work",
        facts.share("cpu_exec"),
        "operators' and Python's part of the step",
        title="No device in the recording: operators, Python and named ranges on the host fill "
        f"{facts.amount(facts.time('cpu_exec'))}{most}",
        confidence="high",
        advice="`stepscope operators`; if the job uses a device, record with ProfilerActivity.CUDA (XPU, ...) to see it.",
        query=facts.parts_query,
    )


@rule(
    "compute-bound",
    "Steps that forward, backward and optimizer fill, of a job's own phases.",
    LEADING,
    FILLED,
)
def compute_bound(facts: Facts) -> Iterator[Finding]:
    """What is left when no loss leads. Phases do not tell what the device does meanwhile."""
    if facts.phases_alone is None or not facts.time("compute"):
        return
    yield of_step(
        "work",
        facts.share("compute"),
        "their part of the step",
        title=f"Compute-bound: forward, backward and optimizer fill {facts.amount(facts.time('compute'))}",
        evidence=first(facts.by_recording("compute"), 8),
        advice=f"Record a trace of a few steps, `stepscope record -- {script_of(facts.scope)}`, and look at its kernels and "
        "operators.",
        query=facts.parts_query,
        ranks=facts.on_ranks("compute", 0)[1],
    )
