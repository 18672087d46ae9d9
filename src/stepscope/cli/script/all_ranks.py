"""Whether all ranks of a job have written what they recorded, so that one of them can report on the entire run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.answers.table import Table

MOST_RANKS = 64
"""Reading the files of more takes longer than a job should be kept from ending."""
PATIENCE_S = 3.0
"""Ranks that end together write within this; those of other nodes may have another folder."""

MOST_BYTES = 32 << 20
"""Compressed traces of more take longer to be read than a job should be kept from ending: about 5 s on two cores."""


def wrote_phases(files: Callable[[], Mapping[Path, int]], before: Mapping[Path, int], ranks: int) -> bool:
    """Whether the folder holds fresh phases of every rank, and no older recording to mix them with.

    Args:
        files: the recordings in the folder, and when each was written.
        before: the same, before the job began.
        ranks: how many processes the job has; it waits a moment for those that have not yet written.
    """
    if not 1 < ranks <= MOST_RANKS:
        return False
    until = time.monotonic() + PATIENCE_S
    while True:
        there = files()
        fresh = {path for path, when in there.items() if before.get(path) != when}
        if {_rank(path) for path in fresh} >= set(range(ranks)):
            return fresh == set(there)
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)


def soon_read(files: Iterable[Path]) -> bool:
    """Whether the recordings of all ranks are few enough bytes for one of them to show before the job ends."""
    try:
        return sum(path.stat().st_size for path in files) <= MOST_BYTES
    except OSError:  # somebody cleans up
        return False


def of_one_rank(answer: Table) -> Table:
    """The first rank's rows of an answer, with the notes on the entire run below them."""
    ranks = answer.arrow.column("rank").to_pylist()
    return replace(answer, arrow=answer.arrow.slice(0, ranks.count(ranks[0]) if ranks else 0))


def _rank(path: Path) -> int | None:
    """Whose phases a file has by its name, `<host>.<rank>.phases.json`."""
    name = path.name.removesuffix(".phases.json")
    rank = name.rpartition(".")[2]
    return int(rank) if name != path.name and rank.isdecimal() else None
