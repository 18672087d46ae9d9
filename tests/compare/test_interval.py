import math

import pytest

from stepscope.base.statistics import student_t
from stepscope.compare.interval import RankMean, interval_of_change, over_ranks


def _timing(*ranks):
    return over_ranks([RankMean.of(samples) for samples in ranks])


def test_welchs_interval_of_a_worked_example():
    """Means 20 and 30, variances 4 and 16 of 4 samples each: error √5, degrees 25 / (17 / 3)."""
    before, after = _timing([18, 20, 20, 22]), _timing([26, 28, 32, 34])
    low, high = interval_of_change(before, after)
    error = math.sqrt(8 / 3 / 4 + 40 / 3 / 4)
    degrees = (8 / 3 + 40 / 3) ** 2 / (((8 / 3) ** 2 + (40 / 3) ** 2) / 3)
    assert (low + high) / 2 == pytest.approx(10)
    assert (high - low) / 2 == pytest.approx(student_t(degrees) * error)
    assert 2.4 < student_t(degrees) < 2.8


def test_one_sample_of_a_rank_is_too_few_for_an_interval():
    assert interval_of_change(_timing([5, 6, 7], [5]), _timing([5, 6, 7])) is None
    assert interval_of_change(_timing([5, 6, 7]), _timing([5])) is None


def test_samples_that_are_all_alike_have_an_interval_of_no_width():
    assert interval_of_change(_timing([5, 5]), _timing([7, 7])) == (2.0, 2.0)


def test_more_ranks_do_not_narrow_the_interval():
    """They wait for one another: what slows one of them down slows all."""
    one, two = _timing([10, 12]), _timing([10, 12], [10, 12])
    assert one.error_ns == two.error_ns
    assert one.degrees == two.degrees == 1


def test_each_rank_counts_alike_however_many_steps_it_has():
    assert _timing([10, 10, 10, 10], [20, 20]).mean_ns == 15


def test_steps_without_a_part_took_no_time():
    rank = RankMean.of([6, 6], steps=4)
    assert (rank.mean_ns, rank.samples) == (3, 4)
    assert rank.std_ns == pytest.approx(math.sqrt(12))
