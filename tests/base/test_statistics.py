"""What a list of times amounts to."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.statistics import describe, median_interval, overhead, quantile, student_t


def test_five_times_described() -> None:
    found = describe([10, 12, 11, 13, 14])
    assert found is not None
    assert (found.n, found.mean, found.median) == (5, 12.0, 12.0)
    assert found.std == pytest.approx(math.sqrt(2.5))
    assert found.p5 == pytest.approx(10.2)
    assert found.p95 == pytest.approx(13.8)
    # 12 ± 2.776 · 1.5811 / √5
    assert found.ci95_low == pytest.approx(12 - 1.963, abs=1e-3)
    assert found.ci95_high == pytest.approx(12 + 1.963, abs=1e-3)
    assert found.stable is False


def test_no_times_have_no_statistics_and_one_has_no_spread() -> None:
    assert describe([]) is None
    one = describe([7])
    assert one is not None
    assert (one.mean, one.std, one.ci95_low, one.stable) == (7.0, None, None, None)


def test_a_relative_deviation_below_2_per_cent_is_stable() -> None:
    steady = describe([100, 101, 99, 100])
    assert steady is not None
    assert steady.stable is True


@pytest.mark.parametrize(
    ("degrees", "point"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (120, 1.9799)],
)
def test_points_of_students_distribution_are_those_of_tables(degrees: int, point: float) -> None:
    assert student_t(degrees) == pytest.approx(point, abs=1e-4)


def test_points_between_whole_degrees_of_freedom_lie_between_theirs() -> None:
    assert student_t(1) > student_t(1.5) > student_t(2)
    assert student_t(1e9) == pytest.approx(1.96, abs=0.005)


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0


def test_six_values_are_the_fewest_with_an_interval_of_the_median() -> None:
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([1, 2, 3, 4, 5, 6]) == (1, 6)


@pytest.mark.parametrize(("n", "low", "high"), [(9, 2, 8), (20, 6, 15), (100, 40, 61)])
def test_the_median_interval_has_the_ranks_of_the_sign_test(n: int, low: int, high: int) -> None:
    assert median_interval(list(range(1, n + 1))) == (low, high)


@examples(40)
@given(st.integers(6, 500))
def test_the_median_interval_holds_95_per_cent(n: int) -> None:
    interval = median_interval(list(range(n)))
    assert interval is not None
    below = int(interval[0])
    outside = 2 * sum(math.comb(n, k) for k in range(below + 1)) / 2**n
    assert outside <= 0.0502  # above 400 the ranks come from the normal distribution


def test_overhead_is_armed_minus_the_unarmed_beside_it_whatever_the_drift() -> None:
    # The job gets slower by 1 per iteration; measuring costs 3.
    iterations = [(index, index % 3 > 0, 1000 + index + 3 * (index % 3 > 0)) for index in range(1, 62)]
    found = overhead(iterations)
    assert found.pairs == 20
    assert (found.median_ns, found.ci95_low_ns, found.ci95_high_ns) == (3.0, 2.0, 4.0)
    assert found.ratio == pytest.approx(3 / 1031.5)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_the_interval_of_overhead_holds_the_truth_where_times_are_skewed(every: int) -> None:
    """Now and then an iteration takes three times as long, as in real jobs; measuring costs 5."""
    random = Random(1)  # noqa: S311 - made-up times, the same each run
    held = 0
    for _ in range(100):
        iterations = [
            (index, armed, round(1000 + 300 * random.lognormvariate(0, 1)) + 5 * armed)
            for index, armed in ((index, index % (every + 1) > 0) for index in range(150 * (every + 1)))
        ]
        found = overhead(iterations)
        assert found.ci95_low_ns is not None
        assert found.ci95_high_ns is not None
        held += found.ci95_low_ns <= 5 <= found.ci95_high_ns
    assert held >= 88  # of 95 expected; a mean of both neighbours held it in about 70


def test_no_armed_iteration_is_used_twice() -> None:
    found = overhead([(index, index % 2 == 0, 100 + index) for index in range(13)])
    assert found.pairs == 4


def test_iterations_far_apart_are_no_neighbours() -> None:
    """Every second one was left out of a long run, or an epoch started between them."""
    pairs = [(index, index % 2 == 0, 100 + index % 2) for index in range(40)]
    apart = [(10 * number, armed, time_ns) for number, armed, time_ns in pairs]
    assert (overhead(pairs).pairs, overhead(apart).pairs) == (14, 0)


def test_overhead_of_too_few_pairs_is_not_measured() -> None:
    found = overhead([(0, True, 10), (1, False, 9), (2, True, 10)])
    assert (found.pairs, found.median_ns, found.ratio) == (1, None, None)
