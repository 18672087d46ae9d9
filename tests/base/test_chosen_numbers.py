import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.chosen_numbers import check_known, numbers_text, parse_numbers
from stepscope.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), ("0,2-5", (0, 2, 3, 4, 5)), ("5-5", (5,)), (" 1 , 0 ", (0, 1)), ("2,1-3", (1, 2, 3))],
)
def test_numbers_and_ranges_are_read(text, numbers):
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "x", "1,", "-1", "3-1", "1-", "1.5", "1-2-3", "٣x", "1 2", "9" * 5000])
def test_anything_else_is_refused(text):
    with pytest.raises(UsageError, match="is not a list of numbers"):
        parse_numbers(text)


@pytest.mark.parametrize("text", ["0-999999999999", "0-999999,2000000-2000009"])
def test_more_numbers_than_a_recording_can_have_are_refused_at_once(text):
    with pytest.raises(UsageError, match="names more than 1000000 numbers"):
        parse_numbers(text)


@examples(60)
@given(st.sets(st.integers(0, 40), min_size=1))
def test_what_is_written_is_read_back(numbers):
    assert parse_numbers(numbers_text(numbers)) == tuple(sorted(numbers))


def test_runs_of_three_are_written_as_ranges():
    assert numbers_text([4, 0, 1, 2, 5]) == "0-2, 4, 5"
    assert numbers_text([]) == "none"


def test_an_unknown_number_is_told_which_there_are():
    with pytest.raises(UsageError, match="no step 9 in") as caught:
        check_known([9, 3], [3, 4, 5], "step")
    assert caught.value.hint == "it has step 3-5"
    assert check_known([4, 3, 4], [3, 4, 5], "step") == (3, 4)
    with pytest.raises(UsageError) as caught:
        check_known([1], [], "step")
    assert caught.value.hint == "it has no steps"
