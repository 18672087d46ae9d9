"""The files of a recorded process as JSON objects: inline events, and the phases of every step.

`<host>.<rank>.prof.json` has the fields of HugeCTR's inline profiler (times in ms, as there), with statistics and raw
samples (in ns). `<host>.<rank>.phases.json` is small enough to store for each run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from stepscope.base.ranks import Process
from stepscope.base.recorder_files import FILE_VERSIONS
from stepscope.base.statistics import Statistics, describe, describe_blocks, overhead
from stepscope.base.step_phases import PHASES, RECORDED_PHASES
from stepscope.record.inline.events import Event, Measured
from stepscope.record.job.exit_reason import ExitReason
from stepscope.record.phases.phases import COLUMNS, WEIGHT_NS, Phases
from stepscope.record.targets.copies import Copied

ENDED_FIRST = "the recording ended before its turn"
"""The reason for an event without measurement: the job ran fewer iterations than the plan takes."""

RUNNING_STEPS = 128
"""Steps in a file written while the job runs."""

_OF_MEMORY = 3  # the last columns of a step: memory, which is not read in every step


def file_name(process: Process, kind: str, *, by_pid: bool = False) -> str:
    """`<host>.<rank>.<kind>.json`, with the process number where asked for or launchers disagree about the rank."""
    host = f"{process.host}.pid{process.pid}" if by_pid or process.disagreement else process.host
    return f"{host}.{process.rank}.{kind}.json"


def _form(name: str) -> dict[str, Any]:
    return {"format": name, "version": FILE_VERSIONS[name]}


def _script() -> str:
    """The script as it was named, or `-m MODULE`; `ARGS` replaces its arguments, which may be private."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    named = sys.argv[0] if sys.argv else ""
    if spec is not None:
        named = f"-m {spec.name.removesuffix('.__main__')}"
    return f"{named} ARGS" if len(sys.argv) > 1 else named


def _in_ns(statistics: Statistics | None) -> dict[str, Any] | None:
    if statistics is None:
        return None
    unitless = ("n", "stable")
    return {name if name in unitless else f"{name}_ns": value for name, value in asdict(statistics).items()}


def _mean_ms(total_ns: int, n: int) -> float | None:
    return total_ns / n / 1e6 if n else None


def _event(event: Event) -> dict[str, Any]:
    samples = event.samples
    _, durations_ns, offsets_ns, _ = samples.totals
    columns = list(zip(*samples.rows, strict=True)) or [()] * 4
    return {
        "label": event.observed.label,
        "start_index": event.observed.start_index,
        "end_index": event.observed.end_index,
        "avg_measured_time_ms": _mean_ms(durations_ns, samples.weight),
        "avg_iter_start_to_event_start_time_ms": _mean_ms(offsets_ns, samples.weight),
        "occurrence": event.observed.occurrence,
        "clock": event.observed.clock,
        "statistics": _in_ns(samples.statistics()),
        "offset_statistics": _in_ns(describe(columns[2], columns[3])),
        "missed": event.missed,
        "other_model": event.other_model,
        "lost": event.lost,
        "samples": [list(row) for row in samples.rows],
    }


def _without_a_turn(measured: Measured) -> list[dict[str, Any]]:
    if measured.complete:
        return []
    missing = []
    for entry in measured.plan.entries:
        names = entry.label.matches
        events = [event for event in measured.events if names(event.observed.label, event.observed.occurrence)]
        # What the observed iteration did not run is already named.
        had_turns = any(event.samples.count or event.missed for event in events)
        if not (had_turns or (measured.observed and not events)):
            missing.append({"label": entry.text, "line": entry.line, "reason": ENDED_FIRST})
    return missing


def _by_name(values: Iterable[Mapping[str, float]], numbers: Iterable[int]) -> dict[str, list[list[float]]]:
    series: dict[str, list[list[float]]] = {}
    for number, numbers_by_name in zip(numbers, values, strict=True):
        for name, value in numbers_by_name.items():
            series.setdefault(name, []).append([number, value])
    return series


def inline_document(
    measured: Measured,
    process: Process,
    started_epoch_ns: int,
    *,
    settings: Mapping[str, Any] | None = None,
    ended: ExitReason | None = None,
) -> dict[str, Any]:
    """The inline measurements as `<host>.<rank>.prof.json` holds them; `ended` as in `phases_document`."""
    timeline: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for event in measured.events:
        where = event.observed
        streams = timeline.setdefault(f"device_{where.device}", {})
        streams.setdefault(f"stream_{where.stream}", []).append(_event(event))
    iterations = measured.iterations
    undisturbed = iterations.unarmed if iterations.unarmed.n else iterations.armed
    # Inside a captured graph the marks stay until the next capture, so nothing runs without them.
    cost = None
    if not measured.in_graph:
        cost = asdict(overhead([row[:3] for row in iterations.rows]))
    plan = measured.plan
    return {
        **_form("stepscope.inline"),
        **process.fields(),
        "script": _script(),
        "avg_iter_time_ms": _mean_ms(undisturbed.total_ns, undisturbed.weight),
        "timeline": timeline,
        "complete": measured.complete,
        "mode": plan.mode,
        "warmup": plan.warmup,
        "repetitions": None if plan.mode == "in_rounds" else plan.repetitions,
        "iterations_run": measured.iterations_run,
        "ended": ended,
        "start_epoch_ns": started_epoch_ns,
        "overhead": cost,
        "armed_every": measured.armed_every,
        "bookkeeping_ns_per_iteration": measured.bookkeeping_ns / max(measured.iterations_run - 1, 1),
        "iteration_statistics": {
            "armed": _in_ns(iterations.statistics(armed=True)),
            "unarmed": _in_ns(iterations.statistics(armed=False)),
        },
        "iterations": [list(row) for row in iterations.rows],
        "not_measured": [
            *(
                {"label": missing.entry.text, "line": missing.entry.line, "reason": missing.reason}
                for missing in measured.not_measured
            ),
            *_without_a_turn(measured),
        ],
        "model_changes": measured.model_changes,
        "values": _by_name(iterations.values, [row[0] for row in iterations.rows]),
        "settings": settings,
        "sample_columns": ["iteration", "duration_ns", "offset_ns", "weight"],
        "iteration_columns": ["iteration", "armed", "time_ns", "weight", "weight_ns"],
    }


def phases_document(
    phases: Phases,
    process: Process,
    started_epoch_ns: int,
    *,
    communication: dict[str, Any] | None = None,
    copied: Copied | None = None,
    stacks: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    samples: bool = True,
    ended: ExitReason | None = None,
) -> dict[str, Any]:
    """Every step's phases, as `<host>.<rank>.phases.json` holds them.

    Args:
        communication: from `communication.ddp_timing`.
        copied: copied to the device in all timed steps.
        stacks: from `StackSampler.document`.
        samples: with all recorded steps; a file written while the job runs has some of them.
        ended: why the recording was closed; None if it is not closed.
    """
    history = phases.history
    n = history.weight
    total_ns = history.totals[WEIGHT_NS]
    columns = list(zip(*history.rows, strict=True)) if history.rows else [()] * len(COLUMNS)
    weights = columns[COLUMNS.index("weight")]
    by_phase: dict[str, Any] = {}
    for position, name in enumerate(PHASES, start=2):
        if name != "residual" and not phases.measured(name):
            by_phase[name] = None
            continue
        by_phase[name] = {
            "mean_ns": history.totals[position] / n if n else 0.0,
            "share_ratio": history.totals[position] / total_ns if total_ns else 0.0,
            "max_ns": history.largest[position],
            "statistics": _in_ns(describe(columns[position], weights)),
        }
    device = None
    if phases.clock is not None and phases.device_steps:
        device = {
            "kind": phases.clock.kind,
            "steps": phases.device_steps,
            "mean_ns": {
                name: phases.device_ns[number] / phases.device_steps if phases.device_counts[number] else None
                for number, name in enumerate(RECORDED_PHASES)
                if number
            },
            "checked_steps": phases.device_checked,
            "idle_steps": phases.device_idle,
        }
    summary: dict[str, Any] = {
        **_form("stepscope.phases"),
        **process.fields(),
        "script": _script(),
        "start_epoch_ns": started_epoch_ns,
        "steps": phases.steps,
        "ended": ended,
        "counted_steps": n,
        "disturbed_steps": phases.disturbed_steps,
        "unobserved_steps": phases.unobserved_steps,
        "timed_steps": phases.timed_steps,
        "timed_every": phases.budget.interval,
        "timing_ns": phases.budget.cost_ns,
        "warmup": phases.warmup,
        "backwards": phases.opened[PHASES.index("backward")],
        "optimizer_steps": phases.opened[PHASES.index("optimizer")],
        "step": None
        if not n
        else {
            "mean_ns": total_ns / n,
            "max_ns": history.largest[1],
            "statistics": _in_ns(describe_blocks(columns[1], weights, columns[WEIGHT_NS])),
        },
        "phases": by_phase,
        "device": device,
        "memory": {"of": phases.memory.kind, "peak_bytes": phases.peak_bytes, "reserved_bytes": phases.reserved_bytes},
        "first_batch_ns": phases.first_batch_ns,
        "communication": communication,
        "copied": None if copied is None else asdict(copied),
        "stacks": stacks,
    }
    rows, values, stride = (
        (history.rows, history.attachments, history.stride) if samples else history.thinned(RUNNING_STEPS)
    )
    summary["settings"] = settings
    summary["values"] = _by_name(values, [row[0] for row in rows])
    summary["step_columns"] = list(COLUMNS)
    summary["step_stride"] = stride
    summary["step_samples"] = [[*row[:-_OF_MEMORY], *(value or None for value in row[-_OF_MEMORY:])] for row in rows]
    return summary


def host_document(figures: Mapping[str, Any], process: Process, started_epoch_ns: int) -> dict[str, Any]:
    """The figures of `HardwareSampler` for a sampled script, as `<host>.<rank>.host.json` holds them."""
    return {
        **_form("stepscope.host"),
        **process.fields(),
        "start_epoch_ns": started_epoch_ns,
        "host": dict(figures),
    }
