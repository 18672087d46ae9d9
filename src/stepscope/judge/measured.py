"""Findings of what a job measured of itself: the verdict on its phases, as rows of `findings`.

Rules look at events; a summary of phases has none. What holds such a run back is judged by
`questions.phase_verdict`, and only put into this question's columns here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepscope.judge.engine import severity_of
from stepscope.judge.phase_verdict import STRAGGLER, RunFinding, judge_run

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope

_SAVES = (STRAGGLER, "input-bound", "copy-bound", "communication-bound", "residual")
"""Kinds whose share of the step could go; of the others it is what the step is made of."""


def has_phases_alone(scope: Scope) -> bool:
    """Whether the recording is of phases, and no event is in it."""
    return bool(
        scope.value(
            """
            SELECT (SELECT count(*) FROM phase) > 0
                AND NOT EXISTS (SELECT 1 FROM host_event) AND NOT EXISTS (SELECT 1 FROM device_event)
            """
        )
    )


def measured_findings(scope: Scope) -> list[dict[str, Any]]:
    """What holds the run back, as values of `findings` by column; columns left out are NULL."""
    step_ns = scope.value("SELECT avg(mean_ns) FROM phase WHERE phase = 'step'") or 0.0
    return [_row(scope, one, step_ns) for one in judge_run(scope)]


def _row(scope: Scope, one: RunFinding, step_ns: float) -> dict[str, Any]:
    saves = one.share_ratio if one.kind in _SAVES else None
    evidence = scope.sql(
        "SELECT rank, phase, steps, mean_ns FROM phase WHERE rank = ? ORDER BY mean_ns DESC",
        [one.ranks[0]],
    ).to_pylist()
    return {
        "id": one.kind,
        "severity": "note" if saves is None else severity_of(saves),
        "title": f"{one.kind}: {one.evidence}",
        "saving_low_ns": None if saves is None else 0,
        "saving_high_ns": None if saves is None else round(saves * step_ns),
        "saving_share_ratio": saves,
        "per": "step",
        "confidence": "medium",
        "advice": one.next_step,
        "metric": "share of the step",
        "value": one.share_ratio,
        "unit": "ratio",
        "rank": one.ranks[0] if len(one.ranks) == 1 else None,
        "evidence": json.dumps(evidence, ensure_ascii=False),
        "query": "stepscope phases SRC --by verdict",
    }
