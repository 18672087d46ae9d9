"""The rules, one file each. `ALL` names the files; a rule's file is named like it, with `_` for `-`."""

from __future__ import annotations

from importlib import import_module

from stepscope.answers.selection import check_name
from stepscope.judge.declare import Rule

QUICK = (
    "nothing_recorded",
    "device_only",
    "straggling_rank",
    "input_bound",
    "communication_bound",
    "copy_bound",
    "host_bound",
    "dependency_bound",
    "gap_bound",
    "idle",
    "residual",
    "device_bound",
    "host_only",
    "compute_bound",
    "slow_first_batch",
    "growing_memory",
    "low_utilization",
    "uneven_steps",
    "first_step",
    "data_quality",
)
"""Rules that step times, phases and checks suffice for: among them are all that say what limits the
step. A summary can always afford them."""

ALL = (
    *QUICK,
    "synchronization",
    "pageable_copies",
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
    "memory_near_limit",
    "data_parallel",
)


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


def with_quick(name: str) -> tuple[Rule, ...]:
    """The quick rules and the one that was asked for: whether its finding leads depends on theirs."""
    asked = find(name)
    return (*(rule for rule in quick() if rule is not asked), asked)
