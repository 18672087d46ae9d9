"""Turns files into jobs: which files are recordings, of which job, whose rank each is, and which follow one another.

A rank is taken, in order, from the caller, from the file's own `distributedInfo`, from the rank that NCCL wrote with
its collectives, from the file's name, and otherwise from the order of the names, unless the files follow one another in
time, as those of one process do. The rule is stored with the rank.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.base.folders import walked
from stepscope.base.quoting import path_text
from stepscope.formats.container import Member, display_name, members
from stepscope.formats.file_names import name_of, natural, place_of, stated_rank, stem_of, worker_of
from stepscope.formats.inductor import is_provenance
from stepscope.formats.jobs import Candidate, jobs_of
from stepscope.formats.registry import Format, format_of
from stepscope.formats.tables import Facts

_LEFTOVER = (".tmp", ".partial")
_COMPARED_BYTES = 1 << 20

_REPORTS = (".nsys-rep", ".qdrep")
"""Endings of reports; `nsys` puts an export next to a report, with `.sqlite` in place of the ending."""

_NAMES = (".prof.json", ".phases.json", ".pt.trace.json", ".pt.trace.json.gz")
"""Endings of files that recorders write. A file is identified by its content, not its name, but one with such a name
that cannot be read is reported as missing."""

ERRORS = {
    "no-permission": "This user may not read the file or folder.",
    "no-recording": (
        "There is no recording in what was given. StepScope reads what `torch.profiler` exports "
        "(`.json`, `.json.gz`), databases of nvprof, reports of Nsight Systems and their SQLite exports, reports and tables of Nsight Compute, "
        "samples and reports of the host (py-spy, perf, VTune, APS, oneDNN), what `stepscope record` writes, also in zip and tar archives, and folders of these."
    ),
    "no-such-file": "There is no file or folder with this name.",
    "rank-of-many": "One rank was given for several recordings. A rank can be given only for a single recording.",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """A file, or a member of an archive, as one recording of one rank."""

    member: Member
    format: Format
    rank: int
    span: int
    rule: str


@dataclass(frozen=True, slots=True)
class Job:
    """The recordings of a job, in order of rank and span; `about` says what distinguishes it from other jobs."""

    name: str
    about: str
    recordings: list[Recording]


@dataclass(slots=True)
class Run:
    """The jobs that were found, and the files that belong to none, with the reason."""

    jobs: list[Job] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """The skipped files that were recordings once, or have the name of one."""
    copies: dict[str, str] = field(default_factory=dict)
    """Labels of further copies of a recording, which are left out, each with the label of the one that is read."""

    captures: list[Recording] = field(default_factory=list)
    """Recordings of the captures of CUDA graphs, which form no job by themselves; rank -1 if none is
    stated."""

    provenance: list[Path] = field(default_factory=list)
    """Inductor's files that say where its kernels come from."""

    @property
    def recordings(self) -> list[Recording]:
        """The recordings of all jobs."""
        return [recording for job in self.jobs for recording in job.recordings]

    def skip(self, label: str, error: SourceError, *, recording: bool) -> None:
        """Leaves out a file, which was a recording or never was one."""
        reason = error.message.removeprefix(f"{label}: ")
        self.skipped.append((label, reason))
        if recording and error.slug != "nothing-measured":
            self.unreadable.append((label, reason))


def find_run(*paths: Path, rank: int | None = None, without: Iterable[Path] = ()) -> Run:
    """Finds the jobs whose recordings are in files, archives and folders, to any depth.

    Args:
        rank: the rank of the only recording, if the caller knows better than the file.
        without: files in these folders that are no recordings of the run.

    Raises:
        SourceError: there is no recording, or a path cannot be read.
    """
    left_out = {os.path.realpath(file) for file in without}
    refused: dict[str, SourceError] = {}
    found_files = _once(file for path in paths for file in _files(path, refused))
    files = [file for file in found_files if os.path.realpath(file) not in left_out]
    provenance = [file for file in files if is_provenance(file)]
    if len(provenance) < len(files):
        traced = set(files).difference(provenance)
        files = [file for file in files if file in traced]
    named = ", ".join(map(display_name, paths))
    sniffed: dict[Path, tuple[Member, Format]] = {}
    run = Run(provenance=provenance)
    for folder, error in refused.items():
        run.skip(folder, error, recording=True)

    def is_requested(file: Path) -> bool:
        """Whether it was named itself, and not found in a folder: then the user wants it."""
        return len(files) == 1 or file in paths

    for file in files:
        try:
            for member in members(file):
                place = place_of(member)
                if (earlier := sniffed.pop(place, None)) is not None:  # unpacking leaves the later one
                    run.skipped.append((earlier[0].label, "the archive has a later file of this name"))
                try:
                    sniffed[place] = member, format_of(member)
                except SourceError as error:
                    run.skip(member.label, error, recording=member.label.endswith(_NAMES))
                    if is_requested(file) and member.name is None:
                        raise
        except SourceError as error:
            if is_requested(file):
                raise
            run.skip(str(file), error, recording=file.name.endswith(_NAMES))
    recordings = _opened(list(sniffed.values()), run, is_requested)
    if not recordings:
        skipped = len(run.skipped)
        among = f" among {skipped} files" if skipped > 1 else ""
        raise SourceError(
            f"{named}: no recording found{among}",
            hint="give a trace that torch.profiler wrote (.json, .json.gz), or a folder of them",
            slug="no-recording",
        )
    if len(recordings) == 1:
        member, form = recordings[0]
        known_rank, rule = (-1, "single") if rank is None else (rank, "flag")
        single = [Recording(member, form, known_rank, 0, rule)]
        run.jobs = [Job(stem_of(name_of(member)), "", single)]
        return run
    if rank is not None:
        raise SourceError(
            f"{named}: {len(recordings)} recordings cannot all be rank {rank}",
            hint="give a rank for a single file only",
            slug="rank-of-many",
        )
    peeked = _peeked(recordings, run)
    captures = [candidate for candidate in peeked if candidate.facts.graph_capture]
    if len(captures) < len(peeked):
        peeked = [candidate for candidate in peeked if not candidate.facts.graph_capture]
        run.captures = [_capture(candidate) for candidate in captures]
    # Two recordings of a rank at the same time belong to two jobs, but a copy belongs to none.
    run.copies = _copies([candidate for candidate in peeked if candidate.rank is not None])
    jobs = jobs_of([candidate for candidate in peeked if candidate.member.label not in run.copies])
    run.jobs = [Job(job.name, job.about, _with_ranks(job.files, run)) for job in jobs]
    return run


def _capture(candidate: Candidate) -> Recording:
    rank = -1 if candidate.rank is None else candidate.rank
    return Recording(candidate.member, candidate.format, rank, 0, "order" if rank < 0 else "file name")


def rank_of_single(member: Member, facts: Facts) -> tuple[int, str]:
    """The rank of a lone recording, by its content or name, and the rule."""
    if facts.rank is not None:
        return facts.rank, facts.rank_rule or "distributedInfo"
    named = stated_rank(member)
    return (0, "single") if named is None else (named, "file name")


def _files(path: Path, refused: dict[str, SourceError]) -> list[Path]:
    """The files at a path. Folders in it that may not be read are added to `refused`.

    Raises:
        SourceError: there are none.
    """
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder", hint="check the path", slug="no-such-file")
    if not path.is_dir():
        return [path]
    denied: dict[str, SourceError] = {}

    def refuse(error: OSError) -> None:
        folder = path_text(error.filename)
        denied[folder] = SourceError(
            f"{folder}: no permission to read it"
            if isinstance(error, PermissionError)
            else f"{folder}: {error.strerror}",
            hint="check who may read it",
            slug="no-permission",
        )

    files = []
    for folder, names in walked(path, refuse):
        present = set(names)
        for name in sorted(names, key=natural):
            finished = next((name.removesuffix(end) for end in _LEFTOVER if name.endswith(end)), None)
            if not name.startswith(".") and (finished is None or finished not in present):
                files.append(folder / name)
    if not files:
        raise next(iter(denied.values()), None) or SourceError(
            f"{path}: the folder is empty", hint="give a folder with traces", slug="no-recording"
        )
    refused |= denied
    return files


def _once(files: Iterable[Path]) -> list[Path]:
    """The files, each once, however many paths and links lead to it."""
    once: dict[str, Path] = {}
    for file in files:
        once.setdefault(os.path.realpath(file), file)
    return list(once.values())


def _opened(
    sniffed: list[tuple[Member, Format]], run: Run, is_requested: Callable[[Path], bool]
) -> list[tuple[Member, Format]]:
    """The recordings in files of known formats. Of a report and its export the better one is opened, or
    the other one if that fails.
    """
    recordings: list[tuple[Member, Format]] = []
    instead_of = _instead_of(sniffed)
    opened: set[str] = set()
    for member, form in sorted(sniffed, key=lambda entry: entry[0].label in instead_of):
        better, reason = instead_of.get(member.label, ("", ""))
        if better in opened:
            run.skipped.append((member.label, reason))
            continue
        try:
            recordings += [(recording, form) for recording in form.recordings(member)]
            opened.add(member.label)
        except SourceError as error:
            run.skip(member.label, error, recording=True)
            if is_requested(member.path) and member.name is None:
                raise
    return recordings


def _instead_of(sniffed: list[tuple[Member, Format]]) -> dict[str, tuple[str, str]]:
    """Labels of the files that need not be opened, each with the one next to it that is read, and why:
    reports whose export is ready, and exports older than their report, which was written again.
    """
    at = {place_of(member): (member, form) for member, form in sniffed}
    instead: dict[str, tuple[str, str]] = {}
    for report, form in sniffed:
        place = place_of(report)
        if not place.name.endswith(_REPORTS):
            continue
        export, its_form = at.get(place.with_suffix(".sqlite"), (None, None))
        if export is None or its_form is not form:
            continue
        if _older(export, report):
            reason = f"{report.label} was written after it, and is read"
            instead[export.label] = report.label, reason
        else:
            reason = f"{export.label}, its export by name, is read"
            instead[report.label] = export.label, reason
    return instead


def _older(member: Member, other: Member) -> bool:
    if member.name is not None or other.name is not None:
        return False
    try:
        return member.path.stat().st_mtime_ns < other.path.stat().st_mtime_ns
    except OSError:
        return False


def _peeked(recordings: list[tuple[Member, Format]], run: Run) -> list[Candidate]:
    """What each recording says about itself; unusable ones are left out of the run."""
    peeked: list[Candidate] = []
    unusable: list[SourceError] = []
    for member, form in recordings:
        try:
            facts = form.peek(member)
        except SourceError as error:
            # An unusable file must not cost those of the other ranks.
            unusable.append(error)
            run.skip(member.label, error, recording=True)
            continue
        if facts is None:
            run.skipped.append((member.label, "no trace events"))
        else:
            peeked.append(Candidate(member, form, facts))
    if not peeked:
        if unusable:
            raise unusable[0]
        raise SourceError(
            f"{run.skipped[0][0]}: no trace events in any of {len(run.skipped)} files",
            hint="give a folder with traces that torch.profiler wrote",
            slug="no-recording",
        )
    return peeked


def _with_ranks(job: list[Candidate], run: Run) -> list[Recording]:
    """The recordings of a job, in order of rank and span. If ranks can only be guessed, files with the
    same bytes are one recording."""
    # Separately, so that a guess for files of one kind never depends on files of another.
    ranked: list[tuple[int, str, Candidate]] = []
    for timed in (True, False):
        chosen = [candidate for candidate in job if candidate.format.timed is timed]
        chosen_ranks = _ranks(chosen)
        known_ranks = {rank for rank, *_ in ranked}
        if len(known_ranks) == 1 and not timed and len(chosen) == 1 and chosen_ranks[0][1] == "single":
            # A measurement next to a single process's recording is of that process.
            chosen_ranks = [(known_ranks.pop(), "single")]
        ranked += [(rank, rule, candidate) for (rank, rule), candidate in zip(chosen_ranks, chosen, strict=True)]
    copies = _copies([candidate for _, rule, candidate in ranked if rule == "order"])
    if copies:
        run.copies |= copies
        return _with_ranks([candidate for candidate in job if candidate.member.label not in copies], run)
    ranked.sort(
        key=lambda entry: (
            entry[0],
            not entry[2].format.timed,
            entry[2].facts.start_epoch_ns or 0,
            natural(entry[2].member.label),
        )
    )
    spans: dict[int, int] = {}
    recordings = []
    for rank, rule, candidate in ranked:
        span = spans.get(rank, 0)
        spans[rank] = span + 1
        recordings.append(Recording(candidate.member, candidate.format, rank, span, rule))
    return recordings


def _copies(files: list[Candidate]) -> dict[str, str]:
    """Labels of files with the same uncompressed bytes as one with a shorter name, or an earlier one, each with that
    one's label. Most files that say the same about themselves differ near their start and need not be read."""
    similar: dict[tuple[Any, ...], list[Member]] = {}
    for candidate in sorted(
        files, key=lambda candidate: (len(candidate.member.label), natural(candidate.member.label))
    ):
        similar.setdefault((candidate.member.process, candidate.rank, candidate.start_ns), []).append(candidate.member)
    copies: dict[str, str] = {}
    for group in similar.values():
        starts = [member.digest(_COMPARED_BYTES) for member in group] if len(group) > 1 else []
        first: dict[bytes, str] = {}
        for member, start in zip(group, starts, strict=False):
            if starts.count(start) > 1:
                original = first.setdefault(member.digest(), member.label)
                if original != member.label:
                    copies[member.label] = original
    return copies


def _ranks(job: list[Candidate]) -> list[tuple[int, str]]:
    """Rank and rule of each file; all files that do not state their rank share one rule."""
    ranks: list[tuple[int, str] | None] = [
        None if candidate.facts.rank is None else (candidate.facts.rank, candidate.facts.rank_rule or "distributedInfo")
        for candidate in job
    ]
    silent = [at for at, rank in enumerate(ranks) if rank is None]
    by_name = {at: stated_rank(job[at].member) for at in silent}
    if silent and all(number is not None for number in by_name.values()):
        for at, number in by_name.items():
            ranks[at] = (number or 0, "file name")
    elif (
        len(job) == 1
        or any(candidate.facts.world_size == 1 for candidate in job)
        or (len(silent) == len(job) and _follow_one_another(job))
    ):
        for at in silent:
            ranks[at] = (0, "single")
    else:
        taken = {rank[0] for rank in ranks if rank is not None}
        names = dict(zip(silent, _workers([job[at] for at in silent]), strict=True))
        workers = sorted(set(names.values()), key=natural)
        free = (number for number in range(len(job) + len(taken) + 1) if number not in taken)
        number_of = dict(zip(workers, free, strict=False))
        for at in silent:
            ranks[at] = (number_of[names[at]], "order")
    return [rank for rank in ranks if rank is not None]


def _follow_one_another(job: list[Candidate]) -> bool:
    """Whether recordings that state no rank follow one another in time, as those of one process do."""
    timed = [candidate for candidate in job if candidate.start_ns is not None and candidate.end_ns() is not None]
    timed.sort(key=lambda candidate: candidate.start_ns or 0)
    return len(timed) == len(job) and not any(
        later.overlaps(first) or later.is_of_another_process(first) for first, later in pairwise(timed)
    )


def _workers(silent: list[Candidate]) -> list[str]:
    """The process of each recording that does not state its rank. The names of one worker's recordings differ only in
    their time stamp; recordings at the same time are of several folders' workers.
    """
    of_name: dict[str, list[Candidate]] = {}
    for candidate in silent:
        of_name.setdefault(worker_of(name_of(candidate.member)), []).append(candidate)
    several = {
        name for name, ones in of_name.items() if any(first.overlaps(second) for first, second in combinations(ones, 2))
    }
    named = [(worker_of(name_of(candidate.member)), candidate) for candidate in silent]
    workers = [
        str(place_of(candidate.member).with_name(name)) if name in several else name for name, candidate in named
    ]
    return [
        worker if candidate.member.process is None else f"{worker}!{candidate.member.process}"
        for worker, candidate in zip(workers, silent, strict=True)
    ]
