"""Collectives of host threads, whose ends differ by when each thread is scheduled."""

import numpy as np
from numpy.typing import NDArray

from stepscope.link.across_ranks.order import Run, pair

US = 1_000


def run(start: list[int], end: list[int]) -> Run:
    def column(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, np.int64) * US

    count = len(start)
    return Run(np.zeros(count, np.int64), column(start), column(end), np.ones(count, bool))


def test_the_nth_is_the_nth_where_all_run_at_the_same_time_and_the_nearest_end_is_anothers() -> None:
    early = run([0, 1_000, 4_000], [5_000, 9_100, 9_000])
    late = run([4_500, 8_000, 8_900], [9_050, 9_080, 15_000])
    assert pair(early, late, aligned=True).tolist() == [0, 1, 2]


def test_where_one_lacks_the_first_and_the_other_the_last_order_is_not_believed() -> None:
    one = run([0, 1_000, 2_000], [100, 1_100, 2_100])
    other = run([1_000, 2_000, 3_000], [1_100, 2_100, 3_100])
    assert pair(one, other, aligned=True).tolist() == [-1, 0, 1]
