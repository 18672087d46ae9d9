"""Interval arithmetic against counting nanosecond by nanosecond."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.link.intervals import (
    Intervals,
    clip,
    concurrencies,
    concurrency,
    covered,
    gaps,
    integral,
    intersect,
    split,
    subtract,
    total,
    union,
)

SPAN = 40

pairs = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(lambda p: (min(p), max(p))), max_size=8)


def arrays(intervals):
    both = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def moments(intervals):
    """The set of nanoseconds covered: the oracle."""
    return {t for start, end in intervals for t in range(start, end)}


def moments_of(intervals: Intervals):
    return moments(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


def is_merged(intervals: Intervals):
    return bool((intervals.start < intervals.end).all() and (intervals.start[1:] > intervals.end[:-1]).all())


@examples(60)
@given(pairs)
def test_union_covers_each_moment_once(one):
    merged = union(*arrays(one))
    assert moments_of(merged) == moments(one)
    assert is_merged(merged)
    assert total(merged) == len(moments(one))


@examples(60)
@given(pairs, pairs)
def test_intersection_and_difference_match_counted_moments(one, other):
    a, b = union(*arrays(one)), union(*arrays(other))
    assert moments_of(intersect(a, b)) == moments(one) & moments(other)
    assert moments_of(subtract(a, b)) == moments(one) - moments(other)
    assert is_merged(subtract(a, b))


@examples(60)
@given(pairs, st.integers(0, SPAN), st.integers(0, SPAN))
def test_gaps_and_clip_part_a_window_in_two(one, x, y):
    start, end = min(x, y), max(x, y)
    merged = union(*arrays(one))
    window = set(range(start, end))
    assert moments_of(clip(merged, start, end)) == moments(one) & window
    assert moments_of(gaps(merged, start, end)) == window - moments(one)


@examples(60)
@given(pairs, pairs)
def test_covered_counts_each_window_on_its_own(one, windows):
    got = covered(union(*arrays(one)), *arrays(windows)).tolist()
    assert got == [len(moments(one) & set(range(s, e))) for s, e in windows]


@examples(60)
@given(st.lists(pairs, max_size=4), pairs)
def test_split_gives_each_moment_to_the_first_layer_that_covers_it(layers, windows):
    parts = split(*arrays(windows), [union(*arrays(layer)) for layer in layers])
    for row, (start, end) in zip(parts.tolist(), windows, strict=True):
        left = set(range(start, end))
        expected = []
        for layer in layers:
            expected.append(len(left & moments(layer)))
            left -= moments(layer)
        assert row == [*expected, len(left)]
        assert sum(row) == end - start


def test_layer_that_consumes_everything_leaves_nothing_for_the_later_ones():
    kernel, copy, runtime = union([0], [100]), union([20], [50]), union([0], [10])
    assert split([0], [100], [kernel, copy, runtime]).tolist() == [[100, 0, 0, 0]]


@examples(60)
@given(pairs, pairs)
def test_concurrency_counts_what_runs_at_each_moment(one, windows):
    levels = concurrency(*arrays(one))
    running = [sum(s <= t < e for s, e in one) for t in range(SPAN + 1)]
    for t in range(SPAN + 1):
        held = np.searchsorted(levels.time, t, side="right") - 1
        assert (levels.value[held] if held >= 0 else 0) == running[t]
    assert integral(levels, *arrays(windows)).tolist() == [sum(running[s:e]) for s, e in windows]


@given(pairs)
def test_weights_measured_together_are_those_measured_alone(one):
    weights = [[0.1 * (i % 7) for i in range(len(one))], [0.3] * len(one)]
    together = concurrencies(*arrays(one), weights)
    for found, weight in zip(together, weights, strict=True):
        alone = concurrency(*arrays(one), weight)
        assert found.time.tolist() == alone.time.tolist()
        assert found.value.tolist() == alone.value.tolist()


def test_float_weights_leave_nothing_after_the_last_end():
    levels = concurrency([0, 1, 2], [3, 5, 7], [0.1, 0.2, 0.3])
    assert levels.value[-1] == 0.0
    assert levels.value[2] == pytest.approx(0.6)


def test_capped_concurrency_integrates_to_estimated_sm_efficiency():
    # Two kernels of 0.75 blocks per SM each: alone 0.75, together the device is full, not 1.5 full.
    levels = concurrency([0, 50], [100, 150], [0.75, 0.75])
    capped = type(levels)(levels.time, np.minimum(levels.value, 1.0))
    assert integral(capped, [0], [150])[0] == pytest.approx(50 * 0.75 + 50 + 50 * 0.75)


def test_touching_intervals_become_one_and_empty_ones_none():
    merged = union([0, 5, 9], [5, 7, 9])
    assert (merged.start.tolist(), merged.end.tolist()) == ([0], [7])


def test_nothing_at_all_is_legal_everywhere():
    nothing = union([], [])
    assert total(nothing) == 0
    assert len(intersect(nothing, nothing)) == len(subtract(nothing, union([1], [2]))) == 0
    assert covered(nothing, [0], [9]).tolist() == [0]
    assert gaps(nothing, 3, 8).start.tolist() == [3]
    assert split([0], [9], []).tolist() == [[9]]
    assert integral(concurrency([], []), [0], [9]).tolist() == [0]


def test_epoch_nanoseconds_stay_exact():
    start = 1_778_655_624_745_710_848
    assert total(union([start, start + 1], [start + 2, start + 3])) == 3
