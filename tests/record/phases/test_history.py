"""A whole run in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.record.phases.history import History


def test_few_rows_are_all_kept() -> None:
    history = History(2, capacity=4)
    for value in range(4):
        history.add((value, -value))
    assert history.rows == [(0, 0), (1, -1), (2, -2), (3, -3)]


@examples(50)
@given(values=st.lists(st.integers(0, 1000), max_size=300), capacity=st.integers(2, 9))
def test_rows_are_evenly_spaced_and_sums_exact(values: list[int], capacity: int) -> None:
    history = History(2, capacity=capacity)
    for index, value in enumerate(values):
        history.add((index, value))
    assert len(history.rows) <= capacity
    assert [row[0] for row in history.rows] == list(range(0, len(values), history.stride))
    assert history.totals[1] == sum(values)
    assert history.largest[1] == max(values, default=0)
    assert history.count == len(values)


def test_a_row_counts_as_often_as_its_weight_says() -> None:
    history = History(2, capacity=2)
    for value, weight in ((30, 1), (30, 1), (2, 256)):
        history.add((value, 1), weight=weight)
    assert (history.totals, history.weight, history.count) == ([572, 258], 258, 3)


def test_what_is_beside_a_row_stays_beside_it() -> None:
    history = History(1, capacity=4)
    for value in range(20):
        history.add((value,), f"of {value}")
    assert history.attachments == [f"of {row[0]}" for row in history.rows]
    rows, beside, _ = history.thinned(2)
    assert beside == [f"of {row[0]}" for row in rows]
