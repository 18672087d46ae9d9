"""Waits until all ranks of a job have written, so that one of them can report on the entire run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.query.table import Table

MAX_RANKS = 64
"""Reading the files of more ranks takes longer than the end of a job should be delayed."""
PATIENCE_S = 3.0
"""Ranks that end together write within this time; those of other nodes may have another folder."""

MAX_BYTES = 32 << 20
"""Compressed size of traces; reading more would delay the end of the job too long (this takes 5 s on two cores)."""


def wrote_phases(files: Callable[[], Mapping[Path, int]], before: Mapping[Path, int], ranks: int) -> bool:
    """Whether the folder holds new phases of every rank, and no older recording that would be mixed in.

    Args:
        files: returns the recordings in the folder, with their modification times.
        ranks: the number of the job's processes; waits a moment for those that have not written yet.
    """
    if not 1 < ranks <= MAX_RANKS:
        return False
    until = time.monotonic() + PATIENCE_S
    while True:
        present = files()
        fresh = {path for path, when in present.items() if before.get(path) != when}
        if {_rank(path) for path in fresh} >= set(range(ranks)):
            return fresh == set(present)
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)


def soon_read(files: Iterable[Path]) -> bool:
    """Whether the recordings of all ranks are small enough for one of them to show before the job ends."""
    try:
        return sum(path.stat().st_size for path in files) <= MAX_BYTES
    except OSError:  # the folder is being cleaned up
        return False


def of_one_rank(answer: Table) -> Table:
    """Keeps the first rank's rows of an answer, with the notes on the entire run below them."""
    ranks = answer.arrow.column("rank").to_pylist()
    return replace(answer, arrow=answer.arrow.slice(0, ranks.count(ranks[0]) if ranks else 0))


def _rank(path: Path) -> int | None:
    """The rank in the file name `<host>.<rank>.phases.json`."""
    name = path.name.removesuffix(".phases.json")
    rank = name.rpartition(".")[2]
    return int(rank) if name != path.name and rank.isdecimal() else None
