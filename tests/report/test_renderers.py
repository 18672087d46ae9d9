"""Every drawing that a question can name is declared, with what it has for each medium."""

from typing import get_args

import pytest

from stepscope.query.declare import Drawing
from stepscope.report.renderers import DRAWINGS, renderer_of


def test_every_drawing_is_declared():
    assert set(DRAWINGS) == set(get_args(Drawing))


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_a_drawing_says_how_it_is_shown(drawing):
    renderer = renderer_of(drawing)
    assert (renderer.plot is not None) == (drawing in ("map", "roofline", "runs"))
    assert (renderer.lines is None) == (drawing in ("table", "tree", "rows", "plan", "text", "roofline"))
