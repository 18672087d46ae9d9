"""Forward, backward and optimizer: which part of training each host event belongs to.

A forward operator that records a node of the autograd graph and the backward that runs the node have one sequence
number. Numbers are counted per thread, and the backward names its forward thread by a number of autograd's own, which
no row of the forward repeats; it is taken to be the thread on which most of its backward rows find an operator with
their number. Of the operators with that number the forward is the last one to start before the backward, because those
that record nothing do not increase the count. Arrows that the recorder drew (`fwdbwd`) replace missing numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.link.arrows import read_arrows
from stepscope.link.columns import numbers, places
from stepscope.link.host import BACKWARD, DATALOADER, NOWHERE, OPERATOR, OPTIMIZER, STEP, ZERO_GRAD, Host
from stepscope.schema.arrays import Int32s, Int64s

Directions = NDArray[np.int8]

NO_DIRECTION, FORWARD, BACKWARD_PASS, OPTIMIZER_PASS = -1, 0, 1, 2
_MAX_THREADS = 256
"""Forward threads that are distinguished; only damaged numbers are more."""
DIRECTIONS = ("forward", "backward", "optimizer")


def link_backward(host: Host, flow: pa.Table, thread: pa.Table) -> Int32s:
    """Position of the forward operator of each backward one, -1 for none."""
    forward = np.full(len(host), NOWHERE, dtype=np.int32)
    _by_sequence(host, forward)
    if flow.num_rows:
        _by_flow(host, flow, thread, forward)
    return forward


def _by_sequence(host: Host, forward: Int32s) -> None:
    sequence = numbers(host.table, "sequence_number", missing=-1)
    rows = np.flatnonzero(sequence >= 0)
    if not len(rows):
        return
    sequence = sequence[rows]
    forward_thread = numbers(host.table, "forward_thread")[rows]
    place = host.positions()[rows]
    is_backward = forward_thread > 0
    if not is_backward.any():  # the recorder names no forward thread
        is_backward = host.role[place] == BACKWARD
    is_forward = (forward_thread == 0) & (host.kind[place] == OPERATOR)
    is_forward &= host.role[place] != BACKWARD
    back, back_sequence = place[is_backward], sequence[is_backward]
    back_thread = forward_thread[is_backward]
    numbers_of_backward = np.unique(back_sequence)
    ahead, ahead_sequence = place[is_forward], sequence[is_forward]
    at = places(numbers_of_backward, ahead_sequence)
    ahead, at = ahead[at >= 0], at[at >= 0]
    ahead_thread = host.thread_of(ahead)
    threads = np.unique(ahead_thread)
    group = np.searchsorted(numbers_of_backward, back_sequence)
    names, counts = np.unique(back_thread, return_counts=True)
    for number in names[np.argsort(-counts, kind="stable")][:_MAX_THREADS]:
        mine = np.flatnonzero(back_thread == number)
        best = np.full(len(mine), NOWHERE, dtype=np.int32)
        for candidate in threads:
            on_thread = np.flatnonzero(ahead_thread == candidate)
            candidates = _last_before(at[on_thread], host.start[ahead[on_thread]], group[mine], host.start[back[mine]])
            if (candidates >= 0).sum() > (best >= 0).sum():
                best = np.where(candidates >= 0, ahead[on_thread][candidates], NOWHERE).astype(np.int32)
        forward[back[mine]] = best


def _last_before(
    group: NDArray[np.int64], time: Int64s, asked_group: NDArray[np.int64], asked_time: Int64s
) -> NDArray[np.int64]:
    """For each asked (group, time) the index of the last entry of the group before it, or -1."""
    count = len(group)
    order = np.lexsort(
        (
            np.concatenate([np.ones(count, np.int8), np.zeros(len(asked_group), np.int8)]),
            np.concatenate([time, asked_time]),
            np.concatenate([group, asked_group]),
        )
    )
    ranks = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(order < count, ranks, -1))
    is_query = order >= count
    result = np.full(len(asked_group), -1, dtype=np.int64)
    hit = latest[is_query]
    index = np.where(hit >= 0, order[hit], -1)
    result[order[is_query] - count] = index
    if count:
        result[(result >= 0) & (group[result] != asked_group)] = -1
    return result


def _by_flow(host: Host, flow: pa.Table, thread: pa.Table, forward: Int32s) -> None:
    """Follows the arrows from forward operators to backward ones that have no forward yet."""
    arrows = read_arrows(flow, "fwdbwd", thread)
    origin = host.operators_at(host.innermost(arrows.start_thread, arrows.start_ns))
    target = host.operators_at(host.innermost(arrows.end_thread, arrows.end_ns))
    good = (origin >= 0) & (target >= 0)
    origin, target = origin[good], target[good]
    new = (forward[target] < 0) & (host.start[origin] < host.start[target])
    origin, target = origin[new], target[new]
    forward[target] = origin
    above = host.nesting.parent[target]
    outer = (above >= 0) & (host.role[above] == BACKWARD) & (forward[above] < 0)
    forward[above[outer]] = origin[outer]


def find_directions(host: Host, forward: Int32s, names_module: NDArray[np.bool_]) -> Directions:
    """The direction of each position: FORWARD, BACKWARD_PASS, OPTIMIZER_PASS or NO_DIRECTION.

    Backward and optimizer are what their ranges enclose. Forward are: operators with a backward, all
    operators that enclose them, and all that they enclose; what names a module; and operators between
    two of these on their thread, with no step, data loader, backward or optimizer between them. The
    same goes for operators between two of the backward.
    """
    direction = np.full(len(host), NO_DIRECTION, dtype=np.int8)
    differentiated = forward[forward >= 0]
    modules = np.flatnonzero(names_module).astype(np.int32)
    direction[(host.role == OPTIMIZER) | (host.role == ZERO_GRAD)] = OPTIMIZER_PASS
    direction[(host.role == BACKWARD) | (forward >= 0)] = BACKWARD_PASS
    # A module within backward recomputes its forward: that is part of the backward.
    enclosing = host.climb(modules, direction != NO_DIRECTION)
    direction[modules[enclosing < 0]] = FORWARD
    if not (direction != NO_DIRECTION).any():
        return direction
    host.nesting.inherit(direction, NO_DIRECTION)
    if len(differentiated):
        ahead = np.zeros(len(host), dtype=bool)
        ahead[differentiated] = True
        host.nesting.spread_up(ahead)
        ahead &= (host.kind == OPERATOR) & (direction == NO_DIRECTION)
        direction[ahead] = FORWARD
        host.nesting.inherit(direction, NO_DIRECTION)
    if _fill_between(host, direction):
        host.nesting.inherit(direction, NO_DIRECTION)
    return direction


_BREAK = 9


def _fill_between(host: Host, direction: Directions) -> bool:
    """Decides operators between two of one direction; returns whether there were any.

    On a thread that runs only backward (autograd's own), also those after the last.
    """
    operators = host.kind == OPERATOR
    if not (direction[operators] == NO_DIRECTION).any():
        return False
    breaks = np.isin(host.role, (STEP, DATALOADER, OPTIMIZER, ZERO_GRAD))
    place = np.flatnonzero(operators | breaks).astype(np.int32)
    decided = direction[place]
    decided[breaks[place]] = _BREAK
    thread = np.searchsorted(host.thread_start, place, side="right").astype(np.int32)
    index = np.arange(len(place), dtype=np.int32)
    is_known = decided != NO_DIRECTION
    mixed = np.zeros(len(host.thread_start) + 1, dtype=bool)
    mixed[thread[is_known & (decided != BACKWARD_PASS)]] = True
    before = np.maximum.accumulate(np.where(is_known, index, -1))
    after = np.minimum.accumulate(np.where(is_known, index, len(place))[::-1])[::-1]
    open_ = np.flatnonzero(~is_known & (before >= 0))
    open_ = open_[thread[before[open_]] == thread[open_]]
    low, high = decided[before[open_]], np.append(decided, _BREAK)[after[open_]]
    high[np.append(thread, -1)[after[open_]] != thread[open_]] = _BREAK
    same = (low == high) & ((low == FORWARD) | (low == BACKWARD_PASS))
    same |= (low == BACKWARD_PASS) & ~mixed[thread[open_]]
    direction[place[open_[same]]] = low[same]
    return bool(same.any())
