import pytest

from stepscope.base.units import bandwidth_text, mean_count_text, ratio_text


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (0.5551, "55.5 %"), (0.0, "0.0 %"), (-0.0, "0.0 %"), (0.0006, "0.1 %"), (0.00049, "0.05 %"),
        (0.0003, "0.03 %"), (-0.0003, "-0.03 %"), (0.00001, "<0.01 %"), (-1e-12, "<0.01 %"), (1.5, "150.0 %"),
        (None, "–"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_a_share_that_is_there_is_never_shown_as_none(ratio, shown):
    assert ratio_text(ratio) == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (1420e9, "1420 GB/s"), (0.25e9, "0.250 GB/s"), (2.4e6, "2.400 MB/s"), (446_400.0, "0.446 MB/s"),
        (446.4, "0.446 kB/s"), (3.0, "3.000 B/s"), (0.0, "0.000 GB/s"), (None, "–"),
    ],
)  # fmt: skip
def test_a_slow_copy_has_a_bandwidth_too(rate, shown):
    assert bandwidth_text(rate) == shown


@pytest.mark.parametrize(
    ("mean", "shown"), [(5 / 48, "0.1"), (2.34, "2.3"), (2.0, "2"), (1.97, "2"), (0.02, "0.02"), (1234.0, "1\u202f234")]
)
def test_a_mean_of_counts_is_shown_to_a_tenth(mean, shown):
    """`0.100 long gaps a step` where there were 0.104."""
    assert mean_count_text(mean) == shown
