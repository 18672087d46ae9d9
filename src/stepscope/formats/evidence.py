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
    "run": "what was read together is of one run, and each file of the rank it is kept under; all answers "
    "rest on it and none names it",
    "host-times": "when operators, calls and ranges on the host started and ended",
    "devices": "devices were recorded",
    "device-work": "everything that the devices did is in the recording",
    "device-times": "when work on a device started and ended",
    "kernel-names": "what kernels are called, which alone tells communication from computation",
    "stream-order": "the work of a stream ran one after another, so that durations add up",
    "launches": "which call on the host launched a piece of device work",
    "own-launches": "a call launched one piece of device work, and not the many of a graph",
    "replayed-operators": "which operator put each piece of work into a graph that replays it",
    "clocks": "times of host and device are on one clock",
    "steps": "where training steps start and end",
    "across-ranks": "which collectives of several ranks are one, and how the ranks' clocks relate",
    "memory": "every allocation and release of memory was recorded",
}

_OF_ALL: tuple[Evidence, ...] = ("file", "run")

EVERYTHING: tuple[Evidence, ...] = tuple(kind for kind in MEANINGS if kind not in _OF_ALL)

DEVICE_WORK: tuple[Evidence, ...] = ("devices", "device-work", "device-times", "kernel-names", "stream-order")
"""What sums over device work rest on."""
LAUNCHED_WORK: tuple[Evidence, ...] = (*DEVICE_WORK, "launches", "replayed-operators")
"""What sums over the device work that calls on the host launched rest on."""


def bears_on(affects: str, rests_on: Iterable[str]) -> bool:
    """Whether damage affects an answer that rests on these kinds of evidence; damage to a file, or to
    everything that was read as one run, always does.

    A question passes what it declares. A rule of the judge can ask the same about failed checks, for
    the one kind that would make it wrong: `bears_on(check["affects"], ["device-work"])`.

    Args:
        affects: kinds of evidence separated by commas, as in `data_check.affects`.

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


OF_A_FILE = frozenset({"truncated", "repaired", "ended_early"})
"""Checks of a recording's file; they also apply to a job's own measurements, which have no events. All other checks,
except those of a folder, look at events."""

OF_A_FOLDER = frozenset(
    {
        "left_out",
        "spans_apart",
        "ranks_guessed",
        "identical_files",
        "collectives_alone",
        "collectives_incomplete",
        "clocks_contradict",
    }
)
"""Checks of all that was read together."""

OF_NO_RANK = OF_A_FOLDER - {"spans_apart"}
"""Checks of a folder that a store has once, with its first rank."""
