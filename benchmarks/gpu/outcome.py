"""What a stage found, in a file that is complete after each line: a stage that hangs keeps what it had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Outcome:
    """The claims and figures of one stage.

    Args:
        path: JSON file that is written again with each of them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = {"claims": [], "figures": {}, "notes": []}

    def claim(self, what: str, holds: bool | None, **figures: object) -> None:
        """A statement that was put to the test.

        Args:
            what: the statement, in words.
            holds: whether it held; None where it could not be tested here.
            figures: what was measured for it.
        """
        self.found["claims"].append({"what": what, "holds": holds, **figures})
        self._write()

    def figure(self, name: str, value: object) -> None:
        """A measured value, or a table of them as a list of rows."""
        self.found["figures"][name] = value
        self._write()

    def note(self, line: str) -> None:
        """What a reader of the figures must know, or what could not be done."""
        self.found["notes"].append(line)
        self._write()

    def _write(self) -> None:
        unfinished = self.path.with_name(f".{self.path.name}")
        unfinished.write_text(json.dumps(self.found, indent=1, default=str), "utf-8")
        unfinished.replace(self.path)
