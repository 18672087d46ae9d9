"""The versions of the JSON files that a recorded process leaves, by their field `format`; a renamed field counts."""

from __future__ import annotations

FILE_VERSIONS = {"stepscope.inline": 4, "stepscope.phases": 6, "stepscope.host": 2}
