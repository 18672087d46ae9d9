from __future__ import annotations

import pytest

from stepscope.floor.units import ratio_text


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (0.5551, "55.5 %"),
        (0.0, "0.0 %"),
        (-0.0, "0.0 %"),
        (0.0006, "0.1 %"),
        (0.00049, "0.05 %"),
        (0.0003, "0.03 %"),
        (-0.0003, "-0.03 %"),
        (0.00001, "<0.01 %"),
        (-1e-12, "<0.01 %"),
        (1.5, "150.0 %"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_a_share_that_is_there_is_never_shown_as_none(ratio, shown):
    assert ratio_text(ratio) == shown
