"""Where segments were at a moment: what is there at the end, with later changes undone."""

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.memory.free_ranges import _covered

PLACE = st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda place: (place[0], sum(place)))


@given(st.lists(st.tuples(PLACE, st.booleans()), max_size=8), st.lists(PLACE, max_size=4))
@examples(100)
def test_ranges_are_those_that_undoing_each_change_leaves(changes, segments):
    """Back in time, byte by byte: what was made later was not there, and what was freed later was."""
    there = {byte for place in segments for byte in range(*place)}
    for place, was_freed in reversed(changes):
        there = there | set(range(*place)) if was_freed else there - set(range(*place))
    ranges = _covered([(*place, freed) for place, freed in changes] + [(*place, True) for place in segments])
    assert sorted(byte for low, high in ranges.tolist() for byte in range(low, high)) == sorted(there)


def test_segments_that_touch_stay_apart():
    assert _covered([(10, 14, False), (0, 10, True), (10, 20, True)]).tolist() == [[0, 10], [14, 20]]
    assert _covered([(10, 12, False), (0, 20, True)]).tolist() == [[0, 10], [12, 20]]
