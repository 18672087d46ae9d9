"""Lists what watched iterations ran: each label once, in order, with its time and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from stepscope.record.labels import parse_label
from stepscope.record.planning.surveyor import Round
from stepscope.record.targets.watch import Observed

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

    A module's self time excludes the modules inside it, and includes forward and backward. The model itself, and what is
    not a module, is kept.

    >>> parts = [Listed("a.forward", self_ns=1), Listed("a.b.forward", self_ns=8), Listed("optimizer.step")]
    >>> [one.label for one in heaviest(parts, 1)]
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
