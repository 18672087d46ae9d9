"""`kernels`: the kernels on which the device spends its time."""

from __future__ import annotations

from stepscope.analysis.attribution import HOST_CALLS, LABELLED_WORK
from stepscope.analysis.kernels.traits import BLOCK, ELIGIBLE, GRID, TRAITS
from stepscope.base.units import count_text, time_text
from stepscope.formats.evidence import DEVICE_WORK, LAUNCHED_WORK
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.durations import STATISTICS, statistics
from stepscope.query.rows import ArrowTable, noted
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS

_CAPTURED_REGIONS = """
    WITH RECURSIVE inside AS (
        SELECT rank, id, name, 0 AS below FROM captured_event WHERE role = 'compiled'
        UNION ALL SELECT event.rank, event.id, inside.name, below + 1
        FROM captured_event AS event JOIN inside
            ON event.rank = inside.rank AND event.parent_id = inside.id
    )
    SELECT rank, id, arg_min(name, below) AS name FROM inside GROUP BY ALL
"""
"""The innermost call of a compiled graph around each event of a capture."""

_ORIGINS = """
    SELECT rank, kernel, {graph} AS graph, count(graph) AS graphs, any_value(lines) AS lines,
        CASE WHEN count(DISTINCT modules) = 1 THEN any_value(modules) END AS modules
    FROM kernel_origin GROUP BY rank, kernel, {graph} HAVING count(DISTINCT lines) = 1
"""
"""Where kernels come from, for a graph or for all; empty if kernels of one name come from several places."""

_OUTSIDE = "(outside CUDA graphs)"

_CHARGED = f"SELECT *, charged_to AS operator FROM ({LABELLED_WORK}) WHERE {KERNELS}"
_GRID = "grid_x, grid_y, grid_z, block_x, block_y, block_z"
_PROPERTIES = "registers_per_thread, shared_memory_bytes, priority, operator"
_FORMS = {
    "name": ("name, kind", "name, kind, mode(operator ORDER BY operator) AS operator", _CHARGED),
    "properties": (f"name, kind, {_GRID}, {_PROPERTIES}", f"name, kind, {GRID}, {BLOCK}, {_PROPERTIES}", _CHARGED),
    "stack": (
        "name, kind, operator, frame, call_stack",
        "",
        f"""
        SELECT work.*, charged_to AS operator,
            nullif(split_part(frames, ';', 1), '') AS frame, nullif(frames, '') AS call_stack
        FROM ({LABELLED_WORK}) AS work
        LEFT JOIN (SELECT rank, id, stack_id FROM ({HOST_CALLS}) WHERE stack_id IS NOT NULL) AS host
            ON (host.rank, host.id) = (work.rank, coalesce(work.operator_id, work.launch_id))
        LEFT JOIN call_stack
            ON (call_stack.rank, call_stack.span, call_stack.stack_id)
                = (work.rank, work.span, host.stack_id)
        WHERE {KERNELS}
        """,
    ),
    "source": (
        "name, kind, source_file, backend, launch_options, compiled_graph, program_lines, program_modules",
        "",
        f"""
        SELECT found.*, coalesce(exact.lines, alone.lines) AS program_lines,
            CASE WHEN exact.lines IS NOT NULL THEN exact.modules ELSE alone.modules END AS program_modules
        FROM (
        SELECT work.*, kernel_source.file AS source_file, kernel_source.backend,
            kernel_source.options AS launch_options,
            coalesce(CASE WHEN caller.start_ns <= region.end_ns THEN region.name END, captured.name) AS compiled_graph
        FROM ({LABELLED_WORK}) AS work
        LEFT JOIN (
            SELECT rank, id, span, thread, start_ns, kernel_source_id FROM ({HOST_CALLS})
            WHERE kind IN ('operator', 'runtime')
        ) AS caller ON (caller.rank, caller.id) = (work.rank, coalesce(work.operator_id, work.launch_id))
        LEFT JOIN kernel_source
            ON (kernel_source.rank, kernel_source.span, kernel_source.kernel_source_id)
                = (caller.rank, caller.span, caller.kernel_source_id)
        ASOF LEFT JOIN (
            SELECT rank, span, thread, start_ns, start_ns + dur_ns AS end_ns, name FROM {{host}}
            WHERE role = 'compiled'
        ) AS region
            ON region.rank = caller.rank AND region.span = caller.span
                AND region.thread = caller.thread AND caller.start_ns >= region.start_ns
        LEFT JOIN ({_CAPTURED_REGIONS}) AS captured
            ON (captured.rank, captured.id) = (work.rank, work.captured_id)
        WHERE {KERNELS}
        ) AS found
        LEFT JOIN ({_ORIGINS.format(graph="graph")}) AS exact
            ON (exact.rank, exact.kernel) = (found.rank, found.name)
                AND contains(found.compiled_graph, exact.graph)
        LEFT JOIN ({_ORIGINS.format(graph="NULL::VARCHAR")}) AS alone
            ON (alone.rank, alone.kernel) = (found.rank, found.name)
                AND (alone.graphs = 0 OR found.compiled_graph IS NULL)
        """,
    ),
    "graph": (
        "name, kind, graph_id, graph_node_id, operator",
        "",
        f"""
        SELECT
            * REPLACE (
                CASE WHEN replayed THEN name ELSE '{_OUTSIDE}' END AS name,
                CASE WHEN replayed THEN kind END AS kind,
                CASE WHEN replayed THEN graph_node_id END AS graph_node_id
            ),
            CASE WHEN replayed THEN charged_to END AS operator
        FROM ({LABELLED_WORK}) WHERE {KERNELS}
        """,
    ),
}

"""Keys of the rows, their columns if they are other ones, and the kernels, by form."""

_SHORT_FIGURES = """
    count(dur_ns) AS count, count(dur_ns) / nullif(all_count, 0) AS count_ratio,
    coalesce(sum(dur_ns), 0)::BIGINT AS total_ns,
    coalesce(sum(dur_ns), 0) / nullif(all_ns, 0) AS share_ratio
"""
_SHORT_FORMS = {
    "short": f"""
        SELECT name, operator, {_SHORT_FIGURES}, avg(dur_ns) AS mean_ns, min(dur_ns) AS min_ns, max(dur_ns) AS max_ns
        FROM kernel, everything WHERE dur_ns < $below_ns
        GROUP BY name, operator, all_count, all_ns
        ORDER BY count DESC, total_ns DESC, name, operator
    """,
    "histogram": f"""
        SELECT edge.low AS from_ns, edge.high AS to_ns, {_SHORT_FIGURES}
        FROM (
            SELECT ($below_ns::BIGINT * bin // $bins) AS low, ($below_ns::BIGINT * (bin + 1) // $bins) AS high
            FROM range($bins) AS bins(bin)
        ) AS edge CROSS JOIN everything
        LEFT JOIN kernel ON dur_ns >= low AND dur_ns < high
        WHERE low < high
        GROUP BY low, high, all_count, all_ns ORDER BY low
    """,
}
SHORT_NS = 10_000
"""TraceLens' limit of a short kernel, about the host time of a launch."""


def _weighted(column: str) -> str:
    """Mean of a column weighted by duration; the plain mean if all durations are 0. A sum of integers does not depend
    on the order in which threads add."""
    return (
        f"coalesce(sum(TRY_CAST({column} * dur_ns * 1e6 AS DECIMAL(30, 0)))::DOUBLE / 1e6"
        f" / nullif(sum(dur_ns) FILTER (WHERE {column} IS NOT NULL), 0), avg({column}))"
    )


@question(
    "kernels",
    "Which kernels does the device spend its time on?",
    (
        Column("name", "text", "name of the kernel", kernels=True),
        Column("kind", "text", "computation or communication", visible=False),
        Column("graph_id", "int", "CUDA graph that replayed it"),
        Column("graph_node_id", "int", "its node in that graph"),
        Column("grid", "text", "blocks of the grid: x,y,z"),
        Column("block", "text", "threads of a block: x,y,z"),
        Column("registers_per_thread", "int", "registers of a thread"),
        Column("shared_memory_bytes", "int", "shared memory of a block"),
        Column("priority", "int", "priority of its stream, the lower the sooner"),
        Column("source_file", "text", "file of the generated code that its operator ran"),
        Column("backend", "text", "compiler of that code"),
        Column("launch_options", "text", "block sizes, warps and stages it was launched with"),
        Column("compiled_graph", "text", "call of a torch.compile graph that runs it"),
        Column("program_lines", "text", "program lines that it computes, as a JSON list, if Inductor wrote them"),
        Column("program_modules", "text", "modules of the program whose parameters it uses, as a JSON list, likewise"),
        Column("operator", "text", "innermost operator that launched it; by name the most frequent one"),
        Column("frame", "text", "innermost frame of that operator's Python call stack"),
        Column("call_stack", "text", "that call stack, innermost frame first", visible=False),
        Column("from_ns", "int", "shortest duration in the bin"),
        Column("to_ns", "int", "durations in the bin are below this"),
        *statistics("kernels", detailed=False),
        Column("count_ratio", "float", "fraction of the number of all kernels"),
        Column("blocks_per_sm", "float", "blocks per multiprocessor, mean weighted by duration"),
        Column("occupancy_ratio", "float", "estimated achieved occupancy, mean weighted by duration"),
        Column("occupancy_limit", "text", "what limits the blocks of a multiprocessor, separated by ;"),
        Column("tensor_core_eligible_ratio", "float", "fraction of its time that is eligible for tensor cores"),
        Column("tensor_core_used", "bool", "whether it uses tensor cores; empty if its name does not show it"),
        Column("library", "text", "library it comes from, by its name"),
        Column("fused_operators", "text", "operators that a generated kernel fuses, by its name"),
        Column("fused_communication", "bool", "whether it fuses a product with communication", visible="varying"),
    ),
    group="operators and kernels",
    rests_on=DEVICE_WORK,
    about="events",
    parameters=(
        by_form("what to tell apart; or only short kernels, or a histogram of these", *_FORMS, *_SHORT_FORMS),
        Parameter("below_ns", "int", "kernels shorter than this are short (ns)", SHORT_NS, within=(1, 10**12)),
        Parameter("bins", "int", "bins of the histogram, equally wide", 10, within=(1, 10_000)),
    ),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CUDA (or XPU, ...) on a machine with a device.",
    on_overview=True,
)
def kernels(scope: Scope, by: str = "name", below_ns: int = SHORT_NS, bins: int = 10) -> ArrowTable:
    """Kernels of all requested ranks together, those with the largest summed duration first. Copies and fills are not
    kernels: see `copies`.

    `share_ratio` is a share of the time of all listed kernels, like `Time (%)` in `nsys stats`, and never of wall time;
    kernels that run at once both count in full. `std_ns` is the sample standard deviation (divided by n - 1, as in
    pandas and HTA) and so unknown for a kernel that ran once. `blocks_per_sm` is blocks of the grid divided by
    multiprocessors: below 1 a part of the device is idle. `occupancy_ratio` is Kineto's estimate, from 0 to 1: resident
    threads over the maximum. Both means are weighted by duration, as in the TensorBoard plugin, over the kernels that
    have a value.

    `fused_operators` are read from the names that Inductor gives to kernels it generates
    (`triton_poi_fused_add_cos_0`): each operator once, and at most ten. A kernel that multiplies matrices and exchanges
    data with other ranks in one (`fused_communication`) counts as computation in every answer: no recording shows how
    much of its time is communication.

    A kernel's time is *eligible* for tensor cores if the operator that launched it is a product of matrices, a
    convolution, attention or a recurrent cell, or if it uses them; without an operator its name decides. Whether it
    uses them is read from its name alone; `tensor-cores` also knows the operator's element type, and says why eligible
    time is not on them.

    With `--by properties` a row is a name with grid, block, registers, shared memory and the operator that launched it;
    with `--by stack` a name with operator and Python call stack, empty if the recording has none (see `operators`).
    With `--by source` a row is a name with the file and the launch options of the generated code, and the compiled
    graph that called it, as Inductor states them. If it wrote its debug files (`TORCH_COMPILE_DEBUG=1`) into the same
    folder, the lines and modules of the program are shown too, unless kernels of one name come from several places.
    With `--by graph` a row is a node of a CUDA graph over all its replays; the rest is one row. A replayed kernel has
    the operator that ran when the graph was captured. Without a capture, and without an enclosing operator around its
    launch, it is listed as `CUDA graph N (unattributed)`.

    With `--by short` only kernels below `--below-ns` are listed, the most frequent first: candidates for a fused
    kernel, `torch.compile` or a CUDA graph. The default limit is that of TraceLens' short-kernel study. Both fractions
    are of all kernels, including long ones. `--by histogram` counts the durations of the short kernels in bins of equal
    width, including empty ones. With `--window` a kernel that extends beyond it counts in full: a cut does not make it
    short.
    """
    if by in _SHORT_FORMS:
        return _short(scope, _SHORT_FORMS[by], {"below_ns": below_ns} | ({"bins": bins} if by == "histogram" else {}))
    from stepscope.analysis.kernels.traits import kernel_traits

    keys, columns, rows = _FORMS[by]
    # A replayed kernel may have the same name as the row of the rest: only that has no kind.
    last = "kind IS NULL, " if by == "graph" else ""
    return scope.sql(
        f"""
        WITH traits AS ({TRAITS})
        SELECT
            {columns or keys},
            {STATISTICS},
            {_weighted("blocks_per_sm")} AS blocks_per_sm,
            {_weighted("occupancy_ratio")} AS occupancy_ratio,
            string_agg(DISTINCT occupancy_limit, '; ' ORDER BY occupancy_limit) AS occupancy_limit,
            coalesce(sum(dur_ns) FILTER ({ELIGIBLE}), 0) / nullif(sum(dur_ns), 0) AS tensor_core_eligible_ratio,
            any_value(uses_tensor_cores) AS tensor_core_used, any_value(library) AS library,
            any_value(fused) AS fused_operators, any_value(fused_communication) AS fused_communication
        FROM ({rows.format(host=scope.unfiltered("host_event"))}) LEFT JOIN traits USING (name)
        GROUP BY {keys}
        ORDER BY {last}total_ns DESC, {keys}
        """,
        kernel_traits(scope),
    )


def _short(scope: Scope, select: str, params: dict[str, int]) -> ArrowTable:
    duration, recorded = "dur_ns", ""
    if scope.part.window is not None:
        uncut = f"SELECT rank, id, dur_ns AS recorded_ns FROM {scope.unfiltered('device_event')}"
        duration, recorded = "recorded_ns", f"JOIN ({uncut}) USING (rank, id)"
    rows = scope.sql(
        f"""
        WITH kernel AS (
            SELECT name, charged_to AS operator, {duration} AS dur_ns
            FROM ({LABELLED_WORK}) {recorded} WHERE {KERNELS}
        ),
        everything AS (SELECT count(*) AS all_count, sum(dur_ns) AS all_ns FROM kernel)
        {select}
        """,
        params,
    )
    count = 0 if rows.num_rows else scope.value(f"SELECT count(*) FROM device_event WHERE {KERNELS}")
    none = f"None of {count_text(count)} kernels runs for less than {time_text(params['below_ns'])}."
    return noted(rows, none if count else "", rests_on=LAUNCHED_WORK)
