"""Files become a run: which are recordings, whose rank each is, and which come one after another.

A rank is taken, in order, from what the caller says, from the file's own `distributedInfo`, from the
rank that NCCL wrote beside its collectives, from the file's name, and else from the order of the
names. The rule that was used is kept with the rank.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.floor.errors import SourceError
from stepscope.formats.container import Member, members
from stepscope.formats.registry import Format, format_of
from stepscope.formats.tables import Facts

_NAME_RULES = (
    re.compile(r"(?:^|[^a-z])rank[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"-(\d{1,6})-of-\d{1,6}(?!\d)"),
    re.compile(r"(?:^|[^a-z])worker[-_]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[-_.])r(\d{1,6})(?=[-_.]|$)"),
)
_DIGITS = re.compile(r"(\d+)")
_LEFTOVER = (".tmp", ".partial")


_NAMES = (".prof.json", ".phases.json", ".pt.trace.json", ".pt.trace.json.gz")
"""How files end that recorders write. What they hold says what they are, not their name; but one of
these that cannot be read is missed."""

ERRORS = {
    "no-permission": "The file or folder may not be read by this user.",
    "no-recording": (
        "There is no recording in what was given. StepScope reads what `torch.profiler` exports "
        "(`.json`, `.json.gz`), databases of nvprof, what `stepscope record` writes, also in zip "
        "and tar archives, and folders of these."
    ),
    "no-such-file": "There is no file or folder of this name.",
    "rank-of-many": "One rank was given for several recordings. It can be given for a single one.",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """A file, or a member of an archive, as one recording of one rank."""

    member: Member
    format: Format
    rank: int
    span: int
    rule: str


@dataclass(slots=True)
class Run:
    """The recordings of a job, and the files among them that are none, with the reason."""

    recordings: list[Recording]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """Of these, those that were recordings once, or have the name of one."""

    def skip(self, label: str, error: SourceError, *, recording: bool) -> None:
        """Leaves a file out, which was a recording or is none."""
        reason = error.message.removeprefix(f"{label}: ")
        self.skipped.append((label, reason))
        if recording and error.slug != "nothing-measured":
            self.unreadable.append((label, reason))


def find_run(path: Path, *, rank: int | None = None) -> Run:
    """The run that a file, an archive or a folder holds.

    Args:
        path: a recording, an archive of recordings, or a folder that is searched to any depth.
        rank: the rank of the one recording, when the caller knows better than the file.

    Raises:
        SourceError: there is no recording, or the path cannot be read.
    """
    files = _files(path)
    found: list[tuple[Member, Format]] = []
    run = Run([])
    for file in files:
        try:
            for member in members(file):
                try:
                    found.append((member, format_of(member)))
                except SourceError as error:
                    run.skip(member.label, error, recording=member.label.endswith(_NAMES))
                    if len(files) == 1 and member.name is None:
                        raise
        except SourceError as error:
            if len(files) == 1:
                raise
            run.skip(str(file), error, recording=file.name.endswith(_NAMES))
    if not found:
        raise SourceError(
            f"{path}: no recording found{_among(len(run.skipped))}",
            hint="give a trace that torch.profiler wrote (.json, .json.gz), or a folder of them",
            slug="no-recording",
        )
    if len(found) == 1:
        member, known = found[0]
        known_rank = -1 if rank is None else rank
        run.recordings = [
            Recording(member, known, known_rank, 0, "single" if rank is None else "flag")
        ]
        return run
    if rank is not None:
        raise SourceError(
            f"{path}: {len(found)} recordings cannot all be rank {rank}",
            hint="give a rank for a single file only",
            slug="rank-of-many",
        )
    run.recordings = _with_ranks(found, run)
    return run


def rank_of_single(facts: Facts) -> tuple[int, str]:
    """The rank of a recording that stands alone, by what it says of itself, and the rule."""
    if facts.rank is not None:
        return facts.rank, facts.rank_rule or "distributedInfo"
    return 0, "single"


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise SourceError(
            f"{path}: no such file or folder", hint="check the path", slug="no-such-file"
        )
    if not path.is_dir():
        return [path]
    if not os.access(path, os.R_OK | os.X_OK):
        raise SourceError(
            f"{path}: no permission to read it", hint="check who may read it", slug="no-permission"
        )
    files = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        present = set(names)
        for name in sorted(names, key=_natural):
            finished = next(
                (name.removesuffix(end) for end in _LEFTOVER if name.endswith(end)), None
            )
            if not name.startswith(".") and (finished is None or finished not in present):
                files.append(Path(folder) / name)
    if not files:
        raise SourceError(
            f"{path}: the folder is empty", hint="give a folder with traces", slug="no-recording"
        )
    return files


def _among(skipped: int) -> str:
    return f" among {skipped} files" if skipped > 1 else ""


def _with_ranks(found: list[tuple[Member, Format]], run: Run) -> list[Recording]:
    peeked: list[tuple[Member, Format, Facts]] = []
    unusable: list[SourceError] = []
    for member, known in found:
        try:
            facts = known.peek(member)
        except SourceError as error:
            # A file that cannot be used does not cost those of the other ranks.
            unusable.append(error)
            run.skip(member.label, error, recording=True)
            continue
        if facts is None:
            run.skipped.append((member.label, "no trace events"))
        else:
            peeked.append((member, known, facts))
    if not peeked:
        if unusable:
            raise unusable[0]
        raise SourceError(
            f"{run.skipped[0][0]}: no trace events in any of {len(run.skipped)} files",
            hint="give a folder with traces that torch.profiler wrote",
            slug="no-recording",
        )
    # Apart, so that a guess for files of one kind never depends on files of another.
    ranked = dict[int, tuple[int, str]]()
    for timed in (True, False):
        chosen = [at for at, (_, known, _) in enumerate(peeked) if known.timed is timed]
        ranked.update(zip(chosen, _ranks([peeked[at] for at in chosen]), strict=True))
    order = sorted(
        range(len(ranked)),
        key=lambda at: (
            ranked[at][0],
            not peeked[at][1].timed,
            peeked[at][2].start_epoch_ns or 0,
            _natural(peeked[at][0].label),
        ),
    )
    spans: dict[int, int] = {}
    recordings = []
    for at in order:
        rank, rule = ranked[at]
        span = spans.get(rank, 0)
        spans[rank] = span + 1
        recordings.append(Recording(peeked[at][0], peeked[at][1], rank, span, rule))
    return recordings


def _ranks(peeked: list[tuple[Member, Format, Facts]]) -> list[tuple[int, str]]:
    """Rank and rule of each file: one rule for all that do not say their rank themselves."""
    ranks: list[tuple[int, str] | None] = [
        None if facts.rank is None else (facts.rank, facts.rank_rule or "distributedInfo")
        for _, _, facts in peeked
    ]
    silent = [at for at, found in enumerate(ranks) if found is None]
    names = {at: _name(peeked[at][0]) for at in silent}
    by_name = {at: _rank_in_name(name) for at, name in names.items()}
    if silent and all(number is not None for number in by_name.values()):
        for at, number in by_name.items():
            ranks[at] = (number or 0, "file name")
    else:
        taken = {found[0] for found in ranks if found is not None}
        # Recordings of one worker differ in their time stamp only: they share a rank.
        workers = sorted({_worker(name) for name in names.values()}, key=_natural)
        free = (number for number in range(len(peeked) + len(taken) + 1) if number not in taken)
        number_of = dict(zip(workers, free, strict=False))
        for at in silent:
            ranks[at] = (number_of[_worker(names[at])], "order")
    return [found for found in ranks if found is not None]


def _name(member: Member) -> str:
    return Path(member.name).name if member.name else member.path.name


def _rank_in_name(name: str) -> int | None:
    for rule in _NAME_RULES:
        found = rule.search(name)
        if found:
            return int(found.group(1))
    return None


def _worker(name: str) -> str:
    """A file's name without its time stamp: `host_123.1700000000000.pt.trace.json` → `host_123`."""
    return re.sub(r"\.\d{10,}(?=\.).*$", "", name)


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Orders names as people do: `rank10` after `rank9`."""
    return tuple(
        (1, int(part), "") if part.isdigit() else (0, 0, part)
        for part in _DIGITS.split(name)
        if part
    )
