"""Statistics of measured events, per rank and over ranks, in one query for all questions.

If a recorder measured more than it stored, its average covers all, and medians and percentiles only what was stored.
Complete iterations are those in which nothing was measured, if any: measuring costs a little. The mean iteration covers
all iterations by the total time that each timed one represents (`phase_times.TOGETHER`); with phases, it is their mean
step.

Neighbouring events are measured in different iterations, so medians of their starts may contradict their order.
Drawings correct that: otherwise one slow iteration would move all later events.
"""

from __future__ import annotations

from stepscope.analysis.job.phase_times import TOGETHER
from stepscope.analysis.weighted import quantile, ranked
from stepscope.base.statistics import STABLE_BELOW

_EVENT = "rank, span, kind, device, stream, label, occurrence"
_STORED = "NOT averaged"
_EFFECTIVE_SIZE = f"sum(weight) FILTER ({_STORED}) ** 2 / sum(weight ** 2) FILTER ({_STORED})"
_BY_START = "start_offset_ns"

MEASURED = f"""
    chosen AS (
        SELECT *, {TOGETHER} / weight AS each_ns, sum({TOGETHER}) OVER same / sum(weight) OVER same AS middle_ns
        FROM inline_timing
        WHERE kind = 'event' OR armed IS DISTINCT FROM true OR (rank, span) NOT IN (
            SELECT (rank, span) FROM inline_timing
            WHERE kind = 'iteration' AND armed IS DISTINCT FROM true
        )
        WINDOW same AS (PARTITION BY {_EVENT}, averaged)
    ),
    counted AS ({ranked("FROM chosen", f"{_EVENT}, averaged")}),
    placed AS ({ranked("FROM counted", f"{_EVENT}, averaged, {_BY_START} IS NULL", _BY_START)}),
    described_alone AS (
        SELECT
            {_EVENT},
            min(start_index) AS start_index, min(end_index) AS end_index,
            coalesce(
                max(measurements), nullif(count(*) FILTER ({_STORED}), 0)
            ) AS n,
            -- Kish's effective number of equally weighted measurements, over those that were kept.
            n * ({_EFFECTIVE_SIZE}) / count(*) FILTER ({_STORED}) AS effective_n,
            coalesce(avg(dur_ns) FILTER (averaged), avg(middle_ns)) AS mean_ns,
            {quantile(0.5, of=_STORED)} AS median_ns,
            coalesce(
                max(std_ns),
                sqrt(sum(weight * (each_ns - middle_ns) ** 2) FILTER ({_STORED})
                    / sum(weight) FILTER ({_STORED}) / nullif(1 - 1 / ({_EFFECTIVE_SIZE}), 0))
            ) AS std_ns,
            {quantile(0.05, of=_STORED)} AS p5_ns,
            {quantile(0.95, of=_STORED)} AS p95_ns,
            coalesce(
                {quantile(0.5, _BY_START, f"{_STORED} AND {_BY_START} IS NOT NULL")}, median({_BY_START})
            ) AS start_offset_ns,
            min(start_offset_ns) FILTER ({_STORED}) AS earliest_ns,
            min(clock) AS clock
        FROM placed
        GROUP BY ALL
    ),
    of_all AS (
        SELECT rank, sum(mean_ns * steps) / sum(steps) AS of_all_ns FROM phase
        WHERE phase = 'step' AND (rank, span) IN (SELECT (rank, span) FROM phase_step WHERE weight_ns IS NOT NULL)
        GROUP BY rank
    ),
    described AS (
        SELECT described_alone.* REPLACE (CASE WHEN kind = 'iteration' THEN coalesce(of_all_ns, mean_ns) ELSE mean_ns END AS mean_ns)
        FROM described_alone LEFT JOIN of_all USING (rank)
    ),
    measured AS (
        SELECT
            * REPLACE (
                CASE WHEN start_offset_ns > max(median_ns) FILTER (WHERE kind = 'iteration')
                    OVER (PARTITION BY rank, span) THEN earliest_ns ELSE start_offset_ns END AS start_offset_ns
            ),
            label || CASE WHEN max(occurrence) OVER (PARTITION BY kind, label) > 0
                THEN '#' || occurrence ELSE '' END AS name,
            std_ns / nullif(mean_ns, 0) AS relative_std_ratio,
            std_ns / nullif(mean_ns, 0) < {STABLE_BELOW} AS stable,
            mean_ns / nullif(max(mean_ns) FILTER (WHERE kind = 'iteration')
                OVER (PARTITION BY rank, span), 0) AS share_ratio,
            (
                SELECT arg_max(around.label, around.start_index) FROM described AS around
                WHERE around.rank = described.rank AND around.span = described.span
                    AND around.device IS NOT DISTINCT FROM described.device
                    AND around.stream IS NOT DISTINCT FROM described.stream
                    AND around.start_index < described.start_index
                    AND around.end_index > described.end_index
            ) AS inside
        FROM described
    )
"""
"""Subqueries; the last, `measured`, has a row per rank, span, device, stream, label and occurrence, and one per rank
and span for complete iterations. `name` is the label, with the occurrence if there are several."""
