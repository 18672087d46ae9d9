"""When a first step is slow: what marks it (`link.steps`) and what judges it go by the same."""

from __future__ import annotations

SLOW_FIRST = 1.5
"""A first step that takes more than so many times the median of the others, and longer than any of them,
spoils their mean: warm-up of libraries and of the recorder easily doubles a step."""
ENOUGH_STEPS = 3
"""Steps, the first among them, below which the others have no median to speak of."""
