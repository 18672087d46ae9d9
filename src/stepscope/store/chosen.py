"""Chooses what to import: the recordings of the chosen job and ranks, as jobs of processes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.chosen_numbers import check_known
from stepscope.base.known_names import check_name
from stepscope.store.memory import needs, rank_limit

if TYPE_CHECKING:
    from stepscope.formats import runs
    from stepscope.store.job import Job


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What to import, and how; see `import_source`."""

    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    window: tuple[int, int] | None = None
    python_stack: bool = True
    strict: bool = False
    rank: int | None = None
    job: str | None = None
    captures: tuple[str, ...] = ()
    cluster: str | None = None
    memory: int | None = None


def chosen_jobs(run: runs.Run, options: ImportOptions, source: str) -> list[runs.Job]:
    """The jobs to import, with the recordings of the chosen ranks.

    Raises:
        UsageError: there is no such job or rank.
    """
    jobs = run.jobs
    if options.job is not None:
        name = check_name(options.job, [job.name for job in jobs], "job", of=source)
        jobs = [job for job in jobs if job.name == name]
    ranks = options.ranks
    if ranks is None or any(recording.rank < 0 for job in jobs for recording in job.recordings):
        return jobs
    known_ranks = {recording.rank for job in jobs for recording in job.recordings}
    check_known(ranks, sorted(known_ranks), "rank", of=source)
    narrowed = [
        replace(job, recordings=[recording for recording in job.recordings if recording.rank in ranks]) for job in jobs
    ]
    return [job for job in narrowed if job.recordings]


def check_steps(chosen: Collection[int], recorded: set[int]) -> None:
    """Refuses steps that no rank has."""
    if recorded.isdisjoint(chosen):
        check_known(chosen, sorted(recorded), "step")


def recordings_of_captures(paths: tuple[str, ...]) -> list[runs.Recording]:
    """The recordings of captures that were given; if there are several ranks, each applies only to its own."""
    from stepscope.formats.runs import find_run

    recordings = [] if not paths else find_run(*map(Path, paths)).recordings
    return [recording if recording.rule not in _GUESSED else replace(recording, rank=-1) for recording in recordings]


_GUESSED = ("order", "single")
"""Rules for ranks that a file does not state."""


def jobs_of_processes(
    recordings: list[runs.Recording],
    directory: Path,
    options: ImportOptions,
    captures: list[runs.Recording],
    provenance: list[Path],
) -> list[Job]:
    """The jobs for processes that import a job: its ranks, each with the captures that it may have replayed.

    Args:
        recordings: those of the job to import.
        directory: where its store is made.
        options: how they are imported.
        captures: from `recordings_of_captures`.
        provenance: Inductor's files that say where its kernels come from.
    """
    from stepscope.store import joined
    from stepscope.store.job import Job

    by_rank: dict[int, list[runs.Recording]] = {}
    for recording in recordings:
        by_rank.setdefault(recording.rank, []).append(recording)
    ranks = sorted(by_rank.items())
    many = len(ranks) > joined.FEW_RANKS
    return [
        Job(
            directory=str(directory),
            sources=tuple(map(_source, of_rank)),
            rank=rank,
            offset=of_rank[0].member.offset,
            rule=of_rank[0].rule,
            steps=options.steps,
            window=options.window,
            python_stack=options.python_stack,
            strict=options.strict,
            provenance=tuple(map(str, provenance)),
            captures=tuple(_source(item) for item in captures if item.rank in (rank, -1) or rank < 0),
            memory=memory,
            to_be_joined=many and sum(item.member.text_size for item in of_rank) <= joined.SMALL_TEXT,
            limit=rank_limit(options.memory, len(ranks)),
        )
        for (rank, of_rank), memory in zip(ranks, needs([of_rank for _, of_rank in ranks]), strict=True)
    ]


def _source(recording: runs.Recording) -> tuple[str, str | None, str | None, str]:
    return str(recording.member.path), recording.member.name, recording.member.process, recording.format.name
