"""Compares the ranks of a job, over all steps or step by step, and finds those that differ from the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.grouping import grouped
from stepscope.base.statistics import quantile
from stepscope.base.units import ratio_text, time_text
from stepscope.formats.evidence import Evidence
from stepscope.query.declare import RANK, SPAN, STEP, Column, Parameter, question
from stepscope.query.rank_exclusion import damaged_ranks
from stepscope.query.rows import ArrowTable, Row, answer_dicts, answer_rows, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.ranks.pipeline import Pipelines
    from stepscope.analysis.ranks.rank_times import Differs, RankSteps

_OF_STEPS = (
    RANK,
    SPAN,
    STEP,
    Column("value_ns", "int", "the measure, summed over the rank's devices"),
    Column("share_ratio", "float", "fraction of the step; of several devices, of theirs"),
    Column("counted", "bool", "whether it counts in means; false if the rank is damaged", visible="varying"),
)
_OF_RANKS = (
    RANK,
    Column("steps", "int", "steps that count", "count", visible="varying"),
    Column("step_ns", "float", "mean length of a step"),
    Column("span_ns", "int", "these steps together, for each device of the rank", visible=False),
    Column("computation_ns", "int", "kernels that compute, and fills, ran", visible=False),
    Column("computation_ratio", "float", "fraction of the span"),
    Column("exposed_communication_ns", "int", "communication kernels ran and no computation did", visible=False),
    Column("exposed_communication_ratio", "float", "fraction of the span"),
    Column("exposed_copy_ns", "int", "copies ran and nothing else did", visible=False),
    Column("exposed_copy_ratio", "float", "fraction of the span"),
    Column("idle_ns", "int", "nothing ran", visible=False),
    Column("idle_ratio", "float", "fraction of the span"),
    Column("utilization_ratio", "float", "fraction of the span in which a kernel ran, including communication"),
    Column("waiting_ns", "int", "waited for other ranks in collectives, hidden by computation or not", visible=False),
    Column("waiting_ratio", "float", "fraction of its steps"),
    Column("stage", "int", "which stage of a pipeline it is, from 0", visible="varying"),
    Column("bubble_ns", "int", "waited for other pipeline stages, without computation or copies", visible=False),
    Column("bubble_ratio", "float", "fraction of its steps", visible="varying"),
    Column("differs", "text", "measures in which it differs from the others; or that it is damaged"),
    Column("host", "text", "name of the node, where the recording says so", visible="varying"),
)
_WORDS = {
    "step": "step",
    "computation": "computation",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "idle": "idle",
}
_MAX_NAMED = 4
_MEASURES = {
    measure: {"copies": "copy", "exposed-copies": "exposed_copy"}.get(measure, measure.replace("-", "_"))
    for measure in (
        "step", "computation", "exposed-communication", "communication", "exposed-copies", "copies", "idle",
        "kernels", "waiting", "bubble",
    )
}  # fmt: skip
_SHARED_BY_DEVICES = ("step", "waiting", "bubble")
"""Measures of the rank itself, which its devices share."""
_DEVICE_EVIDENCE: tuple[Evidence, ...] = ("devices", "device-work", "device-times", "kernel-names", "steps")
_NO_PIPELINE = (
    "No pipeline is recognised: of the process groups in which ranks send and receive none is described as one, and "
    "in none do they send to those that they receive from, as its stages do."
)


@question(
    "rank-overview",
    "How do the ranks compare, over all steps or step by step?",
    (*_OF_STEPS[:3], *_OF_RANKS[1:], *_OF_STEPS[3:]),
    group="ranks",
    rests_on=(*_DEVICE_EVIDENCE, "clocks", "across-ranks"),
    about="time",
    parameters=(
        Parameter(
            "measure",
            "text",
            "a row a rank and step with this measure, drawn as a map; `kernels`: the time in which one ran",
            None,
            tuple(_MEASURES),
            form=True,
        ),
    ),
    drawing="map",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on every rank.",
)
def rank_overview(scope: Scope, measure: str | None = None) -> ArrowTable:
    """Each row is a rank, over its steps that count in means (see `steps`), or over those chosen with `--step`. Without
    marked steps, the recording is one step, and its parts are over the time from the first device work to the last
    (`span_ns`).

    The span is divided completely, as in `device-time`: computation, exposed communication, exposed copies, idle; for a
    rank with several devices, these are added up. Ranks without a device have no parts. Waiting for other ranks is
    known if collectives were matched over ranks; it is not one of the parts, because computation may hide it.

    **Which ranks differ.** A rank is marked in a measure if the distance of its mean from the median of the other ranks
    is above each of

    * 3.5 robust standard deviations of the other ranks (1.4826 times their median absolute deviation from their median;
      Iglewicz and Hoaglin, 1993),
    * the noise: half of the 95 % interval of its own mean over its steps,
    * 2 % of the mean step of all ranks, and the resolution of the recorded times.

    With fewer than 3 ranks none is marked, nor with a single step, whose noise is unknown. All measures are lengths of
    time on one rank, which need no common clock. They are related: the rank that the others wait for often has the
    *least* exposed communication, because it never waits. `stragglers` follows that through collectives.

    **Pipelines.** Stages of a pipeline wait for activations and gradients, and in groups that span the stages. The
    *bubble* of a rank is the time that it waits there while its devices neither compute nor copy; if the wait is not
    measured separately (see `communication`), it includes the time of the transfer. It is a part of exposed
    communication. With m micro-batches in p even stages and transfers that take no time, schedules such as GPipe and
    1F1B leave (p - 1)/(m + p - 1) of a step as bubble (Huang et al., GPipe, 2019; Narayanan et al., PipeDream-Flush,
    2021).

    **By step.** With `--measure` each row is a step of a rank with one measure; a rank without a device has only its
    steps' lengths. A terminal draws a map: a line for each rank, a column for each step, the darker the higher. The
    scale extends from the lowest value to the highest, but at least over 10 % of the median, so that noise does not
    look like a pattern. If it does not fit, ranks are merged to lines and steps to columns; each cell then has the
    value farthest from the median of all, so that no unusual rank or step is lost. Steps that a rank does not have are
    blank; those left out of means, including all of a damaged rank, are drawn but do not extend the scale. `--plot`
    draws the map into a file.
    """

    damaged = damaged_ranks(scope)
    return _ranks(scope, damaged) if measure is None else _steps(scope, measure, damaged)


def _steps(scope: Scope, measure: str, damaged: Collection[int]) -> ArrowTable:
    import numpy as np

    from stepscope.analysis.ranks.rank_times import PARTS, rank_steps

    def rows() -> Iterator[list[Any]]:
        name = _MEASURES[measure]
        for steps in rank_steps(scope):
            if name not in steps.times:
                continue
            parts = PARTS if steps.devices and name not in _SHARED_BY_DEVICES else ("step",)
            total = np.sum([steps.times[part] for part in parts], axis=0)
            columns = (steps.step, steps.times[name], total, steps.counted & (steps.rank not in damaged))
            for step, value, of, counted in zip(*(column.tolist() for column in columns), strict=True):
                yield [steps.rank, steps.span, step, value, value / of if of else None, counted]

    answer = answer_rows(_OF_STEPS, rows())
    if measure == "bubble" and not answer.num_rows:
        return noted(answer, _NO_PIPELINE)
    return answer if measure in ("waiting", "bubble") else noted(answer, "", rests_on=_DEVICE_EVIDENCE)


def _ranks(scope: Scope, damaged: Collection[int]) -> ArrowTable:
    import numpy as np

    from stepscope.analysis.counted import left_out_of_means
    from stepscope.analysis.ranks.pipeline import pipelines
    from stepscope.analysis.ranks.rank_times import outliers, rank_steps

    hosts = scope.sql("SELECT rank, host, resolution_ns FROM rank").to_pylist()
    host_of = {row["rank"]: row["host"] for row in hosts}
    resolution = max((row["resolution_ns"] for row in hosts), default=0)
    by_rank = grouped(rank_steps(scope), lambda steps: steps.rank)
    samples = {
        measure: {
            rank: np.concatenate([steps.times[measure][steps.counted] for steps in of_rank]).tolist()
            for rank, of_rank in by_rank.items()
            if rank not in damaged and all(measure in steps.times for steps in of_rank)
        }
        for measure in _WORDS
    }
    means = {
        measure: {rank: float(np.mean(of_rank)) for rank, of_rank in of.items() if of_rank}
        for measure, of in samples.items()
    }
    step_ns = float(np.mean(list(means["step"].values()))) if means["step"] else 0.0
    differs = {measure: outliers(of, step_ns, resolution) for measure, of in samples.items()}
    pipeline = pipelines(scope)
    rows = [
        _row(rank, of_rank, host_of.get(rank), pipeline.stage.get(rank) if pipeline else None, differs)
        for rank, of_rank in sorted(by_rank.items())
    ]
    named = _named(rows)
    compared = [row for row in rows if row["rank"] not in damaged]
    for row in rows:
        if row["rank"] in damaged:
            row["differs"] = "damaged, not compared"
    answer = answer_dicts(_OF_RANKS, rows)
    left_out = left_out_of_means(scope) if scope.steps is None else ""
    return noted(answer, "\n".join(filter(None, [*_compared(means), named, _bubbles(pipeline, compared), left_out])))


def _named(rows: list[Row]) -> str:

    differing = [(row["rank"], row["differs"]) for row in rows if row["differs"]]
    if not differing:
        return ""
    words = "; ".join(f"rank {rank} ({what})" for rank, what in differing[:_MAX_NAMED])
    more = [rank for rank, _ in differing[_MAX_NAMED:]]
    others = numbers_text(more) if more else ""
    return f"Differ from the others: {words}{f'; ranks {others} too' if others else ''}."


def _bubbles(pipeline: Pipelines | None, rows: list[Row]) -> str:
    """Says how large the bubbles of pipelines are, and how much of that was not measured as waiting."""

    shares = [(row["bubble_ratio"], row["rank"]) for row in rows if row.get("bubble_ratio") is not None]
    if pipeline is None or not shares:
        return ""
    stages = f"Pipeline of {pipeline.stages} stages" if pipeline.stages else "Pipeline"
    largest, rank = max(shares)
    words = f"{stages}: bubbles are {ratio_text(sum(share for share, _ in shares) / len(shares))} of a rank's steps on average, {ratio_text(largest)} at most (rank {rank})"
    if pipeline.unmeasured:
        words += f"; of {pipeline.unmeasured} of {pipeline.calls} transfers the wait is not measured, and the transfer counts with it"
    return f"{words}."


def _row(
    rank: int, recordings: list[RankSteps], host: str | None, stage: int | None, differs: dict[str, dict[int, Differs]]
) -> Row:
    from stepscope.analysis.ranks.rank_times import PARTS

    def total(measure: str) -> int:
        return sum(
            int(steps_of.times[measure][steps_of.counted].sum()) for steps_of in recordings if measure in steps_of.times
        )

    def ratio(ns: int, of: int) -> float | None:
        return ns / of if of else None

    steps = sum(int(steps_of.counted.sum()) for steps_of in recordings)
    length = total("step")
    row: Row = {"rank": rank, "steps": steps, "step_ns": ratio(length, steps)}
    if all(steps_of.devices for steps_of in recordings):
        row["span_ns"] = span = sum(total(part) for part in PARTS)
        for part in PARTS:
            row |= {f"{part}_ns": total(part), f"{part}_ratio": ratio(total(part), span)}
        row["utilization_ratio"] = ratio(total("kernels"), span)
    for wait in ("waiting", "bubble"):
        if any(wait in steps_of.times for steps_of in recordings):
            row |= {f"{wait}_ns": total(wait), f"{wait}_ratio": ratio(total(wait), length)}
    words = ", ".join(
        f"{_WORDS[measure]} {_distance(outliers_of[rank])}"
        for measure, outliers_of in differs.items()
        if rank in outliers_of
    )
    return row | {"stage": stage, "differs": words or None, "host": host}


def _distance(differs: Differs) -> str:
    """The distance from the others: in per cent if that is meaningful, else in time."""

    sign = "+" if differs.ns > 0 else "-"
    if differs.ratio is None or abs(differs.ratio) > 1:
        return f"{sign}{time_text(abs(differs.ns))}"
    return f"{sign}{ratio_text(abs(differs.ratio))}"


def _compared(means: dict[str, dict[int, float]]) -> list[str]:
    from stepscope.analysis.ranks.rank_times import OF_STEP

    parts = []
    longest = max(means["step"].values(), default=0.0)
    for measure, words in _WORDS.items():
        order = sorted(means[measure], key=lambda rank: (means[measure][rank], rank))
        if len(order) < 2 or means[measure][order[-1]] <= OF_STEP * longest:
            continue
        middle, slowest = quantile([means[measure][rank] for rank in order], 0.5), order[-1]
        parts.append(f"{words} {time_text(middle)}, most {time_text(means[measure][slowest])} (rank {slowest})")
    return [f"Medians of the ranks, per step: {'; '.join(parts)}."] if parts else []
