"""Nesting against a search over all pairs of events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.nesting import nest

OUTER, INNER = 1, 2

event = st.tuples(
    st.integers(0, 2),  # thread
    st.integers(0, 30),  # start
    st.integers(0, 12),  # duration
    st.integers(0, 3),  # rank of the kind
)
events = st.lists(event, max_size=25)


def nested(rows):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return nest(columns[0].astype(np.int32), columns[1], columns[2], columns[3].astype(np.int8))


def parents_by_row(nesting):
    rows = nesting.row.tolist()
    return {
        row: rows[parent] if parent >= 0 else None for row, parent in zip(rows, nesting.parent.tolist(), strict=True)
    }


def parent_by_search(rows, row):
    """The innermost event that encloses `row`: the last in order of which it lies within."""
    order = sorted(range(len(rows)), key=lambda r: (rows[r][0], rows[r][1], -rows[r][2], rows[r][3], r))
    thread, start, dur, rank = rows[row]
    best = None
    for other in order[: order.index(row)]:
        other_thread, other_start, other_dur, other_rank = rows[other]
        if other_thread != thread or other_start + other_dur < start + dur:
            continue
        touches = dur == 0 and other_start + other_dur == start
        if not touches or other_rank < rank:
            best = other
    return best


def far_apart(rows):
    """The same events with 100 ns for each ns, so that no two ends are taken for equal."""
    return [(thread, 100 * start, 100 * dur, rank) for thread, start, dur, rank in rows]


@examples(60)
@given(events)
def test_parent_is_the_innermost_event_that_encloses_wholly(rows):
    rows = far_apart(rows)
    assert parents_by_row(nested(rows)) == {row: parent_by_search(rows, row) for row in range(len(rows))}


@examples(60)
@given(events)
def test_depth_and_self_time_follow_from_the_parents(rows):
    rows = far_apart(rows)
    nesting = nested(rows)
    parents = parents_by_row(nesting)
    for position, row in enumerate(nesting.row.tolist()):
        depth, above = 0, parents[row]
        while above is not None:
            depth, above = depth + 1, parents[above]
        assert nesting.depth[position] == depth
        children = [rows[child] for child, parent in parents.items() if parent == row]
        covered = {t for _, start, dur, _ in children for t in range(start, start + dur)}
        assert nesting.self_ns[position] == rows[row][2] - len(covered)


@examples(60)
@given(events, st.sampled_from([1, 10, 1000]))
def test_no_event_is_lost_and_no_self_time_negative_whatever_crosses(rows, resolution_ns):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    nesting = nest(columns[0], columns[1], columns[2], columns[3], resolution_ns=resolution_ns)
    assert sorted(nesting.row.tolist()) == list(range(len(rows)))
    assert (nesting.self_ns >= 0).all()
    assert (nesting.parent < np.arange(len(rows))).all()


@examples(60)
@given(events, st.sampled_from([1, 5, 1000]))
def test_child_exceeds_its_parent_by_no_more_than_times_may_be_off(rows, resolution_ns):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    nesting = nest(columns[0], columns[1], columns[2], columns[3], resolution_ns=resolution_ns)
    slack_ns = max(resolution_ns, 2)
    for row, parent in parents_by_row(nesting).items():
        if parent is not None:
            thread, start, dur, _ = rows[row]
            outer_thread, outer_start, outer_dur, _ = rows[parent]
            assert thread == outer_thread
            assert start >= outer_start - slack_ns
            assert start + dur <= outer_start + outer_dur + slack_ns


@examples(30)
@given(events, st.lists(st.integers(0, 9), min_size=25, max_size=25))
def test_values_go_down_to_the_nearest_and_sums_go_up(rows, values):
    nesting = nested(far_apart(rows))
    count = len(rows)
    own = np.array(values[:count], dtype=np.int64)
    given_ = np.where(own % 3 == 0, -1, own)
    inherited = nesting.inherit(given_.copy())
    sums = nesting.sum_up(own.copy())
    flags = nesting.spread_up(own > 7)
    for position in range(count):
        path = [position]
        while nesting.parent[path[-1]] >= 0:
            path.append(int(nesting.parent[path[-1]]))
        assert inherited[position] == next((given_[p] for p in path if given_[p] != -1), -1)
    for position in range(count):
        below = [p for p in range(count) if position in _path(nesting, p)]
        assert sums[position] == own[below].sum()
        assert flags[position] == (own[below] > 7).any()


def _path(nesting, position):
    path = [position]
    while nesting.parent[path[-1]] >= 0:
        path.append(int(nesting.parent[path[-1]]))
    return path


@pytest.mark.parametrize(("child_end", "parent"), [(1000, 0), (1002, 0), (1003, None)], ids=["equal", "2 ns", "3 ns"])
def test_end_that_is_two_nanoseconds_late_still_nests(child_end, parent):
    nesting = nested([(0, 0, 1000, 0), (0, 500, child_end - 500, 1)])
    assert parents_by_row(nesting)[1] == parent
    assert (nesting.self_ns >= 0).all()


def test_range_that_begins_a_nanosecond_late_still_encloses():
    # Kineto writes a range 1 ns after the operator that it encloses.
    nesting = nested([(0, 1000, 50, INNER), (0, 1001, 500, OUTER), (0, 1000, 20, INNER + 1)])
    assert parents_by_row(nesting) == {0: 1, 1: None, 2: 0}


def test_whole_microseconds_may_cut_a_parent_one_short():
    # 10.9 to 20.1 and 11.0 to 20.05 µs, cut to whole microseconds: 10 + 9 and 11 + 9.
    rows = np.array([10_000, 11_000]), np.array([9_000, 9_000])
    nesting = nest(np.zeros(2, np.int32), *rows, np.array([1, 2]), resolution_ns=1000)
    assert parents_by_row(nesting) == {0: None, 1: 0}
    assert nesting.self_ns.tolist() == [1_000, 9_000]


def test_mended_end_takes_along_what_lies_below():
    # The grandchild ends with the child, 2 ns after the parent.
    nesting = nested([(0, 0, 1000, 0), (0, 500, 502, 1), (0, 700, 302, 2)])
    assert parents_by_row(nesting) == {0: None, 1: 0, 2: 1}


def test_call_stack_deeper_than_sixteen_bits_nests():
    count = 40_000
    start = np.arange(count, dtype=np.int64)
    dur = 2 * (count - start) * 10
    nesting = nest(np.zeros(count, np.int32), start * 10, dur, np.zeros(count, np.int8))
    assert nesting.depth[-1] == count - 1


def test_times_too_far_apart_for_one_sort_key_nest_too():
    far = 1 << 61
    nesting = nested([(7, 0, 10, 0), (7, far, 10, 0), (7, far, 5, 0)])
    assert parents_by_row(nesting) == {0: None, 1: None, 2: 1}


def test_no_events_nest_to_nothing():
    assert len(nested([])) == 0
