"""Charges device work to operator calls: the only place that assigns operations and bytes to events.

Every kernel, copy and fill is charged to one *call*: the innermost operator with a formula around its launch
(`costs.answering`), so that no work counts twice; a communication kernel is a call of its own.

A call's work is shared by duration among the events that did it: its multiplying kernels if it is a product of
matrices, else its kernels, else its copies and fills. No recording shows the true division. Charging the longest kernel
alone would change from call to call which of two equal kernels did everything; shared, sums over kernels, operators,
modules and steps agree.

Kernel names separate parts: a convolution's backward has a part per gradient (`costs.Work.parts`), `dgrad` kernels
share the input's, `wgrad` kernels the weight's. The rest goes to the call's other multiplying kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stepscope.analysis.attribution import LABELLED_WORK, NO_OPERATOR
from stepscope.analysis.operators.calls import Codes, coded, distinct_calls, distinct_rows, numbered, operators
from stepscope.analysis.recording import Array, once
from stepscope.costs import (
    FAMILIES,
    PRODUCTS,
    Conventions,
    Row,
    Work,
    answering,
    collective,
    count_work,
    gradient_of,
    is_composite,
    kernel_class,
    missing_reason,
    summed,
    tensor_core_use,
)
from stepscope.costs.dtype import collective_dtype
from stepscope.link.columns import places
from stepscope.query.apportion import apportion
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

NO_STEP = -(1 << 62)
DIRECTIONS = ("", "forward", "backward", "optimizer")

_EVENTS = f"""
    SELECT
        work.name, work.id, work.span, work.device, work.dur_ns, coalesce(work.operator_id, -1) AS operator_id,
        CASE WHEN work.captured_id IS NULL THEN -1 ELSE coalesce(work.launch_id, -1) END AS replay,
        work.kind = 'communication' AS communicates, work.kind IN ('copy', 'fill') AS moves,
        CASE WHEN work.operator_name IS NULL THEN charged_to ELSE '{NO_OPERATOR}' END AS orphan,
        collective.operation, collective.dtype, collective.elements_in, collective.elements_out,
        collective.group_size, coalesce(module.path, '') AS module,
        CASE work.direction WHEN 'forward' THEN 1 WHEN 'backward' THEN 2 WHEN 'optimizer' THEN 3
            ELSE 0 END::TINYINT AS direction,
        coalesce(work.step, {NO_STEP}) AS step,
        coalesce(work.occupancy_ratio, 'nan'::DOUBLE) AS occupancy,
        coalesce(work.copy_kind, '') AS copy_kind
    FROM (SELECT * FROM ({LABELLED_WORK}) WHERE rank = $rank) AS work
    LEFT JOIN (SELECT * FROM collective WHERE rank = $rank) AS collective
        ON collective.id = work.id
    LEFT JOIN (SELECT * FROM module WHERE rank = $rank) AS module
        ON (module.span, module.module_id) = (work.span, work.module_id)
    ORDER BY work.start_ns, work.id
"""


_OF_EVENT = ["id", "span", "device", "step", "module", "direction", "occupancy", "copy_kind"]


class Charged(NamedTuple):
    """What events are charged to: name, inputs, and work or why it is not counted. `first` is true for one of several
    parts of a call, so that calls can be counted."""

    name: str
    row: Row
    work: Work | None
    why: str
    first: bool = True


@dataclass(frozen=True, slots=True)
class Charges:
    """What each piece of device work of a rank is charged to, by start.

    Args:
        events: `id`, `span`, `device`, `step` (NO_STEP), `module`, `direction` (index in DIRECTIONS), `occupancy`
            (NaN), `copy_kind`.
        kernel: index in `kernels`.
        call, piece: number of the call, and of the part of it that the event is charged to.
        thing: index in `things`, which describes the piece.
        share: the event's share of the piece's work; `shared`: others did some of it too.
        innermost: index in `rows` of the launching operator's inputs, whatever the work is charged to (-1).
        moving, communication: copies and fills; communication kernels.
    """

    events: Any
    kernels: list[str]
    kernel: Array
    duration: Array
    communication: Array
    moving: Array
    call: Array
    piece: Array
    thing: Array
    things: list[Charged]
    share: Array
    shared: Array
    innermost: Array
    rows: list[Row]

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return int(self.events.nbytes) + 10 * int(self.duration.nbytes)

    def main(self) -> Array:
        """The kernel that did most of each event's call."""
        doing = np.where(self.share > 0, self.duration, -1)
        return _longest(self.call, _number(self.call), self.kernel, doing)[self.call]

    def parts(self, amount_of: Callable[[Work], int | None]) -> Array:
        """Each event's integer part of an amount of its piece's work, -1 if unknown; parts add up to the amount."""
        amounts = [None if thing.work is None else amount_of(thing.work) for thing in self.things]
        amount = np.array([-1 if thing is None else thing for thing in amounts], np.int64)[self.thing]
        counted = np.array([thing.work is not None for thing in self.things], bool)[self.thing]
        result = np.where(counted & (self.share == 0), 0, amount)
        several = np.flatnonzero(self.shared & (self.share > 0) & (amount >= 0))
        result[several] = apportion(amount[several], self.duration[several], self.piece[several])
        return result


class WorkInPart(NamedTuple):
    """The device work of a rank in a part of the recording: ids in order, and durations within the part (ns)."""

    ids: Array
    duration: Array

    def of(self, ids: Array) -> tuple[Array, Array]:
        """Which rows of some work are kept, and for how long each of them ran within the part."""
        rows = np.flatnonzero(np.isin(ids, self.ids))
        return rows, self.duration[np.searchsorted(self.ids, ids[rows])]


def work_in_part(scope: Scope, rank: int) -> WorkInPart | None:
    """The device work of a rank in the requested part; None for all of it.

    Work is charged before it is narrowed, since a kernel's share depends on the call's other kernels. Events that a
    window cuts count in proportion.
    """
    if not scope.part:
        return None
    rows = scope.numpy(f"SELECT id, dur_ns FROM device_event WHERE {WORK} AND rank = {rank} ORDER BY id")
    return WorkInPart(rows["id"], rows["dur_ns"])


@once
def charges_of(scope: Scope, rank: int, conventions: Conventions) -> Charges:
    """Charges the device work of a rank, counted by some conventions."""
    events = scope.rows(_EVENTS, {"rank": rank})
    count = events.num_rows
    kernel, kernel_names = coded(events.column("name"))
    duration = events.column("dur_ns").to_numpy()
    calls = operators(scope, rank)
    operator = places(calls.ids, events.column("operator_id").to_numpy())
    key_of_event = np.where(operator >= 0, calls.key[operator] if len(calls.key) else -1, -1)
    longest = _longest(key_of_event, len(calls.keys), kernel, duration)
    number, rows = distinct_calls(scope, rank, calls, [kernel_names[k] if k >= 0 else "" for k in longest])
    works = [count_work(row, conventions) for row in rows]
    countable = np.array([work is not None and work.family != "view" for work in works], bool)
    composite = np.array([is_composite(row.name) for row in rows], bool)
    if len(number):
        owner = answering(calls.parent, countable[number], composite[number])
    else:
        owner = np.zeros(0, np.int64)

    # A call is the index of an operator, or a number after the last one for work without an operator.
    answers = np.where(operator >= 0, owner[operator] if len(owner) else -1, -1)
    call = np.where(answers >= 0, answers, operator)
    communication = events.column("communicates").to_numpy()
    moving = events.column("moves").to_numpy()
    collectives, collective_rows = _collectives(events, communication)
    separate = (call < 0) | (collectives >= 0)
    orphan, orphans = np.zeros(count, np.int64), [NO_OPERATOR]
    if (lost := np.flatnonzero(separate)).size:
        orphan[lost], orphans = numbered(events.column("orphan").to_numpy()[lost])
    call = np.where(separate, len(calls.ids) + np.arange(count), call)
    # Things are numbered: first distinct calls, then work without an operator, then collectives.
    row_of = number[np.where(separate, 0, call)] if len(number) else np.zeros(count, np.int64)
    thing = np.where(separate, len(rows) + orphan, row_of)
    thing = np.where(collectives >= 0, len(rows) + len(orphans) + collectives, thing)

    seen, thing = distinct_rows(thing)

    def charged(thing_number: int) -> Charged:
        if thing_number < len(rows):
            row, work = rows[thing_number], works[thing_number]
            why = "" if countable[thing_number] else (missing_reason(row) or "moves nothing")
            return Charged(row.name, row, None if why else work, why)
        if thing_number < len(rows) + len(orphans):
            name = orphans[thing_number - len(rows)]
            return Charged(name, Row(name), None, "no operator known")
        return _of_collective(collective_rows[thing_number - len(rows) - len(orphans)])

    things = [charged(thing_number) for (thing_number,) in seen]
    # Each replay of a graph is a new call of what was captured once.
    _, call = distinct_rows(call, events.column("replay").to_numpy())
    product = np.array([_is_product(name) for name in kernel_names], bool)
    doing = _doing(call, thing, things, product[kernel], moving)
    piece = call
    if any(thing_number.work is not None and thing_number.work.parts for thing_number in things):
        gradients = [gradient_of(name) if product[k] else None for k, name in enumerate(kernel_names)]
        piece, thing, things = _split(call, thing, things, kernel, gradients, doing)
    share, shared = _shares(piece, duration, doing)
    return Charges(
        events=events.select(_OF_EVENT),
        kernels=kernel_names,
        kernel=kernel,
        duration=duration,
        communication=communication,
        moving=moving,
        call=call,
        piece=piece,
        thing=thing,
        things=things,
        share=share,
        shared=shared,
        innermost=np.where(operator >= 0, number[operator] if len(number) else -1, -1),
        rows=rows,
    )


def _number(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1


def _longest(group: Array, groups: int, kernel: Array, weight: Array) -> Array:
    """For each group the kernel of its event with the largest weight, -1 if it has no event."""
    order = np.argsort(weight, kind="stable")
    result = np.full(groups + 1, -1, dtype=np.int64)
    result[group[order]] = kernel[order]  # the last assignment wins; group -1 writes past the end
    return result[:groups]


def _is_product(kernel: str) -> bool:
    use = tensor_core_use(kernel)
    return kernel_class(kernel) in PRODUCTS and use.rule != "helpers that multiply nothing"


def _collectives(events: Any, communication: Array) -> tuple[Array, list[tuple[Any, ...]]]:
    """For each event the number of its distinct collective (-1: none recorded), and these."""
    result = np.full(len(communication), -1, dtype=np.int64)
    names = ("operation", "dtype", "elements_in", "elements_out", "group_size")
    places = np.flatnonzero(communication)
    codes = Codes()
    if places.size:
        listed = events.select(list(names)).take(places)
        recorded = zip(*(listed.column(name).to_pylist() for name in names), strict=True)
        for place, values in zip(places.tolist(), recorded, strict=True):
            if values[0] is not None and values[2] is not None and values[3] is not None:
                result[place] = codes(values)
    return result, list(codes.of)  # type: ignore[arg-type]


def _of_collective(recorded: tuple[Any, ...]) -> Charged:
    operation, dtype, given, got, size = recorded
    work = collective(operation, collective_dtype(dtype), given, got, size)
    row = Row(operation, f"[[{given}]]", f'["{dtype or ""}"]')
    return Charged(operation, row, work, "" if work is not None else "no formula")


def _doing(call: Array, thing: Array, things: list[Charged], product: Array, moving: Array) -> Array:
    """Which events did their call's work."""
    matrix = np.array(
        [thing.work is not None and FAMILIES.get(thing.work.family) in PRODUCTS for thing in things], bool
    )
    doing = np.where(matrix[thing], product, ~moving)
    for others in (~moving, np.ones(len(call), bool)):
        none = np.bincount(call, weights=doing, minlength=1) == 0
        if none.any():
            doing |= none[call] & others
    return doing


def _split(
    call: Array, thing: Array, things: list[Charged], kernel: Array, gradients: list[str | None], doing: Array
) -> tuple[Array, Array, list[Charged]]:
    """Separates calls' parts by the names of their kernels; `gradients` is the part's formula that each kernel names.

    Returns each event's piece and descriptions of the pieces. Clears `doing` for kernels without work left.
    """
    parts = [
        [part.formula for part in thing_number.work.parts] if thing_number.work is not None else []
        for thing_number in things
    ]
    pairs, which = distinct_rows(thing, kernel)
    place_of = np.array(
        [_place(parts[thing_number], gradients[k]) for thing_number, k in pairs], np.int64
    )[which]  # fmt: skip
    named = doing & (place_of >= 0)
    by_name = np.zeros(_number(call), np.int64)
    np.bitwise_or.at(by_name, call[named], 1 << place_of[named])
    unnamed = np.bincount(call, weights=doing & (place_of < 0), minlength=len(by_name)) > 0
    kinds, kind = distinct_rows(thing, by_name[call], unnamed[call].astype(np.int64))
    works = [_pieces(things[thing_number], names, bool(others)) for thing_number, names, others in kinds]
    first_piece = np.array([min(work) for work in works], np.int64)[kind]
    takes_rest = np.array([_UNNAMED in work for work in works], bool)[kind]
    divided = by_name[call] > 0
    doing &= ~divided | named | takes_rest
    piece = np.where(named, place_of, np.where(doing, _UNNAMED, first_piece))
    _, number = distinct_rows(call, piece)
    distinct, place = distinct_rows(kind, piece)
    return (
        number,
        place,
        [things[kinds[k][0]]._replace(work=works[k][part], first=part == min(works[k])) for k, part in distinct],
    )


_UNNAMED = 62
"""Number of the piece with the work that no name identifies, after those of parts."""


def _place(parts: list[str], gradient: str | None) -> int:
    return parts.index(gradient) if gradient in parts else -1


def _pieces(charged: Charged, names: int, others: bool) -> dict[int, Work | None]:
    """The work of a call's pieces by number: those in the bits of `names`, and the rest for `others`, unnamed kernels.

    Without these, or if the rest is not a product as they are, the last named part gets it: a bias's gradient and a
    weight's are sums over the same output gradient.
    """
    work = charged.work
    if work is None or not names:
        return {_UNNAMED: work}
    pieces = {place: [part] for place, part in enumerate(work.parts) if names >> place & 1}
    unnamed = [part for place, part in enumerate(work.parts) if place not in pieces]
    if others and any(part.unit == work.unit for part in unnamed):
        pieces[_UNNAMED] = unnamed
    else:
        pieces[max(pieces)] += unnamed
    return {
        place: replace(summed(work.formula, tuple(of_piece)), bound=work.bound, parts=())
        for place, of_piece in pieces.items()
    }


def _shares(piece: Array, duration: Array, doing: Array) -> tuple[Array, Array]:
    """Each event's share of its piece's work by duration (equal if all are 0), and whether others have some of it."""
    pieces = _number(piece)
    several = np.bincount(piece, weights=doing, minlength=pieces)[piece]
    lasted = np.bincount(piece, weights=np.where(doing, duration, 0), minlength=pieces)[piece]
    even = 1.0 / np.maximum(several, 1)
    share = np.where(lasted > 0, duration / np.maximum(lasted, 1), even)
    return np.where(doing, share, 0.0), doing & (several > 1)
