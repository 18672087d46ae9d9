"""Puts the files of many small ranks together.

A query opens each file of its tables, which takes as long as reading some thousand rows: of a thousand
short recordings every question would open ten thousand files. The rows of neighbouring ranks are put into the
folder of the first of them, one file a table, and `store.json` says whose they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.schema.tables import TABLES
from stepscope.store.manifest import StoredFile
from stepscope.store.write import join_stored, placed, rank_folder, write_stored

FEW_RANKS = 8
"""Ranks that are left alone: a folder for each is easier to look at, and to copy a rank from."""
SMALL_BYTES = 1 << 20
"""What the files of a rank that is joined take at most."""
GROUP_BYTES = 8 << 20


def join_small_ranks(directory: Path, ranks: Iterable[int]) -> list[list[int]]:
    """Puts the files of small ranks that follow one another together.

    Args:
        directory: the store that is being made.
        ranks: those that it has.

    Returns:
        the ranks that are together, for `joined` in `store.json`.

    Raises:
        OSError: a file cannot be read or written.
    """
    chosen = sorted(ranks)
    if len(chosen) <= FEW_RANKS:
        return []
    sizes = [
        sum(file.stat().st_size for file in rank_folder(directory, rank).iterdir())
        for rank in chosen
    ]
    groups: list[list[int]] = [[]]
    taken = 0
    for rank, size in zip(chosen, sizes, strict=True):
        taken += size
        if size > SMALL_BYTES or taken > GROUP_BYTES:
            groups.append([])
            taken = size
        if size <= SMALL_BYTES:
            groups[-1].append(rank)
    joined = [group for group in groups if len(group) > 1]
    for group in joined:
        _join(directory, group)
    return joined


def _join(directory: Path, ranks: Sequence[int]) -> None:
    folders = [rank_folder(directory, rank) for rank in ranks]
    for name, declared in TABLES.items():
        files = [
            file for folder in folders for file in sorted(folder.glob(f"{name}.*"), key=placed)
        ]
        if not files:
            continue
        together = directory / f"{name}.parquet"
        join_stored(together, declared, files)
        for file in files:
            file.unlink()
        together.rename(folders[0] / f"{name}.0.parquet")
    for folder in folders[1:]:
        folder.rmdir()


@contextmanager
def separated(files: Sequence[StoredFile], ranks: Iterable[int]) -> Iterator[list[StoredFile]]:
    """The files of some ranks as they were before they were put together, in a folder that is removed after."""
    wanted = set(ranks)
    with tempfile.TemporaryDirectory(prefix="stepscope-") as scratch:
        found = []
        for file in files:
            if len(file.ranks) == 1:
                found += [file] if file.rank in wanted else []
                continue
            rows = pq.ParquetFile(file.path).read()
            for rank in sorted(wanted.intersection(file.ranks)):
                found += _of_rank(Path(scratch), file, rows, rank)
        yield found


def _of_rank(scratch: Path, file: StoredFile, rows: pa.Table, rank: int) -> list[StoredFile]:
    own = rows.filter(pc.equal(rows["rank"], rank))
    has_spans = "span" in own.column_names
    spans = np.unique(own["span"].to_numpy()).tolist() if has_spans else [0] * (own.num_rows > 0)
    folder = rank_folder(scratch, rank)
    folder.mkdir(exist_ok=True)
    made = []
    for span in spans:
        path = folder / f"{file.table}.{span}.parquet"
        of_span = own.filter(pc.equal(own["span"], span)) if has_spans else own
        write_stored(path, TABLES[file.table], of_span)
        made.append(StoredFile(path, rank, file.table, (span, 0), path.stat().st_size, 0, (rank,)))
    return made
