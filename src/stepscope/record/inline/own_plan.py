"""A plan that the recording makes itself: some iterations of the job are watched, and what they run is named.

It is what `stepscope plan` would write, of fewer iterations, because the job goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepscope.record.inline.shared_plan import SharedPlan, Weights
from stepscope.record.planning.listing import weights
from stepscope.record.planning.rounds import MOST_MODULES, heaviest, listed
from stepscope.record.planning.surveyor import Kind, Surveyor
from stepscope.record.targets.copies import Copies
from stepscope.record.targets.watch import ObservingWatch
from stepscope.record.trouble import Guard

_KINDS: tuple[Kind, ...] = ("all", "forwards") * 2
_MOST_LABELS = 256
"""Of a plan, those that take longest: each is measured in an iteration of its own, and asked about in all of them."""
_MOST_WAITING = 64
"""Iterations that are waited for a device that has not come to the last marks."""


class OwnPlan:
    """Watches iterations, one call of `begin` and `end` each, until `weights` are known.

    Args:
        model: the outermost module, or None where it is not known.
        optimizers: those whose `zero_grad` counts.
        copies: listens to host-to-device copies, where there is a device.
        guard: keeps our exceptions out of the job.
        shared: makes it the plan of all ranks; None where there is nobody to share it with.
    """

    def __init__(
        self,
        model: Any,
        optimizers: Iterable[Any],
        copies: Copies | None,
        guard: Guard,
        shared: SharedPlan | None = None,
    ) -> None:
        self.weights: Weights | None = None
        """The labels to measure, each with the time that it takes (ns), in the order in which they run."""
        self._surveyor = Surveyor(model, optimizers, guard, copies)
        self._waited = 0
        self._shared = shared
        self._own: tuple[Weights, Weights] | None = None
        """What the rank would measure, and all that it could."""

    @property
    def watch(self) -> ObservingWatch | None:
        """What watches the running iteration, if anything does."""
        return self._surveyor.watch

    def begin(self) -> None:
        """An iteration starts."""
        done = len(self._surveyor.rounds)
        if done < len(_KINDS):
            self._surveyor.begin(_KINDS[done])

    def end(self) -> None:
        """The iteration has ended."""
        surveyor = self._surveyor
        surveyor.end()
        if len(surveyor.rounds) < len(_KINDS):
            return
        self._waited += 1
        if self._own is None and (surveyor.reached() or self._waited > _MOST_WAITING):
            found = listed(surveyor.rounds)
            own = weights(heaviest(found, MOST_MODULES))
            longest = set(sorted(own, key=lambda label: -own[label])[:_MOST_LABELS])
            self._own = {label: ns for label, ns in own.items() if label in longest}, weights(found)
            surveyor.remove()
        if self._own is not None:
            own, known = self._own
            self.weights = own if self._shared is None else self._shared.settled(own, known)

    def abandon(self) -> None:
        """The iteration broke off, and is watched again."""
        self._surveyor.abandon()

    def remove(self) -> None:
        """Takes everything out of the job, and lets go of the model."""
        self._surveyor.remove()
