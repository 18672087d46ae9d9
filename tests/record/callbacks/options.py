"""Every option that all callbacks take."""

import inspect
from typing import Any

from stepscope.record.callbacks.recordings import Recordings

EVERY_OPTION: dict[str, Any] = {
    "steps": 2,
    "wait": 0,
    "warmup": 2,
    "repeat": 3,
    "ranks": "0",
    "memory": True,
    "stack": True,
    "name": "job",
    "plan": {"events": ["forward"]},
    "phases": True,
    "trigger": "trigger",
}


def kept_by(recording: Recordings) -> dict[str, Any]:
    """The options as the callback's recording keeps them."""
    known = {**vars(recording), **recording._trace_options}
    return {name: known.get(f"_{name}", known.get(name)) for name in EVERY_OPTION}


def all_options() -> set[str]:
    return set(inspect.signature(Recordings.__init__).parameters) - {"self", "out"}
