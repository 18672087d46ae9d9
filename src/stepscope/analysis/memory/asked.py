"""Finds the memories and moments that a question is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analysis.memory.replay import Memory, memories
from stepscope.query.scope import Scope
from stepscope.schema.arrays import Int64s

_ASKED = "SELECT rank, step, host_start_ns AS start_ns, host_end_ns AS end_ns FROM step ORDER BY ALL"


class Asked(NamedTuple):
    """The memory of a device, and its requested states, in order; at least one."""

    memory: Memory
    states: Int64s


def asked_memory(scope: Scope, whole: Scope) -> Iterator[Asked]:
    """The memory of each device, with the states in the requested steps and stretch of time.

    Args:
        whole: its ranks with everything (`recording.every_step`).
    """
    steps = None if scope.steps is None else scope.sql(_ASKED).to_pylist()
    for memory in memories(whole):
        windows: list[tuple[int, int]] | None = None
        if steps is not None:
            own = [one for one in steps if one["rank"] == memory.rank]
            windows = [(one["start_ns"], one["end_ns"]) for one in own]
        if scope.part.window is not None:
            start, end = scope.part.window
            windows = (
                [(start, end)]
                if windows is None
                else [(max(start, first), min(end, last)) for first, last in windows if first < end and last > start]
            )
        states = memory.states_in(windows)
        if len(states):
            yield Asked(memory, states)
