"""What must hold in every store, and whether it does in this one: the answer of `stepscope check`.

Each invariant is a query that counts the rows that violate it. They hold for every recording, however damaged its files
were; problems of the recording itself are found at import by the data-quality checks, which are listed here first.
"""

from __future__ import annotations

from stepscope.analysis.recording import every_step
from stepscope.analysis.steps.parts import PARTS
from stepscope.query.declare import Column, question
from stepscope.query.rows import ArrowTable, answer_rows
from stepscope.query.scope import Scope
from stepscope.questions import affected, find
from stepscope.schema.declare import Role, SchemaColumn
from stepscope.schema.device_work import WORK
from stepscope.schema.tables import TABLES

_CHECKED = 'SELECT "check", severity, count, rank, affects, explanation FROM data_check ORDER BY rank, span, "check"'
_PARENT = "host_event AS child JOIN host_event AS parent ON child.rank = parent.rank AND child.parent_id = parent.id"
_OF_ALL_ROWS = {"links_lead_somewhere"}
"""Rows may refer to rows that are kept only for their time, and then belong to no step (`import --steps`)."""
_OF_COMPLETE = {"self_times_add_up"}
"""A window (`import --window`) excludes children that start after it, while their parents keep their self times."""


def _named_by(column: SchemaColumn) -> str:
    return " UNION ALL ".join(
        f"SELECT rank{', span' if column.role is Role.ROW else ''}, {TABLES[target].number} AS number FROM {target}"
        for target in column.targets
    )


INVARIANTS: tuple[tuple[str, str, str], ...] = (
    (
        "unique_ids",
        "an event's id is unique within its rank",
        """
        SELECT coalesce(sum(n - 1), 0) FROM (
            SELECT count(*) AS n FROM (
                SELECT rank, id FROM host_event UNION ALL SELECT rank, id FROM device_event
                UNION ALL SELECT rank, id FROM captured_event
            ) GROUP BY rank, id HAVING n > 1
        )
        """,
    ),
    (
        "times_from_start",
        "no event starts before the run or has a negative duration",
        """
        SELECT count(*) FROM (SELECT start_ns, dur_ns FROM host_event UNION ALL SELECT start_ns, dur_ns FROM device_event)
        WHERE start_ns < 0 OR dur_ns < 0
        """,
    ),
    (
        "children_inside_parents",
        "an event lies inside its parent as far as times are exact, on the same thread",
        # Microsecond resolution cuts a parent short, and Kineto moves ranges by 1 or 2 ns.
        f"""
        SELECT count(*) FROM {_PARENT}
        JOIN (SELECT rank, greatest(resolution_ns, 2) AS slack_ns FROM rank) AS clock ON child.rank = clock.rank
        WHERE child.span <> parent.span OR child.thread <> parent.thread
            OR child.start_ns < parent.start_ns - slack_ns
            OR child.start_ns + child.dur_ns > parent.start_ns + parent.dur_ns + slack_ns
        """,
    ),
    (
        "depth_counts_parents",
        "an event's depth is one more than its parent's, and 0 without one",
        """
        SELECT count(*) FROM host_event AS child LEFT JOIN host_event AS parent
        ON child.rank = parent.rank AND child.parent_id = parent.id
        WHERE child.depth <> coalesce(parent.depth + 1, 0)
        """,
    ),
    (
        "self_times_add_up",
        "self time is the duration less what children cover: at least the remainder, at most the full duration",
        # Overlapping children cover less than the sum of their durations.
        """
        SELECT count(*) FROM host_event AS event LEFT JOIN (
            SELECT rank, parent_id, sum(dur_ns) AS inner_ns FROM host_event GROUP BY ALL
        ) AS below ON event.rank = below.rank AND event.id = below.parent_id
        WHERE event.self_ns > event.dur_ns
            OR event.self_ns < greatest(0, event.dur_ns - coalesce(below.inner_ns, 0))
        """,
    ),
    (
        "links_lead_somewhere",
        "an event, module, thread, input or stack that a row names exists",
        " + ".join(
            f"(SELECT count(*) FROM {table.name} AS one ANTI JOIN ({_named_by(column)}) AS named "
            f"ON one.rank = named.rank AND one.{column.name} = named.number "
            f"{'AND one.span = named.span ' if column.role is Role.ROW else ''}"
            f"WHERE one.{column.name} IS NOT NULL)"
            for table in TABLES.values()
            for column in table.columns
            if column.of is not None
        ).join(("SELECT ", "")),
    ),
    (
        "links_are_what_they_lead_to",
        "device work has the times of its launch and the name of its operator",
        """
        SELECT count(*) FROM device_event AS work
        LEFT JOIN host_event AS launch ON work.rank = launch.rank AND work.launch_id = launch.id
        LEFT JOIN (
            SELECT rank, id, name FROM host_event UNION ALL SELECT rank, id, name FROM captured_event
        ) AS operator ON work.rank = operator.rank AND work.operator_id = operator.id
        WHERE work.launch_ns IS DISTINCT FROM launch.start_ns
            OR work.launch_end_ns IS DISTINCT FROM launch.start_ns + launch.dur_ns
            OR work.operator_name IS DISTINCT FROM operator.name
        """,
    ),
    (
        "recursion_is_inside",
        "what is marked as recursive is an operator or range with its like above it",
        # The one above has the name and is less deep; import tests check that it is the right one.
        """
        SELECT count(*) FROM host_event AS inner_call
        WHERE recursive AND (parent_id IS NULL OR kind NOT IN ('operator', 'annotation')
            OR NOT EXISTS (
                SELECT 1 FROM host_event AS outer_call WHERE outer_call.depth < inner_call.depth
                    AND (outer_call.rank, outer_call.thread, outer_call.span, outer_call.kind, outer_call.name)
                        = (inner_call.rank, inner_call.thread, inner_call.span, inner_call.kind, inner_call.name)
            ))
        """,
    ),
    (
        "steps_cover_operators",
        "an operator of a step starts while the step runs on the host",
        """
        SELECT count(*) FROM host_event AS event JOIN step USING (rank, span, step)
        WHERE event.kind = 'operator' AND event.start_ns NOT BETWEEN step.host_start_ns AND step.host_end_ns
        """,
    ),
    (
        "steps_exist",
        "a step that an event belongs to is in the table of steps",
        """
        SELECT count(*) FROM (
            SELECT rank, span, step FROM host_event UNION ALL SELECT rank, span, step FROM device_event
        ) AS event ANTI JOIN step USING (rank, span, step) WHERE event.step IS NOT NULL
        """,
    ),
    (
        "attribution_covers_device_time",
        "attributed device time is part of the device time, and that is the sum over all work",
        f"""
        SELECT count(*) FROM attribution LEFT JOIN (
            SELECT rank, span, sum(dur_ns) AS work_ns FROM device_event WHERE {WORK} GROUP BY ALL
        ) AS work USING (rank, span)
        WHERE attributed_ns > device_ns OR attributed_ns < 0 OR device_ns <> coalesce(work.work_ns, 0)
        """,
    ),
    (
        "collectives_are_communication",
        "a collective is a communication kernel of its rank, or a range of its host, with its times",
        """
        SELECT count(*) FROM collective ANTI JOIN (
            SELECT rank, span, id, start_ns, start_ns + dur_ns AS end_ns FROM device_event WHERE kind = 'communication'
            UNION ALL SELECT rank, span, id, start_ns, start_ns + dur_ns FROM host_event
        ) AS event
            ON (event.rank, event.span, event.id, event.start_ns, event.end_ns) = (collective.rank, collective.span,
                coalesce(collective.id, collective.host_id), collective.start_ns, collective.end_ns)
        """,
    ),
    (
        "waits_add_up",
        "wait and transfer of a matched collective add up to its duration; an unmatched one has neither",
        """
        SELECT count(*) FROM collective WHERE CASE WHEN match_id IS NULL
            THEN coalesce(wait_ns, transfer_ns, last_rank, matched_ranks) IS NOT NULL
            ELSE wait_ns < 0 OR transfer_ns < 0 OR (wait_ns IS NULL) <> (transfer_ns IS NULL)
                OR wait_ns + transfer_ns <> end_ns - start_ns END
        """,
    ),
    (
        "matches_hold_each_rank_once",
        "of matched collectives each rank has one, of the same operation but for a sender and its receiver",
        """
        SELECT count(*) FROM (
            SELECT 1 FROM collective WHERE match_id IS NOT NULL GROUP BY match_id
            HAVING count(*) <> count(DISTINCT rank) OR count(*) > min(matched_ranks)
                OR count(DISTINCT operation) > 1 AND bool_or(destination_rank IS NULL AND source_rank IS NULL)
        )
        """,
    ),
    (
        "phases_add_up",
        "the phases of a kept step add up to the step, and each is there once",
        """
        SELECT count(*) FROM (
            SELECT 1 FROM phase_step GROUP BY rank, span, step
            HAVING count(*) FILTER (WHERE phase = 'step') <> 1 OR count(*) <> count(DISTINCT phase)
                OR 2 * sum(dur_ns) FILTER (WHERE phase = 'step') <> sum(dur_ns)
        )
        """,
    ),
    (
        "required_values_present",
        "no column that must have a value is NULL",
        " + ".join(
            f"(SELECT count(*) FROM {table.name} WHERE {missing})"
            for table in TABLES.values()
            if (missing := " OR ".join(f"{column.quoted} IS NULL" for column in table.columns if not column.nullable))
        ).join(("SELECT ", "")),
    ),
)
"""Name, what must hold, and a query that counts the rows that violate it."""

SUMS: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    (
        "step_parts_add_up",
        "the parts of a step's time add up to its wall time",
        "steps",
        "total_ns",
        tuple(f"{part}_ns" for part in PARTS),
    ),
    (
        "device_parts_add_up",
        "computation, exposed communication, exposed copies and idle time add up to the span",
        "device-time",
        "span_ns",
        ("computation_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns"),
    ),
)
"""Name, what must hold, and a question whose answer has a total and its parts."""


_COLUMNS = (
    Column("check", "text", "name of the check or invariant"),
    Column("severity", "text", "ok, note, warning or error"),
    Column("count", "int", "rows that it found", "count"),
    Column("rank", "int", "rank that was checked; empty for an invariant"),
    Column("affects", "text", "questions that it makes unreliable; `all` for all", visible=False),
    Column("meaning", "text", "what was found, or what must hold"),
)


@question("check", "Can the tables be trusted?", _COLUMNS, rests_on=(), about="recording", drawing="text")
def invariants(scope: Scope) -> ArrowTable:
    """Each row is a check: first those of the recording's quality, then the invariants of the tables.

    A violated invariant is an error in StepScope, not in the recording.
    """
    checked = scope.sql(_CHECKED).to_pylist()
    with every_step(scope) as all_steps:
        results = [
            (name, meaning, int((all_steps if name in _OF_ALL_ROWS else scope).value(text)))
            for name, meaning, text in INVARIANTS
            if name not in _OF_COMPLETE or "window" not in scope.store.facts
        ]
    results += [
        (name, meaning, _sums_broken(find(question_name).answer(scope), total, parts))
        for name, meaning, question_name, total, parts in SUMS
    ]
    rows = [[*(row | {"affects": affected(row["affects"])}).values()] for row in checked]
    rows += [[name, "error" if broken else "ok", broken, None, "", meaning] for name, meaning, broken in results]
    return answer_rows(_COLUMNS, rows)


def _sums_broken(rows: ArrowTable, total: str, parts: tuple[str, ...]) -> int:
    return sum(
        row[total] != sum(row[part] or 0 for part in parts)
        for row in rows.select([total, *parts]).to_pylist()
        if row[total] is not None
    )
