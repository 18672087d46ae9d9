"""`sources`: the files from which a recording was read, and how many of their events were kept, repaired or dropped."""

from __future__ import annotations

from stepscope.base.path_names import file_of
from stepscope.query.declare import Column, question
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope

_ROWS = """
SELECT path, rank, rank_rule, span, events_read, events_repaired, events_dropped, truncated, damage_offset, damage,
    bytes, format, tool, tool_version, unknown_categories, unknown_fields, clock_rule,
    clock_offset_ns + coalesce(drift_ns, 0) AS clock_offset_ns,
    clock_drift_ppb, clock_uncertainty_ns, clock_matches, NULL::VARCHAR AS left_out
FROM source JOIN rank USING (rank) ORDER BY rank, span, path
"""


@question(
    "sources",
    "Which files were read, what was repaired or dropped, and what was left out?",
    (
        Column("path", "text", "where the file was"),
        Column("left_out", "text", "why the file is in no answer; empty for one that is", visible="varying"),
        Column("rank", "int", "rank whose recording it is"),
        Column("rank_rule", "text", "how the rank was found"),
        Column("span", "int", "which of the rank's recordings it is, from 0", visible="varying"),
        Column("events_read", "int", "events that were read, the repaired ones among them", "count"),
        Column("events_repaired", "int", "events that had to be repaired to be read", "count"),
        Column("events_dropped", "int", "events that could not be read", "count"),
        Column("truncated", "bool", "the file ends before its JSON does", visible=False),
        Column("damage_offset", "int", "byte of the uncompressed file where damage starts"),
        Column("damage", "text", "classes of damage and how often each was met (JSON)"),
        Column("bytes", "int", "size on disk", visible=False),
        Column("format", "text", "format that read it", visible=False),
        Column("tool", "text", "program that wrote it", visible=False),
        Column("tool_version", "text", "that program's version", visible=False),
        Column("unknown_categories", "text", "categories unknown here (JSON)", visible=False),
        Column("unknown_fields", "text", "arguments unknown here (JSON)", visible=False),
        Column(
            "clock_rule", "text", "alignment of its clock: same host, epoch, collectives or none", visible="varying"
        ),
        Column("clock_offset_ns", "int", "offset added to its times to align them with the run's", visible="varying"),
        Column("clock_drift_ppb", "float", "drift of its rank's clock, in parts per billion", visible=False),
        Column("clock_uncertainty_ns", "int", "uncertainty of its times after that", visible="varying"),
        Column("clock_matches", "int", "collectives that its rank's clock was aligned by", "count", visible=False),
    ),
    group="data",
    rests_on=(),
    about="recording",
    steps="all",
)
def sources(scope: Scope) -> ArrowTable:
    """Each row is a file; a member of an archive counts as a file. Files that were left out come last, with the reason:
    a file that is not a recording, is empty, unreadable, or a copy of another one. They belong to no rank, and are not
    listed if ranks are chosen.

    A dropped event is missing from every answer; a repaired one is not, and the classes of damage say what was
    repaired. `--strict` treats either as an error.

    Ranks are put on one time line. Those of one host share its clock. Clocks of different hosts are aligned by
    collectives that all ranks leave together (all-reduce, all-gather, reduce-scatter, all-to-all, barrier): a clock's
    offset and drift are fitted to the ends of half of them; the other half is held out for validation, and
    `clock_uncertainty_ns` covers 95 of 100 of the remaining differences, and how far the clock drifts from the middle
    of the recording to its end. An offset smaller than the remaining difference is not applied; the epochs of the files
    are used then (`epoch`). `collective` shows which collectives were matched, who arrived last, and how long the
    others waited.
    """
    import pyarrow as pa

    rows = scope.sql(_ROWS)
    skipped = scope.store.skipped
    if not skipped or scope.ranks != scope.store.ranks:
        return rows
    left_out = [{"path": path, "left_out": reason} for path, reason in skipped]
    rows = pa.concat_tables([rows, pa.Table.from_pylist(left_out, schema=rows.schema)])
    count = len({file_of(path) for path, _ in skipped})
    files = "file was" if count == 1 else "files were"
    return noted(rows, f"{count} {files} left out; `--sort left_out` lists such files first.")
