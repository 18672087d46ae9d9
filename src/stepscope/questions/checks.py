"""`checks`: how far to trust the recording."""

from __future__ import annotations

from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope


@question(
    "checks",
    "Can the recording be trusted?",
    (
        Column("severity", "text", "error, warning, note or ok"),
        Column("check", "text", "name of the check; `source` is the report of reading a file"),
        Column("rank", "int", "rank that was checked; empty if a row covers all"),
        Column("span", "int", "recording that was checked", visible="varying"),
        Column("count", "int", "how many rows it found", "count"),
        Column("explanation", "text", "what was found, and its meaning"),
        Column("affects", "text", "questions that it makes unreliable; `all` for all"),
        Column("path", "text", "file that was read", visible=False),
        Column("events_read", "int", "events read, the repaired ones among them", "count", visible=False),
        Column("events_repaired", "int", "events repaired to be read", "count", visible=False),
        Column("events_dropped", "int", "events that could not be read", "count", visible=False),
        Column("damage_offset", "int", "byte of the uncompressed file where damage starts", visible=False),
        Column("damage", "text", "JSON object: class of damage to number", visible=False),
    ),
    group="data",
    rests_on=(),
    about="recording",
    parameters=(Parameter("all", "bool", "also what is in order, each check and file for itself", default=False),),
    steps="all",
    drawing="text",
)
def checks(scope: Scope, all: bool = False) -> ArrowTable:  # noqa: A002  # the option is --all
    """Every data-quality check that found something, the severest first, and the events of each file: how many were
    read, repaired and dropped, and where the damage starts.

    A file that lost events, or ends before its JSON does, is a warning; one that had to be repaired or has categories
    that this version does not know is a note. Files without problems share one row; `--all` lists each, and the checks
    that passed.

    A check names the damaged evidence, a question the evidence on which it rests (`data_check.affects` and
    [checks](../checks.md) have the kinds): an answer that a failing check affects is marked everywhere it is shown, and
    the column `affects` lists these questions. Other tools drop or repair silently: seven impossible durations among 55
    000 events made up 62 % of the device time of one published report.
    """
    import pyarrow as pa

    from stepscope.questions import affected

    rows = scope.sql(
        """
        WITH
        file AS (
            SELECT
                CASE WHEN events_dropped > 0 OR truncated THEN 'warning'
                    WHEN events_repaired > 0 OR damage_offset IS NOT NULL OR coalesce(damage, '{}') <> '{}'
                        OR coalesce(unknown_categories, '{}') <> '{}' THEN 'note'
                    ELSE 'ok' END AS severity,
                rank, span, path, events_read, events_repaired, events_dropped, damage_offset, damage,
                concat(
                    path, ': ', events_read, ' events kept',
                    CASE WHEN events_repaired > 0 THEN ', ' || events_repaired || ' of them repaired' END,
                    CASE WHEN events_dropped > 0 THEN ', ' || events_dropped || ' dropped' END,
                    CASE WHEN truncated THEN '; the file ends before its JSON does' END,
                    CASE WHEN coalesce(damage, '{}') <> '{}' THEN '; damage ' || damage END,
                    CASE WHEN damage_offset IS NOT NULL THEN ' from byte ' || damage_offset END,
                    CASE WHEN coalesce(unknown_categories, '{}') <> '{}'
                        THEN '; unknown categories ' || unknown_categories END
                ) AS explanation
            FROM source
        ),
        row_ AS (
            SELECT severity, "check", rank, span, count, affects, explanation
            FROM data_check WHERE severity <> 'ok' OR $all
            UNION ALL BY NAME
            SELECT *, 'source' AS "check", events_repaired + events_dropped AS count, '' AS affects
            FROM file WHERE severity <> 'ok' OR $all
            UNION ALL BY NAME
            SELECT
                'ok' AS severity, 'source' AS "check", 0 AS count, '' AS affects,
                count(*) || CASE WHEN count(*) = 1 THEN ' file' ELSE ' files' END || ' in order: '
                    || sum(events_read) || ' events kept, none repaired or dropped' AS explanation,
                sum(events_read) AS events_read, 0 AS events_repaired, 0 AS events_dropped
            FROM file WHERE severity = 'ok' AND NOT $all HAVING count(*) > 0
        )
        FROM row_ ORDER BY coalesce(list_position(['error', 'warning', 'note', 'ok'], severity), 1),
            "check" = 'source', "check", rank, span, path
        """,
        {"all": all},
    )
    questions = [affected(kinds) for kinds in rows.column("affects").to_pylist()]
    place = rows.column_names.index("affects")
    return rows.set_column(place, "affects", pa.array(questions, pa.string()))
