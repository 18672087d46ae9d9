"""The finding of rules about hardware counters: kernels that lose a part of their time, as counters show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepscope.base.quoting import sql_literal
from stepscope.findings.declare import Confidence, Finding, Threshold, of_time
from stepscope.findings.facts import Facts, first

_SHAPED = """
    SELECT kernel, calls_per_step, time_ns, part * time_ns AS lost_ns{evidence} FROM (
        SELECT name AS kernel, grid, block, rank, count(*) / {steps} AS calls_per_step,
            sum(dur_ns) / {steps} AS time_ns
        FROM (
            SELECT *, coalesce(grid_x, 0) || ',' || coalesce(grid_y, 1) || ',' || coalesce(grid_z, 1) AS grid,
                coalesce(block_x, 0) || ',' || coalesce(block_y, 1) || ',' || coalesce(block_z, 1) AS block
            FROM device_event WHERE kind = 'computation' AND {counted}
        ) GROUP BY ALL
    ) JOIN (VALUES {measured}) AS measured(rank, kernel, grid, block, part{columns})
        USING (rank, kernel, grid, block)
"""


def of_counters(
    facts: Facts,
    lost: Callable[[dict[str, float]], float | None],
    share: Threshold,
    *,
    title: str,
    metric: str,
    advice: str,
    shows: tuple[str, ...],
    confidence: Confidence = "medium",
) -> Iterator[Finding]:
    """Yields a finding if measured kernels lose more than a share of the step.

    Args:
        lost: the largest share of a kernel's time that its counters, by kind, show as lost; None for none.
        title: the title, with `{}` for that time.
        shows: kinds of counters that are evidence, NULL if a kernel lacks one.
    """
    if not facts.enough_work:
        return
    chosen = [(kernel, part) for kernel in facts.measured if (part := lost(kernel.values))]
    if not chosen:
        return
    rows = ", ".join(
        "("
        + ", ".join(
            (
                str(kernel.rank), sql_literal(kernel.name), sql_literal(kernel.grid or ""),
                sql_literal(kernel.block or ""), f"{part:.6g}::DOUBLE",
                *(f"{kernel.values[kind]:.6g}::DOUBLE" if kind in kernel.values else "NULL::DOUBLE" for kind in shows),
            )
        )
        + ")"
        for kernel, part in chosen
    )  # fmt: skip
    listed = "".join(f", {kind}" for kind in shows)
    text = _SHAPED.format(evidence=listed, columns=listed, steps=facts.steps, counted="{counted}", measured=rows)
    rows_lost = facts.host(f"{text} ORDER BY lost_ns DESC, kernel")
    lost_ns = sum(row["lost_ns"] for row in rows_lost)
    if facts.part_of_step(lost_ns) <= share.value:
        return
    yield of_time(
        title=title.format(facts.amount(lost_ns)),
        metric=metric,
        time_ns=lost_ns,
        confidence=confidence,
        evidence=first(rows_lost),
        advice=advice,
        query=facts.to_repeat(f"SELECT sum(lost_ns) FROM ({text})"),
    )
