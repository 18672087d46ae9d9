"""The host event that launched each device event, and its operator.

A runtime call and the work it launched have the same correlation number. If a device event has none,
the arrow that the recorder drew to it (table `flow`) is followed, and after that the recorder's
number of the operator (`External id`). Correlation and External id are counted separately and
collide, so they are never compared with one another.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats.consecutive import run_starts
from stepscope.link.arrows import read_arrows
from stepscope.link.columns import numbers, places
from stepscope.link.device import Device
from stepscope.link.host import COPY, FILL, GRAPH_LAUNCH, LAUNCH, NOWHERE, OPERATOR, RUNTIME, Host
from stepscope.schema.arrays import Int32s, Int64s

_LAUNCHING = (LAUNCH, GRAPH_LAUNCH, COPY, FILL)


def link_launches(host: Host, device: Device, flow: pa.Table, thread: pa.Table) -> tuple[Int32s, Int32s]:
    """Positions of each device event's launch and of its operator, -1 for none.

    One launch may have many device events (a graph replay), or none.
    """
    launch = np.full(len(device), NOWHERE, dtype=np.int32)
    operator = np.full(len(device), NOWHERE, dtype=np.int32)
    if not len(host) or not len(device):
        return launch, operator
    position = host.positions()
    _by_correlation(host, device, position, launch)
    lost = np.flatnonzero((launch < 0) & device.work)
    if len(lost) and flow.num_rows:
        position_of_arrow = _by_flow(host, device, lost, flow, thread)
        launch[lost] = np.where(
            (position_of_arrow >= 0) & (host.kind[position_of_arrow] == RUNTIME), position_of_arrow, NOWHERE
        )
        operator[lost] = host.operators_at(position_of_arrow)
    lost = np.flatnonzero((launch < 0) & device.work & (device.external_id > 0))
    _by_external_id(host, device, position, lost, launch)
    operator = np.where(launch >= 0, host.operators_at(launch), operator)
    _operators_by_external_id(host, device, position, operator)
    return launch, operator


def _by_correlation(host: Host, device: Device, position: Int32s, launch: Int32s) -> None:
    correlation = numbers(host.table, "correlation")
    rows = np.flatnonzero(correlation > 0)
    place, correlation = position[rows], correlation[rows]
    # A driver call within a runtime call, or an operator in old traces, may have the number too.
    merit = np.where(host.kind[place] == RUNTIME, 1, 2)
    merit[np.isin(host.role[place], _LAUNCHING)] = 0
    order = np.lexsort((host.start[place], merit, correlation))
    place, correlation, merit = place[order], correlation[order], merit[order]
    if not len(place):
        return
    first = np.flatnonzero(run_starts(correlation))
    group = places(correlation[first], device.correlation)
    linked = np.flatnonzero(group >= 0)
    group = group[linked]
    launch[linked] = place[first[group]]
    # If numbers restarted (another process, another cycle): the latest call before the event.
    best = np.add.reduceat(
        (merit == np.repeat(merit[first], np.diff(np.append(first, len(merit))))).astype(np.int64), first
    )
    several = np.flatnonzero(best[group] > 1)
    if len(several):
        start = host.start[place]
        ahead = _started_calls(first, best, start, group[several], device.start[linked[several]])
        launch[linked[several]] = place[first[group[several]] + np.maximum(ahead - 1, 0)]


def _started_calls(first: Int64s, count: Int64s, start: Int64s, group: Int64s, moment: Int64s) -> Int64s:
    """For each (group, moment), how many of the group's calls have started by then.

    The calls of group `g` are `count[g]` from `first[g]` on, in order of `start`. They are sorted together instead of
    compared with each other: a file may give all its calls one number.
    """
    groups = np.unique(group)
    calls = count[groups]
    before = np.cumsum(calls) - calls
    of_call = np.repeat(groups, calls)
    place = np.arange(len(of_call)) - np.repeat(before, calls) + first[of_call]
    is_asked = np.arange(len(of_call) + len(group)) >= len(of_call)
    moments = np.concatenate((start[place], moment))
    order = np.lexsort((is_asked, moments, np.concatenate((of_call, group))))
    started = np.empty(len(order), dtype=np.int64)
    started[order] = np.cumsum(~is_asked[order])
    return started[len(of_call) :] - before[np.searchsorted(groups, group)]


_NUMBER = re.compile(r"-?\d{1,18}")


def _number_in(text: str) -> int:
    """The first number of a text (`stream 7` → 7), or -1."""
    match = _NUMBER.search(text)
    return int(match.group()) if match else -1


def _by_flow(host: Host, device: Device, lost: NDArray[np.int64], flow: pa.Table, thread: pa.Table) -> Int32s:
    """The host event in which the arrow to a device event starts."""
    arrows = read_arrows(flow, "launch", thread)
    device_of = np.array([_number_in(text) for text in arrows.pids], dtype=np.int64)
    stream_of = np.array([_number_in(text) for text in arrows.tids], dtype=np.int64)
    arrow = _event_at(
        (device_of[arrows.end_pid], stream_of[arrows.end_tid], arrows.end_ns),
        (device.device[lost], device.stream[lost], device.start[lost]),
    )
    result = np.full(len(lost), NOWHERE, dtype=np.int32)
    hit = np.flatnonzero(arrow >= 0)
    arrow = arrow[hit]
    result[hit] = host.innermost(arrows.start_thread[arrow], arrows.start_ns[arrow])
    return result


def _event_at(events: tuple[Int64s, ...], queries: tuple[NDArray[Any], ...]) -> Int64s:
    """For each asked (device, stream, time) the index of the last event that has them, or -1."""
    columns = [np.concatenate(pair) for pair in zip(events, queries, strict=True)]
    order = np.lexsort(columns)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(run_starts(*(column[order] for column in columns)))
    count = len(events[0])
    index = np.full(len(order) + 1, -1, dtype=np.int64)
    index[number[:count]] = np.arange(count)
    return index[number[count:]]


def _by_external_id(host: Host, device: Device, position: Int32s, lost: NDArray[np.int64], launch: Int32s) -> None:
    """Links the n-th device event of a number to the n-th launch of it, if their counts agree."""
    lost = lost[device.correlation[lost] == 0]
    if not len(lost):
        return
    external_id = numbers(host.table, "external_id")
    rows = np.flatnonzero(external_id > 0)
    place = position[rows]
    launching = np.isin(host.role[place], _LAUNCHING)
    place, external_id = place[launching], external_id[rows[launching]]
    calls = np.lexsort((host.start[place], external_id))
    events = lost[np.lexsort((device.start[lost], device.external_id[lost]))]
    numbers_called, calls_of = np.unique(external_id, return_counts=True)
    numbers_run, runs_of = np.unique(device.external_id[events], return_counts=True)
    at = places(numbers_called, numbers_run)
    agree = (at >= 0) & (np.append(calls_of, 0)[at] == runs_of)
    chosen_events = events[np.repeat(agree, runs_of)]
    is_chosen = np.zeros(len(numbers_called), dtype=bool)
    is_chosen[at[agree]] = True
    chosen_calls = calls[np.repeat(is_chosen, calls_of)]
    launch[chosen_events] = place[chosen_calls]


def _operators_by_external_id(host: Host, device: Device, position: Int32s, operator: Int32s) -> None:
    """Fills in operators for work whose launch is in none: in old traces, or if launches were lost."""
    lost = np.flatnonzero((operator < 0) & device.work & (device.external_id > 0))
    if not len(lost):
        return
    external_id = numbers(host.table, "external_id")
    rows = np.flatnonzero(external_id > 0)
    place = position[rows]
    is_operator = host.kind[place] == OPERATOR
    place, external_id = place[is_operator], external_id[rows[is_operator]]
    order = np.argsort(external_id, kind="stable")
    at = places(external_id[order], device.external_id[lost])
    operator[lost] = np.append(place[order], NOWHERE)[at]
