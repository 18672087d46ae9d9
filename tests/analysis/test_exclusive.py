"""Each moment of the device belongs to one event: against counting nanosecond by nanosecond."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.recording import COMMUNICATION, COMPUTATION, COPY
from stepscope.analysis.steps.exclusive import PRECEDENCE, exclusive_shares

SPAN = 24
events = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, 8), st.sampled_from(PRECEDENCE)), max_size=8)
windows = st.lists(st.integers(0, SPAN), max_size=6, unique=True).map(sorted)


def shares(rows, edges):
    start, length, work = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    found = exclusive_shares(
        {"start_ns": start, "end_ns": start + length, "work": work},
        np.array(edges[:-1], np.int64),
        np.array(edges[1:], np.int64),
    )
    summed: dict[tuple[int, int], int] = {}
    for row, window, ns in zip(found.row, found.window, found.ns, strict=True):
        key = int(row), int(window)
        summed[key] = summed.get(key, 0) + int(ns)
    return {key: ns for key, ns in summed.items() if ns}


def test_computation_hides_communication_and_copies_and_what_started_first_hides_the_rest():
    rows = [(0, 10, COMPUTATION), (5, 10, COMPUTATION), (8, 12, COMMUNICATION), (18, 4, COPY)]
    assert shares(rows, [0, 30]) == {(0, 0): 10, (1, 0): 5, (2, 0): 3, (3, 0): 4}


def test_an_event_over_the_edge_of_a_step_has_its_part_in_each():
    assert shares([(5, 10, COPY)], [0, 10, 30]) == {(0, 0): 5, (0, 1): 5}


@examples(80)
@given(events, windows)
def test_every_busy_moment_of_a_window_belongs_to_the_first_in_order(rows, edges):
    if not rows or len(edges) < 2:
        return
    order = sorted(range(len(rows)), key=lambda row: (PRECEDENCE.index(rows[row][2]), rows[row][0], row))
    expected: dict[tuple[int, int], int] = {}
    for window, (low, high) in enumerate(pairwise(edges)):
        for moment in range(low, high):
            running = (row for row in order if rows[row][0] <= moment < sum(rows[row][:2]))
            if (first := next(running, None)) is not None:
                expected[first, window] = expected.get((first, window), 0) + 1
    assert shares(rows, edges) == expected
