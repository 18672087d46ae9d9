"""Charges device work to operators: names and SQL that several questions share."""

from __future__ import annotations

from stepscope.schema.device_work import WORK

NO_OPERATOR = "(no operator)"
"""Name for work that no operator launched, so that no work is missing from a list."""

NO_MODULE = "(no module)"
"""The same for work that belongs to no module."""

_CALL_COLUMNS = "rank, span, id, parent_id, kind, name, role, module_id, input_id, kernel_source_id, stack_id"
HOST_CALLS = f"""
    SELECT {_CALL_COLUMNS}, category, thread, start_ns, forward_id, sequence_number FROM {{host}}
    UNION ALL BY NAME SELECT {_CALL_COLUMNS} FROM captured_event
"""
"""The host events that device work refers to, and those of captures, which have no times."""

_CHARGED_TO = f"""
    coalesce(
        work.operator_name,
        CASE
            WHEN work.captured_id IS NOT NULL THEN '{NO_OPERATOR}'
            WHEN work.graph_id IS NOT NULL THEN 'CUDA graph ' || work.graph_id || ' (unattributed)'
            WHEN graph_launch.id IS NOT NULL THEN 'CUDA graph (unattributed)'
            ELSE '{NO_OPERATOR}'
        END
    ) AS charged_to
"""
_GRAPH_LAUNCH = """
    LEFT JOIN (SELECT rank, id FROM host_event WHERE role = 'graph_launch') AS graph_launch
    ON graph_launch.rank = work.rank AND graph_launch.id = work.launch_id
"""

LABELLED_WORK = f"""
    SELECT work.*, {_CHARGED_TO},
        work.graph_id IS NOT NULL OR graph_launch.id IS NOT NULL AS replayed
    FROM (SELECT * FROM device_event WHERE {WORK}) AS work {_GRAPH_LAUNCH}
"""
"""Work with the operator it is charged to (`charged_to` says why where `operator_name` is NULL): a kernel replayed by a
CUDA graph has the operator of its capture; replays without graph numbers are recognised by their launch."""

CHARGED_WORK = f"""
    SELECT {_CHARGED_TO}, operator_name, dur_ns
    FROM (
        SELECT rank, operator_name, graph_id, sum(dur_ns) AS dur_ns,
            CASE WHEN operator_name IS NULL THEN captured_id END AS captured_id,
            CASE WHEN operator_name IS NULL THEN launch_id END AS launch_id
        FROM device_event WHERE {WORK} GROUP BY ALL
    ) AS work {_GRAPH_LAUNCH}
"""
"""The work charged to each operator, in one or several rows, summed before launches are looked up."""

REPLAYED_CALLS = f"""
    WITH RECURSIVE launched AS (
        SELECT rank, captured_id AS call, count(DISTINCT launch_id) AS replays, sum(dur_ns) AS dur_ns
        FROM device_event WHERE {WORK} AND captured_id IS NOT NULL GROUP BY ALL
    ), above AS (
        SELECT rank, call, call AS id FROM launched
        UNION ALL
        SELECT above.rank, call, parent_id FROM above JOIN captured_event USING (rank, id)
        WHERE parent_id IS NOT NULL
    )
    SELECT captured_event.*, call, replays, dur_ns
    FROM above JOIN launched USING (rank, call) JOIN captured_event USING (rank, id)
    WHERE kind = 'operator'
"""
"""The operators of captures, a row per captured call: how often it was replayed, and the time of its work."""
