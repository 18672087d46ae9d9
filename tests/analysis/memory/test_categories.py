"""What allocations are for: by what was going on when they were made, and how long they lived."""

import numpy as np

from stepscope.analysis.memory.categories import CATEGORIES, NO_ROLE, ROLES, categories
from stepscope.analysis.memory.lifetimes import lifetimes

ROLE = {word[0]: place for place, word in enumerate(ROLES)} | {"-": NO_ROLE}


def named(events, step_ends=()):
    """The category of each allocation, by its address; events are `f+1`: in forward address 1 is taken."""
    address = np.array([int(event[2:]) for event in events])
    size = np.array([1 if event[1] == "+" else -1 for event in events])
    role = np.array([ROLE[event[0]] for event in events], np.int8)
    found = lifetimes(address, size)
    made = np.append(role, np.int8(NO_ROLE))[found.taken]
    kinds = categories(found.start, found.end, made, role, np.array(step_ends, np.int64))
    event = np.where(found.taken >= 0, found.taken, found.given)
    return {int(address[at]): CATEGORIES[kind] for at, kind in zip(event, kinds.tolist(), strict=True)}


def test_a_step_of_training():
    events = [
        "p+1",  # the model is moved to the device
        "f+2", "f+3", "f-3",
        "b+4", "b+5", "b-2", "b-5",
        "o+6", "o+7", "o-7",
        "z-4",
        "f+8", "b-8",
    ]  # fmt: skip
    assert named(events) == {
        1: "parameters",
        2: "activations",
        3: "temporaries",
        4: "gradients",
        5: "temporaries",
        6: "optimizer state",
        7: "temporaries",
        8: "activations",
    }


def test_where_the_recording_ends_before_it_shows_nothing_is_guessed():
    assert named(["b+1", "f+2"])[2] == "unknown"
    assert named(["f+1", "b+2"])[2] == "unknown"
    assert named(["f+1", "b-1", "o+2"])[2] == "unknown"


def test_the_end_of_an_optimizers_step_tells_its_state():
    events = ["f+1", "b-1", "o+2", "o+3", "o-3"]
    assert named(events, step_ends=[5])[2] == "optimizer state"
    assert named(events, step_ends=[2])[2] == "unknown"


def test_inference_has_no_activations():
    events = ["f+1", "f+2", "f-1", "f+3"]
    assert named(events) == {1: "temporaries", 2: "unknown", 3: "unknown"}


def test_what_was_there_before_and_what_nothing_tells_of_is_unknown():
    assert named(["f-1", "-+2", "--2", "b+3", "f+4"]) == {
        1: "unknown", 2: "unknown", 3: "gradients", 4: "unknown",
    }  # fmt: skip


def test_a_module_that_is_built_and_never_run_has_parameters_if_it_stays():
    assert named(["p+1", "p+2", "p-2"]) == {1: "parameters", 2: "temporaries"}


def test_a_gradient_is_what_is_alive_at_the_end_of_an_optimizers_step_that_allocates_nothing():
    events = ["f+1", "b+2", "b-1", "--2", "f+3"]
    assert named(events, step_ends=[3])[2] == "gradients"
    assert named(events)[2] == "unknown"  # a gradient or the pass's own: nothing shows which
    assert named(["f+1", "b+2", "--2", "b-1", "f+3"])[2] == "temporaries"
