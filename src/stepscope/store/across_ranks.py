"""Adds to the files of a store what only all its ranks together show: matched collectives and aligned clocks.

The few columns that this needs are read from each recording, and its file of collectives is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.link.across_ranks.alignment import Aligned, align
from stepscope.link.across_ranks.clocks import Clock
from stepscope.link.across_ranks.extent import EXTENTS, Extent, find_extent
from stepscope.link.across_ranks.gather import READ, Collectives, RankInfo, gather
from stepscope.link.across_ranks.groups import POINT_TO_POINT, recorded_ranks
from stepscope.link.across_ranks.matching import RULES
from stepscope.link.checks import OK
from stepscope.link.columns import FARTHEST_NS, from_codes, integers
from stepscope.link.folder_checks import clocks_contradict, collectives_alone, collectives_incomplete
from stepscope.schema.tables import TABLES
from stepscope.store.ranks import add_check
from stepscope.store.write import ARROW, placed, rank_folder, read_stored, write_stored

_WRITERS = 2
_EVENTS = ("host_event", "device_event")


def link_ranks(directory: Path, ranks: Iterable[int]) -> None:
    """Matches the collectives of a store's ranks and aligns their clocks, in its files.

    Raises:
        OSError: a file cannot be read or written.
    """
    chosen = sorted(set(ranks))
    if len(chosen) < 2:
        return
    rows = {rank: read_stored(_file(directory, rank, "rank")).to_pylist()[0] for rank in chosen}
    files = [
        (rank, placed(file)[0], file)
        for rank in chosen
        for file in sorted(rank_folder(directory, rank).glob("collective.*"), key=placed)
    ]
    ranks_known = _of_one_time([_rank_clock(directory, rows[rank]) for rank in chosen])
    collectives = gather(ranks_known, ((rank, span, read_stored(file, READ)) for rank, span, file in files))
    aligned = align(collectives, ranks_known)
    sizes = {row["world_size"] for row in rows.values()}
    extent = find_extent(collectives, aligned.matches, ranks_known, sizes.pop() if len(sizes) == 1 else None)
    _write_matches([file for _, _, file in files], collectives, aligned, extent, chosen)
    _write_clocks(directory, collectives, aligned, ranks_known)
    refused = [item.rank for item, clock in zip(ranks_known, aligned.clocks, strict=True) if clock.refused]
    guessed = [item.rank for item in ranks_known if item.guessed] if len(collectives) else []
    checks = (
        collectives_alone.row((aligned.unmatched, aligned.unknown, len(collectives))),
        collectives_incomplete.row(_incomplete(collectives, aligned, chosen)),
        clocks_contradict.row((refused, guessed)),
    )
    for check in checks:
        if check["severity"] != OK:
            add_check(directory, chosen[0], check)


def _incomplete(collectives: Collectives, aligned: Aligned, ranks: Sequence[int]) -> tuple[int, int, list[int]]:
    """How many matches lack ranks of their group, of how many, and which of these ranks have no recording."""
    matches = aligned.matches
    members = [recorded_ranks(text) for _, _, text, _, _ in collectives.groups]
    stated = np.array(
        [
            len(members_of_group) or group_facts[3] or 0
            for members_of_group, group_facts in zip(members, collectives.groups, strict=True)
        ],
        np.int64,
    )
    between_two = np.array([group_facts[0] in POINT_TO_POINT for group_facts in collectives.kinds], dtype=bool)
    rank_counts = matches.each(matches.ranks)
    lacking = (rank_counts < stated[collectives.group[matches.rows]]) & ~between_two[collectives.kind[matches.rows]]
    lack = np.unique(matches.match[matches.rows][lacking])
    absent = {
        rank
        for group in np.unique(collectives.group[matches.rows][lacking]).tolist()
        for rank in members[group].difference(ranks)
    }
    return len(lack), len(matches), sorted(absent)


def _file(directory: Path, rank: int, table: str, span: int = 0) -> Path:
    (file,) = rank_folder(directory, rank).glob(f"{table}.{span}.*")
    return file


def _rank_clock(directory: Path, row: Mapping[str, Any]) -> RankInfo:
    spans: dict[int, tuple[int, int]] = {}
    for table in _EVENTS:
        for file in rank_folder(directory, row["rank"]).glob(f"{table}.*"):
            span = placed(file)[0]
            for first, last in _extents(file, "start_ns"):
                low, high = spans.get(span, (first, last))
                spans[span] = min(low, first), max(high, last)
    return RankInfo(
        row["rank"], row["host"], row["start_epoch_ns"], row["resolution_ns"],
        row["rank_rule"] == "order", spans,
    )  # fmt: skip


def _extents(file: Path, name: str) -> Iterator[tuple[int, int]]:
    """The smallest and the largest value of a column, for each part of a file."""
    if file.suffix == ARROW:
        bounds = pc.min_max(read_stored(file, [name]).column(0)).as_py()
        if bounds["min"] is not None:
            yield bounds["min"], bounds["max"]
        return
    metadata = pq.ParquetFile(file).metadata
    column = metadata.schema.names.index(name)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min, statistics.max


def _of_one_time(clocks: list[RankInfo]) -> list[RankInfo]:
    """The ranks; one with an impossible time counts as guessed, and its clock is not used."""
    epochs = sorted(clock.epoch_ns for clock in clocks if clock.epoch_ns is not None)
    middle = epochs[len(epochs) // 2] if epochs else 0
    return [
        clock
        if clock.epoch_ns is None or abs(clock.epoch_ns - middle) < FARTHEST_NS
        else replace(clock, epoch_ns=None, host=None, guessed=True)
        for clock in clocks
    ]


def _write_matches(
    files: Sequence[Path], collectives: Collectives, aligned: Aligned, extent: Extent, ranks: Sequence[int]
) -> None:
    """Fills in the files of collectives; `found` has the rows of all files in order."""
    matches = aligned.matches
    wait = np.full(len(collectives), -1, np.int64)
    wait[matches.rows] = aligned.waits.wait
    last = np.full(len(collectives), -1, np.int32)
    last[matches.rows] = np.append(np.array(ranks, np.int32), -1)[aligned.waits.last]
    rank_counts = np.append(matches.ranks, -1)
    sure = np.append(aligned.confidence, np.nan)
    dur = collectives.end - collectives.start

    def fill(file: Path, first: int, size: pa.Array) -> None:
        rows = len(size)
        place = np.empty(rows, np.int64)
        place[collectives.row[first : first + rows] - first] = np.arange(first, first + rows)
        match = matches.match[place]
        none = match < 0
        waited = wait[place]
        values = {
            "extent": from_codes(extent.extent[place], EXTENTS),
            "match_id": integers(match, type=pa.int64()),
            "match_rule": from_codes(matches.rule[place] - 1, RULES[1:]),
            "match_confidence": pa.array(sure[match], mask=none),
            "matched_ranks": pa.array(rank_counts[match], pa.int32(), mask=none),
            "last_rank": integers(last[place], type=pa.int32()),
            "wait_ns": integers(waited, type=pa.int64()),
            "transfer_ns": pa.array(dur[place] - waited, mask=waited < 0),
        }
        values["group_size"] = pc.coalesce(size, integers(extent.size[place], type=pa.int32()))
        _replace(file, values)

    with ThreadPoolExecutor(_WRITERS) as pool:
        first, writing = 0, []
        for file in files:
            size = read_stored(file, ["group_size"]).column(0).combine_chunks()
            writing.append(pool.submit(fill, file, first, size))
            first += len(size)
        for future in writing:
            future.result()


def _replace(file: Path, values: Mapping[str, pa.Array]) -> None:
    """Writes a file of collectives again with other values in some columns."""
    declared = TABLES["collective"]
    table = read_stored(file)
    for name, column in values.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    write_stored(file, declared, table)


def _set(file: Path, values: Mapping[str, Any]) -> None:
    table = read_stored(file)
    (row,) = table.to_pylist()
    if row != row | values:
        declared = TABLES[file.name.partition(".")[0]]
        write_stored(file, declared, pa.Table.from_pylist([row | values], schema=declared.arrow()))


def _write_clocks(directory: Path, collectives: Collectives, aligned: Aligned, recorded: Sequence[RankInfo]) -> None:
    """Writes the clocks of ranks, and what their drift adds to the times of each recording.

    A recording moves as one piece, by its clock's lead in its middle: durations stay, and an event within another one
    stays within it.
    """
    epochs = [0 if rank.epoch_ns is None else rank.epoch_ns - collectives.origin_ns for rank in recorded]
    middles = [
        {span: epoch + (low + high) / 2 for span, (low, high) in rank.spans.items()}
        for rank, epoch in zip(recorded, epochs, strict=True)
    ]
    ahead = [
        clock.ahead_at(middle[min(middle)]) if middle else 0
        for clock, middle in zip(aligned.clocks, middles, strict=True)
    ]
    # Times without an epoch count from the run's start once they are aligned.
    dated = [at for at, rank in enumerate(recorded) if rank.epoch_ns is not None]
    first = min(epochs[at] - ahead[at] for at in dated or range(len(recorded)))
    for at, (rank, clock) in enumerate(zip(recorded, aligned.clocks, strict=True)):
        values = _clock_columns(clock, rank)
        if clock.rule is not None:
            values["clock_offset_ns"] = -ahead[at] - (0 if rank.epoch_ns is not None else first)
        _set(_file(directory, rank.rank, "rank"), values)
        for span, middle in middles[at].items():
            moved = ahead[at] - clock.ahead_at(middle) if clock.drift else None
            _set(_file(directory, rank.rank, "source", span), {"drift_ns": moved})


def _clock_columns(clock: Clock, recorded: RankInfo) -> dict[str, Any]:
    longest = max((high - low for low, high in recorded.spans.values()), default=0)
    uncertainty = None
    if clock.noise_ns is not None:
        uncertainty = int(np.ceil(clock.noise_ns + abs(clock.drift or 0.0) * longest / 2))
    return {
        "clock_offset_ns": None,
        "clock_drift_ppb": None if clock.drift is None else clock.drift * 1e9,
        "clock_uncertainty_ns": uncertainty,
        "clock_rule": clock.rule or "none",
        "clock_matches": clock.matches if clock.noise_ns is not None else None,
    }
