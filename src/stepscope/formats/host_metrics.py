"""Makes the recording of a file of host metrics: rows of `host_metric`, or an error that says why there are none."""

from __future__ import annotations

from typing import Any

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows

Row = dict[str, Any]


def host_metrics_of(
    member: Member,
    facts: Facts,
    report: ReadReport,
    rows: list[Row],
    *,
    lacks: str,
    hint: str,
    slug: str = "no-recording",
) -> RankTables:
    """The recording of a file that has only rows of `host_metric`; `lacks` is the error's message if there are none."""
    if not rows:
        raise SourceError(f"{member.label}: {lacks}", hint=hint, slug=slug)
    report.read = len(rows)
    return RankTables(facts, report, host_metric=from_rows("host_metric", rows))
