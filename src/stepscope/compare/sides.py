"""One side of a comparison: a recording's mean step and its parts, per step and averaged over ranks; samples are steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from stepscope.analysis.attribution import LABELLED_WORK, NO_MODULE
from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.analysis.job.inline_events import MEASURED
from stepscope.analysis.job.phase_times import OTHER_STEPS, TOGETHER, times_of
from stepscope.analysis.steps.breakdown import break_down_all
from stepscope.analysis.steps.parts import PARTS
from stepscope.compare.interval import RankMean, Timing, deviation, over_ranks
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

ANSWERED_LIKE = {
    "category": "steps",
    "operator": "operators",
    "kernel": "kernels",
    "module": "modules",
    "tree": "modules",
    "label": "inline",
    "phase": "phases",
}
"""What can be compared, and the question whose conventions and checks apply, by preference: the first that both have.
"""

SUMMED = ("category", "operator", "kernel", "module", "phase")
"""Forms whose parts add up to the total."""

IN_NO_PHASE = "(in no phase)"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the step, or the total. `calls` is how often it ran per step, if known."""

    timing: Timing
    calls: float | None = None
    inside: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A recording in one form of the comparison.

    Args:
        of: what the total is the sum of.
        total: None if there is none, as in inline measurements without complete iterations.
        parts: the recorded ones; labels end in `#` and the occurrence.
        calls: with those that took none of the compared time: operators without device work.
    """

    of: str
    ranks: int
    total: Part | None
    parts: dict[str, Part] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)


def offered(scope: Scope) -> tuple[str, ...]:
    """The forms in which a recording can be compared."""
    host, device, module = map(scope.unfiltered, ("host_event", "device_event", "module"))
    queries = {
        "category": "SELECT 1 FROM step",
        "tree": "SELECT 1 FROM step",
        "operator": f"SELECT 1 FROM {host} WHERE kind = 'operator' AND step IS NOT NULL",
        "kernel": f"SELECT 1 FROM {device} WHERE {WORK} AND step IS NOT NULL",
        "module": f"SELECT 1 FROM {module}, step",
        "label": "SELECT 1 FROM inline_timing",
        "phase": "SELECT 1 FROM phase WHERE phase = 'step'",
    }
    columns = ", ".join(f'EXISTS ({query}) AS "{name}"' for name, query in queries.items())
    (row,) = scope.sql(f"SELECT {columns}").to_pylist()
    return tuple(name for name in ANSWERED_LIKE if row[name])


def read_side(scope: Scope, by: str) -> Side:
    """Reads one form of a recording that offers it."""
    if by == "category":
        return _categories(scope)
    if by == "phase":
        return _phases(scope)
    return _labels(scope) if by == "label" else _summed(scope, by)


def _categories(scope: Scope) -> Side:
    steps: dict[int, list[list[int]]] = defaultdict(list)
    measured = [False] * len(PARTS)
    for broken in break_down_all(scope):
        steps[broken.rank] += broken.parts_ns[broken.counted].tolist()
        measured = [before or here for before, here in zip(measured, broken.measured, strict=True)]
    return Side(
        of="step",
        ranks=len(steps),
        total=Part(_over_steps([list(map(sum, rows)) for rows in steps.values()])),
        parts={
            name: Part(_over_steps([[row[place] for row in rows] for rows in steps.values()]))
            for place, name in enumerate(PARTS)
            if measured[place]
        },
    )


def _over_steps(ranks: Iterable[list[int]]) -> Timing:
    return over_ranks([RankMean.of(samples) for samples in ranks])


_REPLAYED = "regexp_replace(charged_to, '^CUDA graph [0-9]+ ', 'CUDA graph ')"
"""Graphs are numbered differently in each run."""

_PATHS = f"""
    SELECT e.*, coalesce(module.path, '{NO_MODULE}') AS path FROM {{table}} AS e
    LEFT JOIN module USING (rank, span, module_id)
"""
_ON_DEVICE = {
    "operator": f"SELECT *, {_REPLAYED} AS part, dur_ns AS ns FROM ({LABELLED_WORK})",
    "kernel": f"SELECT *, name AS part, dur_ns AS ns FROM device_event WHERE {WORK}",
    "module": f"SELECT *, path AS part, dur_ns AS ns FROM ({_PATHS.format(table='device_event')}) WHERE {WORK}",
}
_ON_HOST = {
    "operator": "SELECT *, name AS part, self_ns AS ns FROM host_event WHERE kind = 'operator'",
    "module": f"SELECT *, path AS part, self_ns AS ns FROM "
    f"({_PATHS.format(table='host_event')}) WHERE module_id IS NOT NULL",
}
_CALLS = {
    "operator": "SELECT *, name AS part FROM host_event WHERE kind = 'operator'",
    "kernel": f"SELECT *, name AS part FROM device_event WHERE {WORK}",
    "module": f"SELECT *, path AS part FROM ({_PATHS.format(table='host_event')}) WHERE role = 'module'",
}

_Key = tuple[int, int, int]
_Sums = dict[str, dict[_Key, int]]


def _summed(scope: Scope, by: str) -> Side:
    steps = steps_counted(scope)
    device = _per_step(scope, _ON_DEVICE[by], "sum(ns)")
    on_device = bool(device) or by == "kernel" or (bool(scope.part) and _shows_device(scope))
    sums = device if on_device else _per_step(scope, _ON_HOST[by], "sum(ns)")
    counts = _per_step(scope, _CALLS[by], "count(*)")
    calls = {name: _per_rank(of_part, steps) for name, of_part in counts.items()}
    total: dict[_Key, int] = defaultdict(int)
    for of_part in sums.values():
        for key, ns in of_part.items():
            total[key] += ns
    return Side(
        of="device work" if on_device else "host work",
        ranks=len(steps),
        total=Part(padded(total, steps)),
        parts={name: Part(padded(of_part, steps), calls.get(name)) for name, of_part in sums.items()},
        calls=calls,
    )


def _shows_device(scope: Scope) -> bool:
    """Whether the recording has device work, whatever part of it is requested."""
    query = f"SELECT EXISTS (SELECT 1 FROM {scope.unfiltered('device_event')} WHERE {WORK})"
    return bool(scope.value(query))


def _per_step(scope: Scope, rows: str, measure: str) -> _Sums:
    """Part → step → the measured sum."""
    sums: _Sums = defaultdict(dict)
    table = scope.sql(
        f"""
        SELECT part, rank, span, step, ({measure})::BIGINT AS measured
        FROM ({rows}) SEMI JOIN ({COUNTED_STEPS}) USING (rank, span, step)
        GROUP BY ALL ORDER BY ALL
        """
    )
    columns = [table.column(name).to_pylist() for name in table.column_names]
    for part, rank, span, step, measured in zip(*columns, strict=True):
        sums[part][rank, span, step] = measured
    return dict(sums)


def steps_counted(scope: Scope) -> dict[int, int]:
    """The number of each rank's steps that enter means."""
    return Counter(scope.sql(f"{COUNTED_STEPS} ORDER BY ALL").column("rank").to_pylist())


def padded(sums: Mapping[_Key, int], steps: Mapping[int, int]) -> Timing:
    """The timing of a part; in steps without it, it took no time."""
    samples: dict[int, list[int]] = {rank: [] for rank in steps}
    for (rank, _span, _step), ns in sums.items():
        samples[rank].append(ns)
    return over_ranks([RankMean.of(samples[rank], steps=count) for rank, count in steps.items()])


def _per_rank(calls: Mapping[_Key, int], steps: Mapping[int, int]) -> float:
    of_rank = dict.fromkeys(steps, 0)
    for (rank, _span, _step), count in calls.items():
        of_rank[rank] += count
    return float(sum(Fraction(of_rank[rank], steps[rank]) for rank in steps) / len(steps))


def phase_means(scope: Scope) -> tuple[dict[int, RankMean], dict[str, dict[int, RankMean]]]:
    """The step on each rank, and each phase. Means are those of `phases`; their spread comes from the kept steps."""
    means: dict[int, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    counted: dict[int, int] = defaultdict(int)
    of_phases = f"SELECT rank, phase, steps, mean_ns FROM ({times_of(scope)}) WHERE steps > 0"
    for row in scope.sql(of_phases).to_pylist():
        means[row["rank"]][row["phase"]] += Fraction(row["mean_ns"]) * row["steps"]
        counted[row["rank"]] += row["steps"] if row["phase"] == "step" else 0
    sampled: dict[tuple[int, str], list[float]] = defaultdict(list)
    weights: dict[tuple[int, str], list[int]] = defaultdict(list)
    samples = f"SELECT rank, phase, dur_ns, weight, {TOGETHER} / weight AS mean_ns FROM phase_step"
    for row in scope.sql(samples).to_pylist():
        sampled[row["rank"], row["phase"]].append(row["mean_ns"])
        weights[row["rank"], row["phase"]].append(row["weight"])
        if row["phase"] == "step":
            sampled[row["rank"], OTHER_STEPS].append(row["mean_ns"] - row["dur_ns"])
            weights[row["rank"], OTHER_STEPS].append(row["weight"])

    def scattered(of_ranks: Mapping[int, Fraction], phase: str) -> dict[int, RankMean]:
        ranks = {}
        for rank, mean in of_ranks.items():
            samples, steps = sampled[rank, phase], len(sampled[rank, "step"])
            weight = sum(weights[rank, "step"])
            total = sum(ns * of for ns, of in zip(samples, weights[rank, phase], strict=True))
            middle = Fraction(total) / weight if steps else Fraction(0)
            if steps * max(weights[rank, phase], default=0) != weight:
                # A mean of weighted steps has the spread of their weighted contributions.
                samples = [
                    round(middle + (ns - middle) * of * steps / weight)
                    for ns, of in zip(samples, weights[rank, phase], strict=True)
                ]
            has_spread = bool(samples) or not mean
            scatter = deviation(samples, middle, steps) if has_spread else None
            ranks[rank] = RankMean(mean, steps, scatter)
        return ranks

    ranks = [rank for rank, count in counted.items() if count]
    heard = sorted({phase for rank in ranks for phase in means[rank]} - {"step"})
    steps_ns = {rank: means[rank]["step"] / counted[rank] for rank in ranks}
    parts = {phase: {rank: means[rank].get(phase, Fraction(0)) / counted[rank] for rank in ranks} for phase in heard}
    remaining = {rank: steps_ns[rank] - sum(of[rank] for of in parts.values()) for rank in ranks}
    if parts and all(abs(ns) <= len(parts) for ns in remaining.values()):
        steps_ns = {rank: steps_ns[rank] - remaining[rank] for rank in ranks}  # the file's means are rounded
    else:
        parts[IN_NO_PHASE] = remaining
    return scattered(steps_ns, "step"), {phase: scattered(of, phase) for phase, of in parts.items()}


def _phases(scope: Scope) -> Side:
    step_means, parts = phase_means(scope)
    return Side(
        of="step",
        ranks=len(step_means),
        total=Part(over_ranks(list(step_means.values()))),
        parts={phase: Part(over_ranks(list(of.values()))) for phase, of in parts.items()},
    )


_LABELS = f"""
    WITH {MEASURED}
    SELECT rank, kind, label, occurrence, n, effective_n, mean_ns, std_ns, inside FROM measured
    ORDER BY kind, label, occurrence, rank, mean_ns
"""


def _labels(scope: Scope) -> Side:
    rows = scope.sql(_LABELS).to_pylist()
    by_name: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    iterations: dict[int, dict[str, Any]] = {}
    for row in rows:
        name = f"{row['label']}#{row['occurrence']}"
        # Of several streams the longest, as in `scaling`: it is last here.
        (iterations if row["kind"] == "iteration" else by_name[name])[row["rank"]] = row
    return Side(
        of="iteration",
        ranks=len({row["rank"] for row in rows}),
        total=Part(_measured(iterations.values()).timing) if iterations else None,
        parts={name: _measured(ranks.values()) for name, ranks in by_name.items() if ranks},
    )


def _measured(ranks: Collection[dict[str, Any]]) -> Part:
    timing = over_ranks(
        [RankMean(Fraction(row["mean_ns"]), row["n"] or 0, row["std_ns"], row["effective_n"]) for row in ranks]
    )
    return Part(timing, inside=min((row["inside"] for row in ranks if row["inside"]), default=None))
