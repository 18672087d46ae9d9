"""However many measurements there are, a bounded number is kept, and statistics are of all."""

import math
import random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.statistics import describe, overhead, quantile
from stepscope.record.budget import UntimedBlock
from stepscope.record.inline.events import MAX_ITERATIONS, MAX_SAMPLES, Iterations, Samples


def test_statistics_are_of_all_measurements_and_percentiles_of_evenly_spaced_ones() -> None:
    """One that stands for k iterations counts k times: a hundred at first for themselves alone, then seldomer ones."""
    drawn = random.Random(3)  # noqa: S311 - made-up times
    times = [drawn.randrange(10**9, 2 * 10**9) // (1 + place // 1000) for place in range(5000)]
    weights = [1] * 100 + [drawn.choice([16, 64]) for _ in times[100:]]
    samples = Samples()
    for number, (time_ns, weight) in enumerate(zip(times, weights, strict=True)):
        samples.measured(number, time_ns, 7, weight)
    assert len(samples.rows) <= MAX_SAMPLES
    found, expected = samples.statistics(), describe(times, weights)
    assert found is not None
    assert expected is not None
    for name in ("n", "mean", "std", "ci95_low", "ci95_high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
    assert found.median == pytest.approx(expected.median, rel=0.05)
    assert samples.totals[2] == samples.weight * 7
    repeated = [time for time, weight in zip(times, weights, strict=True) for _ in range(weight)]
    assert found.mean == pytest.approx(fmean(repeated))
    assert expected.median == quantile(sorted(repeated), 0.5)
    # A measurement is one, whatever it stands for: an interval as of all that they stand for would be too narrow.
    assert found.std == pytest.approx(stdev(repeated), rel=0.001)
    assert found.ci95_high - found.mean > 6 * 1.96 * stdev(repeated) / math.sqrt(len(repeated))


def test_a_copy_does_not_change_with_what_is_measured_later() -> None:
    samples, iterations = Samples(), Iterations()
    samples.measured(0, 5, 1, 2)
    iterations.add((0, True, 9, 2, 18), {})
    kept, kept_iterations = samples.copy(), iterations.copy(UntimedBlock())
    samples.measured(1, 6, 1, 2)
    iterations.add((1, True, 9, 2, 18), {})
    assert (kept.rows, kept.totals, kept.sums.n) == ([(0, 5, 1, 2)], [0, 10, 2, 4], 1)
    assert (kept_iterations.rows, kept_iterations.armed.n) == ([(0, True, 9, 2, 18)], 1)


def test_of_a_long_run_neighbouring_iterations_are_kept_together() -> None:
    """Measuring costs 3; the job becomes slower all the time, so that only neighbours show it."""
    iterations = Iterations()
    for number in range(50_000):
        armed = number % 5 > 0
        time_ns = 1000 + number + 3 * armed
        iterations.add((number, armed, time_ns, 1, time_ns), {"samples": number})
    assert len(iterations.rows) < MAX_ITERATIONS
    assert (iterations.unarmed.n, iterations.armed.n) == (10_000, 40_000)
    assert [row[0] for row in iterations.rows] == [own["samples"] for own in iterations.values]
    assert iterations.rows[-1][0] > 45_000
    assert overhead([row[:3] for row in iterations.rows]).median_ns in (2.0, 3.0, 4.0)


@examples(40)
@given(
    blocks=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 10**12)), min_size=1, max_size=60),
    armed=st.integers(0, 3),
    since=st.tuples(st.integers(0, 5), st.integers(0, 10**12)),
)
def test_the_mean_iteration_is_that_of_all_however_few_are_timed(
    blocks: list[tuple[int, int]], armed: int, since: tuple[int, int]
) -> None:
    """A block is iterations, of which the last was timed, and what they took; what came after the last is in it, too."""
    iterations, between = Iterations(), UntimedBlock()
    for number, (weight, together_ns) in enumerate(blocks):
        iterations.add((number, number % 4 < armed, together_ns // weight, weight, together_ns), {})
    unarmed = [block for number, block in enumerate(blocks) if number % 4 >= armed]
    between.pause(0)
    between.skipped(since[0])
    between.resume(since[1])
    kept = iterations.copy(between)
    known = [*unarmed, since] if unarmed and since[0] else unarmed
    found = kept.statistics(armed=False)
    assert (found is None) == (not unarmed)
    if found is not None:
        mean_ns = sum(ns for _, ns in known) / sum(weight for weight, _ in known)
        assert found.mean == pytest.approx(mean_ns)
        assert kept.unarmed.total_ns / kept.unarmed.weight == pytest.approx(mean_ns)
        assert found.n == len(unarmed)
