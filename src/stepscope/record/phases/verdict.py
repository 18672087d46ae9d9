"""What holds a rank back, judged from the phases of its steps.

Which rank the others wait for cannot be told here: a process sees no steps but its own. That is found
where the files of all ranks are read.

Each rule has one threshold, stated beside it. A finding says what was seen (its evidence) and what
to try next; `compute-bound` is what is left when nothing else was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.floor.statistics import quantile

INPUT_BOUND_ABOVE = 0.10
COPY_BOUND_ABOVE = 0.10
COMMUNICATION_BOUND_ABOVE = 0.15
RESIDUAL_ABOVE = 0.15
HOST_BOUND_IDLE_ABOVE = 0.80
"""Share of steps in which the device had finished the backward before the host had even handed out
the optimizer's step."""
MEMORY_GROWTH_ABOVE = 0.02
FIRST_BATCH_ABOVE = 0.05
"""Waiting for the first batches of epochs, over the time of all counted steps."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that holds the job back.

    Args:
        kind: `input-bound`, `copy-bound`, `communication-bound`, `host-bound`, `compute-bound`,
            `residual`, `slow-first-batch` or `growing-memory`.
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
        summary: as `summary.phases_document` makes it.
    """
    step = summary["step"]
    if step is None:
        return []
    shares = {name: _share(summary, name) for name in summary["phases"]}
    found = [
        finding
        for finding in (
            _input(summary, shares["input_wait"]),
            _copy(summary, shares["host_to_device"]),
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
                f"forward, backward and optimizer take {100 * share:.0f} % of the step",
                "record a trace and look at its kernels: `stepscope kernels`, `stepscope operators`",
            )
        )
    found.sort(key=lambda one: -(one.share_ratio or 0.0))
    rare = (_first_batch(summary, step["mean_ns"]), _memory(summary))
    return [*found, *(finding for finding in rare if finding is not None)]


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
        f"a step waits {mean_ms:.1f} ms for its batch, {100 * share:.0f} % of it",
        "give the DataLoader more workers, prefetch, or make __getitem__ cheaper",
    )


def _copy(summary: Mapping[str, Any], share: float) -> Finding | None:
    if share < COPY_BOUND_ABOVE:
        return None
    copied = summary["copied"]
    evidence = f"the host spends {100 * share:.0f} % of the step copying batches to the device"
    advice = (
        "copy with non_blocking=True, and less: smaller types, or make on the device what can be"
    )
    if copied is None or copied["pageable_bytes"]:
        advice = "pin the loader's memory (pin_memory=True) and copy with non_blocking=True"
    if copied is not None and copied["bytes"]:
        evidence += (
            f": {copied['bytes'] / max(summary['steps'], 1) / 2**20:.1f} MiB per step, "
            f"{100 * copied['pageable_bytes'] / copied['bytes']:.0f} % of it from memory that is not pinned"
        )
    return Finding("copy-bound", share, evidence, advice)


def _communication(summary: Mapping[str, Any], step_ns: float) -> Finding | None:
    timing = summary["communication"]
    if timing is None or step_ns <= 0:
        return None
    # DDP timed other steps, the first and slowest among them: only the part of backward carries over.
    device = summary["device"]
    backward_ns = _mean_ns(summary, "backward") if device is None else device["mean_ns"]["backward"]
    exposed_ns = (backward_ns or 0.0) * timing["exposed_ns"] / max(timing["backward_ns"], 1)
    share = min(1.0, exposed_ns / step_ns)
    if share < COMMUNICATION_BOUND_ABOVE:
        return None
    return Finding(
        "communication-bound",
        share,
        f"{exposed_ns / 1e6:.1f} ms of all-reduce per step ({100 * share:.0f} %, by DDP's own timings) run "
        "while nothing is computed",
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
        f"in {100 * idle:.0f} % of the steps the device had run out of work before the host gave it more",
        "torch.compile, CUDA graphs, fused optimizers, or larger batches",
    )


def _residual(share: float) -> Finding | None:
    if share < RESIDUAL_ABOVE:
        return None
    return Finding(
        "residual",
        share,
        f"{100 * share:.0f} % of the step is none of the phases: logging, metrics, synchronisation, "
        "checkpoints, Python",
        "name parts of the loop with `stepscope.region` and plan them, or take a trace with stacks",
    )


def _first_batch(summary: Mapping[str, Any], step_ns: float) -> Finding | None:
    waits: Sequence[int] = summary["first_batch_ns"]
    steps_ns = step_ns * summary["counted_steps"]
    if len(waits) < 2 or steps_ns <= 0 or sum(waits) < FIRST_BATCH_ABOVE * steps_ns:
        return None
    mean_ms = sum(waits) / len(waits) / 1e6
    return Finding(
        "slow-first-batch",
        None,
        f"the first batch of an epoch takes {mean_ms:.0f} ms, in {len(waits)} epochs, which adds "
        f"{100 * sum(waits) / steps_ns:.0f} % to the time of the steps",
        "keep the DataLoader's workers between epochs (persistent_workers=True), or make the start of "
        "the dataset cheaper",
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
