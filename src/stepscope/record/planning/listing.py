"""Lists what can be measured in a job, in the order it runs, as a plan to edit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepscope.base.quoting import printable, toml_string
from stepscope.base.units import time_text
from stepscope.record.planning.rounds import MOST_OCCURRENCES, Listed, listed, modules_of
from stepscope.record.planning.surveyor import Surveyor
from stepscope.record.trouble import Guard

WARMUP = 10
"""Undisturbed iterations in plans written here."""

_MOST_OPERATORS = 4
_MOST_UNSURE = 20
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
        found = listed(surveyor.rounds)
    finally:
        surveyor.remove()
    if guard.error is not None:
        raise guard.error
    return found


def plan_text(
    found: Iterable[Listed], *, repetitions: int = 50, header: Iterable[str] = (), all_operators: bool = False
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
    for one in found:
        if one.note:
            unsure += 1
            if unsure > _MOST_UNSURE:
                continue
        lines.append(_line(one))
        shown = one.operators if all_operators else _longest(one.operators)
        lines += [_line(operator, commented=True) for operator in shown]
        left = len(one.operators) - len(shown)
        if left:
            lines.append(f"    #   and {left} shorter: --operators")
    if unsure > _MOST_UNSURE:
        lines.append(f"    # and {unsure - _MOST_UNSURE} more that do not run in every iteration")
    return "\n".join([*lines, "]", ""])


def plan_json(found: Iterable[Listed], *, repetitions: int = 50) -> str:
    """Makes the same plan as JSON, without comments."""
    labels = list(weights(found))
    plan = {"warmup": WARMUP, "repetitions": repetitions, "events": labels}
    return json.dumps(plan, indent=4, ensure_ascii=False) + "\n"


def weights(found: Iterable[Listed]) -> dict[str, int]:
    """The labels for a plan, with the time of one of their events (ns); 0 if unknown.

    >>> weights([Listed("forward", time_ns=8), Listed("fc1.forward", times=2, time_ns=6), Listed("a", note="")])
    {'forward': 8, 'fc1.forward': 3, 'a': 0}
    """
    return {_named(one): (one.time_ns or 0) // max(one.times, 1) for one in found if not one.note}


def iterations_needed(found: Iterable[Listed], repetitions: int) -> int:
    """The number of iterations that a plan of these takes: one in five is not measured.

    >>> iterations_needed([Listed("forward"), Listed("fc1.forward", times=2)], 50)
    203
    """
    events = sum(one.events for one in found)
    return WARMUP + 1 + math.ceil(events * (repetitions + 1) * 1.25)


def _longest(operators: tuple[Listed, ...]) -> list[Listed]:
    kept = sorted(operators, key=lambda one: -(one.time_ns or 0))[:_MOST_OPERATORS]
    return [one for one in operators if one in kept]


def _named(one: Listed) -> str:
    """The label in the plan: of what runs very often, only the first occurrence is measured."""
    return f"{one.label}#0" if one.times > MOST_OCCURRENCES else one.label


def _line(one: Listed, *, commented: bool = False) -> str:
    text = f"    {'# ' if commented or one.note else ''}{toml_string(_named(one))},"
    remarks = []
    if one.times > MOST_OCCURRENCES:
        remarks.append(f"the first of {one.times}")
    elif one.times > 1:
        remarks.append(f"{one.times} times")
    if one.time_ns is not None:
        remarks.append(time_text(one.time_ns) + (" in all" if one.times > 1 else ""))
    if one.note:
        remarks.append(one.note)
    return f"{text:<{_COMMENTS_AT - 1}} # {', '.join(remarks)}" if remarks else text
