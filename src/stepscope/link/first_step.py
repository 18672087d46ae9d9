"""When a first step is slow: the limits for marking it (`link.steps`) and for judging it."""

from __future__ import annotations

SLOW_FIRST = 1.5
"""A first step that takes more than so many times the median of the others, and longer than any of them,
distorts their mean: warm-up of libraries and of the recorder easily doubles a step."""
ENOUGH_STEPS = 3
"""With fewer steps, including the first, the others have no meaningful median."""
