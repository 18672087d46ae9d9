"""How much memory an import may take.

What reading and linking a recording takes grows with it, so ranks are imported beside one another only while
all together stay below a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.floor.allotted import memory_bytes

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


def import_limit() -> int | None:
    """Bytes that an import may take in all its processes; None where the system does not tell its memory."""
    known = memory_bytes()
    return known and known // _SHARE


def rank_limit(given: int | None, ranks: int) -> int:
    """Bytes that importing each of some ranks may take, where `given` are allowed to all or nothing was said."""
    most = _ALONE if ranks == 1 else LEAST
    return given or min(import_limit() or most, most)


def needs(ranks: Sequence[Sequence[runs.Recording]]) -> list[int]:
    """Bytes that importing each rank takes, roughly, given its recordings: the largest is read alone."""
    processes = Counter(_file(one) for of_rank in ranks for one in of_rank)
    return [
        _OF_PROCESS + max(int(one.format.memory * one.member.text_size / processes[_file(one)]) for one in of_rank)
        for of_rank in ranks
    ]


def _file(one: runs.Recording) -> tuple[Path, str | None]:
    return one.member.path, one.member.name
