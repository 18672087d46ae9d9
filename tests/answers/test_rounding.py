from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.answers.rounding import whole_parts


@settings(max_examples=50)
@given(st.lists(st.fractions(min_value=-1000, max_value=1000), max_size=12))
def test_whole_parts_add_up_and_are_off_by_less_than_one(parts):
    whole = whole_parts(parts)
    assert sum(whole) == math.floor(sum(parts, Fraction(1, 2)))
    assert all(abs(a - b) < 1 for a, b in zip(whole, parts, strict=True))
