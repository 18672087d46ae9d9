"""`host-metrics`: metrics from reports on the host's side, under the names of their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.query.declare import Column, Parameter, question

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope


@question(
    "host-metrics",
    "What does each metric of VTune, APS, perf stat and the recorder say of the host, under its own name?",
    (
        Column("rank", "int", "rank that the report is of, or is kept with", shown="varying"),
        Column("report", "text", "report that states it"),
        Column("of", "text", "what the subject is: Function, Module, Thread, ...", shown="varying"),
        Column("subject", "text", "what the metric is of; empty for the complete run"),
        Column("metric", "text", "name of the metric, as the tool spells it, with those above it"),
        Column("value", "float", "value"),
        Column("unit", "text", "unit, as the tool spells it"),
        Column("text", "text", "what the report has in place of a number, or behind it"),
        Column("host", "text", "node that the value is of, where the report names one", shown="varying"),
        Column("share_ratio", "float", "part that it is of something else", shown="varying"),
        Column("share_of", "text", "what it is a part of", shown="varying"),
        Column("advice", "text", "what the tool itself says on it", shown=False),
        Column(
            "confirmed",
            "bool",
            "false where the layout of this kind of report is known from documentation alone",
            shown="varying",
        ),
    ),
    rests_on=(),
    parameters=(
        Parameter("metric", "text", "only metrics with this in their names, whatever the case"),
        Parameter("subject", "text", "only what has this in its name, whatever the case"),
    ),
    fills="Give a summary of APS (aps-report DIR), a report of VTune as CSV, what perf stat wrote, or what "
    "stepscope record --phases wrote.",
)  # fmt: skip
def host_metrics(scope: Scope, metric: str | None = None, subject: str | None = None) -> pa.Table:
    """Every metric of summaries of Intel's Application Performance Snapshot, of CSV reports of Intel VTune (hot spots,
    microarchitecture, memory access, ...), of `perf stat`, and of what the recorder itself measured of its process, in
    the order of the files. VTune's CPU time, instructions and cycles of functions are in `hotspots`.

    Nothing is computed and nothing is renamed: the tool defines what a metric means, and `advice` has the tool's own
    words. `snapshot` sorts those of the complete run by subject. Reports of VTune other than the function report of
    hotspots were not tried with real files: compare some rows with the report (`confirmed`).
    """
    return scope.sql(
        """
        SELECT rank, report, subject_kind AS of, subject, metric, value, unit, text, host, share_ratio, share_of, advice,
            confirmed
        FROM host_metric
        WHERE ($metric IS NULL OR contains(lower(metric), lower($metric)))
            AND ($subject IS NULL OR contains(lower(subject), lower($subject)))
        """,
        {"metric": metric, "subject": subject},
    )
