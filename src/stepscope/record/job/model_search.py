"""The model that a trace names modules of: the one that was given, or the one found before recording."""

from __future__ import annotations

from typing import Any

from stepscope.record.job.discover import Discovery
from stepscope.record.trouble import Guard


class ModelSearch:
    """Looks for the model in one step, unless it was given.

    Args:
        model: the outermost module; None to look for it.
        guard: hears what goes wrong in the hooks.
    """

    def __init__(self, model: Any, guard: Guard) -> None:
        self.model = model
        self._guard = guard
        self._looked = False
        self._discovery: Discovery | None = None

    def step_begins(self, index: int, *, first_recorded: int) -> None:
        """A step begins: looks in it when it is the one for that, or takes what has been found.

        That is the second step where it is not recorded yet: code is compiled in the first, and would
        be compiled again without our hooks.

        Args:
            index: the step.
            first_recorded: the first step that is recorded.
        """
        if self.model is None and not self._looked and index >= min(1, first_recorded - 1):
            self._looked = True
            self._discovery = Discovery()
            self._discovery.install(self._guard)
        elif self._discovery is not None:
            self._discovery.remove()
            self.model = self._discovery.model
            self._discovery = None

    def close(self) -> None:
        """Lets go of the model, and looks no more."""
        self.model = None
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None
