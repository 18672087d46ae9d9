"""Kinds of evidence: what a recording shows, a check may find damaged, and an answer rests on.

A check names the kinds that it found damaged (`link/checks.py`; the column `data_check.affects`). A question, or
anything else that judges, names the kinds that it rests on. Neither knows the other's name: `bears_on` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Evidence = Literal[
    "file",
    "run",
    "host-times",
    "devices",
    "device-work",
    "device-times",
    "kernel-names",
    "stream-order",
    "launches",
    "own-launches",
    "replayed-operators",
    "clocks",
    "steps",
    "across-ranks",
    "memory",
]

MEANINGS: dict[Evidence, str] = {
    "file": "every event that was written is in the tables; all answers rest on it and none names it",
    "run": "what was read together is of one run, and each file of the rank that it is stored under; all answers "
    "rest on it and none names it",
    "host-times": "when operators, calls and ranges on the host started and ended",
    "devices": "devices were recorded",
    "device-work": "everything that the devices did is in the recording",
    "device-times": "when work on a device started and ended",
    "kernel-names": "names of kernels, which alone distinguish communication from computation",
    "stream-order": "the work of a stream ran one after another, so that durations add up",
    "launches": "which call on the host launched a piece of device work",
    "own-launches": "each call launched one piece of device work, not the many of a graph",
    "replayed-operators": "which operator put each piece of work into a graph that replays it",
    "clocks": "times of host and device are on one clock",
    "steps": "where training steps start and end",
    "across-ranks": "which collectives of several ranks are the same, and how the ranks' clocks relate",
    "memory": "every allocation and release of memory was recorded",
}

_OF_ALL: tuple[Evidence, ...] = ("file", "run")

EVERYTHING: tuple[Evidence, ...] = tuple(kind for kind in MEANINGS if kind not in _OF_ALL)

DEVICE_WORK: tuple[Evidence, ...] = ("devices", "device-work", "device-times", "kernel-names", "stream-order")
"""Evidence for sums over device work."""
LAUNCHED_WORK: tuple[Evidence, ...] = (*DEVICE_WORK, "launches", "replayed-operators")
"""Evidence for sums over the device work that calls on the host launched."""


def bears_on(affects: str, rests_on: Iterable[str]) -> bool:
    """Whether damage affects an answer that rests on these kinds of evidence; damage to a file, or to
    everything that was read as one run, always does.

    Example:
        >>> bears_on("host-times,device-times", ["device-times", "clocks"])
        True
        >>> bears_on("host-times", [])
        False
        >>> bears_on("file", [])
        True
    """
    damaged = {kind.strip() for kind in affects.split(",")}
    return not damaged.isdisjoint(_OF_ALL) or not damaged.isdisjoint(rests_on)


Subject = Literal["events", "file", "rank", "job"]

SUBJECTS: dict[str, Subject] = {
    "stream_overlap": "events",
    "duration_overrun": "events",
    "zero_ts": "events",
    "negative_dur": "events",
    "zero_dur": "events",
    "durations_only": "events",
    "launch_without_kernel": "events",
    "first_step_starved": "events",
    "graph_replay_unattributed": "events",
    "no_steps": "events",
    "clock_skew": "events",
    "unlinked_kernel_fraction": "events",
    "nameless_kernels": "events",
    "no_gpu_events": "events",
    "memory_totals": "events",
    "truncated": "file",
    "repaired": "file",
    "ended_early": "file",
    "spans_apart": "rank",
    "left_out": "job",
    "ranks_guessed": "job",
    "identical_files": "job",
    "collectives_alone": "job",
    "collectives_incomplete": "job",
    "clocks_contradict": "job",
}
"""Every check and what it examines: the events of a recording; its file, which a job's own measurements have too; all
recordings of a rank; or everything read together, whose checks a store has once, with its first rank. `link.checks`
implements them and refuses a check that is not listed: answers need the subject, and must not import link for it."""
