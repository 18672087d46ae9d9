"""How much memory an import may take.

The memory for reading and linking a recording grows with it, so ranks are imported in parallel only while all together
stay below a limit.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.cpu_quota import memory_bytes, processors

if TYPE_CHECKING:
    from stepscope.formats import runs

_SHARE = 4
"""The part of the machine's memory that an import may take: others use the machine too."""
_SINGLE_RANK = 1 << 30
"""What importing a lone rank may take: what it needs beyond that is in files meanwhile, which takes a tenth more
processor time. One of several may take `MINIMUM`, since some are read in parallel."""
_OF_QUERIES = 4 << 30
"""What queries may take on any machine."""
_OTHER_DATA = 1 << 30
_OF_THREAD = 16 << 20
"""What a process takes beside its queries: answers as text, and for each of DuckDB's threads a stack."""
_OF_PROCESS = 120 << 20
"""What a process takes before it reads anything: Python, Arrow, NumPy."""
MINIMUM = 512 << 20
"""What an import takes for any recording: the processes that ask and that read, with Python, Arrow, DuckDB and NumPy,
take 330 MB for a trace of 1 MB."""


def import_limit() -> int | None:
    """Bytes that all processes of an import may take; None if the system does not state its memory."""
    machine_bytes = memory_bytes()
    return machine_bytes and machine_bytes // _SHARE


def query_limit() -> int:
    """Bytes that the queries of a process may take; what needs more uses temporary files, or fails."""
    return min(max(import_limit() or _OF_QUERIES, MINIMUM), _OF_QUERIES)


@contextmanager
def limited_data() -> Iterator[None]:
    """Makes allocations of this process fail beyond what queries may take: DuckDB's own limit leaves out the text of a
    single value, as of repeat('x', 4000000000). Only Linux counts what RLIMIT_DATA is about; elsewhere nothing happens.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        data = pages * resource.getpagesize() + query_limit() + _OTHER_DATA + round(processors()) * _OF_THREAD
        if soft == resource.RLIM_INFINITY or data < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (data, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def rank_limit(given: int | None, ranks: int) -> int:
    """Bytes that importing each rank may take, if all may take `given`, or by default."""
    limit = _SINGLE_RANK if ranks == 1 else MINIMUM
    return given or min(import_limit() or limit, limit)


def needs(ranks: Sequence[Sequence[runs.Recording]]) -> list[int]:
    """Bytes that importing each rank takes, roughly, from its recordings; a rank reads them one by one."""
    processes = Counter(_file(recording) for of_rank in ranks for recording in of_rank)
    return [
        _OF_PROCESS
        + max(
            int(recording.format.memory * recording.member.text_size / processes[_file(recording)])
            for recording in of_rank
        )
        for of_rank in ranks
    ]


def _file(recording: runs.Recording) -> tuple[Path, str | None]:
    return recording.member.path, recording.member.name
