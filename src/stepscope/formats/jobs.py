"""Separates jobs: finds which of the recordings that were found together are of one job.

Two recordings are of different jobs if something differs that a job has only one of: the device model, its compute
capability, the world size, or the version of CUDA, ROCm, NCCL or torch. Two recordings of a rank must be of one
process: on one host, under one process id, and not at the same time; they are its cycles, however far apart in time.
The ranks of one job are recorded together. A rank is guessed only among recordings of the same tool, and only if the
world has room for another rank. What a file does not say separates nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.base.path_names import path_names
from stepscope.formats.container import Member
from stepscope.formats.file_names import natural, place_of, stated_rank, stem_of
from stepscope.formats.registry import Format
from stepscope.formats.tables import EPOCH_NS, Facts

TOGETHER_NS = 600 * 10**9
"""Recordings of different ranks that are further apart in time than this are not of one job: ranks step together, and
the clocks of nodes differ by seconds."""

MAX_JOBS = 100
"""A recording is compared with so many jobs, those of the names before it: in a folder of thousands, comparing each
with all others would take too long."""


@dataclass(eq=False, slots=True)
class Candidate:
    """A recording whose job is to be found, and what it says about itself."""

    member: Member
    format: Format
    facts: Facts
    rank: int | None = field(init=False)
    """The rank that it, or its name, states."""

    def __post_init__(self) -> None:
        """Finds the rank."""
        self.rank = self.facts.rank
        if self.rank is None:
            self.rank = 0 if self.facts.world_size == 1 else stated_rank(self.member)

    @property
    def start_ns(self) -> int | None:
        """When it started (Unix ns); None if its times have no known epoch."""
        start = self.facts.start_epoch_ns
        return start if start is not None and start >= EPOCH_NS else None

    def end_ns(self) -> int | None:
        """When it ended, as far as that can be known; may read the file to its end, once."""
        if self.facts.end_epoch_ns is None and self.format.end is not None:
            with suppress(SourceError):
                self.facts.end_epoch_ns = self.format.end(self.member)
        return self.facts.end_epoch_ns

    def overlaps(self, other: Candidate) -> bool:
        """Whether both were recorded at the same time, as far as is known."""
        if self.start_ns is None or other.start_ns is None:
            return False
        first, second = sorted((self, other), key=lambda candidate: candidate.start_ns or 0)
        if first.start_ns == second.start_ns:
            return True
        end = first.end_ns()
        return end is not None and second.start_ns is not None and end > second.start_ns

    def is_of_process(self, other: Candidate) -> bool:
        """Whether both state the same process."""
        mine, theirs = self.facts, other.facts
        stated = None not in (mine.host, mine.pid)
        return stated and (mine.host, mine.pid) == (theirs.host, theirs.pid)

    def is_of_another_process(self, other: Candidate) -> bool:
        """Whether their statements about their processes differ."""
        mine, theirs = self.facts, other.facts
        return _differ(mine.host, theirs.host) or _differ(mine.pid, theirs.pid)

    def is_of_another_run(self, other: Candidate) -> bool:
        """Whether our recorder has written both, in different processes: a trace, and what the job timed of itself."""
        return _differ(self._recorded_pid, other._recorded_pid)

    @property
    def _recorded_pid(self) -> object:
        ours = self.facts.metadata.get("stepscope")
        return self.facts.pid if ours is None else ours.get("pid") if isinstance(ours, dict) else None


class Job:
    """Recordings of one job; its name and what distinguishes it are known once all jobs are."""

    def __init__(self, first: Candidate) -> None:
        """A job of one recording."""
        self.files: list[Candidate] = []
        self.name = ""
        self.about = ""
        self.devices: set[str] | None = None
        self.capabilities: set[str] | None = None
        self.world_size: int | None = None
        self.versions: dict[str, str] = {}
        self.hosts: set[str] = set()
        self._last_rank = 0
        self._requests: set[str | None] = set()
        self._of_tool: dict[tuple[str, bool], Candidate] = {}
        self._of_rank: dict[tuple[int | None, bool], list[Candidate]] = {}
        self._recorded: dict[bool, tuple[int, int]] = {}
        self.add(first)

    @property
    def start_ns(self) -> int | None:
        """When its first recording started (Unix ns), if known."""
        return min((start for start, _ in self._recorded.values()), default=None)

    def add(self, candidate: Candidate) -> None:
        """Adds a recording."""
        self.files.append(candidate)
        facts, timed = candidate.facts, candidate.format.timed
        if facts.devices is not None:
            self.devices = (self.devices or set()) | set(facts.devices)
        if facts.capabilities is not None:
            self.capabilities = (self.capabilities or set()) | set(facts.capabilities)
        if self.world_size is None:
            self.world_size = facts.world_size
        self._last_rank = max(self._last_rank, facts.rank or 0)
        self._requests.add(facts.request)
        if timed:
            self._of_tool.setdefault((candidate.format.name, candidate.rank is None), candidate)
        self.versions = {**facts.versions, **self.versions}
        if facts.host is not None:
            self.hosts.add(facts.host)
        self._of_rank.setdefault((self._rank(candidate), timed), []).append(candidate)
        if candidate.start_ns is not None:
            first, last = self._recorded.get(timed, (candidate.start_ns, candidate.start_ns))
            end = candidate.facts.end_epoch_ns or candidate.start_ns
            self._recorded[timed] = min(first, candidate.start_ns), max(last, end)

    def takes(self, candidate: Candidate) -> bool:
        """Whether a recording can belong to this job."""
        if candidate.format.timed and not self._has_room_for(candidate):
            return False
        return self._agrees(candidate.facts) and self._is_recorded_with(candidate)

    def likeness(self, candidate: Candidate) -> tuple[bool, tuple[int, int]]:
        """How similar a recording is to the job's own: whether they answer the same recording request,
        and how many folders and letters their paths share.
        """
        path, request = place_of(candidate.member), candidate.facts.request
        same_request = request is not None and request in self._requests
        return same_request, max(_similarity(path, place_of(of.member)) for of in (self.files[0], self.files[-1]))

    def _rank(self, candidate: Candidate) -> int | None:
        return 0 if self.world_size == 1 else candidate.rank

    def _has_room_for(self, candidate: Candidate) -> bool:
        """Whether it may be another rank of this job, if its rank or that of another tool's recording is not stated."""
        silent = candidate.rank is None
        other_tools = [of for (name, _), of in self._of_tool.items() if name != candidate.format.name]
        if any((silent or of.rank is None) and not candidate.is_of_process(of) for of in other_tools):
            return False
        size = self.world_size
        if not silent or size is None or candidate.facts.world_size == 1:
            return True
        return sum(timed and rank is not None for rank, timed in self._of_rank) < size

    def _agrees(self, facts: Facts) -> bool:
        """Whether all that a job has only one of is the same."""
        if _share_nothing(self.devices, facts.devices):
            return False
        if _share_nothing(self.capabilities, facts.capabilities):
            return False
        if _differ(self.world_size, facts.world_size):
            return False
        sizes = [size for size in (self.world_size, facts.world_size) if size is not None]
        if any(max(self._last_rank, facts.rank or 0) >= size for size in sizes):
            return False
        return not any(_differ(self.versions.get(key), facts.versions[key]) for key in facts.versions)

    def _is_recorded_with(self, candidate: Candidate) -> bool:
        timed, rank = candidate.format.timed, self._rank(candidate)
        of_rank = self._of_rank.get((rank, timed), [])
        other_kind = [] if rank is None else self._of_rank.get((rank, not timed), [])
        if other_kind and all(map(candidate.is_of_another_run, other_kind)):
            return False
        if rank is not None and of_rank:
            # A job's own timing has several kinds, one of each at the same time.
            same_kind = [of for of in of_rank if timed or of.format is candidate.format]
            return not any(map(candidate.is_of_another_process, of_rank)) and not any(
                map(candidate.overlaps, same_kind)
            )
        recorded = self._recorded.get(timed)
        if recorded is None or candidate.start_ns is None:
            return True
        end = candidate.facts.end_epoch_ns or candidate.start_ns
        if recorded[0] - TOGETHER_NS <= end and candidate.start_ns <= recorded[1] + TOGETHER_NS:
            return True
        # Without ranks and far apart in time: they can only be cycles of one process.
        kind = [of for (_, same), files in self._of_rank.items() if same is timed for of in files]
        return rank is None and not any(of.rank is not None or candidate.is_of_another_process(of) for of in kind)


def jobs_of(candidates: Iterable[Candidate]) -> list[Job]:
    """Groups recordings into jobs, in the order of their files; usually there is one job."""
    jobs: list[Job] = []
    # Recordings without moments come last, after those without a rank: they say less, and join what is there.
    named = sorted(candidates, key=lambda candidate: (not candidate.format.timed, natural(candidate.member.label)))
    for candidate in sorted(named, key=lambda candidate: (not candidate.format.timed, candidate.rank is None)):
        fitting = [job for job in jobs[-MAX_JOBS:] if job.takes(candidate)]
        if fitting:
            max(fitting, key=lambda job: job.likeness(candidate)).add(candidate)
        else:
            jobs.append(Job(candidate))
    if len(jobs) <= MAX_JOBS:
        jobs = _merged(jobs)
    place = {id(candidate): at for at, candidate in enumerate(named)}
    jobs.sort(key=lambda job: min(place[id(candidate)] for candidate in job.files))
    _describe(jobs)
    return jobs


def _merged(jobs: list[Job]) -> list[Job]:
    """The jobs, after joining those that a later file links."""
    apart: list[Job] = []
    for job in jobs:
        for number, other in enumerate(apart):
            both = _joined(other, job)
            if both is not None:
                apart[number] = both
                break
        else:
            apart.append(job)
    return apart if len(apart) == len(jobs) else _merged(apart)


def _joined(job: Job, other: Job) -> Job | None:
    """Both as one job; None if a recording of one cannot belong to it."""
    if not any(job.takes(candidate) for candidate in other.files):
        return None
    both = Job(job.files[0])
    for candidate in job.files[1:]:
        both.add(candidate)
    left = list(other.files)
    while left:
        linked = next((candidate for candidate in left if both.takes(candidate)), None)
        if linked is None:
            return None
        both.add(linked)
        left.remove(linked)
    return both


def _similarity(path: Path, other: Path) -> tuple[int, int]:
    name, theirs = path.name, other.name
    letters = _shared(name, theirs) + _shared(name[::-1], theirs[::-1])
    return _shared(path.parts[:-1], other.parts[:-1]), letters


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many elements two texts or paths share at their start."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _share_nothing(mine: set[str] | None, theirs: tuple[str, ...] | None) -> bool:
    """Whether both are stated and have no model in common; both empty counts as the same."""
    if mine is None or theirs is None or mine == set(theirs):
        return False
    return mine.isdisjoint(theirs)


def _differ(mine: object, theirs: object) -> bool:
    return mine is not None and theirs is not None and mine != theirs


# -- words -------------------------------------------------------------------------------------------


def _describe(jobs: list[Job]) -> None:
    """Names the jobs, and says what distinguishes each if there are several."""
    places = [list(dict.fromkeys(place_of(candidate.member).absolute() for candidate in job.files)) for job in jobs]
    holds = Counter(folder for of_job in places for place in of_job for folder in place.parents)
    several = len(jobs) > 1
    named = [_place(of_job, holds, or_name=not several) for of_job in places]
    for job, name in zip(jobs, path_names(named), strict=True):
        job.name = name
    if several:
        described = list(zip(*(_words(job) for job in jobs), strict=True))
        varying = [words for words in described if len(set(words)) > 1]
        enough = next(
            (n for n in range(1, len(varying)) if len(set(zip(*varying[:n], strict=True))) == len(jobs)), len(varying)
        )
        ranks = Counter(rank for job in jobs for rank in {candidate.rank for candidate in job.files})
        if len(set(zip(*described[:_OF_THE_SAME], strict=True))) == 1 and max(ranks.values()) == 1:
            enough = len(varying)  # They may be one job to someone who knows more than their clocks show.
        for number, job in enumerate(jobs):
            job.about = ", ".join(filter(None, (words[number] for words in varying[:enough])))


_OF_THE_SAME = 3
"""Leading words that agree between recordings that may still be of one job: device, world size, versions."""


def _words(job: Job) -> tuple[str, ...]:
    """What may distinguish a job, the most telling first."""
    start = job.start_ns
    if job.devices is not None:
        devices = ", ".join(sorted(job.devices)) or "no device"
    else:
        stated = ", ".join(sorted(job.capabilities or ()))
        devices = f"compute capability {stated}" if stated else ""
    moment = None if start is None else datetime.fromtimestamp(start / 1e9, tz=timezone.utc)
    return (
        devices,
        "" if job.world_size is None else f"world size {job.world_size}",
        ", ".join(f"{name} {version}" for name, version in sorted(job.versions.items())),
        " and ".join(
            sorted({candidate.facts.tool or candidate.format.name for candidate in job.files if candidate.format.timed})
        ),
        ", ".join(sorted(job.hosts)),
        "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC",
    )


def _place(places: Sequence[Path], holds: Counter[Path], *, or_name: bool) -> Path:
    """The folder that holds only this job, or else what its files' names have in common; with `or_name` a single
    file goes by its own name, whatever its folder holds."""
    folder = Path(os.path.commonpath([place.parent for place in places]))
    if holds[folder] == len(places) and not (or_name and len(places) == 1):
        return folder
    stems = [stem_of(place.name) for place in places]
    if len(stems) == 1:
        return places[0].parent / stems[0]
    shared = stems[0][: min(_shared(stems[0], stem) for stem in stems)]
    return places[0].parent / (shared.rstrip("-_. 0123456789") or stems[0])
