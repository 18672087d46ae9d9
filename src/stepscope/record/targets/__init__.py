"""Hooks that can be installed in a job to observe when something starts and ends.

A target is installed for some iterations and removed again. It reports to a `Watch`, changes no value, and lets no
exception of ours reach the job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


class Target(ABC):
    """Something that can be observed."""

    @abstractmethod
    def install(self, watch: Watch, guard: Guard) -> None:
        """Installs the hooks; they report to `watch`."""

    def reset(self) -> None:  # noqa: B027 - most keep nothing
        """Releases what belonged to one iteration before another is observed."""

    @abstractmethod
    def remove(self) -> None:
        """Removes the hooks; may be called twice."""

    def close(self) -> None:
        """Also removes what stays between iterations: it is not installed again."""
        self.remove()
