"""Properties of a recording that do not depend on its times: its contents and its recorder."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope.analysis.recording import marks_steps
from stepscope.base.quoting import sql_literal
from stepscope.findings.phase_means import PhaseMeans, phase_means
from stepscope.formats.evidence import Evidence
from stepscope.query.rank_exclusion import damaged_ranks

if TYPE_CHECKING:
    from stepscope.costs import Limits
    from stepscope.query.scope import Scope

Row = dict[str, Any]


class Recorded:
    """A recording's steps, devices, program and checks."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    @cached_property
    def has_steps(self) -> bool:
        """Whether steps are marked or were found (see `link.steps`)."""
        return marks_steps(self.scope)

    @cached_property
    def phases(self) -> PhaseMeans | None:
        """Means of the steps' phases; None if no job measured its own."""
        return phase_means(self.scope)

    @cached_property
    def phases_alone(self) -> PhaseMeans | None:
        """The phases, if no events are recorded, which would say more; else None."""
        events = self.has_rows("host_event") or self.has_rows("device_event")
        return None if events else self.phases

    @cached_property
    def phases_without_device(self) -> PhaseMeans | None:
        """The phases, if no work of a device is recorded with them; else None."""
        return None if self.has_rows("device_event") else self.phases

    @cached_property
    def memory_recorded(self) -> bool:
        """Whether allocations, or an allocator's contents, are recorded."""
        return any(map(self.has_rows, ("memory_event", "memory_block", "allocator_event")))

    @cached_property
    def checks(self) -> list[Row]:
        """Data-quality checks with a warning or an error."""
        return self._rows(
            """
            SELECT "check", severity, sum(count)::BIGINT AS count, string_agg(DISTINCT affects, ',')
                AS affects, arg_max(explanation, count) AS explanation,
                string_agg(DISTINCT rank::VARCHAR, ', ') AS ranks
            FROM data_check WHERE severity IN ('warning', 'error') GROUP BY "check", severity
            ORDER BY severity, "check"
            """
        )

    def failing(self, *kinds: Evidence) -> dict[str, str]:
        """Failing checks that damage any of these kinds of evidence, with their severity."""
        return {
            row["check"]: row["severity"]
            for row in self.checks
            if not {kind.strip() for kind in row["affects"].split(",")}.isdisjoint(kinds)
        }

    @cached_property
    def damaged_ranks(self) -> tuple[int, ...]:
        """Ranks that are not judged with the others (`query.rank_exclusion`)."""
        return damaged_ranks(self.scope)

    @cached_property
    def devices(self) -> list[Row]:
        """Devices that have work."""
        return self._rows("SELECT * FROM device WHERE used")

    @cached_property
    def platform(self) -> str | None:
        """The kind of its devices: cuda, rocm, xpu, ...; None if unknown or mixed."""
        kinds = {row["kind"] for row in self.devices}
        return kinds.pop() if len(kinds) == 1 else None

    @cached_property
    def capability(self) -> int | None:
        """The lowest CUDA compute capability (major) of the devices; None for other devices."""
        if not self.devices or any(row["kind"] != "cuda" for row in self.devices):
            return None
        majors = [row["compute_major"] for row in self.devices]
        return None if None in majors else int(min(majors))

    @cached_property
    def limits(self) -> Limits | None:
        """The limits of the devices, if all are the same and known."""
        from stepscope.costs import known_devices

        models = {(row["name"], row["sm_count"]) for row in self.devices}
        return known_devices().find(*next(iter(models))) if len(models) == 1 else None

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the devices are known to have tensor cores (matrix cores)."""
        if self.capability is not None:
            from stepscope.costs import lacks_tensor_cores

            lacking = any(lacks_tensor_cores(row["name"]) for row in self.devices)
            return self.capability >= 7 and not lacking
        return self.limits is not None and bool(self.limits.matrix)

    @property
    def has_bfloat16(self) -> bool:
        """Whether the devices' tensor cores are known to support bfloat16, as NVIDIA's do from 8.0 on."""
        if self.capability is not None:
            return self.capability >= 8
        return self.limits is not None and "bfloat16" in self.limits.matrix

    @cached_property
    def trains(self) -> bool:
        """Whether a backward or an optimizer's step is recorded."""
        return self.optimizes or self.has_rows("host_event", "direction = 'backward'")

    @cached_property
    def optimizes(self) -> bool:
        """Whether an optimizer's step is recorded; a job that measured its own phases has one."""
        return self.phases_alone is not None or self.has_rows("host_event", "direction = 'optimizer'")

    @cached_property
    def loops_over_parameters(self) -> bool:
        """Whether an optimizer is recorded, but no part of it that works on many tensors at once."""
        return self.optimizes and not self.has_rows("device_event", "contains(name, 'multi_tensor')")

    @cached_property
    def has_loader(self) -> bool:
        """Whether a DataLoader is recorded; a job that measured its own phases waits for one."""
        return self.phases_alone is not None or self.has_rows("host_event", "role = 'dataloader'")

    @cached_property
    def has_compiled(self) -> bool:
        """Whether a kernel generated by Inductor is recorded, so that torch.compile is in use."""
        return self.has_rows("device_event", "regexp_matches(name, '^triton_(poi|per|red|tem|for)_')")

    @cached_property
    def in_pytorch(self) -> bool:
        """Whether the program uses PyTorch, by its recorder, operators, or kernels named after its libraries."""
        return (
            self.by_torch_profiler
            or self.phases_alone is not None
            or self.has_rows("host_event", "kind = 'operator'")
            or self.has_rows("device_event", "regexp_matches(name, '\\b(at|c10|torch)::')")
        )

    @cached_property
    def by_torch_profiler(self) -> bool:
        """Whether torch.profiler, or an unknown recorder, was used: then its options are named in advice."""
        formats = self.scope.sql("SELECT DISTINCT format FROM source").column("format").to_pylist()
        return set(formats) <= {"kineto"}

    def has_called(self, *names: str) -> bool:
        """Whether the host called something whose name starts with one of these."""
        return self.has_rows("host_event", " OR ".join(f"starts_with(name, {sql_literal(name)})" for name in names))

    def has_rows(self, table: str, condition: str = "true") -> bool:
        """Whether a table has a row that meets a condition."""
        return not self.scope.has_none(table) and bool(
            self.scope.value(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {condition})")
        )

    def rows_of(self, table: str, text: str) -> list[Row]:
        """Rows of a query over a table; if the table is empty, the query does not run."""
        return [] if self.scope.has_none(table) else self._rows(text)

    @cached_property
    def matched_over_ranks(self) -> bool:
        """Whether a collective of the recording was matched over ranks, whichever of them were requested."""
        if self.scope.has_none("collective"):
            return False
        query = "SELECT rank FROM collective WHERE match_id IS NOT NULL LIMIT 1"
        return bool(self.scope.cached(f"{__name__} matched", lambda: self.scope.store.sql(query).num_rows > 0))

    def _rows(self, text: str) -> list[Row]:
        return self.scope.sql(text).to_pylist()
