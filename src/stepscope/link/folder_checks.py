"""Checks of what was read together: the files of a folder, and what its ranks show about one another.

They have a row only if they find something, with the first of the affected ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from stepscope.base.path_names import path_names
from stepscope.base.units import plural, ratio_text
from stepscope.link.checks import CHECKS, NOTE, OK, WARNING, CheckResult, check

__all__ = [
    "CHECKS",
    "clocks_contradict",
    "collectives_alone",
    "collectives_incomplete",
    "identical_files",
    "left_out",
    "ranks_guessed",
    "spans_apart",
]


@check("left_out", "file", fine="every recording could be read.")
def left_out(files: Sequence[tuple[str, str]]) -> CheckResult:
    """A folder has recordings that cannot be read: truncated, empty or changed after they were written. What they would
    show, about a rank for instance, is in no answer. It has a row only if there are such recordings.
    """
    label, reason = files[0] if files else ("", "")
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return CheckResult(
        WARNING if files else OK, len(files), f"{label}{others} could not be read and is in no answer: {reason}."
    )


_MINUTE_NS = 60 * 10**9
_OVERLAP_NS = 10**7
"""Recordings of one process follow one another; the last work of one may continue for a little."""


@check("spans_apart", "run", fine="recordings of the rank lie together.")
def spans_apart(recorded: Sequence[tuple[int, int]]) -> CheckResult:
    """A rank has several recordings that are minutes apart, or overlap. Recordings that agree in rank, device and world
    size count as cycles of one run, and answers combine them; but recordings of two runs can agree in all that too. If
    they are of different runs, ask about each file by itself. It has a row only if there are such recordings.
    """
    ordered = sorted(recorded)
    gaps = [later[0] - first[1] for first, later in pairwise(ordered)]
    overlaps = sum(gap < -_OVERLAP_NS for gap in gaps)
    far = [gap for gap in gaps if gap >= _MINUTE_NS]
    together = (
        "As rank, device and world size agree, they count as cycles of one run, and answers combine them; if they are two "
        "runs, ask about one file at a time."
    )
    if overlaps:
        return CheckResult(
            WARNING,
            overlaps,
            f"{overlaps} of {len(ordered)} recordings of the rank overlap in time with the one before, unlike cycles of one "
            f"process. {together}",
        )
    return CheckResult(
        NOTE if far else OK,
        len(far),
        f"{len(ordered)} recordings of the rank are up to {_long_text(max(far, default=0))} apart. {together}",
    )


def _long_text(ns: int) -> str:
    """A long time in the largest unit with a value of 2 or more."""
    for unit, size in (("days", 1440), ("hours", 60), ("minutes", 1)):
        if ns >= 2 * size * _MINUTE_NS:
            return f"{ns / size / _MINUTE_NS:.3g} {unit}"
    return f"{ns / 10**9:.3g} s"


@check("ranks_guessed", "run", fine="every file says its rank.")
def ranks_guessed(files: Sequence[tuple[str, int]]) -> CheckResult:
    """Neither the files nor their names say whose rank they are, so ranks follow the order of the names: what is shown
    for a rank may belong to another one. It has a row only if there are such files. Export traces with the rank in
    their name, or initialise `torch.distributed` before recording.
    """
    ranks = [f"{Path(label).name} is rank {rank}" for label, rank in files]
    return CheckResult(
        NOTE if files else OK,
        len(files),
        f"ranks follow the order of file names ({_two_of(ranks)}): no file states its rank, so numbers may be swapped.",
    )


@check("identical_files", "run", fine="no file is a copy of another.")
def identical_files(files: Sequence[tuple[str, str]]) -> CheckResult:
    """Files of one rank, or files that do not state their rank, have the same bytes: they are copies of one recording
    and neither further ranks nor further jobs, so one of them is read. It has a row only if there are such files.
    """
    named = (path_names([Path(label), Path(first)]) for label, first in files)
    copies = [f"{copy} is a copy of {original}" for copy, original in named]
    return CheckResult(
        NOTE if files else OK,
        len(files),
        f"the same recording was given more than once ({_two_of(copies)}): copies were left out.",
    )


@check("collectives_alone", "across-ranks", fine="every collective was matched with those of the other ranks.")
def collectives_alone(counts: tuple[int, int, int]) -> CheckResult:
    """Collectives that have no counterpart in any other rank's recording, or whose counterpart cannot be identified: a
    recording lost kernels, covers other steps than the others, or states neither the ranks nor a communicator of groups
    with the same name. They have no `match_id`, and no time in them counts as waiting. It has a row only if there are
    such collectives, in recordings of several ranks. Newer versions of torch record the number of each collective,
    which identifies it without doubt.
    """
    unmatched, unknown, total = counts
    share = f"{unmatched} of {total} collectives of all ranks ({ratio_text(unmatched / total)})" if total else ""
    why = f"; for {unknown} of them the ranks were not recorded" if unknown else ""
    return CheckResult(
        (WARNING if 10 * unmatched > total else NOTE) if unmatched else OK,
        unmatched,
        f"{share} could not be matched with another rank's{why}: their waiting and transfer cannot be separated.",
    )


@check("collectives_incomplete", "across-ranks", fine="every matched collective has all ranks of its group.")
def collectives_incomplete(counts: tuple[int, int, Sequence[int]]) -> CheckResult:
    """Matched collectives that lack a rank of the group: it was not recorded, or its recording lost the kernel. If it
    arrived last, then what counts as transfer of the others is waiting for it. It has a row only if there are such
    collectives, in recordings of several ranks.
    """
    incomplete, matched, missing = counts
    lack = f"; {_ranks(missing)} {'is' if len(missing) == 1 else 'are'} not recorded" if missing else ""
    return CheckResult(
        (WARNING if 10 * incomplete > matched else NOTE) if incomplete else OK,
        incomplete,
        f"{incomplete} of {matched} matched collectives lack a rank of their group{lack}: if it arrived last, the others "
        "waited longer than shown.",
    )


@check("clocks_contradict", "across-ranks", fine="matched collectives end together on all ranks.")
def clocks_contradict(ranks_of: tuple[Sequence[int], Sequence[int]]) -> CheckResult:
    """Ranks that were not aligned with the others, because the ends of what seem to be the same collectives do not
    agree under any difference of their clocks, or because only the order of file names says which ranks they are. They
    may be of another job. Nothing is said about who waited for them. It has a row only if there are such ranks.
    """
    refused, guessed = ranks_of
    ranks = {*refused, *guessed}
    parts = []
    if refused:
        parts.append(f"the collectives of {_ranks(refused)} do not end when those of the others do")
    if guessed:
        parts.append(f"{_ranks(guessed)} {'was' if len(guessed) == 1 else 'were'} guessed")
    return CheckResult(
        WARNING if refused else NOTE if guessed else OK,
        len(ranks),
        f"clocks were not aligned by collectives: {' and '.join(parts)}; who waited for whom there is unknown.",
    )


def _ranks(ranks: Sequence[int]) -> str:
    named = f"{plural(len(ranks), 'rank')} {', '.join(map(str, ranks[:4]))}"
    return named if len(ranks) <= 4 else f"{named} and {len(ranks) - 4} more"


def _two_of(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - 2} more" if len(texts) > 2 else ""
    return f"{', '.join(texts[:2])}{more}"
