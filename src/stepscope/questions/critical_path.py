"""The critical path: the chain of work that decided how long the steps took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.analysis.dependencies import FILLS, RESTS_ON
from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope

_OF_STEPS = {
    "host_ns": ("operator", "between operators", "runtime call", "profiler"),
    "input_ns": ("input wait",),
    "launch_ns": ("launch", "launch delay"),
    "computation_ns": ("computation",),
    "transfer_ns": ("transfer",),
    "communication_ns": ("communication",),
    "waiting_ns": ("waiting for a rank",),
    "copy_ns": ("copy",),
    "synchronization_ns": ("synchronization",),
    "idle_ns": ("kernel gap", "unexplained"),
}
_COLUMNS = (
    Column("span", "int", "which of the ranks' recordings, from 0", visible="varying"),
    Column("step", "int", "number of the step, as the program counts; empty between steps"),
    Column("rank", "int", "rank on which the path ran; empty where none is known"),
    Column("start_ns", "int", "start, since the run's start", moment=True),
    Column("kind", "text", "kind of work or of waiting"),
    Column("class", "text", "class of the computing work"),
    Column("name", "text", "operator, call, range, kernel or copy", kernels=True),
    Column("operator", "text", "the operator, or the one that launched it"),
    Column("module", "text", "its module"),
    Column("pieces", "int", "pieces of the path", "count"),
    Column("path_ns", "int", "time on the path", sums=True),
    Column("step_ns", "float", "the same per step"),
    Column("share_ratio", "float", "fraction of the steps' time", sums=True),
    Column("max_part", "text", "name with the most time in the row", kernels=True),
    Column("max_part_ns", "int", "its time"),
    *(Column(name, "int", f"time on the path: {', '.join(kinds)}", "ns") for name, kinds in _OF_STEPS.items()),
    Column("total_ns", "int", "time of the step: the sum of the parts", sums=True),
)
_FIGURES = ("pieces", "path_ns", "step_ns", "share_ratio")
_FORMS = {
    "kind": ("span", "kind", "class", *_FIGURES, "max_part", "max_part_ns"),
    "name": ("span", "kind", "class", "name", "operator", *_FIGURES),
    "operator": ("span", "operator", *_FIGURES, "max_part", "max_part_ns"),
    "module": ("span", "module", *_FIGURES, "max_part", "max_part_ns"),
    "rank": ("span", "rank", *_FIGURES, "max_part", "max_part_ns"),
    "step": ("span", "step", "start_ns", *_OF_STEPS, "total_ns"),
    "piece": ("span", "step", "rank", "start_ns", "kind", "class", "name", "operator", "module", "path_ns"),
}  # fmt: skip
_UNRECORDED = {"between operators": "(nothing recorded)", "unexplained": "(nothing recorded)"}


@question(
    "critical-path",
    "Which chain of work and waits decided how long the steps took?",
    _COLUMNS,
    group="steps",
    rests_on=RESTS_ON,
    about="recording",
    across_ranks=True,
    parameters=(
        by_form("what a row is: a kind of work, ..., or a piece of the path", *_FORMS),
    ),
    fills=FILLS,
)  # fmt: skip
def critical_path(scope: Scope, by: str = "kind") -> ArrowTable:
    """The path starts at the end of the last step and goes back in time. For each moment it finds what this had to wait
    for, and follows what came last: a kernel waits for its launch, for the work before it on its stream and for events
    of other streams; a launch for what its thread did before; a call that synchronises for the device; a thread for the
    one that gave it work; a collective for the rank that arrived last, where the path continues. So it covers every
    moment from the start of the first step to the end of the last exactly once, and its parts add up. Work that is not
    on it was hidden: making it faster gains nothing.

    * **operator**, **between operators**, **runtime call**: the path ran on a host thread, in an operator, in a range,
      Python or nothing that was recorded, in a call that launches nothing.
    * **input wait**: the loop waited for a batch, or made it itself in the DataLoader's `__next__`. If it waited for
      two in a row, the loader set the pace.
    * **launch**: in the call that launches a kernel, copy or graph; **launch delay**: from there until it started.
    * **computation**, **copy**: kernels by class of work (as in `classes`), copies and fills.
    * **transfer**: a collective after the last rank had arrived; **waiting for a rank**: before that, if the late rank
      is not among the requested ones. **communication**: both together, if a collective was not matched over ranks, or
      lacks an unrecorded rank that may have come last.
    * **synchronization**: a call returns after the device was done, or after a copy into pageable memory.
    * **kernel gap**: below 30 µs between work that was launched in time; **unexplained**: a longer wait for something
      that is not recorded.

    If several ranks were recorded the path is that of the job: it changes ranks at collectives (`--by rank`), and stays
    if the clocks do not show which rank was last. A step of the job ends when its last rank has done it.

    torch.profiler records which stream waited for which event only on request (`cuda_sync`). Without that, a wait is
    assumed to concern the thread's next launch and the stream of its last one before, a call that synchronises waits
    for what ended last before it returned, and work that started within 10 µs of the end of another stream's, and later
    than its own stream and launch explain, waited for that. A thread that paused for 10 µs or more while another one
    worked for at least half of the time waited for it.

    The steps are those that count in means, or the requested ones; beyond two million kernels, copies and fills, the
    last steps. Earlier work is examined too: a store of some steps (`import --steps`) lacks it, and may leave waits for
    it unexplained. Holistic Trace Analysis follows one rank, knows neither graphs nor collectives, and needs
    `cuda_sync`. The path comes from Yang and Miller, "Critical Path Analysis for the Execution of Parallel and
    Distributed Programs" (ICDCS 1988).
    """
    from stepscope.analysis.dependencies.paths import graphs_of, lacks, paths_of

    graphs, paths = graphs_of(scope), paths_of(scope)
    note = lacks(graphs, "time in communication includes waiting for other ranks")
    if by == "piece" and paths:
        return noted(_each(paths), note)
    rows = [
        row for graph, pieces in zip(graphs, paths, strict=True) for row in _rows(pieces, by, len(graph.window.steps))
    ]
    return noted(answer_dicts(_COLUMNS, rows, _FORMS[by]), note)


def _each(paths: Sequence[ArrowTable]) -> ArrowTable:
    """The pieces as they are: there may be a million."""
    import pyarrow as pa

    pieces = pa.concat_tables(paths, promote_options="permissive")
    pieces = pieces.append_column("path_ns", pieces.column("dur_ns"))
    return pieces.select(list(_FORMS["piece"]))


def _rows(pieces: ArrowTable, by: str, steps: int) -> list[Row]:
    names = _FORMS[by]
    if by == "step":
        return _step_rows(pieces)
    keys = [name for name in names[: names.index("pieces")] if name != "max_part"]
    by_name = pieces.group_by([*keys, *{"kind", "name"}.difference(keys)]).aggregate(
        [("dur_ns", "sum"), ("dur_ns", "count")]
    )
    total = sum(by_name.column("dur_ns_sum").to_pylist())
    entries: dict[tuple[Any, ...], list[Any]] = {}
    for row in by_name.to_pylist():
        label = row["name"] or _UNRECORDED.get(row["kind"], row["kind"])
        key = tuple(label if name == "name" else row[name] for name in keys)
        entry = entries.setdefault(key, [0, 0, ("", 0)])
        entry[0] += row["dur_ns_count"]
        entry[1] += row["dur_ns_sum"]
        entry[2] = max(entry[2], (label, row["dur_ns_sum"]), key=lambda item: item[1])
    rows = []
    for key, (count, ns, (largest, max_ns)) in entries.items():
        figures = {"pieces": count, "path_ns": ns, "step_ns": ns / steps, "share_ratio": ns / total if total else None}
        rows.append(dict(zip(keys, key, strict=True)) | figures | {"max_part": largest, "max_part_ns": max_ns})
    return sorted(rows, key=lambda row: (-row["path_ns"], *(str(row[name]) for name in keys)))


def _step_rows(pieces: ArrowTable) -> list[Row]:
    column_of = {kind: name for name, kinds in _OF_STEPS.items() for kind in kinds}
    by_kind = pieces.group_by(["span", "step", "kind"]).aggregate([("start_ns", "min"), ("dur_ns", "sum")])
    steps: dict[tuple[int, int | None], Row] = {}
    for row in by_kind.sort_by("start_ns_min").to_pylist():
        place = {"span": row["span"], "step": row["step"], "start_ns": row["start_ns_min"]}
        step = steps.setdefault((row["span"], row["step"]), place | dict.fromkeys(_OF_STEPS, 0))
        step[column_of[row["kind"]]] += row["dur_ns_sum"]
    return [step | {"total_ns": sum(step[name] for name in _OF_STEPS)} for step in steps.values()]
