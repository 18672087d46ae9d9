"""Finds the memories and moments that a question is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analysis.memory.replay import Memory, memories
from stepscope.query.scope import Scope
from stepscope.schema.arrays import Int64s

_STEPS = "SELECT rank, step, host_start_ns AS start_ns, host_end_ns AS end_ns FROM step ORDER BY ALL"


class RequestedMemory(NamedTuple):
    """The memory of a device, and its requested states, in order; at least one."""

    memory: Memory
    states: Int64s


def requested_memory(scope: Scope, all_steps: Scope) -> Iterator[RequestedMemory]:
    """Each device's memory with its states in the requested steps and window; `all_steps` has its ranks' everything."""
    steps = None if scope.steps is None else scope.sql(_STEPS).to_pylist()
    for memory in memories(all_steps):
        windows: list[tuple[int, int]] | None = None
        if steps is not None:
            of_rank = [step for step in steps if step["rank"] == memory.rank]
            windows = [(step["start_ns"], step["end_ns"]) for step in of_rank]
        if scope.part.window is not None:
            start, end = scope.part.window
            windows = (
                [(start, end)]
                if windows is None
                else [(max(start, first), min(end, last)) for first, last in windows if first < end and last > start]
            )
        states = memory.states_in(windows)
        if len(states):
            yield RequestedMemory(memory, states)
