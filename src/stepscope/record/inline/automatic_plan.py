"""Makes a plan during the recording: watches some iterations of the job and lists what they run.

It is the plan that `stepscope plan` would write, from fewer iterations because the job continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepscope.record.inline.shared_plan import SharedPlan, Weights
from stepscope.record.planning.listing import MAX_MODULES, heaviest, listed, weights
from stepscope.record.planning.surveyor import Kind, Surveyor
from stepscope.record.targets.copies import Copies
from stepscope.record.targets.watch import ObservingWatch
from stepscope.record.trouble import Guard

_KINDS: tuple[Kind, ...] = ("all", "forwards") * 2
_MAX_LABELS = 256
"""The most labels of a plan, the longest ones: each needs its own iteration, and is checked for in all."""
_MAX_WAITS = 64  # iterations to wait for a device that has not reached the last marks


class AutomaticPlan:
    """Watches iterations until `weights` are known; `shared` makes them the plan of all ranks."""

    def __init__(
        self,
        model: Any,
        optimizers: Iterable[Any],
        copies: Copies | None,
        guard: Guard,
        shared: SharedPlan | None = None,
    ) -> None:
        self.weights: Weights | None = None
        """The labels to measure, in the order in which they run, with their times (ns)."""
        self._surveyor = Surveyor(model, optimizers, guard, copies)
        self._waited = 0
        self._shared = shared
        self._local: tuple[Weights, Weights] | None = None
        """What the rank would measure, and everything that it could."""

    @property
    def watch(self) -> ObservingWatch | None:
        return self._surveyor.watch

    def start_iteration(self) -> None:
        done = len(self._surveyor.rounds)
        if done < len(_KINDS):
            self._surveyor.start_iteration(_KINDS[done])

    def end_iteration(self) -> None:
        surveyor = self._surveyor
        surveyor.end_iteration()
        if len(surveyor.rounds) < len(_KINDS):
            return
        self._waited += 1
        if self._local is None and (surveyor.reached() or self._waited > _MAX_WAITS):
            labels = listed(surveyor.rounds)
            chosen = weights(heaviest(labels, MAX_MODULES))
            longest = set(sorted(chosen, key=lambda label: -chosen[label])[:_MAX_LABELS])
            self._local = {label: ns for label, ns in chosen.items() if label in longest}, weights(labels)
            surveyor.remove()
        if self._local is not None:
            chosen, all_labels = self._local
            self.weights = chosen if self._shared is None else self._shared.settled(chosen, all_labels)

    def abandon(self) -> None:
        self._surveyor.abandon()

    def remove(self) -> None:
        self._surveyor.remove()
