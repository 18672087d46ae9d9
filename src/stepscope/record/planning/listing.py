"""Lists what can be measured in a job, in the order it runs, as a plan to edit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepscope.base.quoting import printable, toml_string
from stepscope.base.units import time_text
from stepscope.record.planning.rounds import MAX_OCCURRENCES, Listed, listed, modules_of
from stepscope.record.planning.surveyor import Surveyor
from stepscope.record.trouble import Guard

WARMUP = 10
"""Undisturbed iterations in plans written here."""

_MAX_OPERATORS = 4
_MAX_UNSURE = 20
_COMMENTS_AT = 48


def measurable(
    step: Callable[[], object], model: Any, optimizers: Sequence[Any] = (), *, operators: bool = False
) -> list[Listed]:
    """Runs one training step and returns what a plan could name, in the order it runs, with rough times.

    Args:
        optimizers: those whose `zero_grad` counts.
        operators: whether to run a second step for the operators inside every module.
    """
    guard = Guard("the survey")
    surveyor = Surveyor(model, optimizers, guard)
    try:
        surveyor.start_iteration("all")
        step()
        surveyor.end_iteration()
        if operators:
            surveyor.start_iteration("operators", modules_of(listed(surveyor.rounds)))
            step()
            surveyor.end_iteration()
        surveyor.wait(5)
        labels = listed(surveyor.rounds)
    finally:
        surveyor.remove()
    if guard.error is not None:
        raise guard.error
    return labels


def plan_text(
    labels: Iterable[Listed], *, repetitions: int = 50, header: Iterable[str] = (), all_operators: bool = False
) -> str:
    """Makes a plan in TOML that names these labels, one per line, to cut down.

    Times are comments, and so are operators and what a plan should not name.

    Args:
        found: the labels.
        repetitions: measurements per event.
        header: lines of comment at the top.
        all_operators: name every operator, not only the heaviest of each module.

    >>> print(plan_text([Listed("forward", time_ns=1_234_567)], repetitions=20))
    warmup = 10
    repetitions = 20
    events = [
        "forward",                                  # 1.235 ms
    ]
    <BLANKLINE>
    """
    lines = [f"# {printable(line)}".rstrip() for line in header]
    lines += [f"warmup = {WARMUP}", f"repetitions = {repetitions}", "events = ["]
    unsure = 0
    for label in labels:
        if label.note:
            unsure += 1
            if unsure > _MAX_UNSURE:
                continue
        lines.append(_line(label))
        operators = label.operators if all_operators else _longest(label.operators)
        lines += [_line(operator, commented=True) for operator in operators]
        left = len(label.operators) - len(operators)
        if left:
            lines.append(f"    #   and {left} shorter: --operators")
    if unsure > _MAX_UNSURE:
        lines.append(f"    # and {unsure - _MAX_UNSURE} more that do not run in every iteration")
    return "\n".join([*lines, "]", ""])


def plan_json(labels: Iterable[Listed], *, repetitions: int = 50) -> str:
    """Makes the same plan as JSON, without comments."""
    plan = {"warmup": WARMUP, "repetitions": repetitions, "events": list(weights(labels))}
    return json.dumps(plan, indent=4, ensure_ascii=False) + "\n"


def weights(labels: Iterable[Listed]) -> dict[str, int]:
    """The labels for a plan, with the time of one of their events (ns); 0 if unknown.

    >>> weights([Listed("forward", time_ns=8), Listed("fc1.forward", times=2, time_ns=6), Listed("a", note="")])
    {'forward': 8, 'fc1.forward': 3, 'a': 0}
    """
    return {_named(label): (label.time_ns or 0) // max(label.times, 1) for label in labels if not label.note}


def iterations_needed(labels: Iterable[Listed], repetitions: int) -> int:
    """The number of iterations that a plan of these takes: one in five is not measured.

    >>> iterations_needed([Listed("forward"), Listed("fc1.forward", times=2)], 50)
    203
    """
    events = sum(label.events for label in labels)
    return WARMUP + 1 + math.ceil(events * (repetitions + 1) * 1.25)


def _longest(operators: tuple[Listed, ...]) -> list[Listed]:
    longest = sorted(operators, key=lambda operator: -(operator.time_ns or 0))[:_MAX_OPERATORS]
    return [operator for operator in operators if operator in longest]


def _named(label: Listed) -> str:
    """The label in the plan: of what runs very often, only the first occurrence is measured."""
    return f"{label.label}#0" if label.times > MAX_OCCURRENCES else label.label


def _line(label: Listed, *, commented: bool = False) -> str:
    text = f"    {'# ' if commented or label.note else ''}{toml_string(_named(label))},"
    remarks = []
    if label.times > MAX_OCCURRENCES:
        remarks.append(f"the first of {label.times}")
    elif label.times > 1:
        remarks.append(f"{label.times} times")
    if label.time_ns is not None:
        remarks.append(time_text(label.time_ns) + (" in all" if label.times > 1 else ""))
    if label.note:
        remarks.append(label.note)
    return f"{text:<{_COMMENTS_AT - 1}} # {', '.join(remarks)}" if remarks else text
