"""Joins the files of many small ranks.

A query opens each file of its tables, which takes as long as reading some thousand rows: with a thousand short
recordings every question would open ten thousand files. The rows of neighbouring ranks are put into the folder of the
first of them, one file a table, and `store.json` says whose they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.schema.tables import TABLES
from stepscope.store.manifest import StoredFile
from stepscope.store.write import ARROW, join_stored, placed, rank_folder, read_stored, write_stored

FEW_RANKS = 8
"""So few ranks are not joined: a folder for each is easier to look at, and to copy a rank from."""
SMALL_BYTES = 1 << 20
"""Most bytes that the files of a joined rank take."""
GROUP_BYTES = 8 << 20
SMALL_TEXT = 16 << 20
"""Most uncompressed bytes of a rank's recordings for its files to become Parquet only when they are joined."""
_PACKED = 4
"""How much smaller Parquet is than Arrow, roughly."""
_WRITERS = 2


def join_small_ranks(directory: Path, ranks: Iterable[int]) -> list[list[int]]:
    """Joins the files of small neighbouring ranks.

    Args:
        directory: the store that is being made.
        ranks: the ranks in it.

    Returns:
        the ranks that are together, for `joined` in `store.json`.

    Raises:
        OSError: a file cannot be read or written.
    """
    chosen = sorted(ranks)
    if len(chosen) <= FEW_RANKS:
        _as_parquet(directory, chosen)
        return []
    sizes = [sum(map(_size, rank_folder(directory, rank).iterdir())) for rank in chosen]
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
    _as_parquet(directory, set(chosen).difference(*joined))
    return joined


def _size(file: Path) -> int:
    size = file.stat().st_size
    return size // _PACKED if file.suffix == ARROW else size


def _join(directory: Path, ranks: Sequence[int]) -> None:
    folders = [rank_folder(directory, rank) for rank in ranks]
    of_table: dict[str, list[Path]] = {}
    for folder in folders:
        for file in sorted(folder.iterdir(), key=placed):
            of_table.setdefault(file.name.partition(".")[0], []).append(file)

    def join(name: str) -> None:
        together = directory / f"{name}.parquet"
        join_stored(together, TABLES[name], of_table[name])
        for file in of_table[name]:
            file.unlink()
        together.rename(folders[0] / f"{name}.0.parquet")

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(join, of_table))
    for folder in folders[1:]:
        folder.rmdir()


def _as_parquet(directory: Path, ranks: Iterable[int]) -> None:
    """Makes Parquet of the files of ranks that turn out to stay alone."""
    for rank in ranks:
        for file in rank_folder(directory, rank).glob(f"*{ARROW}"):
            declared = TABLES[file.name.partition(".")[0]]
            write_stored(file.with_suffix(".parquet"), declared, read_stored(file))
            file.unlink()


@contextmanager
def separated(files: Sequence[StoredFile], ranks: Iterable[int]) -> Iterator[list[StoredFile]]:
    """The files of some ranks as they were before joining, in a folder that is removed afterwards."""
    chosen = set(ranks)
    with tempfile.TemporaryDirectory(prefix="stepscope-") as scratch:
        separate = []
        for file in files:
            if len(file.ranks) == 1:
                separate += [file] if file.rank in chosen else []
                continue
            rows = pq.ParquetFile(file.path).read()
            for rank in sorted(chosen.intersection(file.ranks)):
                separate += _of_rank(Path(scratch), file, rows, rank)
        yield separate


def _of_rank(scratch: Path, file: StoredFile, rows: pa.Table, rank: int) -> list[StoredFile]:
    rank_rows = rows.filter(pc.equal(rows["rank"], rank))
    has_spans = "span" in rank_rows.column_names
    spans = np.unique(rank_rows["span"].to_numpy()).tolist() if has_spans else [0] * (rank_rows.num_rows > 0)
    folder = rank_folder(scratch, rank)
    folder.mkdir(exist_ok=True)
    files = []
    for span in spans:
        path = folder / f"{file.table}.{span}.parquet"
        of_span = rank_rows.filter(pc.equal(rank_rows["span"], span)) if has_spans else rank_rows
        write_stored(path, TABLES[file.table], of_span)
        files.append(StoredFile(path, rank, file.table, (span, 0), path.stat().st_size, 0, (rank,)))
    return files
