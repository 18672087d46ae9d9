"""Names of metrics, events and calls of which nvprof's databases have only the number."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def cupti_names() -> dict[tuple[str, int], str]:
    """The names by kind (`metric`, `event`, `runtime`, `driver`) and number, from `cupti_names.txt`."""
    text = resources.files("stepscope.bundled.nvprof").joinpath("cupti_names.txt").read_text("utf-8")
    names: dict[tuple[str, int], str] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            word, first, *listed = line.split()
            names |= {(word, number): name for number, name in enumerate(listed, int(first))}
    return names
