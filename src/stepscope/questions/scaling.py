"""`scaling`: whether the parts of a job scale with the number of processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stepscope.analysis.job.phase_times import OTHER_STEPS
from stepscope.analysis.job.throughput import Rate, rate_text, rates, together
from stepscope.base.errors import SourceError, UsageError
from stepscope.base.units import count_text, plural, ratio_text
from stepscope.compare.interval import RankMean
from stepscope.compare.run_parts import IMBALANCE, as_rows, separates_waiting, split_waiting, step_parts
from stepscope.compare.runs import BELOW, MODES, Run, as_event, compare, run_of
from stepscope.compare.sides import phase_means
from stepscope.query.ask import ask_within
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rank_exclusion import without_damaged_ranks
from stepscope.query.rows import ArrowTable, answer_dicts, noted

if TYPE_CHECKING:
    from stepscope.query.scope import ComparedRun, Scope

_COLUMNS = (
    Column("label", "text", "what was measured; `iteration` for the complete iteration"),
    Column("run", "text", "name of the run"),
    Column("ranks", "int", "ranks of the run", "count"),
    Column("average_ns", "float", "average over ranks of their means"),
    Column("max_ns", "float", "largest of the ranks' means"),
    Column("slowest_rank", "int", "rank with that mean", visible=False),
    Column("efficiency_ratio", "float", "weak- or strong-scaling efficiency, by the mode"),
    Column("weak_efficiency_ratio", "float", "average with the fewest ranks over this one", visible=False),
    Column("strong_efficiency_ratio", "float", "the same, times the ratio of ranks", visible=False),
    Column("stops_at_ranks", "int", "number of ranks at which it stops scaling", "count"),
    Column("over_ideal_ns", "float", "time beyond ideal scaling; parts of a step add up to the iteration's"),
    Column("serial_ratio", "float", "serial fraction that explains it: Karp-Flatt's, for weak scaling Gustafson's"),
    Column("inside", "text", "enclosing measured event on its stream", visible=False),
    Column("mode", "text", "weak or strong: the efficiency used in the other columns", visible=False),
    Column("efficiency_low_ratio", "float", "95 % interval of that efficiency, low end", visible=False),
    Column("efficiency_high_ratio", "float", "95 % interval of it, high end", visible=False),
    Column("serial_low_ratio", "float", "95 % interval of the serial part, low end", visible=False),
    Column("serial_high_ratio", "float", "95 % interval of the serial part, high end", visible=False),
    Column("model", "text", "model that continues it to twice the ranks", visible=False),
    Column("next_ranks", "int", "twice the ranks of the largest run", "count", False),
    Column("next_ns", "float", "the model's time for them", visible=False),
    Column("next_low_ns", "float", "95 % interval of that, low end", visible=False),
    Column("next_high_ns", "float", "95 % interval of that, high end", visible=False),
)
_KINDS = ("label", "phase", "class")
_WORDS = {"label": "inline measurements", "phase": "phases", "class": "traced steps"}


@question(
    "scaling",
    "How well does each part of the iteration scale to more processes?",
    _COLUMNS,
    group="compare",
    rests_on=(),
    about="recording",
    parameters=(
        Parameter(
            "mode",
            "text",
            "whether each process or all together do the same work in all runs; by default by the recorded batches, else weak",
            None,
            MODES,
        ),
        Parameter("below", "float", "efficiency below which a label stops scaling", BELOW),
        Parameter(
            "by",
            "text",
            "what is compared: inline labels, phases, or classes of traced time; by default the first that all runs have",
            None,
            _KINDS,
        ),
    ),
    drawing="runs",
    recordings="several",
    fills="Record each run with stepscope record -- train.py, on every rank.",
)
def scaling(
    runs: Sequence[ComparedRun], mode: str | None = None, below: float = BELOW, by: str | None = None
) -> ArrowTable:
    """Compares runs of a job on different numbers of processes: one recording per size.

    For each label: the average and the largest of the ranks' means, weak- and strong-scaling efficiency against the run
    with the fewest ranks, and whether it stops scaling. Weak: 1 if the same work per rank takes as long; strong: 1 if
    twice the ranks take half the time. A label stops if the 95 % interval of its efficiency (that of the change, as in
    `diff`) is below the limit; if the interval contains the limit it is undecided. Labels that are always below a
    hundredth of the iteration stop nowhere. A label that did not run in the smallest run has no efficiency: it comes
    with more ranks.

    **By class**, runs are traces or exports of Nsight Systems, and a step consists of computation, exposed
    communication and exposed copies, as in `device-time`, and the device's idle time: `input` while the host waited for
    a batch, `host` while it was busy, else `other`, as in `steps`. If all ranks of every run were recorded and ranges
    mark their steps, exposed communication is divided: *imbalance* is a rank's time beyond the minimum of all ranks in
    that step, because the rank that arrives last never waits; the remainder is *exposed transfer*. These parts add up
    to the iteration, and so do their times beyond ideal scaling (`over_ideal_ns`).

    **The serial part** is what would explain the efficiency: for strong scaling the experimentally determined serial
    fraction of A. H. Karp and H. P. Flatt, CACM 33 (1990), for weak scaling that of J. L. Gustafson's scaled speedup,
    CACM 31 (1988). One that grows with the ranks is overhead, not serial work.

    **The next doubling** is least squares through all sizes, from three on: for strong scaling of t = a + b / ranks
    (Amdahl's law, which also fits a ring), for weak scaling of t = a + b log2(ranks), as for trees, or t = a + b (1 -
    1/ranks), as for rings, whichever fits better. Its 95 % interval is that of a new measurement; it includes the
    model's error within the measured sizes, but not the effect of another switch or a slower link beyond them.

    A damaged rank is left out of the run's means; the run counts with all ranks of its job. [Reading, drawing and
    comparing](../scaling.md) has an example.
    """
    if not 0 <= below <= 1:
        raise UsageError(
            f"below={below:g} is not an efficiency", hint="give a number from 0 to 1; 0.8 is 80 %", slug="bad-parameter"
        )
    sizes = [_ranks(run.scope) for run in runs]
    with without_damaged_ranks(runs, same_ranks=False) as (valid, left_out):
        return _compared(valid, sizes, mode, below, by, left_out)


def _compared(
    runs: Sequence[ComparedRun], sizes: Sequence[int], mode: str | None, below: float, by: str | None, left_out: str
) -> ArrowTable:
    kind = _kind(runs, by)
    read = [run_of(run.name, ranks, rows) for run, ranks, rows in zip(runs, sizes, _rows(runs, kind), strict=True)]
    batches = {
        (ranks, place): rate
        for place, (run, ranks) in enumerate(zip(runs, sizes, strict=True))
        for rate in together(rates(run.scope))
        if rate.name == "samples"
    }
    chosen, words = _mode(mode, batches, len(runs))
    rows = compare(read, mode=chosen, below=below)
    table = answer_dicts(_COLUMNS, ({**row, "mode": chosen} for row in rows))
    of_scaling = len(set(sizes)) > 1
    lines = [words, _base(read), _devices(runs), _linear(batches)] if of_scaling else [_base(read)]
    lines.append(_of_fewer(read))
    if kind == "class" and not any(row["label"] == IMBALANCE for row in rows):
        lines.append(
            "Exposed communication includes waiting for late ranks: telling them apart takes every rank of each run, "
            "and ranges that mark steps."
        )
    return noted(table, "\n".join(filter(None, [*lines, left_out])))


def _base(runs: Sequence[Run]) -> str:
    sizes = sorted({run.ranks for run in runs})
    of = f"{sizes[0]} {plural(sizes[0], 'rank')}"
    if len(runs) == 1:
        return f"One run, on {of}: there is nothing to compare it with. Give runs on other numbers of ranks, too."
    if len(sizes) == 1:
        return f"All runs are on {of}: they show how runs differ, but nothing about scaling. `stepscope diff` compares two."
    base = min(runs, key=lambda run: run.ranks)
    return f"Efficiencies are against {base.name}, on {of}."


def _of_fewer(runs: Sequence[Run]) -> str:
    recorded = [(run, len({rank for label in run.labels.values() for rank in label.ranks})) for run in runs]
    described = [f"{count} of the {run.ranks} ranks of {run.name}" for run, count in recorded if count < run.ranks]
    return f"Figures are over {', '.join(described)}." if described else ""


def _devices(runs: Sequence[ComparedRun]) -> str:
    """Says if the runs are on different devices, which efficiencies then compare, too."""
    models = dict.fromkeys(
        name
        for run in runs
        for name in run.scope.sql("SELECT DISTINCT name FROM device ORDER BY name").column("name").to_pylist()
        if name
    )
    if len(models) < 2:
        return ""
    return f"The runs are on different devices ({', '.join(models)}): efficiencies compare these, too."


def _kind(runs: Sequence[ComparedRun], by: str | None) -> str:
    offered = [_offered(run.scope) for run in runs]
    for run, kinds in zip(runs, offered, strict=True):
        if not kinds:
            raise SourceError(
                f"{run.name}: no inline measurements, phases or traced steps in it",
                hint="record with stepscope record -- train.py, or with --phases or --inline PLAN; under Nsight "
                "Systems with --nvtx, whose ranges mark steps",
                slug="no-inline-profile",
            )
    for kind in _KINDS if by is None else (by,):
        if all(kind in kinds for kinds in offered):
            return kind
    described = "; ".join(
        f"{run.name} has {', '.join(_WORDS[kind] for kind in kinds)}" for run, kinds in zip(runs, offered, strict=True)
    )
    raise SourceError(
        f"the runs were not recorded alike: {described}",
        hint="record all of them in the same way",
        slug="recorded-differently",
    )


_OFFERED = """
    SELECT EXISTS (SELECT 1 FROM inline_timing WHERE kind = 'event') AS label,
        EXISTS (SELECT 1 FROM phase WHERE phase = 'step') AS phase,
        EXISTS (SELECT 1 FROM step WHERE rule <> 'whole recording') AS class,
        EXISTS (SELECT 1 FROM inline_timing) AS iterations
"""


def _offered(scope: Scope) -> list[str]:
    """The forms in which a run can be compared; iterations alone only if there is nothing else."""
    (present,) = scope.sql(_OFFERED).to_pylist()
    kinds = [kind for kind in _KINDS if present[kind]]
    return kinds or (["label"] if present["iterations"] else [])


def _rows(runs: Sequence[ComparedRun], kind: str) -> list[list[dict[str, Any]]]:
    from stepscope.questions import find

    if kind == "label":
        return [ask_within(find("inline"), run.scope).rows() for run in runs]
    if kind == "phase":
        return _all_with_other_steps([_phases(run.scope) for run in runs])
    parts = [step_parts(run.scope) for run in runs]
    if all(separates_waiting(run.scope, of_run) for run, of_run in zip(runs, parts, strict=True)):
        for of_run in parts:
            split_waiting(of_run)
    return [as_rows(of_run) for of_run in parts]


def _phases(scope: Scope) -> list[dict[str, Any]]:
    """The phases of each rank, with the uncertainty that `diff` assumes."""
    from stepscope.questions import find

    step, parts = phase_means(scope)
    means, rows = parts | {"step": step}, []
    for place, row in enumerate(ask_within(find("phases"), scope).rows()):
        single = RankMean(Fraction(row["mean_ns"]), 0, None)
        mean = means.get(row["phase"], {}).get(row["rank"], single)
        rows.append(as_event(place, row["rank"], row["phase"], mean))
    return rows


def _all_with_other_steps(runs: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Where one run has steps that the timed ones are not like, they are nothing in those that have none: parts add up."""
    if any(row["label"] == OTHER_STEPS for rows in runs for row in rows):
        for rows in runs:
            if all(row["label"] != OTHER_STEPS for row in rows):
                ranks = [row["rank"] for row in rows if row["kind"] == "iteration"]
                zero = RankMean(Fraction(0), 0, None)
                rows += [as_event(len(rows) + place, rank, OTHER_STEPS, zero) for place, rank in enumerate(ranks)]
    return runs


def _ranks(scope: Scope) -> int:
    (counts,) = scope.sql("SELECT max(world_size) AS size, count(*) AS ranks FROM rank").to_pylist()
    return int(max(counts["size"] or 0, counts["ranks"]))


_TOLERANCE = 1e-3


def _mode(mode: str | None, batches: dict[tuple[int, int], Rate], runs: int) -> tuple[str, str]:
    """Weak or strong, and why; a requested mode stands, with a remark if the batches contradict it."""
    rates_of = [batches[key] for key in sorted(batches)]
    if runs < 2:
        return mode or "weak", ""
    if len(rates_of) < runs:
        return mode or "weak", "" if mode else (
            "Taken for weak scaling (the same work on each rank): not all runs have their batches. "
            "--mode strong is for a batch that all ranks share."
        )
    per_rank = [rate.per_step / len(rate.ranks) for rate in rates_of]
    of_job = [samples * ranks for samples, (ranks, _) in zip(per_rank, sorted(batches), strict=True)]
    same = {"weak": _all_equal(per_rank), "strong": _all_equal(of_job)}
    described = {
        "weak": f"{count_text(per_rank[0])} samples on each rank",
        "strong": f"{count_text(of_job[0])} samples on all ranks together",
    }
    for name in MODES if mode is None else ():
        if same[name]:
            return name, f"{name.capitalize()} scaling: a step has {described[name]} in every run."
    chosen = mode or "weak"
    if same[chosen]:
        return chosen, ""
    listed = ", ".join(count_text(value) for value in (per_rank if chosen == "weak" else of_job))
    whose = "each rank's" if chosen == "weak" else "the entire job's"
    return chosen, (
        f"{'Taken' if mode is None else 'Asked'} for {chosen} scaling, but {whose} batch is not the same in all "
        f"runs ({listed} samples in a step): efficiencies of times compare different work. Samples per "
        "second do not."
    )


def _all_equal(values: Sequence[float]) -> bool:
    return all(math.isclose(value, values[0], rel_tol=_TOLERANCE) for value in values)


def _linear(batches: dict[tuple[int, int], Rate]) -> str:
    if len(batches) < 2:
        return ""
    described = []
    first: float | None = None
    for (ranks, _), rate in sorted(batches.items()):
        # Nothing is known about ranks that were not recorded.
        if len(rate.ranks) < ranks:
            return ""
        each = rate.per_second / ranks
        part = "" if first is None else f", {ratio_text(each / first)} of linear"
        first = each if first is None else first
        described.append(f"{rate_text(rate)} on {ranks} {plural(ranks, 'rank')}{part}")
    return f"Samples per second: {'; '.join(described)}."
