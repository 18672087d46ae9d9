"""Sums the work of parts of the device's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepscope.analysis.operators.attainable import Roofs
    from stepscope.analysis.operators.work import Part


class Totals(NamedTuple):
    """Sums over parts; None if unknown."""

    flops: float | None
    counted_ns: int
    moved: float | None
    moved_ns: int
    attainable_ns: float | None
    bounded_ns: int
    uncached_ns: float | None
    inexact: bool

    @property
    def attained(self) -> float | None:
        """Attainable time over the time of the parts for which it is known."""
        return over(self.attainable_ns, self.bounded_ns)


def totals(parts: list[Part], roofs: Roofs) -> Totals:
    """Sums of the work of parts, each with the device time of the parts for which it is known."""

    def summed(column: Any) -> tuple[float | None, int]:
        chosen = [p for p in parts if column[p.variant] == column[p.variant]]  # not NaN
        if not any(part.weight for part in chosen):
            return None, 0
        total = sum(part.weight * float(column[part.variant]) for part in chosen)
        return total, sum(part.device_ns for part in chosen)

    return Totals(
        *summed(roofs.flops),
        *summed(roofs.bytes),
        *summed(roofs.attainable_ns),
        summed(roofs.uncached_ns)[0],
        any(bool(roofs.inexact[part.variant]) for part in parts),
    )


def over(value: float | None, by: float | None, scale: float = 1.0) -> float | None:
    """A ratio; None if a value is unknown or the divisor is 0."""
    return value / by * scale if value is not None and by else None
