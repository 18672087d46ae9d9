"""Named checks of a recording's quality: what could make an answer wrong without an error.

A check is a function under `@check(...)`. Its declaration names the evidence that it may find damaged, from which the
marked answers follow (`formats/evidence.py`), and its docstring is its paragraph on the page. Every check has a row, also
if all is well, so that "checked and fine" differs from "not checked".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.base.units import plural, ratio_text
from stepscope.formats.consecutive import run_starts
from stepscope.formats.cupti.device_rows import NAMELESS
from stepscope.formats.damage import CLASSES, is_harmless, line
from stepscope.formats.evidence import SUBJECTS, Evidence
from stepscope.formats.tables import ReadReport
from stepscope.link.columns import numbers
from stepscope.link.device import COMMUNICATION, COMPUTATION, Device
from stepscope.link.host import GRAPH_LAUNCH, LAUNCH, Host
from stepscope.link.replays import Replays
from stepscope.link.steps import OPTIMIZER_CALLS, PROFILER_STEP, Steps
from stepscope.schema.arrays import Int32s
from stepscope.schema.tables import TABLES

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"


@dataclass(frozen=True, slots=True)
class Recording:
    """What checks examine; `captured` are the launches that were put into graphs, None if nothing was captured."""

    host: Host
    device: Device
    launch: Int32s
    steps: Steps
    replays: Replays
    captured: Int32s | None
    step_of_host: Int32s
    overruns: int
    report: ReadReport
    metadata: Mapping[str, Any]
    memory: pa.Table
    resolution_ns: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Args:
        severity: ok, note, warning or error.
        count: how many rows it found; 0 if all is well.
        text: what it found and what that means.
        damages: the damaged kinds of evidence, if not all that the check declares.
    """

    severity: str
    count: int
    text: str
    damages: tuple[Evidence, ...] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A declared check; `find` gets its subject."""

    name: str
    damages: tuple[Evidence, ...]
    fine: str
    find: Callable[[Any], CheckResult]
    explanation: str

    def row(self, subject: Any) -> dict[str, Any]:
        """Runs the check; returns a row of `data_check`."""
        result = self.find(subject)
        damages = self.damages if result.damages is None else result.damages
        fine = result.severity == OK
        return {
            "check": self.name,
            "severity": result.severity,
            "count": result.count,
            "affects": "" if fine else ",".join(damages),
            "explanation": self.fine if fine else result.text,
        }


CHECKS: list[Check] = []
"""All checks in the order of their results; `folder_checks.py` adds those of a folder and has the complete list."""


def check(name: str, *damages: Evidence, fine: str) -> Callable[[Callable[[Any], CheckResult]], Check]:
    """Declares the decorated function as a check; its docstring is the check's paragraph on its page.

    Raises:
        ValueError: `formats.evidence.SUBJECTS` does not list the check.
    """

    if name not in SUBJECTS:
        raise ValueError(f"check {name!r} is not listed in formats.evidence.SUBJECTS")

    def declare(find: Callable[[Any], CheckResult]) -> Check:
        CHECKS.append(Check(name, damages, fine, find, inspect.getdoc(find) or ""))
        return CHECKS[-1]

    return declare


def check_recording(recording: Recording, *, events: bool = True) -> pa.Table:
    """Runs all checks of a recording; without events, as in a job's own measurements, only those of its file."""
    declared = TABLES["data_check"]
    subjects = ("events", "file") if events else ("file",)
    rows = [item.row(recording) for item in CHECKS if SUBJECTS[item.name] in subjects]
    return pa.Table.from_pylist(rows, schema=declared.arrow(declared.linked_names))


def _percent(part: float, total: float) -> str:
    return ratio_text(part / total) if total else "0 %"


@check("stream_overlap", "stream-order", fine="device events of a stream follow one another.")
def stream_overlap(recording: Recording) -> CheckResult:
    """Device events of a stream that start before an earlier one has ended. Kernels of a stream run one after another,
    except with programmatic dependent launch, where a kernel may start while the one it depends on finishes. Unions of
    intervals count such time once; sums of durations count it twice, and gaps are measured from the latest end so far.
    """
    device = recording.device
    rows = np.flatnonzero(device.work & (device.dur > 0))
    rows = rows[np.lexsort((device.start[rows], device.stream[rows], device.device[rows]))]
    start, end = device.start[rows], (device.start + device.dur)[rows]
    streams = np.flatnonzero(run_starts(device.stream[rows], device.device[rows]))
    count = 0
    for low, high in pairwise([*streams.tolist(), len(rows)]):
        reach = np.maximum.accumulate(end[low:high])
        count += int((start[low + 1 : high] < reach[:-1]).sum())
    return CheckResult(
        OK if not count else NOTE if count <= 0.2 * len(rows) else WARNING,
        count,
        f"{count} of {len(rows)} device events start before an earlier one of their stream has ended, as kernels with "
        "programmatic dependent launch do. Unions of intervals count such time once; sums of durations count it twice.",
    )


@check("duration_overrun", "device-times", fine="no device event runs past the work after it.")
def duration_overrun(recording: Recording) -> CheckResult:
    """Device events whose recorded duration runs past later work on their stream. A few of these can claim most of the
    device time. They are cut where the next event starts; `device_event.raw_dur_ns` keeps the recorded duration.
    """
    count = recording.overruns
    return CheckResult(
        WARNING if count else OK,
        count,
        f"{count} device events have an impossible duration that runs past later work on their stream. They are cut where "
        "the next event starts; raw_dur_ns has the recorded duration.",
    )


@check("zero_ts", "device-times", fine="every event has a time.")
def zero_ts(recording: Recording) -> CheckResult:
    """Device events whose time stamp is 0, because the recorder lost it. They stay in the tables and count as launched,
    but take no part in times.
    """
    count = recording.report.damage.get("zero_timestamp", 0)
    return CheckResult(
        WARNING if count else OK,
        count,
        f"{count} events have the time 0: the recorder lost it. They count as launched, but not in times.",
    )


@check("negative_dur", "host-times", "device-times", fine="no duration is negative.")
def negative_dur(recording: Recording) -> CheckResult:
    """Events with a missing or negative duration, and ranges that start and never end. Their end is taken from what
    encloses them, or from the end of the recording.
    """
    damage = recording.report.damage
    count = damage.get("negative_duration", 0) + damage.get("unfinished", 0)
    return CheckResult(
        WARNING if count else OK,
        count,
        f"{count} events have no duration or a negative one: they had not ended, or their end was lost. They end with what "
        "encloses them, or with the recording.",
    )


@check("zero_dur", "device-times", "device-work", fine="kernels have durations.")
def zero_dur(recording: Recording) -> CheckResult:
    """Every kernel of a device has the duration 0: the recorder knew when they started but not how long they ran. How
    busy the device was is unknown, not 0.
    """
    device = recording.device
    kernels = np.flatnonzero((device.kind == COMPUTATION) | (device.kind == COMMUNICATION))
    timed = np.unique(device.device[kernels[device.dur[kernels] > 0]])
    count = int((~np.isin(device.device[kernels], timed)).sum())
    return CheckResult(
        ERROR if count else OK,
        count,
        f"{count} kernels have the duration 0, like all of their device: durations were not recorded, so device times are "
        "unknown, not 0.",
    )


def _launches(recording: Recording) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of kernel launches, and whether device work is known for each."""
    host = recording.host
    is_call = (host.role == LAUNCH) | (host.role == GRAPH_LAUNCH)
    if recording.captured is not None:
        is_call[recording.captured] = False  # they run when the graph is replayed
    calls = np.flatnonzero(is_call)
    has_work = np.zeros(len(host), dtype=bool)
    has_work[recording.launch[recording.launch >= 0]] = True
    return calls, has_work[calls]


@check("durations_only", "host-times", "device-times", "clocks", fine="events have times.")
def durations_only(recording: Recording) -> CheckResult:
    """The file, a list made by PyProf, says how long each kernel took and in which order they were launched, but not
    when. Kernels are placed one after another, and calls on the host get no duration. So sums of kernel durations are
    as measured, and idle time, overlap and times on the host are unknown.
    """
    count = recording.report.damage.get("no_moments", 0)
    return CheckResult(
        WARNING if count else OK,
        count,
        f"The file states durations of {count} kernels, but not when they ran. Sums of durations are as measured; idle time, "
        "overlap and host times are unknown, whatever an answer shows.",
    )


@check("launch_without_kernel", "device-work", fine="every kernel launch has its kernel.")
def launch_without_kernel(recording: Recording) -> CheckResult:
    """Kernel launches on the host whose kernel is not in the recording. The device then looks more idle than it was.
    Recorders lose device events when their buffers overflow or when another profiler holds the device.
    """
    calls, has_work = _launches(recording)
    count = int((~has_work).sum()) if recording.device.work.any() else 0
    share = count / len(calls) if len(calls) else 0.0
    return CheckResult(
        OK if not count else WARNING if share > 0.05 else NOTE,
        count,
        f"{count} of {len(calls)} kernel launches ({_percent(count, len(calls))}) have no kernel in the recording: device "
        "times are too small and idle time too large.",
    )


_STARVED = 0.8


@check("first_step_starved", "device-work", fine="the first step has its kernels.")
def first_step_starved(recording: Recording) -> CheckResult:
    """Many kernels that the first step launched are missing, while later steps have theirs: the recorder was not ready.
    Give the profiler a warm-up cycle, or leave the step out.
    """
    calls, has_work = _launches(recording)
    count = 0
    if recording.device.work.any() and len(calls):
        if len(recording.steps) > 1:
            step = recording.step_of_host[calls]
            launched = np.bincount(step[step >= 0], minlength=len(recording.steps))
            ran = np.bincount(step[(step >= 0) & has_work], minlength=len(recording.steps))
            ratio = ran / np.maximum(launched, 1)
            if launched[0] and ratio[0] < _STARVED * np.median(ratio[1:]):
                count = int(launched[0] - ran[0])
        else:
            order = np.argsort(recording.host.start[calls], kind="stable")
            leading = int(np.argmax(has_work[order])) if has_work.any() else 0
            count = leading if leading > (1 - _STARVED) * len(calls) else 0
    return CheckResult(
        WARNING if count else OK,
        count,
        f"{count} launches at the start of the recording have no kernel: the recorder was not ready. Leave the first step "
        "out, or record a warm-up cycle.",
    )


@check(
    "graph_replay_unattributed",
    "own-launches",
    "replayed-operators",
    "device-work",
    fine="no device work was replayed from a graph.",
)
def graph_replay_unattributed(recording: Recording) -> CheckResult:
    """Device work replayed from CUDA graphs. One launch starts all kernels of the graph, and the operators ran when
    the graph was captured: in the recording itself, or in one that is given with it (`--capture FILE`). A replay gets
    the operators and modules of a capture if its work agrees with that capture in number, order and names, and with no
    other one; otherwise its work belongs to no operator. If a graph was launched and none of its work is in the
    recording, device work is missing too.
    """
    host, device, replays = recording.host, recording.device, recording.replays
    calls, has_work = _launches(recording)
    empty = int((~has_work & (host.role[calls] == GRAPH_LAUNCH)).sum())
    empty = empty if device.work.any() else 0
    total_ns = int(device.dur[device.work].sum())
    count, lost = int(replays.work.sum()), sum(replays.refused.values())
    if not count and not empty:
        return CheckResult(OK, 0, "")
    replayed = np.flatnonzero(replays.work)
    lost_ns = int(device.dur[replayed[replays.source[replayed] < 0]].sum())
    text = (
        f"{count} device events ({_percent(int(device.dur[replayed].sum()), total_ns)} of device "
        "time) were replayed from graphs; one launch starts many of them."
    )
    if count > lost:
        text += f" {count - lost} have the operators of a matching capture."
    if lost:
        why = "; ".join(f"{events}: {reason}" for reason, events in sorted(replays.refused.items()))
        text += f" The operators of {lost} of them are unknown ({why})."
    damages: list[Evidence] = ["own-launches"]
    if lost:
        damages.append("replayed-operators")
    if empty:
        damages.append("device-work")
        text += f" {empty} graph launches have no device event: device times are too small and idle time too large."
    bad = bool(empty) or lost_ns > 0.5 * total_ns
    return CheckResult(WARNING if bad else NOTE, lost or count or empty, text, tuple(damages))


@check("no_steps", "steps", fine="ranges mark the steps.")
def no_steps(recording: Recording) -> CheckResult:
    """No range marks the steps. Call `profiler.step()` after each step to mark them. Without it steps run from one
    optimizer call to the next, or from one repeat to the next of something that recurs at least three times with the
    same content; otherwise the complete recording counts as one step.
    """
    steps = recording.steps
    missing = steps.rule != PROFILER_STEP
    if steps.rule == OPTIMIZER_CALLS:
        text = "No step ranges: steps run from one optimizer call to the next."
    elif steps.similarity is not None:
        text = (
            f"No step ranges: {len(steps)} repeats count as steps ({steps.rule}, each starting with {steps.name[0]}); they "
            f"share {ratio_text(float(np.median(steps.similarity)))} of their operators and ranges (median; at least "
            f"{ratio_text(float(steps.similarity.min()))})."
        )
    else:
        text = (
            "No step ranges, no optimizer call and no repeating pattern found; the whole recording counts as one step."
        )
    return CheckResult(NOTE if missing else OK, int(missing), text)


@check("clock_skew", "clocks", fine="no device event starts before its launch.")
def clock_skew(recording: Recording) -> CheckResult:
    """Device events that start before the call that launched them. The clocks of host and device disagree by at least
    that much, and launch delays are off by as much.
    """
    device, launch = recording.device, recording.launch
    linked = np.flatnonzero(device.work & (launch >= 0))
    early_ns = recording.host.start[launch[linked]] - device.start[linked]
    late = early_ns >= max(recording.resolution_ns, 2)
    count = int(late.sum())
    worst = int(early_ns.max(initial=0))
    return CheckResult(
        OK if not count else WARNING if count > 0.001 * len(linked) else NOTE,
        count,
        f"{count} of {len(linked)} device events start before their launch, by up to {worst} ns: the clocks of host and "
        "device disagree.",
    )


@check("unlinked_kernel_fraction", "launches", fine="every device event has its launch.")
def unlinked_kernel_fraction(recording: Recording) -> CheckResult:
    """Device work whose launch is not in the recording. It counts in every device time but belongs to no operator,
    module or range; nothing is dropped. Record host activity to have launches.
    """
    device = recording.device
    unlinked = device.work & (recording.launch < 0)
    count = int(unlinked.sum())
    part, total = int(device.dur[unlinked].sum()), int(device.dur[device.work].sum())
    return CheckResult(
        OK if not count else WARNING if part > 0.05 * total else NOTE,
        count,
        f"{count} device events with {_percent(part, total)} of device time have no recorded launch: they count in device "
        "times but belong to no operator, module or range.",
    )


@check("nameless_kernels", "kernel-names", fine="kernels have names.")
def nameless_kernels(recording: Recording) -> CheckResult:
    """Kernels whose name is not in the file, as in a database whose table of strings is empty or lost. Only names show
    which kernels communicate, so communication without names counts as computation; so does everything else that is
    judged by kernel names. Export again with all tables.
    """
    device = recording.device
    kernel = (device.kind == COMPUTATION) | (device.kind == COMMUNICATION)
    nameless = pc.equal(device.table["name"], NAMELESS).fill_null(True).to_numpy() & kernel
    count = int(nameless.sum())
    part, total = int(device.dur[nameless].sum()), int(device.dur[kernel].sum())
    return CheckResult(
        OK if not count else WARNING if part > 0.01 * total else NOTE,
        count,
        f"{count} kernels with {_percent(part, total)} of kernel time have no name in the file: communication among them "
        "counts as computation.",
    )


@check("no_gpu_events", "devices", "device-work", fine="the recording has device events.")
def no_gpu_events(recording: Recording) -> CheckResult:
    """The recording has no device events. If the host launched kernels, these were lost; if the file is truncated, they
    may be in the missing part, since Kineto writes them after the host's. Device times are then unknown, not 0.
    """
    if recording.device.work.any():
        return CheckResult(OK, 0, "")
    calls, _ = _launches(recording)
    if recording.report.truncated:
        launched = f"{len(calls)} kernels were launched, " if len(calls) else ""
        return CheckResult(
            ERROR if len(calls) else WARNING,
            1,
            f"The file is cut off, {launched}and has no device event: tracers may write them last, so device times are "
            "unknown, not 0. Read the complete file, or record again.",
        )
    if not len(calls):
        return CheckResult(
            NOTE, 1, "The recording has no device events; record a device activity to have them.", ("devices",)
        )
    text = f"{len(calls)} kernels were launched and none was recorded: device times are unknown, not 0."
    return CheckResult(ERROR, 1, text)


@check("memory_totals", "memory", fine="allocations add up to the recorded totals.")
def memory_totals(recording: Recording) -> CheckResult:
    """Allocations and releases after which the allocator's own total is not the total before plus what was allocated or
    released: events between them are missing, or are not in the order in which they happened. What is alive at a moment
    is then only partly known.
    """
    memory = recording.memory
    total = numbers(memory, "total_allocated_bytes", missing=-1)
    size = numbers(memory, "bytes")
    device = numbers(memory, "device", missing=-1)
    order = np.lexsort((numbers(memory, "time_ns"), device))
    order = order[total[order] >= 0]
    same = device[order][1:] == device[order][:-1]
    count = int((same & (total[order][1:] - total[order][:-1] != size[order][1:])).sum())
    return CheckResult(
        WARNING if count else OK,
        count,
        f"After {count} of {len(order)} allocations and frees the recorded total does not add up: some are missing, or out "
        "of order.",
    )


@check("truncated", "file", "device-work", fine="the file is complete.")
def truncated(recording: Recording) -> CheckResult:
    """The file ends before its JSON does: the job was killed while it wrote, or the disk was full. Every event before
    the end is read. If no step is complete then, it is unknown which device work is missing.
    """
    cut = recording.report.truncated
    some = bool(recording.steps.complete.any())
    return CheckResult(
        WARNING if cut else OK,
        int(cut),
        "The file ends before its JSON does: the writer was stopped. Events before the end are read; "
        + ("any step may lack events." if some else "no step is known to be complete."),
        ("file",) if some else None,
    )


_CHECKED = frozenset({"truncated", "gzip_truncated", "compression_truncated", "archive_truncated"})
"""Classes of damage that `truncated` reports, also if no event was cut."""


@check("repaired", "file", fine="no event had to be repaired.")
def repaired(recording: Recording) -> CheckResult:
    """Events that had to be repaired or could not be read; unreadable ones are missing in every answer. So may be
    events lost to other damage: a checksum that does not match, several traces in one file, values of a wrong type.
    `stepscope sources SRC` shows for each file how many events, which classes of damage, and where the first is.
    """
    report = recording.report
    count = report.repaired + report.dropped
    uncounted = [kind for kind in report.damage if kind in CLASSES and CLASSES[kind].uncounted]
    others = [
        kind
        for kind in report.damage
        if kind not in uncounted and not (report.truncated and kind in _CHECKED) and not is_harmless(kind)
    ]
    lines = [line(kind, report.damage[kind]) for kind in others]
    if not count and not uncounted:
        number = sum(report.damage[kind] for kind in others)
        return CheckResult(NOTE if number else OK, number, f"{'; '.join(lines)}.", ())
    serious = uncounted or report.dropped > 0.01 * max(report.read, 1)
    parts = [
        f"{number} {plural(number, 'event')} {what}"
        for number, what in ((report.repaired, "had to be repaired"), (report.dropped, "could not be read"))
        if number
    ]
    parts_text = [" and ".join(parts)] if parts else []
    parts_text += [line(kind, report.damage[kind]) for kind in uncounted] + lines
    return CheckResult(
        WARNING if serious else NOTE,
        count + sum(report.damage[kind] for kind in uncounted),
        "; ".join(parts_text) + ".",
        ("file",) if report.dropped or uncounted else (),
    )


_MAX_CHARACTERS = 60


@check("ended_early", fine="the recorder reported no early end.")
def ended_early(recording: Recording) -> CheckResult:
    """The job ended by an exception, an exit code other than 0 or a signal, as far as the process that recorded itself
    could observe it (`stepscope record`, `inline.start`, `trace`); or its recording was never closed: the job was
    killed (SIGKILL, out of memory, a crash in C), or was still running when its file was written. What was measured
    until then is right, but covers fewer steps than the job was to run. Other recorders do not state how a job ended.
    """
    ours = recording.metadata.get("stepscope", recording.metadata)
    if not isinstance(ours, dict) or "ended" not in ours or ours["ended"] == {}:
        return CheckResult(OK, 0, "")
    run, step = ours.get("iterations_run", ours.get("steps")), ours.get("ended_in_step")
    after = f" after {run} recorded step{'s'[: run != 1]}" if isinstance(run, int) else ""
    after = f" in step {step}" if isinstance(step, int) else after
    how = ours["ended"] if isinstance(ours["ended"], dict) else {}
    name, code = how.get("exception", how.get("signal")), how.get("exit_code")
    if name is not None:
        text = f"{str(name)[:_MAX_CHARACTERS]} ended the job"
    elif code is not None:
        text = f"The job ended with exit code {str(code)[:_MAX_CHARACTERS]}"
    else:
        written = f"last written{after}; " if after else ""
        text = f"Not closed: {written}the job was killed later, or still ran when this was written"
        after = ""
    return CheckResult(NOTE, 1, f"{text}{after}; answers cover what it did until then.")
