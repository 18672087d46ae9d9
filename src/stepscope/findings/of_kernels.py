"""The finding of most rules about kernels: chosen ones take a share of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stepscope.base.quoting import sql_literal
from stepscope.findings.declare import Confidence, Finding, Threshold, of_time
from stepscope.findings.facts import Facts, first
from stepscope.findings.groups import Group, by_kernel, reproduce


def of_kernels(
    facts: Facts,
    chosen: Callable[[Group], Any],
    share: Threshold,
    *,
    title: str,
    metric: str,
    confidence: Confidence,
    advice: str,
    launched_by: Callable[[Group], str | None] | None = None,
    lost: tuple[Callable[[Group], float | None], str] | None = None,
    **columns: Callable[[Group], Any],
) -> Iterator[Finding]:
    """Yields a finding if the chosen device work takes more than a share of the step, all of which may be saved.

    Args:
        title: the title, with `{}` for the time.
        launched_by: the operator whose host time a group's cure saves, too; None for none.
        lost: the time of a group that counts (ns), and the same in SQL over its work; None for all.
        columns: further columns of the evidence.
    """
    if not facts.enough_work:
        return
    groups = [group for group in facts.groups if chosen(group)]
    of_group, in_sql = lost or (None, "sum(dur_ns)")
    times = (group.total_ns if of_group is None else of_group(group) or 0 for group in groups)
    time_ns = sum(times) / facts.steps
    if facts.part_of_step(time_ns) <= share.value:
        return
    names = {launched_by(group) or "" for group in groups} if launched_by else set()
    listed = ", ".join(map(sql_literal, sorted(names)))
    yield of_time(
        title=title.format(facts.amount(time_ns)),
        metric=metric,
        time_ns=time_ns,
        hidden_ns=facts.hidden_in(f"kind = 'operator' AND device_ns > 0 AND name IN ({listed})") if names else 0.0,
        confidence=confidence,
        evidence=first(by_kernel(facts.steps, groups, of_group, **columns)),
        advice=advice,
        query=reproduce(facts.steps, facts.counted, groups, in_sql),
    )
