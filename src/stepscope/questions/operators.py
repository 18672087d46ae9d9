"""`operators`: the operators by time, on the host and on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepscope.analysis.attribution import HOST_CALLS, LABELLED_WORK, REPLAYED_CALLS
from stepscope.analysis.kernels.traits import TRAITS
from stepscope.analysis.operators.recursion import inner_calls
from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope

_CALLS = "kind = 'operator'"
_TYPES = {
    "name": "VARCHAR",
    "rank": "INTEGER",
    "span": "SMALLINT",
    "input_id": "INTEGER",
    "stack_id": "INTEGER",
    "first_ns": "HUGEINT",
    "last_ns": "HUGEINT",
    "launching": "BIGINT",
}
_IN_GRAPHS = f"""
    replayed AS ({REPLAYED_CALLS}),
    called_in_graphs AS (
        SELECT {{raw}}, sum(replays) AS calls FROM (
            SELECT {{raw}}, id, max(replays) AS replays FROM replayed GROUP BY ALL
        ) GROUP BY ALL
    ),
    in_graphs AS (
        SELECT {{raw}}, sum(dur_ns) AS device_ns FROM (
            SELECT DISTINCT {{raw}}, call, rank AS of_rank, dur_ns FROM replayed
        ) GROUP BY ALL
    ),
"""
_WITH_GRAPHS = "UNION ALL BY NAME FROM called_in_graphs UNION ALL BY NAME FROM in_graphs"
"""Replays of captured calls by CUDA graphs, and their rows beside the others."""
_INPUTS = f"SELECT rank, id AS operator_id, input_id, stack_id FROM ({HOST_CALLS}) WHERE {_CALLS}"


class _Form(NamedTuple):
    """A form of the question, by what it groups.

    `raw` are the columns of the events themselves, `keys` the columns of the answer that they stand for,
    and `tables` joins those. Grouping by numbers first keeps long texts out of the big tables.
    `calls` joins the columns that device work has through its operator.
    """

    raw: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    tables: str
    calls: str


_FORMS = {
    "name": _Form(("name",), (), (), "", ""),
    "shape": _Form(
        ("name", "rank", "span", "input_id"),
        ("dims", "types"),
        ("input_dims", "input_types"),
        "LEFT JOIN operator_input USING (rank, span, input_id)",
        f"LEFT JOIN ({_INPUTS}) USING (rank, operator_id)",
    ),
    "arguments": _Form(
        ("name", "rank", "span", "input_id"),
        ("dims", "types", "strides", '"values"'),
        ("input_dims", "input_types", "input_strides", "input_values"),
        "LEFT JOIN operator_input USING (rank, span, input_id)",
        f"LEFT JOIN ({_INPUTS}) USING (rank, operator_id)",
    ),
    "stack": _Form(
        ("name", "rank", "span", "stack_id"),
        # Kineto writes an empty text if it took no stack.
        ("nullif(split_part(frames, ';', 1), '')", "nullif(frames, '')"),
        ("frame", "call_stack"),
        "LEFT JOIN call_stack USING (rank, span, stack_id)",
        f"LEFT JOIN ({_INPUTS}) USING (rank, operator_id)",
    ),
}


@question(
    "operators",
    "Which operators take the time?",
    (
        Column("name", "text", "name of the operator"),
        Column("input_dims", "text", "shapes of its inputs, as a JSON list"),
        Column("input_types", "text", "types of its inputs, as a JSON list", visible=False),
        Column("input_strides", "text", "strides of its inputs in memory, as a JSON list"),
        Column("input_values", "text", "values of its inputs that are numbers, as a JSON list"),
        Column("frame", "text", "innermost frame of its Python call stack"),
        Column("call_stack", "text", "Python call stack, innermost frame first", visible=False),
        Column("calls", "int", "number of calls, nested ones included; each replay of a graph counts", "count"),
        Column("device_self_ns", "int", "summed duration of the kernels, copies and fills launched by it directly"),
        Column("device_share_ratio", "float", "fraction of all device work"),
        Column("device_total_ns", "int", "the same, including the operators below it"),
        Column("device_events", "int", "kernels, copies and fills launched by it directly", "count", False),
        Column("host_self_ns", "int", "host time, without all that ran inside it"),
        Column("host_share_ratio", "float", "fraction of all operators' host self time"),
        Column("host_total_ns", "int", "host time, including all that ran inside it"),
        Column("host_mean_ns", "float", "mean duration of a call on the host"),
        Column("first_delay_ns", "float", "mean time from a call's start to the start of its first device work"),
        Column("last_delay_ns", "float", "mean time from a call's start to the end of its last device work"),
        Column("tensor_core_eligible", "bool", "whether tensor cores could do what the operator does"),
        Column("tensor_core_ratio", "float", "fraction of its device self time in kernels that use tensor cores"),
        Column("library", "text", "libraries of the kernels launched by it directly, by their names, most time first"),
    ),
    group="operators and kernels",
    rests_on=("host-times", "device-work", "device-times", "stream-order", "launches", "replayed-operators"),
    about="events",
    parameters=(
        by_form(
            "what to tell apart beside names: input shapes, all that is known of the inputs, or call stacks", *_FORMS
        ),
    ),
    fills="Record with torch.profiler.ProfilerActivity.CPU (and record_shapes=True, with_stack=True).",
)
def operators(scope: Scope, by: str = "name") -> ArrowTable:
    """Operators (`cpu_op` events: `aten::mm`, autograd nodes, custom ops) of all requested ranks together, those with
    the most device self time first, or the most host self time if no device was recorded.

    **Device self time** is the summed duration of the kernels, copies and fills whose launch the operator encloses with
    no other operator between, **device total** that of all launched anywhere below it. Replays of a CUDA graph count
    for the operators that ran when the graph was captured, if the capture was recorded (see `graph_replay_unattributed`
    on the page of checks). Two kernels that run at once count twice, as in the profiler's own tables. Work that no
    operator launched has its own rows, `(no operator)` or `CUDA graph N (unattributed)`, so that the device self times
    add up to all device work.

    **Host self time** is the duration of a call minus everything recorded inside it: operators, runtime calls (a
    launch, a copy, a wait for the device), named ranges and Python frames. The TensorBoard plugin leaves in the Python
    frames that an operator calls back into. **Host total** is the full duration.

    With `--window` device self time is all of the operator's work that ran in the window, whenever it was launched;
    totals, which belong to calls, are then empty.

    **Recursion**: a call inside another call of the same row adds to `calls` and to self times but not to totals, so
    that no moment of a thread is counted twice. The plugin merges only direct single children of the same name.

    **Delays** are means over the calls in which any device work was launched, including by operators below a call: to
    the start of the first work, and to the end of the last. They show how far the device was behind.

    **Tensor cores**: an operator is *eligible* if it is a product of matrices, a convolution, attention or a recurrent
    cell; `tensor_core_ratio` is empty if the names of its kernels do not show it. `tensor-cores` says why eligible work
    is not on them, and knows the operators of plug-ins too.

    With `--by shape` a row is a name with the shapes and types of its inputs, with `--by arguments` also with their
    strides and values. With `--by stack` a row is a name with a Python call stack; NULL if the recording has none. Of
    recorded Python frames (`with_stack` of torch 2) a stack has those of the program's own code, else those of
    libraries; an installed package counts as the program's own if its shortened file name does not show that it is
    installed. The line is the one at which the function starts. Work in backward has the stack of its forward operator.

    `DataParallel.forward` and `DistributedDataParallel.forward`, which the plugin leaves out, are operators here.
    `ProfilerStep#N`, `Optimizer.step#...` and the data loader's ranges, which PyTorch up to 1.12 recorded as operators,
    are not: see `annotations`.
    """
    from stepscope.analysis.kernels.traits import can_use_tensor_cores, kernel_traits
    from stepscope.analysis.operators.delay import operator_delays

    form = _FORMS[by]
    # Without captures their tables are left out: planning a query over them takes longer than the answer.
    captured = not scope.has_none("captured_event")
    calls = f"({HOST_CALLS.format(host='host_event')})" if captured else "host_event"
    names = scope.sql(f"SELECT DISTINCT name FROM {calls} WHERE {_CALLS}").column("name")
    params: dict[str, Any] = kernel_traits(scope)
    params["able"] = [name for name in names.to_pylist() if can_use_tensor_cores(name)]
    del params["told_operators"], params["eligible"]
    apart = [column for column in form.raw if column not in ("name", "rank")]
    delays = operator_delays(scope, apart)
    params |= {f"delayed_{column}": values for column, values in delays.items()}
    inner = "WHERE recursive"
    if form.keys:
        inner = """
            SEMI JOIN (
                SELECT unnest($rank::INTEGER[]) AS rank, unnest($id::BIGINT[]) AS id
            ) USING (rank, id)
        """
        params |= inner_calls(scope, _CALLS, ", ".join(("name", *form.keys)), f"host_event {form.tables}")
    raw = ", ".join(form.raw)
    named = zip(form.keys, form.columns, strict=True)
    keys = "".join(f", {key} AS {column}" for key, column in named)
    columns = "".join(f", {column}" for column in form.columns)
    summed_columns = "".join(f", summed.{column}" for column in form.columns)
    same_columns = "".join(f" AND summed.{column} IS NOT DISTINCT FROM origin.{column}" for column in form.columns)
    # Calls that ended before a window have work in it, but no row with a total that includes it.
    uncut = scope.part.window is None
    return scope.sql(
        f"""
        WITH
        traits AS ({TRAITS}),
        called AS (
            SELECT {raw}, count(*) AS calls, count(*) AS host_calls, sum(self_ns) AS host_self_ns, sum(dur_ns) AS host_ns,
                sum(device_ns) AS device_ns
            FROM host_event WHERE {_CALLS} GROUP BY ALL
        ),
        {_IN_GRAPHS.format(raw=raw) if captured else ""}
        inner_call AS (
            SELECT {raw}, sum(dur_ns) AS inner_host_ns, sum(device_ns) AS inner_device_ns
            FROM (SELECT * FROM host_event WHERE {_CALLS}) {inner} GROUP BY ALL
        ),
        launched AS (
            SELECT {raw.replace("name", "charged_to AS name", 1)},
                operator_name IS NOT NULL AS charged,
                library, count(*) AS device_events, sum(dur_ns) AS device_self_ns,
                sum(dur_ns) FILTER (uses_tensor_cores) AS used_ns,
                sum(dur_ns) FILTER (uses_tensor_cores IS NOT NULL) AS told_ns
            FROM ({LABELLED_WORK}) {form.calls.format(host=scope.unfiltered("host_event"))}
            LEFT JOIN traits USING (name) GROUP BY ALL
        ),
        delayed AS (
            SELECT {", ".join(f"unnest($delayed_{c}::{_TYPES[c]}[]) AS {c}" for c in delays)}
        ),
        summed AS (
            SELECT name{keys}, coalesce(charged, true) AS charged,
                sum(calls) AS calls, sum(host_calls) AS host_calls, sum(host_self_ns) AS host_self_ns, sum(host_ns) AS host_ns,
                sum(host_ns) - coalesce(sum(inner_host_ns), 0) AS host_total_ns,
                coalesce(sum(device_ns), 0) - coalesce(sum(inner_device_ns), 0) AS device_ns,
                coalesce(sum(device_self_ns), 0) AS device_self_ns,
                coalesce(sum(device_events), 0) AS device_events,
                sum(used_ns) AS used_ns, sum(told_ns) AS told_ns,
                sum(first_ns) AS first_ns, sum(last_ns) AS last_ns, sum(launching) AS launching
            FROM (
                FROM called UNION ALL BY NAME FROM inner_call UNION ALL BY NAME FROM launched
                UNION ALL BY NAME FROM delayed {_WITH_GRAPHS if captured else ""}
            ) {form.tables}
            GROUP BY ALL
        ),
        by_library AS (
            SELECT name{keys}, charged, library, sum(device_self_ns) AS own_ns
            FROM launched {form.tables} WHERE library IS NOT NULL GROUP BY ALL
        ),
        origin AS (
            SELECT name{columns}, charged AS by_operator,
                string_agg(library, ', ' ORDER BY own_ns DESC, library) AS library
            FROM by_library GROUP BY ALL
        ),
        measured AS (SELECT count(*) > 0 AS linked FROM launched WHERE charged)
        SELECT
            summed.name{summed_columns}, calls::BIGINT AS calls,
            CASE WHEN linked OR NOT charged THEN device_self_ns::BIGINT END AS device_self_ns,
            CASE WHEN linked OR NOT charged THEN device_self_ns / nullif(sum(device_self_ns) OVER (), 0)
                END AS device_share_ratio,
            CASE WHEN NOT charged THEN device_self_ns
                WHEN linked AND calls IS NOT NULL AND {uncut} THEN device_ns END::BIGINT
                AS device_total_ns,
            CASE WHEN linked OR NOT charged THEN device_events::BIGINT END AS device_events,
            host_self_ns::BIGINT AS host_self_ns,
            host_self_ns / nullif(sum(host_self_ns) OVER (), 0) AS host_share_ratio,
            host_total_ns::BIGINT AS host_total_ns,
            host_ns / host_calls AS host_mean_ns,
            first_ns / launching AS first_delay_ns,
            last_ns / launching AS last_delay_ns,
            CASE WHEN charged THEN list_contains($able::VARCHAR[], summed.name) END
                AS tensor_core_eligible,
            CASE WHEN told_ns > 0 THEN coalesce(used_ns, 0) / device_self_ns END
                AS tensor_core_ratio,
            origin.library
        FROM summed CROSS JOIN measured LEFT JOIN origin
            ON summed.name = origin.name AND charged = by_operator{same_columns}
        ORDER BY coalesce(device_self_ns, 0) DESC, host_self_ns DESC NULLS LAST, summed.name{summed_columns}
        """,
        params,
    )
