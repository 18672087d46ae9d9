"""Categories of allocations: parameters, gradients, optimizer state, activations, temporaries, or unknown.

The evidence is what ran when an allocation was made (call stack, the operator's direction, the backward thread) and its
lifetime:

* made in forward, alive when the next backward starts: *activation*;
* made in backward, alive when the next pass starts or the optimizer's step has ended: *gradient*;
* made in the optimizer's step, alive when the next pass starts or the step has ended: *optimizer state*;
* made while a module is built or moved, alive in the next forward: *parameters* (and buffers);
* made in any of these and freed before: *temporary*; in backward, if no optimizer is recorded before the next forward,
  only what is freed during the pass;
* everything else, and where the recording ends too early: *unknown*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.memory.lifetimes import first_after
from stepscope.schema.arrays import Int64s

ACTIVATIONS, GRADIENTS, OPTIMIZER_STATE, PARAMETERS, TEMPORARIES, UNKNOWN = CATEGORIES = (
    "activations", "gradients", "optimizer state", "parameters", "temporaries", "unknown",
)  # fmt: skip

FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD, MODULES = ROLES = (
    "forward", "backward", "optimizer", "zero_grad", "parameters",
)  # fmt: skip
"""The running pass, as `memory_event.role` and `host_event.direction` spell it."""

NO_ROLE = -1
_RETAINED_AS = {
    FORWARD: (ACTIVATIONS, (BACKWARD,)),
    BACKWARD: (GRADIENTS, (FORWARD, OPTIMIZER, ZERO_GRAD)),
    OPTIMIZER: (OPTIMIZER_STATE, (FORWARD, BACKWARD)),
    MODULES: (PARAMETERS, (FORWARD,)),
}
"""The category of allocations that a pass makes and the next one still finds alive."""


def categories(
    start: Int64s, end: Int64s, role: NDArray[np.int8], role_of_event: NDArray[np.int8], step_ends: Int64s
) -> NDArray[np.int8]:
    """The category of each allocation, as an index in `CATEGORIES`.

    Args:
        start, end: its states.
        role: the pass that made it, an index in `ROLES` or NO_ROLE; `role_of_event` likewise of each event.
        step_ends: states in which an optimizer's step has ended.
    """
    states = len(role_of_event) + 1
    result = np.full(len(start), CATEGORIES.index(UNKNOWN), dtype=np.int8)
    trains = bool((role_of_event == ROLES.index(BACKWARD)).any())
    for name, (category, passes) in _RETAINED_AS.items():
        mine = np.flatnonzero(role == ROLES.index(name))
        if not len(mine):
            continue
        later = np.flatnonzero(np.isin(role_of_event, [ROLES.index(role_name) for role_name in passes]))
        if name in (BACKWARD, OPTIMIZER):
            later = np.union1d(later, step_ends)
        # Event k leads to state k + 1: what is alive in state k exists when it happens.
        next_pass = first_after(later, start[mine], states)
        freed = end[mine] <= states - 1
        stays = (end[mine] > next_pass) & (next_pass < states)
        temporary = freed & ~stays
        if name == BACKWARD:
            temporary &= _within_backward(end[mine], next_pass, role_of_event, step_ends)
        if name == MODULES and not len(later):
            stays = ~freed
        if name == FORWARD and not trains:
            stays[:] = False
        result[mine[stays]] = CATEGORIES.index(category)
        result[mine[temporary]] = CATEGORIES.index(TEMPORARIES)
    return result


def _within_backward(
    end: Int64s, next_pass: Int64s, role_of_event: NDArray[np.int8], step_ends: Int64s
) -> NDArray[np.bool_]:
    """Whether allocations made and freed in backward were freed during it: more of it follows, or the optimizer comes
    next."""
    states = len(role_of_event) + 1
    backward = np.flatnonzero(role_of_event == ROLES.index(BACKWARD))
    forward = np.flatnonzero(role_of_event == ROLES.index(FORWARD))
    goes_on = first_after(backward, end, states) < np.minimum(next_pass, states)
    optimizer_next = (next_pass < states) & ~np.isin(next_pass, np.setdiff1d(forward, step_ends))
    return goes_on | optimizer_next
