"""Rules about oneDNN primitives that are unnecessarily slow, or that only change the layout of tensors."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import plural, ratio_text, time_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts

_REFERENCE = Threshold(
    "reference implementations, of the time of all primitives", 0.10, "ratio", "ours: below it there is little to win"
)
_REORDERS = Threshold(
    "reorders, of the time of all primitives", 0.20, "ratio", "ours: some reorders are needed at the edges of a model"
)
_PART = """
    SELECT sum(total_ns) FILTER (WHERE {which}) / nullif(sum(total_ns), 0) AS part FROM primitive
"""
_LARGEST = """
    SELECT primitive, implementation, types, shape, sum(executions)::BIGINT AS executions,
        sum(total_ns)::BIGINT AS total_ns
    FROM primitive WHERE ({which}) AND total_ns > 0 GROUP BY ALL ORDER BY total_ns DESC, primitive, implementation, types, shape LIMIT 8
"""
_IS_REFERENCE = "implementation LIKE 'ref%' OR implementation LIKE 'simple%'"
_IS_REORDER = "primitive = 'reorder'"


@rule(
    "reference-primitives",
    "Primitives of oneDNN that run as plain loops, because it has nothing faster for them.",
    _REFERENCE,
)
def reference_primitives(facts: Facts) -> Iterator[Finding]:
    """Time of executions whose implementation is `ref` or `simple`, as a share of all primitives in the log. A log of
    oneDNN does not show their share of a step, nor how fast another implementation would be, so no saving is stated.
    """
    yield from _primitive_share(
        facts,
        _REFERENCE,
        _IS_REFERENCE,
        "run as reference implementations, which are plain loops",
        "`stepscope onednn --by shape` has their types and shapes: other types (float32, or bfloat16 where the processor has it), "
        "memory formats (channels_last) or sizes have faster ones; a newer torch brings a newer oneDNN.",
    )


@rule("layout-reorders", "Primitives of oneDNN that only change the layout or type of tensors.", _REORDERS)
def layout_reorders(facts: Facts) -> Iterator[Finding]:
    """Time of `reorder`, as a share of all primitives in the log. Some reorders are needed where tensors enter and
    leave oneDNN's own layouts, so no saving is stated.
    """
    yield from _primitive_share(
        facts,
        _REORDERS,
        _IS_REORDER,
        "goes into reorders, which only change the layout or type of tensors",
        "`stepscope onednn --by shape` has their sizes: keep tensors in one layout between operators (channels_last for the "
        "model and its input), convert weights once (torch.compile with freezing), and cast once.",
    )


def _primitive_share(facts: Facts, threshold: Threshold, which: str, what: str, advice: str) -> Iterator[Finding]:
    part = facts.scope.value(_PART.format(which=which))
    if part is None or part < threshold.value:
        return
    rows = facts.scope.sql(_LARGEST.format(which=which)).to_pylist()
    heaviest = rows[0]
    yield Finding(
        title=f"{ratio_text(part)} of the time of oneDNN's primitives {what}; the longest takes "
        f"{time_text(heaviest['total_ns'])} in {heaviest['executions']} {plural(heaviest['executions'], 'execution')}",
        metric=threshold.name,
        value=part,
        unit="ratio",
        confidence="high",
        evidence=tuple(rows),
        advice=advice,
        query=_PART.format(which=which).strip(),
    )
