"""Ranks are read together as far as their events allow."""

from stepscope.analysis.recording import EVENTS_AT_ONCE, RANKS_AT_ONCE, rank_batches


def of(*ranks):
    return f"rank IN ({', '.join(map(str, ranks))})"


def sources(*events):
    return {"source": [{"rank": rank, "events_read": kept} for rank, kept in enumerate(events)]}


def test_small_ranks_are_read_many_at_a_time(make_scope):
    scope = make_scope(sources(*[10] * (RANKS_AT_ONCE + 2)))
    assert list(rank_batches(scope)) == [of(*range(RANKS_AT_ONCE)), of(RANKS_AT_ONCE, RANKS_AT_ONCE + 1)]


def test_large_ranks_are_read_few_at_a_time_and_one_that_is_too_large_alone(make_scope):
    half = EVENTS_AT_ONCE // 2
    scope = make_scope(sources(half, half, 1, 2 * EVENTS_AT_ONCE, 1))
    assert list(rank_batches(scope)) == [of(0, 1), of(2), of(3), of(4)]
    assert list(rank_batches(scope, [0, 2, 4])) == [of(0, 2, 4)]


def test_what_rank_has_no_file_that_counts_events_is_read_too(make_scope):
    scope = make_scope({"host_event": [{"rank": 5, "name": "a"}]})
    assert list(rank_batches(scope)) == [of(5)]
