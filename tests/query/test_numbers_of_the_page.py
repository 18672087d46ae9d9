"""The page writes numbers as the terminal does: one list of cases holds both to it."""

import json
from pathlib import Path

import pytest

from stepscope.query.declare import Column
from stepscope.query.text_grid import value_text

CASES = Path(__file__).parents[2] / "web" / "src" / "format" / "units.cases.json"


@pytest.mark.parametrize(("unit", "value", "text"), json.loads(CASES.read_text(encoding="utf-8")))
def test_a_number_reads_as_in_the_page(unit, value, text):
    assert value_text(value, Column("x", "float", "x", unit)) == text
