"""What can be installed in a job to hear when something begins and ends.

A target is installed for one iteration and taken out again. It tells a `Watch`, changes no value,
and lets no exception of ours reach the job.
"""

from __future__ import annotations

from typing import Protocol

from stepscope.record.trouble import Guard
from stepscope.record.watch import Watch


class Target(Protocol):
    """Something that can be listened to."""

    def install(self, watch: Watch, guard: Guard) -> None:
        """Puts the hooks in; whatever they hear goes to `watch`."""

    def remove(self) -> None:
        """Takes the hooks out; safe to call twice."""
