"""`scaling`: whether what runs on more processes really scales, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.answers.ask import rows_by_default
from stepscope.answers.declare import Column, Parameter, question
from stepscope.answers.rows import answer_rows
from stepscope.compare.runs import BELOW, MODES, Run, as_event, compare, run_of
from stepscope.floor.errors import SourceError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.answers.scope import Recording

_COLUMNS = (
    Column("label", "text", "what was measured; `iteration` for the complete iteration"),
    Column("run", "text", "which run"),
    Column("ranks", "int", "ranks of the run", "count"),
    Column("average_ns", "float", "average over ranks of their means", "ns"),
    Column("max_ns", "float", "largest of the ranks' means", "ns"),
    Column("slowest_rank", "int", "rank with that mean", shown=False),
    Column(
        "weak_efficiency_ratio",
        "float",
        "average with the fewest ranks over this one: 1 if the same work per rank takes as long",
        "ratio",
    ),
    Column(
        "strong_efficiency_ratio",
        "float",
        "the same times the ratio of ranks: 1 if twice the ranks take half the time",
        "ratio",
    ),
    Column("stops_at_ranks", "int", "ranks from which on it scales no longer", "count"),
    Column("inside", "text", "measured event around it on its stream", shown=False),
)


@question(
    "scaling",
    "How well does each event scale to more processes?",
    _COLUMNS,
    rests_on=(),
    about="recording",
    parameters=(
        Parameter(
            "mode",
            "text",
            "what stays the same over all runs: the work of each process, or all work together",
            "weak",
            MODES,
        ),
        Parameter("below", "float", "efficiency below which a label stops scaling", BELOW),
    ),
    drawing="runs",
    recordings="several",
    fills="Record each run with stepscope record --inline PLAN -- train.py",
)
def scaling(runs: Sequence[Recording], mode: str = "weak", below: float = BELOW) -> pa.Table:
    """Sets inline measurements of several runs beside each other: one recording per number of processes.

    For each label: the average and the largest of the ranks' means, weak- and strong-scaling
    efficiency against the run with the fewest ranks, and whether it stops scaling. A label stops
    where its efficiency is too low even at the favourable ends of both 95 % intervals. Runs that
    have no inline measurements are compared by their phases.

    [Reading, drawing and comparing](../scaling.md) has an example.
    """
    if not 0 <= below <= 1:
        raise UsageError(
            f"below={below:g} is no efficiency",
            hint="give a number from 0 to 1; 0.8 is 80 %",
            slug="bad-parameter",
        )
    rows = compare([_read(run) for run in runs], mode=mode, below=below)
    names = [column.name for column in _COLUMNS]
    return answer_rows(_COLUMNS, names, [[row.get(name) for name in names] for row in rows])


def _read(recording: Recording) -> Run:
    from stepscope.questions import find

    scope = recording.scope
    rows = rows_by_default(find("inline"), scope).to_pylist()
    if not any(row["kind"] == "event" for row in rows):
        by_phase = rows_by_default(find("phases"), scope).to_pylist()
        rows = [as_event(place, row) for place, row in enumerate(by_phase)] or rows
    if not rows:
        raise SourceError(
            f"{recording.name}: no inline measurements or phases in it",
            hint="record with stepscope record --inline PLAN -- train.py",
            slug="no-inline-profile",
        )
    (there,) = scope.sql("SELECT max(world_size) AS size, count(*) AS ranks FROM rank").to_pylist()
    return run_of(recording.name, max(there["size"] or 0, there["ranks"]), rows)
