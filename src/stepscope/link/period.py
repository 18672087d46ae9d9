"""The period of a recording without marked steps: the time from one repeat of something recurring to the next.

The thread that launches most is read as a sequence of names: its ranges, its outermost operators and its launches of
graphs, in order of time, without the numbers in names (`decode bs=8` recurs as `decode bs=16`). A name that occurs at
least three times cuts the sequence into repeats. These are steps if each of them has the content of the typical one.
Layers within steps do not: between the last layer of a step and the first of the next there is more than between
others. The layers of a single step do not count either: nearly everything before the first repeat and after the last
one must also occur in repeats.

Ranges are tried first, then launches of graphs, then operators, and for each kind the rarest name first: the largest
sequence that recurs. If nothing recurs like this, nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.vocabulary import NAMELESS_RANGE
from stepscope.link.columns import words
from stepscope.link.host import ANNOTATION, COPY, FILL, GRAPH_LAUNCH, LAUNCH, NOWHERE, OPERATOR, Host
from stepscope.schema.arrays import Int64s

RULES = ("recurring range", "recurring graph launch", "recurring operators")
"""How a period is found, in the order of trial."""
_RANGE, _GRAPH, _OPERATOR = range(3)

_FEWEST = 3
"""Fewest repeats that make a period: two may be chance."""
_SIMILAR = 0.95
"""Content that each repeat must share with the typical one. Steps differ by a line of a log; embedding, head and
sampling, which are between layers, are more than this of a layer."""
_EDGE_PERIODS = 1.1
"""The longest time before the first repeat (the end of a truncated step) and after the start of the last
one, in lengths of a repeat."""
_UNSEEN = 0.1
"""The part of it that may occur in no repeat."""
_MIN_CONTENT = 3
"""Fewest operators and ranges in a repeat that an operator starts: a loop over one operator has no steps."""
_MAX_TRIED = 8
"""Names of a kind that are tried. Few recur evenly over the entire recording, and each costs a pass."""

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Period:
    """Repeats in order of time (times in ns).

    Args:
        rule: how it was found, one of RULES.
        name: of what recurs at the start of each repeat.
        start, end: of each repeat, on the host.
        similarity: how much of its content each shares with the typical one, 0 to 1.
        complete: false for a last one that the end of the recording cut off: it is unlike the others, or has
            less than each of them.
    """

    rule: str
    name: list[str]
    start: Int64s
    end: Int64s
    similarity: NDArray[np.float64]
    complete: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The names in order of time: positions of events, a number for the kind and name of each (less than
    `names`), and the kind of each."""

    position: NDArray[np.int32]
    name: Int64s
    names: int
    kind: NDArray[np.int8]


def find_period(host: Host, launch: NDArray[np.int32], *, tracks: Collection[int] = ()) -> Period | None:
    """The period of a recording, None if there is none. Takes time linear in its events, except for sorting."""
    place = _looked_at(host, tracks)
    if len(place):  # without names nothing is known to recur
        text, texts = words(host.table, "name")
        named = np.array([text_of_name != NAMELESS_RANGE for text_of_name in texts], dtype=bool)
        place = place[named[text[host.nesting.row[place]]]]
    if not len(place):
        return None
    sequence = _sequence(host, place, launch)
    for kind, rule in enumerate(RULES):
        for name in _evenly_recurring(sequence, kind):
            at = np.flatnonzero(sequence.name == name)
            similarity, stop = _compared(sequence, at)
            if similarity is None:
                continue
            cut = similarity[-1] < _SIMILAR or stop - at[-1] < np.diff(at).min()
            start = host.start[sequence.position[at]]
            last = host.end[sequence.position[at[-1] : stop]].max()
            rows = host.nesting.row[sequence.position[at]]
            return Period(
                rule,
                host.table.column("name").take(rows).to_pylist(),
                start,
                np.append(start[1:], last),
                similarity,
                np.arange(len(at)) < len(at) - cut,
            )
    return None


def _looked_at(host: Host, tracks: Collection[int]) -> NDArray[np.int32]:
    """Positions of the ranges, outermost operators and launches of graphs on the thread that launches
    most; if nothing is launched, on the thread that has most of them."""
    empty = np.empty(0, dtype=np.int32)
    if not len(host):
        return empty
    operator = np.where(host.kind == OPERATOR, np.arange(len(host), dtype=np.int32), NOWHERE)
    host.nesting.inherit(operator)
    above = host.nesting.parent
    outermost = (host.kind == OPERATOR) & ((above < 0) | (operator[above] < 0))
    chosen = outermost | (host.kind == ANNOTATION) | (host.role == GRAPH_LAUNCH)
    first = host.thread_start[:-1]
    thread = ~np.isin(host.thread_number, np.array(sorted(tracks), dtype=np.int64))
    for counted in (np.isin(host.role, (LAUNCH, GRAPH_LAUNCH, COPY, FILL)), chosen):
        count = np.add.reduceat(counted.astype(np.int64), first) * thread
        if count.any():
            busiest = int(count.argmax())
            low, high = host.thread_start[busiest : busiest + 2].tolist()
            return (np.flatnonzero(chosen[low:high]) + low).astype(np.int32)
    return empty


def _sequence(host: Host, place: NDArray[np.int32], launch: NDArray[np.int32]) -> _Sequence:
    text, texts = words(host.table, "name")
    numbers: dict[str, int] = {}
    bare = [numbers.setdefault(_NUMBERS.sub("#", text), len(numbers)) for text in texts]
    kind = np.full(len(place), _OPERATOR, dtype=np.int8)
    kind[host.kind[place] == ANNOTATION] = _RANGE
    graph = host.role[place] == GRAPH_LAUNCH
    kind[graph] = _GRAPH
    started = np.zeros(len(place), dtype=np.int64)
    work = np.bincount(launch[launch >= 0], minlength=len(host))
    started[graph] = 1 + work[place[graph]]
    code = np.array(bare, dtype=np.int64)[text[host.nesting.row[place]]] * len(RULES) + kind
    code = code * (int(started.max(initial=0)) + 1) + started
    distinct, name = np.unique(code, return_inverse=True)
    return _Sequence(place, name.astype(np.int64), len(distinct), kind)


def _evenly_recurring(sequence: _Sequence, kind: int) -> list[int]:
    """Names that recur evenly from the start of the sequence to its end, the rarest and earliest first."""
    order = np.argsort(sequence.name, kind="stable")
    first = np.searchsorted(sequence.name[order], np.arange(sequence.names))
    count = np.diff(np.append(first, len(order)))
    last = order[first + count - 1]
    # The first repeat may be longer, by what is done once.
    gap = np.diff(order, append=0)
    inner = np.ones(len(order), dtype=bool)
    inner[first + count - 1] = False
    inner[first[count > _FEWEST]] = False
    far = len(order) + 1
    longest = np.maximum.reduceat(np.where(inner, gap, 0), first)
    shortest = np.minimum.reduceat(np.where(inner, gap, far), first)
    even = (count >= _FEWEST) & (shortest >= _SIMILAR * _SIMILAR * longest)
    even &= (order[first] <= _EDGE_PERIODS * longest) & (len(order) - last <= _EDGE_PERIODS * longest)
    even &= sequence.kind[order[first]] == kind
    if kind == _OPERATOR:
        even &= longest >= _MIN_CONTENT
    candidates = np.flatnonzero(even)
    candidates = candidates[np.lexsort((order[first[candidates]], count[candidates]))]
    # Other names with the same count would cut the same repeats elsewhere.
    rarest = np.unique(count[candidates], return_index=True)[1]
    return [int(name) for name in candidates[rarest][:_MAX_TRIED]]


def _compared(sequence: _Sequence, at: Int64s) -> tuple[NDArray[np.float64] | None, int]:
    """How much of its content each repeat shares with the typical one, and where the last one ends;
    None if they are not steps.
    """
    name, end = sequence.name, len(sequence.name)
    lengths = np.diff(at)
    typical = int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    length = int(lengths[typical])
    has = np.bincount(name[at[typical] : at[typical + 1]], minlength=sequence.names)
    stop = min(end, int(at[-1]) + length)
    lengths = np.append(lengths, stop - at[-1])
    repeat = np.repeat(np.arange(len(at)), lengths)
    pair, count = np.unique(repeat * sequence.names + name[at[0] : stop], return_counts=True)
    shared = np.bincount(pair // sequence.names, np.minimum(count, has[pair % sequence.names]), len(at))
    similarity = shared / (lengths + length - shared)
    unseen = int((has[name[: at[0]]] == 0).sum() + (has[name[stop:]] == 0).sum())
    good = similarity >= _SIMILAR
    if good.sum() < _FEWEST or not good[1:-1].all() or unseen > _UNSEEN * length:
        return None, stop
    return similarity, stop
