"""What fills a step if no loss leads, and the limits of incomplete recordings."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import ratio_text
from stepscope.findings.declare import FILLED, LEADING, Finding, Threshold, of_step, rule
from stepscope.findings.facts import Facts, first
from stepscope.findings.rules.data_quality import hides_idle
from stepscope.query.script import script_of

_HOST = Threshold("recorded operators and ranges", 0, "count", "ours: any one shows the host")


@rule("device-only", "Recordings of a device without operators.", _HOST)
def device_only(facts: Facts) -> Iterator[Finding]:
    """Device work was recorded, but no operator, range or Python frame. The time that kernels fill is known; what the
    host did while the device was idle is not. If launches but no kernels were recorded, neither is known.
    """
    if not facts.has_device or facts.has_host or not facts.step_ns:
        return
    share = facts.share("kernel")
    title = (
        f"No operators recorded: kernels fill {facts.amount(facts.time('kernel'))}; what the host did while the device was "
        "idle is unknown"
    )
    again = "ProfilerActivity.CPU" if facts.by_torch_profiler else "NVTX ranges (in PyTorch those of emit_nvtx)"
    advice = f"`stepscope kernels`; record with {again} too, to see operators and causes."
    lost = sum(row["count"] for row in facts.checks if row["check"] == "launch_without_kernel")
    if lost and not facts.time("kernel", "communication"):
        share = 0
        title = (
            f"{lost} kernel {'launch' if lost == 1 else 'launches'} and no kernel: device work is missing, so how long the "
            "device computed is unknown"
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
    """The remaining case if no loss leads: the time in which a kernel computes. Less waiting saves nothing then;
    shorter kernels do. It is silent if device work is missing and the device looks idle.
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
        advice="`stepscope kernels` and `stepscope operators`: look at the largest first.",
        query=facts.parts_query,
    )


@rule("host-only", "Recordings without a device, whose steps the host's operators fill.", LEADING, FILLED)
def host_only(facts: Facts) -> Iterator[Finding]:
    """The time in operators, ranges and Python, which replaces the device's if none is recorded, and the operator with
    the largest self time, if that would lead as a loss. If none does, the next step is to the modules, if they have
    half of the time, or else to the call tree, which includes ranges and Python. It is silent if a check says that
    device work is missing.
    """
    if facts.has_device or not facts.has_host or hides_idle(facts):
        return
    filled_ns = facts.time("cpu_exec")
    name, self_ns = facts.busiest_operator or ("", 0.0)
    if facts.part_of_step(self_ns) > LEADING.value:
        busiest, where = f"; {name} alone takes {facts.amount(self_ns)}", "operators"
    else:
        busiest = f"; no single operator dominates (the largest: {facts.amount(self_ns)})" if name else ""
        in_modules = _in_modules_ns(facts) >= FILLED.value * filled_ns
        where = "modules" if in_modules else "call-tree"
    yield of_step(
        "work",
        facts.share("cpu_exec"),
        "operators' and Python's part of the step",
        title=f"CPU-bound, no device recorded: operators, Python and ranges on the host fill {facts.amount(filled_ns)}{busiest}",
        confidence="high",
        advice=f"`stepscope {where}`. If the job uses a device, record it with ProfilerActivity.CUDA (XPU, ...).",
        query=facts.parts_query,
    )


def _in_modules_ns(facts: Facts) -> float:
    """Host time in modules in a mean step, over all threads (ns)."""
    rows = facts.host("SELECT sum(self_ns)::BIGINT AS ns FROM host_event WHERE module_id IS NOT NULL AND {counted}")
    return sum(row["ns"] or 0 for row in rows) / facts.steps


@rule(
    "compute-bound",
    "Steps that forward, backward and optimizer fill, on the device as well, of a job's own phases.",
    LEADING,
    FILLED,
)
def compute_bound(facts: Facts) -> Iterator[Finding]:
    """The remaining case if no loss leads and a device was timed in the phases, for at least that share of the step."""
    if _on_device(facts):
        title = "Compute-bound: forward, backward and optimizer fill {}"
        yield from _of_phases(facts, title, "kernels and operators")


@rule(
    "phases-only",
    "Steps that forward, backward and optimizer fill, of a job's own phases on the host.",
    LEADING,
    FILLED,
)
def phases_only(facts: Facts) -> Iterator[Finding]:
    """The remaining case if no loss leads and no device was timed for that share of the step. Phases do not show
    whether the host computes, waits or sleeps in them.
    """
    if not _on_device(facts):
        title = "Forward, backward and optimizer fill {} on the host; phases do not show whether it computes or waits"
        yield from _of_phases(facts, title, "modules and operators")


def _on_device(facts: Facts) -> bool:
    """Whether a device was timed in the phases, for enough of the step to fill it."""
    phases = facts.phases_alone
    return phases is not None and facts.part_of_step(phases.device_ns()) >= FILLED.value


def _of_phases(facts: Facts, title: str, next_up: str) -> Iterator[Finding]:
    if facts.phases_alone is None or not facts.time("compute"):
        return
    yield of_step(
        "work",
        facts.share("compute"),
        "their part of the step",
        title=title.format(facts.amount(facts.time("compute"))),
        evidence=first(facts.by_recording("compute"), 8),
        advice=f"Record a trace of a few steps, `stepscope record -- {script_of(facts.scope)}`, and look at its {next_up}.",
        query=facts.parts_query,
        ranks=facts.on_ranks("compute", 0)[1],
    )
