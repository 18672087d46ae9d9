"""Named checks of a recording's quality: what could make an answer wrong without an error.

Every check has a row, also when all is well, so that "checked and fine" and "not checked" differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.tables import ReadReport
from stepscope.link.device import Device
from stepscope.link.host import GRAPH_LAUNCH, LAUNCH, Host
from stepscope.link.steps import OPTIMIZER_CALLS, WHOLE, Steps

Int32s = NDArray[np.int32]

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"

_DEVICE = "device-time,kernels,copies,launches,idle,utilization"
_TIMES = "summary,steps,device-time,kernels,idle,utilization"
_LINKS = "operators,modules,launches,annotations,steps"
_ALL = (
    "summary,steps,device-time,operators,kernels,modules,copies,launches,idle,utilization,"
    "annotations,inline,phases"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check; `affects` names questions, separated by commas."""

    check: str
    severity: str
    count: int
    affects: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the checks look at: positions and indices are those of link's other parts."""

    host: Host
    device: Device
    launch: Int32s
    steps: Steps
    step_of_host: Int32s
    overruns: int
    report: ReadReport
    resolution_ns: int


def check_recording(evidence: Evidence, *, events: bool = True) -> pa.Table:
    """Runs all checks.

    Args:
        evidence: what they look at.
        events: whether the recording is one of events. What a job measured of itself has none, and
            only the checks of the file itself apply to it.
    """
    of_events = (
        _stream_overlap,
        _duration_overrun,
        _zero_ts,
        _negative_dur,
        _launch_without_kernel,
        _first_step_starved,
        _graph_replay_unattributed,
        _no_steps,
        _clock_skew,
        _unlinked_kernel_fraction,
        _no_gpu_events,
    )
    checks = (*(of_events if events else ()), _truncated, _repaired)
    results = [check(evidence) for check in checks]
    return pa.table(
        {
            "check": pa.array([r.check for r in results], pa.string()),
            "severity": pa.array([r.severity for r in results], pa.string()),
            "count": pa.array([r.count for r in results], pa.int64()),
            "affects": pa.array([r.affects for r in results], pa.string()),
            "explanation": pa.array([r.explanation for r in results], pa.string()),
        }
    )


def _result(check: str, severity: str, count: int, affects: str, found: str, fine: str) -> Check:
    if severity == OK:
        return Check(check, OK, count, "", fine)
    return Check(check, severity, count, affects, found)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _stream_overlap(evidence: Evidence) -> Check:
    device = evidence.device
    rows = np.flatnonzero(device.work & (device.dur > 0))
    rows = rows[np.lexsort((device.start[rows], device.stream[rows], device.device[rows]))]
    count = 0
    if len(rows):
        start, end = device.start[rows], (device.start + device.dur)[rows]
        new = np.concatenate(
            [
                [True],
                (np.diff(device.stream[rows]) != 0) | (np.diff(device.device[rows]) != 0),
            ]
        )
        for low, high in zip(
            np.flatnonzero(new), np.append(np.flatnonzero(new)[1:], len(rows)), strict=True
        ):
            reach = np.maximum.accumulate(end[low:high])
            count += int((start[low + 1 : high] < reach[:-1]).sum())
    return _result(
        "stream_overlap",
        OK if not count else NOTE if count <= 0.2 * len(rows) else WARNING,
        count,
        "kernels,idle",
        f"{count} of {len(rows)} device events begin before an earlier one of their stream has "
        "ended. Kernels may be launched ahead of the end of the one they depend on. Times that are "
        "unions count such time once; sums of durations count it twice.",
        "device events of a stream follow one another.",
    )


def _duration_overrun(evidence: Evidence) -> Check:
    count = evidence.overruns
    return _result(
        "duration_overrun",
        WARNING if count else OK,
        count,
        _TIMES + ",copies",
        f"{count} device events have a duration that runs past the work after them on their stream, "
        "which cannot be. They are cut to the begin of the next event; raw_dur_ns keeps what was "
        "recorded.",
        "no device event runs past the work after it.",
    )


def _zero_ts(evidence: Evidence) -> Check:
    count = evidence.report.damage.get("zero_timestamp", 0)
    return _result(
        "zero_ts",
        WARNING if count else OK,
        count,
        _TIMES,
        f"{count} events have no time (0): the recorder lost it. They count as launched, and take no "
        "part in times.",
        "every event has a time.",
    )


def _negative_dur(evidence: Evidence) -> Check:
    damage = evidence.report.damage
    count = damage.get("negative_duration", 0) + damage.get("unfinished", 0)
    return _result(
        "negative_dur",
        WARNING if count else OK,
        count,
        _TIMES + ",operators",
        f"{count} events have no duration or a negative one: they had not ended, or their end was "
        "lost. Their end was taken from what encloses them or from the end of the recording.",
        "no duration is negative.",
    )


def _launches(evidence: Evidence) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of kernel launches, and whether device work is known for each."""
    host = evidence.host
    calls = np.flatnonzero((host.role == LAUNCH) | (host.role == GRAPH_LAUNCH))
    has_work = np.zeros(len(host), dtype=bool)
    has_work[evidence.launch[evidence.launch >= 0]] = True
    return calls, has_work[calls]


def _launch_without_kernel(evidence: Evidence) -> Check:
    calls, has_work = _launches(evidence)
    count = int((~has_work).sum()) if evidence.device.work.any() else 0
    share = count / len(calls) if len(calls) else 0.0
    return _result(
        "launch_without_kernel",
        OK if not count else WARNING if share > 0.05 else NOTE,
        count,
        _TIMES + ",launches,operators",
        f"{count} of {len(calls)} kernel launches ({_percent(count, len(calls))}) have no kernel in "
        "the recording: device work is missing, so device times are too small and idle too large.",
        "every kernel launch has its kernel.",
    )


_STARVED = 0.8


def _first_step_starved(evidence: Evidence) -> Check:
    calls, has_work = _launches(evidence)
    count = 0
    if evidence.device.work.any() and len(calls):
        if len(evidence.steps) > 1:
            step = evidence.step_of_host[calls]
            launched = np.bincount(step[step >= 0], minlength=len(evidence.steps))
            ran = np.bincount(step[(step >= 0) & has_work], minlength=len(evidence.steps))
            ratio = ran / np.maximum(launched, 1)
            if launched[0] and ratio[0] < _STARVED * np.median(ratio[1:]):
                count = int(launched[0] - ran[0])
        else:
            order = np.argsort(evidence.host.start[calls], kind="stable")
            leading = int(np.argmax(has_work[order])) if has_work.any() else 0
            count = leading if leading > (1 - _STARVED) * len(calls) else 0
    return _result(
        "first_step_starved",
        WARNING if count else OK,
        count,
        _TIMES,
        f"{count} launches at the begin of the recording have no kernel while later ones do: the "
        "recorder was not ready. Leave the first step out, or record a warm-up cycle.",
        "the first step has its kernels.",
    )


def _graph_replay_unattributed(evidence: Evidence) -> Check:
    host, device, launch = evidence.host, evidence.device, evidence.launch
    linked = np.flatnonzero(device.work & (launch >= 0))
    replayed = linked[host.role[launch[linked]] == GRAPH_LAUNCH]
    calls, has_work = _launches(evidence)
    empty = int((~has_work & (host.role[calls] == GRAPH_LAUNCH)).sum())
    empty = empty if device.work.any() else 0
    total_ns = int(device.dur[device.work].sum())
    replayed_ns = int(device.dur[replayed].sum())
    severity = OK
    if len(replayed):
        severity = WARNING if replayed_ns > 0.5 * total_ns else NOTE
    text = (
        f"{len(replayed)} device events ({_percent(replayed_ns, total_ns)} of device time) were "
        "replayed from graphs: the recording does not say which operator of the graph they belong "
        "to, and one launch stands for many kernels."
    )
    if empty:
        severity = WARNING
        text += (
            f" {empty} graph launches have no device event at all: device times are too small and "
            "idle time is not to be trusted."
        )
    return _result(
        "graph_replay_unattributed",
        severity,
        len(replayed) + empty,
        "operators,modules,launches" + (",idle,utilization,device-time" if empty else ",idle"),
        text,
        "no device work was replayed from a graph.",
    )


def _no_steps(evidence: Evidence) -> Check:
    rule = evidence.steps.rule
    missing = rule in (WHOLE, OPTIMIZER_CALLS)
    found = (
        "No range marks steps; they were taken to run from one call of the optimizer to the next."
        if rule == OPTIMIZER_CALLS
        else "No range marks steps and no optimizer was called; the whole recording counts as one."
    )
    return _result(
        "no_steps",
        NOTE if missing else OK,
        int(missing),
        "steps,summary" if rule == WHOLE else "steps",
        found,
        "ranges mark the steps.",
    )


def _clock_skew(evidence: Evidence) -> Check:
    device, launch = evidence.device, evidence.launch
    linked = np.flatnonzero(device.work & (launch >= 0))
    early_ns = evidence.host.start[launch[linked]] - device.start[linked]
    late = early_ns >= max(evidence.resolution_ns, 2)
    count = int(late.sum())
    worst = int(early_ns.max(initial=0))
    return _result(
        "clock_skew",
        OK if not count else WARNING if count > 0.001 * len(linked) else NOTE,
        count,
        "launches,idle,steps",
        f"{count} of {len(linked)} device events begin before the call that launched them, by up to "
        f"{worst} ns: the clocks of host and device disagree.",
        "no device event begins before its launch.",
    )


def _unlinked_kernel_fraction(evidence: Evidence) -> Check:
    device = evidence.device
    unlinked = device.work & (evidence.launch < 0)
    count = int(unlinked.sum())
    part, whole = int(device.dur[unlinked].sum()), int(device.dur[device.work].sum())
    severity = OK if not count else WARNING if part > 0.05 * whole else NOTE
    return _result(
        "unlinked_kernel_fraction",
        severity,
        count,
        _LINKS,
        f"{count} device events with {_percent(part, whole)} of device time have no launch in the "
        "recording: they count in device times, and for no operator, module or range.",
        "every device event has its launch.",
    )


def _no_gpu_events(evidence: Evidence) -> Check:
    calls, _ = _launches(evidence)
    none = not evidence.device.work.any()
    launched = none and len(calls) > 0
    return _result(
        "no_gpu_events",
        OK if not none else ERROR if launched else NOTE,
        int(none),
        _DEVICE,
        f"{len(calls)} kernels were launched and none is in the recording: device activity was lost, "
        "so device times are not 0 but unknown."
        if launched
        else "The recording has no device events; record with a device activity to have them.",
        "the recording has device events.",
    )


def _truncated(evidence: Evidence) -> Check:
    truncated = evidence.report.truncated
    return _result(
        "truncated",
        WARNING if truncated else OK,
        int(truncated),
        _ALL,
        "The file ends before its JSON does: the writer was stopped. What was written before is "
        "kept; the last steps may lack events.",
        "the file is whole.",
    )


def _repaired(evidence: Evidence) -> Check:
    report = evidence.report
    count = report.repaired + report.dropped
    severity = OK
    if count:
        severity = WARNING if report.dropped > 0.01 * max(report.kept, 1) else NOTE
    return _result(
        "repaired",
        severity,
        count,
        _ALL if severity == WARNING else "",
        f"{report.repaired} events had to be mended and {report.dropped} could not be read.",
        "no event had to be mended.",
    )


def left_out(files: Sequence[tuple[str, str]]) -> Check:
    """The check of a whole folder: recordings in it that cannot be read, with the reasons."""
    label, reason = files[0] if files else ("", "")
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return _result(
        "left_out",
        WARNING if files else OK,
        len(files),
        _ALL,
        f"{label}{others} is in no answer, because it could not be read: {reason}.",
        "every recording could be read.",
    )
