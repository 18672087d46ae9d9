"""What holds a job back, judged from the phases of its steps.

Each rule has one threshold, stated beside it. A finding says what was seen (its evidence) and what
to try next; `compute-bound` is what is left when nothing else was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.record.statistics import quantile

INPUT_BOUND_ABOVE = 0.10
COPY_BOUND_ABOVE = 0.10
COMMUNICATION_BOUND_ABOVE = 0.15
RESIDUAL_ABOVE = 0.15
HOST_BOUND_IDLE_ABOVE = 0.80
"""Share of steps in which the device had finished the backward before the host had even handed out
the optimizer's step."""
STRAGGLER_ABOVE = 0.05
MEMORY_GROWTH_ABOVE = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that holds the job back.

    Args:
        kind: `input-bound`, `copy-bound`, `communication-bound`, `host-bound`, `compute-bound`,
            `residual`, `growing-memory` or `straggling-rank`.
        share_ratio: its share of the step, 0 to 1; None where it has none.
        evidence: what was measured.
        next_step: what to try or look at.
    """

    kind: str
    share_ratio: float | None
    evidence: str
    next_step: str


def findings(summary: Mapping[str, Any]) -> list[Finding]:
    """What holds one rank back, the largest share first; empty when no step was counted.

    Args:
        summary: as `summary.phases_summary` makes it.
    """
    step = summary["step"]
    if step is None:
        return []
    shares = {name: _share(summary, name) for name in summary["phases"]}
    found = [
        finding
        for finding in (
            _input(summary, shares["input_wait"]),
            _copy(shares["host_to_device"]),
            _communication(summary, step["mean_ns"]),
            _host(summary),
            _residual(shares["residual"]),
        )
        if finding is not None
    ]
    if not found:
        share = shares["forward"] + shares["backward"] + shares["optimizer"]
        found.append(
            Finding(
                "compute-bound",
                share,
                f"forward, backward and optimizer take {share:.0%} of the step",
                "record a trace and look at its kernels: `stepscope kernels`, `stepscope operators`",
            )
        )
    found.sort(key=lambda one: -(one.share_ratio or 0.0))
    growth = _memory(summary)
    return [*found, growth] if growth is not None else found


def _share(summary: Mapping[str, Any], phase: str) -> float:
    measured = summary["phases"][phase]
    return float(measured["share_ratio"]) if measured is not None else 0.0


def _mean_ns(summary: Mapping[str, Any], phase: str) -> float:
    measured = summary["phases"][phase]
    return float(measured["mean_ns"]) if measured is not None else 0.0


def _input(summary: Mapping[str, Any], share: float) -> Finding | None:
    if share < INPUT_BOUND_ABOVE:
        return None
    mean_ms = _mean_ns(summary, "input_wait") / 1e6
    return Finding(
        "input-bound",
        share,
        f"a step waits {mean_ms:.1f} ms for its batch, {share:.0%} of it",
        "give the DataLoader more workers, prefetch, or make __getitem__ cheaper",
    )


def _copy(share: float) -> Finding | None:
    if share < COPY_BOUND_ABOVE:
        return None
    return Finding(
        "copy-bound",
        share,
        f"the host spends {share:.0%} of the step copying batches to the device",
        "pin the loader's memory and copy with non_blocking=True",
    )


def _communication(summary: Mapping[str, Any], step_ns: float) -> Finding | None:
    timing = summary["communication"]
    if timing is None or step_ns <= 0:
        return None
    share = min(1.0, timing["exposed_ns"] / step_ns)
    if share < COMMUNICATION_BOUND_ABOVE:
        return None
    return Finding(
        "communication-bound",
        share,
        f"{timing['exposed_ns'] / 1e6:.1f} ms of all-reduce per step, {share:.0%}, run while "
        "nothing is computed",
        "larger batches, gradient accumulation, gradient compression, or a look at the network",
    )


def _host(summary: Mapping[str, Any]) -> Finding | None:
    device = summary["device"]
    if device is None or not device["checked_steps"]:
        return None
    idle = device["idle_steps"] / device["checked_steps"]
    names = ("forward", "backward", "optimizer")
    host_ns = sum(_mean_ns(summary, name) for name in names)
    device_ns = sum(device["mean_ns"][name] or 0 for name in names)
    # A device that is merely asked late (the job waits for it every step) is slower than the host.
    if idle < HOST_BOUND_IDLE_ABOVE or host_ns < 0.9 * device_ns:
        return None
    share = sum(_share(summary, name) for name in names)
    return Finding(
        "host-bound",
        share,
        f"in {idle:.0%} of the steps the device had run out of work before the host gave it more",
        "torch.compile, CUDA graphs, fused optimizers, or larger batches",
    )


def _residual(share: float) -> Finding | None:
    if share < RESIDUAL_ABOVE:
        return None
    return Finding(
        "residual",
        share,
        f"{share:.0%} of the step is none of the phases: logging, metrics, synchronisation, "
        "checkpoints, Python",
        "name parts of the loop with `stepscope.region` and plan them, or take a trace with stacks",
    )


def _memory(summary: Mapping[str, Any]) -> Finding | None:
    samples: Sequence[Sequence[int]] = summary["memory"]["samples"]
    if len(samples) < 18:
        return None
    third = len(samples) // 3
    parts = (samples[:third], samples[third : 2 * third], samples[-third:])
    first, middle, last = (quantile(sorted(row[1] for row in part), 0.5) for part in parts)
    grown = last - first
    # Growth that levels off is a cache filling up.
    goes_on = middle > first and last - middle >= 0.25 * (middle - first)
    if first <= 0 or grown < MEMORY_GROWTH_ABOVE * first or not goes_on:
        return None
    steps = quantile(sorted(row[0] for row in parts[2]), 0.5) - quantile(
        sorted(row[0] for row in parts[0]), 0.5
    )
    return Finding(
        "growing-memory",
        None,
        f"memory in use after a step grew by {grown / 2**20:.0f} MiB, about "
        f"{grown / max(steps, 1) / 1024:.1f} KiB per step, and does not level off",
        "look for losses or outputs kept without .detach(), then take a memory snapshot",
    )


def straggler(summaries: Sequence[Mapping[str, Any]]) -> Finding | None:
    """The rank that the others wait for, from the summaries of all ranks; None when none stands out.

    An all-reduce inside backward makes all backwards equally long, whoever is late. So ranks are
    compared by what they do before it: input wait, copies, forward and residual.
    """
    counted = [summary for summary in summaries if summary["step"] is not None]
    if len(counted) < 2:
        return None
    before = ("input_wait", "host_to_device", "forward", "residual")
    own = {summary["rank"]: sum(_mean_ns(summary, name) for name in before) for summary in counted}
    worst = max(own, key=lambda rank: own[rank])
    others = sorted(value for rank, value in own.items() if rank != worst)
    late_ns = own[worst] - quantile(others, 0.5)
    step_ns = max(summary["step"]["mean_ns"] for summary in counted)
    if late_ns < STRAGGLER_ABOVE * step_ns:
        return None
    longest = max(
        before,
        key=lambda name: (
            _mean_ns(next(one for one in counted if one["rank"] == worst), name)
            - min(_mean_ns(one, name) for one in counted)
        ),
    )
    return Finding(
        "straggling-rank",
        late_ns / step_ns,
        f"rank {worst} needs {late_ns / 1e6:.1f} ms more per step than the others before backward, "
        f"most of it in {longest.replace('_', ' ')}",
        f"look at rank {worst}: its node, its share of the data, its input pipeline",
    )
