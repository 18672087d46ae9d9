"""Which operator a piece of device work is charged to: SQL that several questions share."""

from __future__ import annotations

from stepscope.questions.recording import WORK

NO_OPERATOR = "(no operator)"
"""Name under which work is listed that no operator launched, so that nothing vanishes."""

LABELLED_WORK = f"""
    SELECT
        work.*,
        operator.name AS operator_name,
        operator.input_id,
        operator.stack_id,
        work.graph_id IS NOT NULL OR graph_launch.id IS NOT NULL AS replayed,
        coalesce(
            operator.name,
            CASE
                WHEN work.graph_id IS NOT NULL
                    THEN 'CUDA graph ' || work.graph_id || ' (unattributed)'
                WHEN graph_launch.id IS NOT NULL THEN 'CUDA graph (unattributed)'
                ELSE '{NO_OPERATOR}'
            END
        ) AS charged_to
    FROM (SELECT * FROM device_event WHERE {WORK}) AS work
    LEFT JOIN (
        SELECT rank, id, name, input_id, stack_id FROM host_event WHERE kind = 'operator'
    ) AS operator
        ON operator.rank = work.rank AND operator.id = work.operator_id
    LEFT JOIN (SELECT rank, id FROM host_event WHERE role = 'graph_launch') AS graph_launch
        ON graph_launch.rank = work.rank AND graph_launch.id = work.launch_id
"""
"""Work with the operator it is charged to. `operator_name` is NULL where there is none, and
`charged_to` then says so: a kernel that a CUDA graph replays has no operator of its own, since the
operators ran when the graph was captured. Where the recorder numbers no graphs, replays are known by
the call that launched them."""
