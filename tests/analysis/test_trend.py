"""A robust slope and its interval."""

import numpy as np
import pytest

from stepscope.analysis.trend import ENOUGH, find_trend


def test_a_line_has_its_own_slope_and_no_width() -> None:
    trend = find_trend(range(0, 300, 3), [2 * time for time in range(0, 300, 3)])
    assert (trend.change, trend.low, trend.high) == pytest.approx((594, 594, 594))
    assert trend.sure


def test_wild_values_do_not_turn_it() -> None:
    values = [100.0 + place for place in range(30)]
    values[3] = values[4] = 5_000.0
    trend = find_trend(range(30), values)
    assert trend.change == pytest.approx(29.0, rel=0.05)


def test_few_values_have_no_trend() -> None:
    assert find_trend(range(ENOUGH - 1), range(ENOUGH - 1)) is None
    assert find_trend([5] * ENOUGH, range(ENOUGH)) is None


@pytest.mark.parametrize("count", [10, 30, 1_000])
def test_noise_alone_is_seldom_sure(count: int) -> None:
    noise = np.random.default_rng(1)
    found = [find_trend(range(count), noise.normal(100, 5, count)) for _ in range(100)]
    assert sum(trend is not None and trend.sure for trend in found) <= 10


def test_a_drift_within_the_noise_of_single_values_is_found_in_many() -> None:
    noise = np.random.default_rng(1)
    trend = find_trend(range(300), noise.normal(100, 5, 300) + np.linspace(0, 6, 300))
    assert trend.low < 6 < trend.high
    assert trend.sure
