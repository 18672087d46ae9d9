"""Device work of the counted steps by kernel, operator and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope.analysis.attribution import HOST_CALLS
from stepscope.base.grouping import merge_rows
from stepscope.base.quoting import sql_literal
from stepscope.costs import PRODUCTS, kernel_class, model_of, product_type, tensor_core_use
from stepscope.costs.call import parse_call
from stepscope.schema.device_work import WORK

if TYPE_CHECKING:
    from stepscope.costs import Model, TensorCoreUse

NARROW = frozenset(
    {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int8"} | {"float4_e2m1fn_x2"}
)
"""Element types of 16 bits and less."""

_CALLS = HOST_CALLS.format(host="host_event")
_FROM = f"""
    FROM (SELECT * FROM device_event WHERE {WORK} AND {{counted}}) AS work
    LEFT JOIN (SELECT rank, id, name, input_id FROM ({_CALLS}) WHERE kind = 'operator') AS op
        ON op.rank = work.rank AND op.id = work.operator_id
"""
IDLE_SM_NS = "sum((dur_ns * (1 - least(blocks_per_sm, 1)))::BIGINT)"
"""Kernel time multiplied by the share of multiprocessors without a block: integer ns, so that sums do not depend on
order."""
GROUPS = f"""
    WITH grouped AS (
        SELECT work.kind, work.name, op.name AS operator, work.rank, work.span, op.input_id,
            work.direction, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
            {IDLE_SM_NS}::DOUBLE AS idle_sm_ns,
            sum(dur_ns) FILTER (blocks_per_sm >= 1 AND occupancy_ratio < 0.25)::BIGINT AS low_occupancy_ns
        {_FROM} GROUP BY ALL
    )
    SELECT grouped.* EXCLUDE (input_id), dims, types, strides, "values"
    FROM grouped LEFT JOIN operator_input USING (rank, span, input_id)
    ORDER BY total_ns DESC, name, operator
"""


@dataclass(frozen=True)
class Group:
    """Kernels of one name that one operator launched with the same inputs."""

    kind: str
    name: str
    operator: str | None
    rank: int
    span: int
    direction: str | None
    count: int
    total_ns: int
    idle_sm_ns: float | None
    low_occupancy_ns: int | None
    dims: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None

    @cached_property
    def model(self) -> Model | None:
        """The model of its operator."""
        return model_of(self.operator) if self.operator is not None else None

    @cached_property
    def use(self) -> TensorCoreUse:
        """What its name says about tensor cores."""
        return tensor_core_use(self.name, self._input_dtype)

    @cached_property
    def is_product(self) -> bool:
        """Whether it multiplies matrices: helpers and products with a vector do not count."""
        if self.kind != "computation" or kernel_class(self.name) not in PRODUCTS:
            return False
        # A kernel's name may mislead (an embedding's "gemm"); an operator with a model does not.
        if self.model is not None and not self.model.is_eligible and not self.use.used:
            return False
        return self.use.rule not in ("helpers that multiply nothing", "matrix times vector and other small products")

    @cached_property
    def dtype(self) -> str | None:
        """Element type that it multiplies in; None if neither inputs nor names show it."""
        if self.use.used and self.use.dtype is not None:
            return self.use.dtype
        return self._input_dtype or product_type(self.name)

    @cached_property
    def _input_dtype(self) -> str | None:
        if self.operator is None or self.dims is None:
            return None
        call = parse_call(self.operator, self.dims, self.types, self.strides, self.values)
        tensors = [call.tensor(place) for place in range(3)] if call is not None else []
        dtypes = [t.dtype for t in tensors if t is not None and t.dtype is not None and t.shape]
        return dtypes[0] if dtypes else None


def summed(groups: Iterable[Group]) -> int:
    """The groups' summed duration (ns)."""
    return sum(group.total_ns for group in groups)


def reproduce(steps: int, counted: str, groups: Iterable[Group], what: str = "sum(dur_ns)") -> str:
    """SQL that sums an expression over the work of groups, per step; `counted` selects the steps."""
    # Work of one name may have several kinds: a collective's copy kernel, for example.
    keys = sorted({(group.kind, group.name, group.operator or "", group.direction or "") for group in groups})
    listed = ", ".join(f"({', '.join(map(sql_literal, key))})" for key in keys)
    text = (
        f"SELECT {what} / {steps} {_FROM}"
        f"WHERE (work.kind, work.name, coalesce(op.name, ''), coalesce(work.direction, '')) IN ({listed})"
    )
    return " ".join(text.replace("{counted}", counted).split())


def by_kernel(
    steps: int,
    groups: Iterable[Group],
    lost: Callable[[Group], float | None] | None = None,
    **more: Callable[[Group], Any],
) -> list[dict[str, Any]]:
    """Evidence: the groups by kernel and operator, per step, the longest first.

    Args:
        lost: the lost time of a group (ns): summed as `lost_ns`, and the order of rows.
        more: further columns: functions of a group; the first group's value is shown.
    """
    ranked_by = "time_ns" if lost is None else "lost_ns"
    rows = (
        {
            "kernel": group.name,
            "operator": group.operator,
            "calls_per_step": group.count / steps,
            "time_ns": group.total_ns / steps,
            **({} if lost is None else {"lost_ns": (lost(group) or 0.0) / steps}),
            **{name: value(group) for name, value in more.items()},
        }
        for group in groups
    )
    rows_by_kernel = merge_rows(rows, "kernel", "operator", adding={"calls_per_step", "time_ns", ranked_by})
    return sorted(rows_by_kernel, key=lambda row: -row[ranked_by])
