"""`--fail-if` of questions that compare: judges gates and reports the results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import CheckFailedError
from stepscope.cli.terminal.printing import print_err
from stepscope.compare.gates import Gate, Judged, judge
from stepscope.report.diff_text import gate_text

if TYPE_CHECKING:
    from stepscope.query.table import Table

ERRORS = {
    "gate-failed": (
        "A change is larger than `stepscope diff --fail-if` allows; the lines above the error say by how "
        "much, and how certain that is. The exit code is 3, so that a script can stop. See [diff](diff.md)."
    )
}


def judge_all(gates: Sequence[Gate], ask: Callable[..., Table], parameters: Mapping[str, Any]) -> list[Judged]:
    """Judges each gate; `ask` compares the recordings by what the gate names.

    Raises:
        SourceError: the recordings cannot be compared by that.
        UsageError: neither recording has what a gate names.
    """

    @cache
    def rows(by: str | None) -> list[dict[str, Any]]:
        return ask(**{**parameters, "by": by}).rows()

    return [judge(gate, rows, parameters["by"]) for gate in gates]


def report_gates(judged: Sequence[Judged]) -> None:
    """Reports the gates on stderr, after the answer.

    Raises:
        CheckFailedError: a gate failed.
    """
    sys.stdout.flush()
    failed = [gate for gate in judged if gate.outcome == "failed"]
    for gate in judged:
        print_err(gate_text(gate.as_row()))
    if failed:
        raise CheckFailedError(
            f"{len(failed)} of {len(judged)} gates failed" if len(judged) > 1 else "the gate failed",
            hint="stepscope diff --by tree shows where the change is"
            if any(gate.row["name"] == "step" for gate in failed)
            else "the lines above say what was measured",
            slug="gate-failed",
        )
