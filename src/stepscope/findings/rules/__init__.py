"""The rules, including those of plug-ins.

`ALL` names them, with `_` for `-`. A rule has a file of its own, named like it; for rules that share a file, the file's
name stands before the dot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING

from stepscope.base.known_names import check_name
from stepscope.base.plugins import PlugIn, load, of_type
from stepscope.findings.declare import Finding, Rule

if TYPE_CHECKING:
    from stepscope.findings.facts import Facts

QUICK = (
    "data_quality.nothing_recorded", "filled_step.device_only", "straggling_rank", "input_bound",
    "communication_bound", "copies.copy_bound", "low_utilization.devices_in_turn", "host_bound",
    "single_gaps.cold_start", "single_gaps", "single_gaps.unrecorded_work", "idle.dependency_bound",
    "idle.gap_bound", "idle", "residual", "filled_step.device_bound", "filled_step.host_only",
    "filled_step.compute_bound", "filled_step.phases_only", "input_bound.slow_first_batch", "memory.growing_memory",
    "low_utilization", "uneven_steps", "uneven_steps.first_step", "throttled_device", "data_quality",
)  # fmt: skip
"""Rules that need only step times, phases and checks, including all that name what limits the step. A summary can
always afford them."""

ALL = (
    *QUICK, "synchronization", "copies.pageable_copies", "copies.slow_pinned_copies", "products.amp_off",
    "products.tf32_off", "products.tensor_cores_unused", "products.misaligned_dimensions", "chains.separate_gemms",
    "chains.small_kernels", "chains.elementwise_chains", "products.layout_conversions", "products.copies_and_casts",
    "unfused_optimizer", "unfused_attention", "grids.small_grids", "grids.tail_waves", "grids.low_occupancy",
    "counters.uncoalesced_access", "counters.bank_conflicts", "counters.register_spills",
    "counters.occupancy_limit", "data_parallel.small_all_reduces", "data_parallel.broadcast_buffers",
    "memory.allocation_in_steps", "recomputation", "memory.memory_near_limit", "memory.out_of_memory",
    "memory.retained_memory", "memory.activations_at_peak", "memory.optimizer_state_at_peak", "data_parallel",
    "host_use", "host_use.host_flagged", "host_use.reference_primitives", "host_use.layout_reorders",
)  # fmt: skip


OURS = {place.rpartition(".")[2].replace("_", "-"): place for place in ALL}
"""The modules of our rules, by id."""


def find(name: str) -> Rule:
    """Finds a rule by its id. Plug-ins are loaded only if it is none of ours.

    Raises:
        UsageError: there is no such rule.
    """
    rule_id = name.replace("_", "-")
    if rule_id not in OURS:
        return _added()[check_name(rule_id, (*OURS, *_added()), "rule")]
    file = OURS[rule_id].partition(".")[0]
    return getattr(import_module(f"{__name__}.{file}"), rule_id.replace("-", "_"))


def all_rules() -> tuple[Rule, ...]:
    """All rules: ours, then those of plug-ins."""
    return (*(find(name) for name in OURS), *_added().values())


@cache
def _added() -> dict[str, Rule]:
    added = load("rules", Rule, lambda rule: [rule.id], OURS)
    return {rule.id: _guarded(plug_in, rule) for plug_in, rule in added}


def _guarded(plug_in: PlugIn, rule: Rule) -> Rule:
    """Wraps a plug-in's rule, so that a fault in it loses only its own findings."""

    def findings(facts: Facts) -> Iterator[Finding]:
        # All of them at once: a rule that fails half-way has found nothing.
        return iter([_checked(finding) for finding in rule.find(facts)])

    return replace(rule, find=plug_in.or_else(iter(()), findings))


def _checked(finding: Finding) -> Finding:
    """Checks that a plug-in's finding can be ranked and shown.

    Raises:
        TypeError, ValueError: it cannot.
    """
    of_type(Finding, finding)
    if finding.role != "remedy":
        # The summary's verdict is made without plug-ins, and is the first finding everywhere.
        raise ValueError(f"its finding is a {finding.role}; a plug-in's is a remedy")
    if not all(map(isfinite, (finding.value, finding.saving_ns or 0, *(finding.min_saving or ())[:1]))):
        raise ValueError("its finding has a number that is none")
    json.dumps([dict(row) for row in finding.evidence], allow_nan=False)
    for text in (finding.title, finding.metric, finding.advice, finding.query):
        of_type(str, text)
    return finding


def quick() -> tuple[Rule, ...]:
    """The quick rules; the others are not even imported."""
    return tuple(find(place.rpartition(".")[2]) for place in QUICK)


def with_quick(name: str) -> tuple[Rule, ...]:
    """The quick rules and the requested one: whether its finding leads depends on theirs."""
    chosen = find(name)
    return (*(rule for rule in quick() if rule is not chosen), chosen)
