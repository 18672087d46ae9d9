"""Decides which ranks an answer over ranks uses: those requested, without those whose recording is damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.errors import UsageError
from stepscope.base.units import plural
from stepscope.formats.evidence import EVERYTHING, SUBJECTS, Evidence
from stepscope.query.scope import ComparedRun, Scope

STEP_TIMES: tuple[Evidence, ...] = ("host-times", "device-work", "device-times", "launches", "clocks", "steps")
"""The evidence on which the times of steps and of their parts rest."""

_CHECKS = """
    SELECT rank, "check", severity, affects FROM data_check WHERE severity IN ('warning', 'error')
"""


def damaged_ranks(scope: Scope, rests_on: Iterable[str] = EVERYTHING) -> tuple[int, ...]:
    """The ranks whose file is damaged, whose device work is missing or whose step times are wrong. None of them if
    these are all: then only they can answer; nor if the answer rests on no evidence."""
    damaged = _damaged(scope, rests_on)
    return damaged if len(damaged) < len(scope.ranks) else ()


_LOST_DEVICE = """
    SELECT DISTINCT rank FROM data_check
    WHERE list_contains(string_split(affects, ','), 'devices') AND severity IN ('warning', 'error') ORDER BY rank
"""


def ranks_without_their_device(scope: Scope) -> tuple[int, ...]:
    """The ranks whose device work was lost, or may have followed the place where their file is cut off. Their device
    activity is unknown, and other recording options would not have helped."""
    return tuple(row["rank"] for row in scope.sql(_LOST_DEVICE).to_pylist())


def all_damaged(scope: Scope, rests_on: Iterable[str] = EVERYTHING) -> bool:
    """Whether several ranks were requested and all of them are damaged."""
    return len(scope.ranks) > 1 and len(_damaged(scope, rests_on)) == len(scope.ranks)


def _damaged(scope: Scope, rests_on: Iterable[str]) -> tuple[int, ...]:
    evidence = set(rests_on)
    if len(scope.ranks) < 2 or not evidence:
        return ()
    checks = scope.cached(_CHECKS, lambda: scope.sql(_CHECKS).to_pylist())
    if not checks:
        return ()
    spoilt = {
        row["rank"]
        for row in checks
        if SUBJECTS.get(row["check"]) != "job"
        for kinds in [{kind.strip() for kind in row["affects"].split(",")}]
        if "device-work" in kinds & evidence
        or ("file" in kinds and SUBJECTS.get(row["check"]) == "file")
        or (row["severity"] == "error" and not (kinds & evidence).isdisjoint(STEP_TIMES))
    }
    return tuple(rank for rank in scope.ranks if rank in spoilt)


def valid_ranks(scope: Scope) -> tuple[int, ...]:
    """The ranks that are not damaged; all if every rank is."""
    damaged = damaged_ranks(scope)
    return tuple(rank for rank in scope.ranks if rank not in damaged)


@contextmanager
def without_ranks(scope: Scope, ranks: Sequence[int]) -> Iterator[Scope]:
    """A scope without some of its ranks; itself if it has none of them or nothing would be left."""
    others = [rank for rank in scope.ranks if rank not in ranks]
    if not others or len(others) == len(scope.ranks):
        yield scope
        return
    try:
        narrowed = Scope(scope.store, others, scope.steps, scope.part, may_lack=True)
    except UsageError:  # only the damaged ranks have these steps
        yield scope
        return
    with narrowed:
        yield narrowed


@contextmanager
def without_damaged_ranks(
    recordings: Sequence[ComparedRun], *, same_ranks: bool
) -> Iterator[tuple[list[ComparedRun], str]]:
    """Recordings without damaged ranks, and a sentence about these.

    Args:
        same_ranks: a rank is the same in all recordings, so a rank damaged in one is left out of all.
    """
    damaged = [damaged_ranks(run.scope) for run in recordings]
    union = tuple(sorted({rank for ranks in damaged for rank in ranks}))
    texts = [f"{ranks_text(ranks)} of {run.role}" for run, ranks in zip(recordings, damaged, strict=True) if ranks]
    words = f"Damaged, and left out{' of both' if same_ranks else ''}: {'; '.join(texts)}." if texts else ""
    with ExitStack() as stack:
        yield (
            [
                replace(run, scope=stack.enter_context(without_ranks(run.scope, union if same_ranks else ranks)))
                for run, ranks in zip(recordings, damaged, strict=True)
            ],
            words,
        )


def ranks_text(ranks: Iterable[int]) -> str:
    """Ranks as readable text.

    >>> ranks_text((9, 8, 10, 3))
    'ranks 3, 8-10'
    """
    numbers = tuple(ranks)
    return f"{plural(len(numbers), 'rank')} {numbers_text(numbers)}"
