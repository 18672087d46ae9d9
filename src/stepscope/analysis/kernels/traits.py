"""What kernels' names show, as lists that a query can join with, and how they are displayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.analysis.recording import once
from stepscope.costs import PRODUCTS, fused_words, kernel_class, library, our_model_of, tensor_core_use
from stepscope.formats.communication import communicating
from stepscope.schema.device_work import KERNELS

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

GRID, BLOCK = (
    f"{name}_x || coalesce(',' || {name}_y, '') || coalesce(',' || {name}_z, '') AS {name}"
    for name in ("grid", "block")
)
"""The launch shape as a text: x,y,z."""

TRAITS = """
    SELECT unnest($kernel_names::VARCHAR[]) AS name, unnest($libraries::VARCHAR[]) AS library,
        unnest($users::BOOLEAN[]) AS uses_tensor_cores, unnest($products::BOOLEAN[]) AS is_product,
        unnest($fused::VARCHAR[]) AS fused, unnest($exchanges::BOOLEAN[]) AS fused_communication
"""
"""A row for each kernel's name, from the parameters of `kernel_traits`."""

ELIGIBLE = """
    coalesce(
        uses_tensor_cores OR coalesce(map($told_operators::VARCHAR[], $eligible::BOOLEAN[])[operator_name], is_product),
        false
    )
"""
"""Whether tensor cores could do a kernel's work: by its operator, else by its name; always if it uses them."""


def kernel_traits(scope: Scope) -> dict[str, list[Any]]:
    """The parameters of `TRAITS` and `ELIGIBLE` for all kernels and operators of a scope."""
    return dict(_traits(scope))


@once  # a hundred patterns are looked for in each name
def _traits(scope: Scope) -> dict[str, list[Any]]:
    names = scope.sql(f"SELECT DISTINCT name FROM device_event WHERE {KERNELS} ORDER BY name")
    kernels = names.column("name").to_pylist()
    launching = scope.sql(
        f"SELECT DISTINCT operator_name AS name FROM device_event WHERE {KERNELS} AND operator_name IS NOT NULL ORDER BY name"
    )
    modelled = [name for name in launching.column("name").to_pylist() if our_model_of(name) is not None]
    return {
        "kernel_names": kernels,
        "libraries": [library(name) for name in kernels],
        "users": [tensor_core_use(name).used for name in kernels],
        "products": [kernel_class(name) in PRODUCTS for name in kernels],
        "fused": [", ".join(fused_words(name)) or None for name in kernels],
        "exchanges": [(talks := communicating(name)) is not None and talks.fused for name in kernels],
        "told_operators": modelled,
        "eligible": [can_use_tensor_cores(name) for name in modelled],
    }


def can_use_tensor_cores(operator: str) -> bool:
    """Whether tensor cores could do an operator's work. Loads no plug-ins, like all ordinary commands."""
    model = our_model_of(operator)
    return model is not None and model.is_eligible
