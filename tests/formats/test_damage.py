import re
from pathlib import Path

import stepscope
from stepscope.formats.damage import CLASSES, is_harmless, line

SOURCES = Path(stepscope.__file__).parent
_NOTED = re.compile(
    r'\b(?:note|drop|repair)\(\s*"([a-z0-9_]+)"|_(?:note|repair)\(\s*"([a-z0-9_]+)"|UnreadableError\([^,]+, "([a-z0-9_]+)"'
    r'|damage\.append\(\(?"([a-z0-9_]+)"'
)


def test_every_class_that_is_noted_anywhere_has_a_line_for_people():
    noted = {
        next(filter(None, found.groups()))
        for path in SOURCES.rglob("*.py")
        for found in _NOTED.finditer(path.read_text())
    }
    assert {"truncated", "unescaped_quote"} <= noted
    assert noted <= CLASSES.keys()


def test_classes_that_cost_or_changed_something_are_not_harmless():
    assert not is_harmless("truncated")
    assert not is_harmless("unfinished")
    assert is_harmless("gzip_trailing")
    assert not is_harmless("a class of a later version")


def test_unknown_class_is_shown_by_its_name():
    assert line("later_class", 3) == "later_class (3)"
    assert line("truncated").startswith("truncated (1): the file ends")
