import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.query.apportion import apportion, largest_remainder


@examples(50)
@given(st.lists(st.fractions(min_value=-1000, max_value=1000), max_size=12))
def test_whole_parts_add_up_and_are_off_by_less_than_one(parts):
    whole = largest_remainder(parts)
    assert sum(whole) == math.floor(sum(parts, Fraction(1, 2)))
    assert all(abs(a - b) < 1 for a, b in zip(whole, parts, strict=True))


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.integers(0, (1 << 63) - 1), st.lists(st.integers(0, 1 << 40) | st.integers(0, 3), min_size=1, max_size=5)
        ),
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_shares_of_many_groups_are_the_whole_parts_of_each(groups, random):
    rows = [(amount, weight, place) for place, (amount, weights) in enumerate(groups) for weight in weights]
    random.shuffle(rows)
    amount, weight, group = (
        (np.array(c, np.int64) for c in zip(*rows, strict=True)) if rows else (np.zeros(0, np.int64) for _ in range(3))
    )
    shares = apportion(amount, weight, group).tolist()
    for place, (whole, weights) in enumerate(groups):
        own = [(w, s) for (_, w, g), s in zip(rows, shares, strict=True) if g == place]
        total = sum(weights)
        exact = [Fraction(whole * (w if total else 1), total or len(weights)) for w, _ in own]
        assert sum(s for _, s in own) == whole
        assert all(abs(s - e) < 1 for (_, s), e in zip(own, exact, strict=True))
        assert sorted(s for _, s in own) == sorted(largest_remainder(exact))
