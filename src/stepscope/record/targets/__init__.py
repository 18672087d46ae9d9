"""What can be installed in a job to hear when something begins and ends.

A target is installed for some iterations and taken out again. It tells a `Watch`, changes no value,
and lets no exception of ours reach the job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


class Target(ABC):
    """Something that can be listened to."""

    @abstractmethod
    def install(self, watch: Watch, guard: Guard) -> None:
        """Puts the hooks in; whatever they hear goes to `watch`."""

    def rest(self) -> None:  # noqa: B027 - most have nothing to let go of
        """An iteration is over and another will be listened to: lets go of what was the first one's."""

    @abstractmethod
    def remove(self) -> None:
        """Takes the hooks out; safe to call twice."""

    def close(self) -> None:
        """Takes out what stays from one iteration to another, too: it is not installed again."""
        self.remove()
