"""Writes what a stage found to a file that is complete after each entry: a stage that hangs keeps what it had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Outcome:
    """The claims and figures of one stage.

    Args:
        path: JSON file, rewritten for each entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = {"claims": [], "figures": {}, "notes": []}

    def claim(self, what: str, holds: bool | None, **figures: object) -> None:
        """Adds a tested statement.

        Args:
            what: the statement.
            holds: whether it held; None if it could not be tested here.
            figures: the measurements behind it.
        """
        self.found["claims"].append({"what": what, "holds": holds, **figures})
        self._write()

    def figure(self, name: str, value: object) -> None:
        """Adds a measured value, or a table as a list of rows."""
        self.found["figures"][name] = value
        self._write()

    def note(self, line: str) -> None:
        """Adds what a reader of the figures must know, or what could not be done."""
        self.found["notes"].append(line)
        self._write()

    def _write(self) -> None:
        unfinished = self.path.with_name(f".{self.path.name}")
        unfinished.write_text(json.dumps(self.found, indent=1, default=str), "utf-8")
        unfinished.replace(self.path)
