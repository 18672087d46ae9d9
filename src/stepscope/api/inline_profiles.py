"""Questions for inline profiles that are in memory: what `stepscope.parse_result` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.api.trace import Trace
from stepscope.floor.errors import UsageError
from stepscope.formats.inline.document import sound
from stepscope.formats.inline.reader import tables_of
from stepscope.store.open import Store


def trace_of_profiles(profiles: Sequence[Mapping[str, Any]]) -> Trace:
    """A trace in memory of a run's inline profiles, one per process.

    Args:
        profiles: as `stepscope.parse_result` returns them; a profile that does not say its rank has
            that of its place.

    Raises:
        SourceError: a profile holds no measurements.
        UsageError: two profiles are of the same rank.
    """
    rows: dict[str, list[dict[str, Any]]] = {"inline_timing": [], "rank": []}
    seen: set[int] = set()
    for place, profile in enumerate(profiles):
        tables = tables_of(sound(profile), f"profile {place}")
        rank = place if tables.facts.rank is None else tables.facts.rank
        if rank in seen:
            raise UsageError(
                f"two inline profiles of rank {rank}",
                hint="give the profiles of one run at a time",
                slug="profiles-of-one-rank",
            )
        seen.add(rank)
        rows["inline_timing"] += [{"rank": rank, **row} for row in tables.inline_timing.to_pylist()]
        rows["rank"].append(
            {"rank": rank, "host": tables.facts.host, "world_size": tables.facts.world_size}
        )
    return Trace(Store.from_rows(rows))
