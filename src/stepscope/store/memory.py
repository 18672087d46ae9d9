"""How much memory an import may take.

What reading and linking a recording takes grows with it, so ranks are imported beside one another only while
all together stay below a limit.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.formats import runs

_SHARE = 4
"""The part of the machine's memory that an import may take: others work on it, too."""
_ALONE = 1 << 30
"""What importing a rank may take that is imported alone: what it needs beyond that lies in files meanwhile, which takes
a tenth more processor time. One of several may take `LEAST`, since some are read beside one another."""
_OF_PROCESS = 120 << 20
"""What a process takes before it reads anything: Python, Arrow, NumPy."""
LEAST = 512 << 20
"""What an import takes of any recording: the processes that ask and that read, with Python, Arrow, DuckDB and
NumPy, take 330 MB for a trace of 1 MB."""
_GROUPS = (Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
_LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Files of a control group, of version 2 and 1; without a limit they have a word, or more than there is."""


def import_limit() -> int | None:
    """Bytes that an import may take in all its processes; None where the system does not tell its memory."""
    known = [*_of_groups()]
    with suppress(ValueError, OSError, AttributeError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known) // _SHARE if known else None


def rank_limit(given: int | None, ranks: int) -> int:
    """Bytes that importing each of some ranks may take, where `given` are allowed to all or nothing was said."""
    most = _ALONE if ranks == 1 else LEAST
    return given or min(import_limit() or most, most)


def needs(ranks: Sequence[Sequence[runs.Recording]]) -> list[int]:
    """Bytes that importing each rank takes, roughly, given its recordings: the largest is read alone."""
    processes = Counter(_file(one) for of_rank in ranks for one in of_rank)
    return [
        _OF_PROCESS
        + max(
            int(one.format.memory * one.member.text_size / processes[_file(one)]) for one in of_rank
        )
        for of_rank in ranks
    ]


def _file(one: runs.Recording) -> tuple[Path, str | None]:
    return one.member.path, one.member.name


def _of_groups() -> Iterable[int]:
    """Limits of the control groups that this process is in; a job of a scheduler has one."""
    listing, root = _GROUPS
    with suppress(OSError, ValueError):
        for line in listing.read_text(encoding="utf-8").splitlines():
            kinds, path = line.split(":", 2)[1:]
            if kinds not in ("", "memory"):
                continue
            here = (root / "memory" if kinds else root) / path.lstrip("/")
            for group in (here, *here.parents):
                for name in _LIMITS:
                    with suppress(OSError, ValueError):
                        yield int((group / name).read_text(encoding="ascii"))
                if group == root:
                    break
