"""What the name of a recording's file states: a rank, a worker, a place among others."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from stepscope.formats.container import Member

_RANKS = (
    re.compile(r"(?:^|[^a-z])rank[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"-(\d{1,6})-of-\d{1,6}(?!\d)"),
    re.compile(r"(?:^|[^a-z])worker[-_]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[-_.])r(\d{1,6})(?=[-_.]|$)"),
)
_DIGITS = re.compile(r"(\d+)")
_ENDINGS = frozenset(
    [
        "pt",
        "trace",
        "prof",
        "phases",
        "json",
        "gz",
        "zst",
        "zip",
        "tar",
        "tgz",
        "db",
        "nvvp",
        "nvprof",
        "sql",
        "sqlite",
        "nsys-rep",
        "qdrep",
    ]
)


def name_of(member: Member) -> str:
    """The file's name, without its folder."""
    return place_of(member).name


def place_of(member: Member) -> Path:
    """Its path; a member of an archive is in the archive as in a folder, wherever its name would lead."""
    names = PurePosixPath(member.name or "").parts
    return member.path.joinpath(*(name for name in names if name not in ("/", "//", "..")))


def stated_rank(member: Member) -> int | None:
    """The rank that a file's name states; None for a file of several processes."""
    return None if member.process is not None else rank_in_name(name_of(member))


def rank_in_name(name: str) -> int | None:
    """The rank that a name states: `rank3.json`, `worker3_step_12.json`, `gpt-3-of-8.json`."""
    for rule in _RANKS:
        match = rule.search(name)
        if match:
            return int(match.group(1))
    return None


def worker_of(name: str) -> str:
    """A file's name without its time stamp: `host_123.1700000000000.pt.trace.json` → `host_123`."""
    return re.sub(r"\.\d{10,}(?=\.)(?s:.*)", "", name)


def stem_of(name: str) -> str:
    """A file's name without its time stamp and its ending.

    >>> stem_of("bert_h100.pt.trace.json.gz")
    'bert_h100'
    """
    parts = worker_of(name).split(".")
    while len(parts) > 1 and parts[-1] in _ENDINGS:
        parts.pop()
    return ".".join(parts) or name


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that orders names as people do: `rank10` after `rank9`."""
    parts = [part.lstrip("0") if part.isdecimal() else part for part in _DIGITS.split(name) if part]
    # A number by its digits: `int` takes no thousands of them.
    return tuple((1, len(part), part) if part.isdecimal() or not part else (0, 0, part) for part in parts)
