"""Gates on a comparison: `step_time > +3%` fails if the step became more than 3 % slower.

A gate is a name, `>` or `<`, and a signed change of the mean, in per cent or as a time. A change whose 95 % interval
contains 0 counts as none; without an interval the result is unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stepscope.base.errors import UsageError
from stepscope.base.known_names import did_you_mean
from stepscope.compare.sides import ANSWERED_LIKE

STEP_TIME = "step_time"
"""Names the entire step or iteration in any form: without the profiler, if both sides have such steps."""
_FORMS_WITH_STEP = ("label", "phase")

_CHANGE = re.compile(
    r"\s* (?P<sign>[+-]) \s* (?P<number>\d+(?:\.\d*)?|\.\d+) \s* (?P<unit>%|ns|us|µs|μs|ms|s) \s*", re.VERBOSE
)
_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}

ERRORS = {
    "bad-gate": (
        "`--fail-if` takes a name, `>` or `<`, and a change with its sign, in per cent or as a "
        "time: `step_time > +3%`, `forward > +2ms`, `kernel:NAME < -5%`. The message names the "
        "character from which it cannot be read. See [diff](diff.md)."
    ),
    "unknown-gate": (
        "A gate of `diff --fail-if` names something that neither recording has. Such a gate could "
        "never fail, so it is an error; the hint lists similar names."
    ),
}


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a comparison fails. `limit` is a ratio if `relative`, else ns."""

    text: str
    name: str
    by: str | None
    above: bool
    limit: float
    relative: bool


Outcome = Literal["passed", "failed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of a gate. `row` is the row of the comparison that it is about."""

    gate: Gate
    outcome: Outcome
    row: dict[str, Any]
    reason: str = ""

    def as_row(self) -> dict[str, Any]:
        """The result with the measured values, as in `diff --json`."""
        measured = ("name", "change_ns", "change_ratio", "ci95_low_ns", "ci95_high_ns", "verdict")
        gate_columns = {"gate": self.gate.text, "outcome": self.outcome, "reason": self.reason}
        return gate_columns | {name: self.row[name] for name in measured}


def parse_gate(text: str) -> Gate:
    """Parses a gate, `step_time > +3%`, `kernel:gemm < -5%`; raises UsageError that says where it becomes invalid."""
    than = max(text.rfind("<"), text.rfind(">"))
    name, match = text[: max(than, 0)].strip(), _CHANGE.fullmatch(text, than + 1)
    if match is None or not name:
        place, wrong = _where(text)
        printed = text.replace("\n", " ")
        raise UsageError(
            f"{printed!r} is not a gate: at character {place + 1}, {wrong}",
            hint="write NAME > +CHANGE or NAME < -CHANGE, as in 'step_time > +3%' or 'forward > +2ms'",
            slug="bad-gate",
        )
    limit = float(match["number"]) * (-1 if match["sign"] == "-" else 1)
    kind, colon, after_colon = name.partition(":")
    by = kind.strip() if colon and kind.strip() in ANSWERED_LIKE and not after_colon.startswith(":") else None
    return Gate(
        text=" ".join(text.split()),
        name=after_colon.strip() if by else name,
        by=by,
        above=text[than] == ">",
        limit=limit / 100 if match["unit"] == "%" else limit * _NS[match["unit"]],
        relative=match["unit"] == "%",
    )


def _where(text: str) -> tuple[int, str]:
    """The position from which a text is not a gate, and what is wrong there."""
    place = max(text.rfind("<"), text.rfind(">"))
    if place < 0:
        return len(text.rstrip()), "> or < is missing"
    if not text[:place].strip():
        return place, "the name before it is missing"
    start = place + 1 + len(text[place + 1 :]) - len(text[place + 1 :].lstrip())
    if start >= len(text):
        return len(text), "a change is missing"
    if text[start] not in "+-":
        return start, "the change needs a sign, + or -"
    number = re.match(r"[+-]\s*(\d+(\.\d*)?|\.\d+)", text[start:])
    if number is None:
        return start + 1, "a number is missing"
    return start + number.end(), "the unit is none of %, ns, us, ms, s"


Row = dict[str, Any]
Compare = Callable[[str | None], Sequence[Row]]
"""Returns the rows of a comparison by a form; None for the default form."""


def judge(gate: Gate, compare: Compare, by: str | None) -> Judged:
    """Judges a gate on two recordings; `by` is the form of the comparison if the gate names none.

    Raises:
        SourceError: the recordings cannot be compared by the gate's form.
        UsageError: neither of the recordings has what the gate names.
    """
    row = _row_of(gate, compare, by)
    change, ratio = row["change_ns"], row["change_ratio"]
    if change is None:
        return Judged(gate, "failed", row, f"{row['verdict']}, so nothing to compare")
    if row["verdict"] == "untested":
        return Judged(gate, "cannot tell", row, "too few steps to tell it from noise")
    if row["verdict"] == "unclear":
        measured, reason = 0.0, "within noise, which counts as no change"
    elif gate.relative:
        # From nothing to something is more than any percentage.
        measured = ratio if ratio is not None else math.copysign(math.inf, change) if change else 0.0
        reason = ""
    else:
        measured, reason = float(change), ""
    failed = measured > gate.limit if gate.above else measured < gate.limit
    return Judged(gate, "failed" if failed else "passed", row, reason)


def _row_of(gate: Gate, compare: Compare, by: str | None) -> Row:
    if gate.name == STEP_TIME and gate.by is None:
        rows = compare(by if by in _FORMS_WITH_STEP else None)
        if rows and rows[0]["name"] in ("step", "iteration"):
            return rows[0]
    else:
        rows = compare(gate.by or by)
        for row in rows:
            if gate.name in (row["name"], row.get("path")):
                return row
    names = [STEP_TIME, *(row.get("path") or row["name"] for row in rows)]
    raise UsageError(
        f"gate {gate.text!r}: neither recording has {gate.name!r}",
        hint=did_you_mean(gate.name, names),
        slug="unknown-gate",
    )
