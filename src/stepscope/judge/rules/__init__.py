"""The rules, one file each. `ALL` names the files; a rule's file is named like it, with `_` for `-`."""

from __future__ import annotations

from importlib import import_module

from stepscope.answers.selection import check_name
from stepscope.judge.declare import Rule

ALL = (
    "input_bound",
    "host_bound",
    "launch_bound",
    "synchronization",
    "pageable_copies",
    "exposed_communication",
    "low_utilization",
    "amp_off",
    "tf32_off",
    "tensor_cores_unused",
    "misaligned_dimensions",
    "separate_gemms",
    "small_kernels",
    "elementwise_chains",
    "layout_conversions",
    "copies_and_casts",
    "unfused_optimizer",
    "small_grids",
    "tail_waves",
    "low_occupancy",
    "allocation_in_steps",
    "recomputation",
    "uneven_steps",
    "first_step",
    "memory_near_limit",
    "data_parallel",
    "data_quality",
)

QUICK = (
    "input_bound",
    "exposed_communication",
    "low_utilization",
    "uneven_steps",
    "first_step",
    "data_quality",
)
"""Rules that the step times and the checks suffice for, so that a summary can afford them."""


def find(name: str) -> Rule:
    """A rule by its id.

    Raises:
        UsageError: there is no such rule.
    """
    ids = tuple(file.replace("_", "-") for file in ALL)
    known = check_name(name.replace("_", "-"), ids, "rule")
    module = import_module(f"{__name__}.{known.replace('-', '_')}")
    (found,) = (value for value in vars(module).values() if isinstance(value, Rule))
    return found


def every() -> tuple[Rule, ...]:
    """All rules."""
    return tuple(find(file) for file in ALL)


def quick() -> tuple[Rule, ...]:
    """The quick ones; the others are not even imported."""
    return tuple(find(file) for file in QUICK)


def chosen(name: str | None) -> tuple[Rule, ...]:
    """The one rule that was asked for, or all."""
    return every() if name is None else (find(name),)
