"""How much memory an import may take.

The memory for reading and linking a recording grows with it, so ranks are imported in parallel only while all together
stay below a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.cpu_quota import memory_bytes

if TYPE_CHECKING:
    from stepscope.formats import runs

_SHARE = 4
"""The part of the machine's memory that an import may take: others use the machine too."""
_ALONE = 1 << 30
"""What importing a lone rank may take: what it needs beyond that is in files meanwhile, which takes a tenth more
processor time. One of several may take `LEAST`, since some are read in parallel."""
_OF_PROCESS = 120 << 20
"""What a process takes before it reads anything: Python, Arrow, NumPy."""
LEAST = 512 << 20
"""What an import takes for any recording: the processes that ask and that read, with Python, Arrow, DuckDB and NumPy,
take 330 MB for a trace of 1 MB."""


def import_limit() -> int | None:
    """Bytes that all processes of an import may take; None if the system does not state its memory."""
    known = memory_bytes()
    return known and known // _SHARE


def rank_limit(given: int | None, ranks: int) -> int:
    """Bytes that importing each rank may take, if all may take `given`, or by default."""
    most = _ALONE if ranks == 1 else LEAST
    return given or min(import_limit() or most, most)


def needs(ranks: Sequence[Sequence[runs.Recording]]) -> list[int]:
    """Bytes that importing each rank takes, roughly, from its recordings; a rank reads them one by one."""
    processes = Counter(_file(one) for of_rank in ranks for one in of_rank)
    return [
        _OF_PROCESS + max(int(one.format.memory * one.member.text_size / processes[_file(one)]) for one in of_rank)
        for of_rank in ranks
    ]


def _file(one: runs.Recording) -> tuple[Path, str | None]:
    return one.member.path, one.member.name
