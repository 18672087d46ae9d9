"""The parts of a step have one declaration; the page's own list agrees with it."""

import re
from pathlib import Path

from stepscope.analysis.steps.parts import DEVICE_PARTS, IDLE_PARTS, PARTS, STEP_PARTS, WAITING

PAGE = Path(__file__).parents[2] / "web" / "src" / "format" / "parts.ts"


def test_the_page_has_the_same_parts_in_the_same_order() -> None:
    listed = PAGE.read_text("utf-8").split("PARTS: readonly PartOfStep[] = [")[1].split("\n];")[0]
    named = re.findall(r'id: "(\w+)",\s*title: "([^"]+)"', listed)
    assert named == [(part.name, part.title) for part in STEP_PARTS]


def test_idle_time_has_parts_of_the_step() -> None:
    assert {*IDLE_PARTS, *WAITING} - {"range"} <= {*PARTS} - {*DEVICE_PARTS}
