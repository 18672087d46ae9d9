"""Lists what can be measured in a job, in the order it runs, as a plan to edit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from stepscope.base.quoting import printable, toml_string
from stepscope.base.units import time_text
from stepscope.record.labels import parse_label
from stepscope.record.planning.surveyor import Round, Surveyor
from stepscope.record.targets.watch import Observed
from stepscope.record.trouble import Guard

MAX_MODULES = 20
"""Modules that a plan names by default: those with the largest self time."""

MAX_OCCURRENCES = 8
"""If something runs more often in an iteration, only its first occurrence is measured."""

_NO_WORK = "profiler::"


@dataclass(frozen=True, slots=True)
class Listed:
    """A label that a plan can name.

    Args:
        time_ns: its time in an iteration, all occurrences together; None if not measured.
        self_ns: for a module, the part of the time outside of listed modules inside it.
        operators: the operators that run in it, but not in a listed module inside it.
        note: why a plan should not name it; it is then a comment.
    """

    label: str
    times: int = 1
    time_ns: int | None = None
    self_ns: int | None = None
    operators: tuple[Listed, ...] = ()
    note: str = ""

    @property
    def events(self) -> int:
        return 0 if self.note else self.times if self.times <= MAX_OCCURRENCES else 1


def listed(rounds: Iterable[Round]) -> list[Listed]:
    """Lists what the watched iterations ran, each label once, in the order of its first start."""
    rounds = list(rounds)
    complete = _counted(rounds, "all")
    if not complete:
        return []
    light = _counted(rounds, "forwards") or complete
    counts: dict[str, list[int]] = {}
    for place, watched in enumerate(complete):
        for event in watched.watch.ended():
            counts.setdefault(event.label, [0] * len(complete))[place] += 1
    inside = _operators(_counted(rounds, "operators"), {label: max(each) for label, each in counts.items()})
    times_ns = {id(watched): _times_ns(watched) for watched in (*complete, *light)}
    self_ns = {key: _self_ns(times) for key, times in times_ns.items()}
    labels = []
    for label, each in counts.items():
        taken = parse_label(label)
        timed = complete if taken.kind == "module" and taken.direction == "backward" else light
        is_region = any(label in watched.watch.regions for watched in complete)
        labels.append(
            Listed(
                label,
                max(each),
                _median(times_ns[id(watched)].get(label) for watched in timed),
                _median(self_ns[id(watched)].get(label) for watched in timed),
                tuple(inside.get(label, ())),
                _why_not(label, each, is_region=is_region),
            )
        )
    return labels


def modules_of(labels: Iterable[Listed]) -> list[str]:
    """Paths of the listed modules, with "" for the model itself.

    >>> modules_of([Listed("forward"), Listed("fc1.forward"), Listed("fc1.backward")])
    ['', 'fc1']
    """
    paths: dict[str, None] = {}
    for label in labels:
        path = _module(label)
        if path is not None:
            paths[path] = None
    return list(paths)


def heaviest(labels: Sequence[Listed], top: int) -> list[Listed]:
    """Keeps only the `top` modules with the largest self time.

    A module's self time excludes the modules inside it, and includes forward and backward. The model itself, and what
    is not a module, stays.

    >>> parts = [Listed("a.forward", self_ns=1), Listed("a.b.forward", self_ns=8), Listed("optimizer.step")]
    >>> [part.label for part in heaviest(parts, 1)]
    ['a.b.forward', 'optimizer.step']
    """
    self_ns: dict[str, int] = {}
    for label in labels:
        path = _module(label)
        if path:
            self_ns[path] = self_ns.get(path, 0) + (label.self_ns or 0)
    heavy = set(sorted(self_ns, key=lambda path: -self_ns[path])[:top])
    return [label for label in labels if (path := _module(label)) in heavy or not path]


def _counted(rounds: list[Round], kind: str) -> list[Round]:
    of_kind = [watched for watched in rounds if watched.kind == kind]
    return [watched for watched in of_kind if not watched.excluded] or of_kind


def _module(listed: Listed) -> str | None:
    label = parse_label(listed.label)
    return label.module if label.kind == "module" else None


def _times_ns(watched: Round) -> dict[str, int]:
    """Times in the iteration by label, where they are completely known."""
    times: dict[str, int | None] = {}
    for event in watched.watch.ended():
        time_ns, before = watched.watch.time_ns(event), times.get(event.label, 0)
        times[event.label] = None if time_ns is None or before is None else before + time_ns
    return {label: time_ns for label, time_ns in times.items() if time_ns is not None}


def _self_ns(times: Mapping[str, int]) -> dict[str, int]:
    """Times of modules, without the modules inside them.

    >>> _self_ns({"a.forward": 9, "a.0.b.forward": 5, "a.backward": 7})
    {'a.forward': 4, 'a.0.b.forward': 5, 'a.backward': 7}
    """
    modules = [label for label in times if parse_label(label).kind == "module"]
    self_ns = {label: times[label] for label in modules}
    for label in modules:
        path, _, direction = label.rpartition(".")
        parts = path.split(".")
        above = (".".join([*parts[:end], direction]) for end in range(len(parts) - 1, 0, -1))
        outer = next((name for name in above if name in self_ns), None)
        if outer is not None:
            self_ns[outer] -= times[label]
    return self_ns


def _median(times: Iterable[int | None]) -> int | None:
    times_ns = [time for time in times if time is not None]
    return round(median(times_ns)) if times_ns else None


def _why_not(label: str, counts: list[int], *, is_region: bool) -> str:
    taken = parse_label(label)
    # A region may have any name, even one with another meaning in a plan.
    other = taken.text != label or taken.has_wildcard or (is_region and taken.kind != "region")
    if other or not label.isprintable():
        return "a plan cannot name it"
    if 0 in counts:
        return f"ran in {len(counts) - counts.count(0)} of {len(counts)} iterations"
    return ""


def _operators(rounds: list[Round], times: Mapping[str, int]) -> dict[str, list[Listed]]:
    """The operators of each module's forward and backward, without those of modules inside it, in order."""
    if not rounds:
        return {}
    owned = [_owned(watched) for watched in rounds]
    places: dict[str, list[int]] = {}
    for label, occurrence in owned[0]:
        if not str(parse_label(label).name).startswith(_NO_WORK) and all(
            (label, occurrence) in events for events in owned
        ):
            places.setdefault(label, []).append(occurrence)
    operators: dict[str, list[Listed]] = {}
    for label, occurrences in places.items():
        taken = parse_label(label)
        prefix = f"{taken.module}.{taken.direction}".lstrip(".")
        lines = operators.setdefault(prefix, [])
        spent = [
            _median(
                watched.watch.time_ns(events[label, occurrence]) for watched, events in zip(rounds, owned, strict=True)
            )
            for occurrence in occurrences
        ]
        seen = rounds[0].watch.seen[label]
        if len(occurrences) == seen and (seen == 1 or times.get(prefix, 1) > 1):
            known_ns = [time_ns for time_ns in spent if time_ns is not None]
            lines.append(Listed(label, seen, sum(known_ns) if len(known_ns) == seen else None))
        else:
            lines += [
                Listed(f"{label}#{occurrence}", 1, time_ns)
                for occurrence, time_ns in zip(occurrences, spent, strict=True)
            ]
    return operators


def _owned(watched: Round) -> dict[tuple[str, int], Observed]:
    """Assigns operators' events to the innermost module: a call is recorded, nested, by every module around it."""
    owned: dict[tuple[str, int], Observed] = {}
    call: list[Observed] = []
    for event in watched.watch.ended():
        if call and event.start_index > (call[0].end_index or 0):
            deepest = max(call, key=_depth)
            owned[deepest.label, deepest.occurrence] = deepest
            call = []
        call.append(event)
    if call:
        deepest = max(call, key=_depth)
        owned[deepest.label, deepest.occurrence] = deepest
    return owned


def _depth(event: Observed) -> int:
    path = parse_label(event.label).module
    return path.count(".") + 1 if path else 0


WARMUP = 10
"""Undisturbed iterations in plans written here."""

_MAX_OPERATORS = 4
_MAX_UNSURE = 20
_COMMENTS_AT = 48


def measurable(
    step: Callable[[], object], model: Any, optimizers: Sequence[Any] = (), *, operators: bool = False
) -> list[Listed]:
    """Runs one training step and returns what a plan could name, in the order it runs, with rough times; a second step
    finds the operators inside every module, if they are asked for.
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
