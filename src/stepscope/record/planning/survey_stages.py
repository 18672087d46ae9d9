"""What is watched in each iteration of a survey, from finding the model to the operators in its modules."""

from __future__ import annotations

from typing import Literal

from stepscope.record.job.discover import Discovery
from stepscope.record.planning.rounds import Listed, heaviest, listed, modules_of
from stepscope.record.planning.surveyor import Surveyor
from stepscope.record.targets.watch import ObservingWatch
from stepscope.record.trouble import Guard

_DEVICE_SECONDS = 30.0

Stage = Literal["untouched", "discover", "plain", "all", "forwards", "operators"]


def stages_of(iterations: int) -> tuple[Stage, ...]:
    """What each iteration of a survey is for, when so many of each kind are watched."""
    # Those without anything of ours lie between the others, so that both meet the same weather.
    timed: tuple[Stage, ...] = ("plain", "all", "forwards")
    operators: tuple[Stage, ...] = ("operators",)
    return ("untouched", "discover", *timed * iterations, "plain", *operators * iterations)


class StagesWatched:
    """Finds the model and optimizers in one iteration, and has others watched.

    Args:
        guard: hears what goes wrong in the hooks; nothing is watched from then on.
        top: how many modules are kept, by the time they take themselves.
    """

    def __init__(self, guard: Guard, *, top: int) -> None:
        self._guard = guard
        self._top = top
        self._discovery: Discovery | None = None
        self._surveyor: Surveyor | None = None
        self._operators_of: list[str] | None = None

    @property
    def watch(self) -> ObservingWatch | None:
        """What hears the running iteration; None when it is not watched."""
        return None if self._surveyor is None else self._surveyor.watch

    @property
    def iterations(self) -> int:
        """How many iterations of each kind were watched."""
        rounds = [] if self._surveyor is None else self._surveyor.rounds
        return sum(one.kind == "all" for one in rounds)

    def begin(self, stage: Stage) -> None:
        """An iteration begins."""
        discovery = self._discovery
        if stage == "discover" and discovery is None:
            self._discovery = Discovery()
            self._discovery.install(self._guard)
        # An iteration that broke off has shown nothing; then the next one is listened to.
        elif discovery is not None and (discovery.roots or discovery.optimizers):
            discovery.remove()
            self._discovery = None
            self._surveyor = Surveyor(discovery.model, discovery.optimizers, self._guard)
        if self._surveyor is None or self._guard.tripped:
            return
        if stage == "operators":
            if self._operators_of is None:
                self._surveyor.wait(_DEVICE_SECONDS)
                kept = heaviest(listed(self._surveyor.rounds), self._top)
                self._operators_of = modules_of(kept)
            self._surveyor.begin("operators", self._operators_of)
        elif stage in ("all", "forwards"):
            self._surveyor.begin(stage)

    def end(self, *, fresh: bool) -> None:
        """The iteration is over; a fresh one counts only if there is no better one."""
        if self._surveyor is not None and self._surveyor.watch is not None:
            self._surveyor.end(fresh=fresh)

    def abandon(self) -> None:
        """The iteration broke off, and is not kept."""
        if self._surveyor is not None:
            self._surveyor.abandon()

    def take_out(self) -> list[Listed]:
        """Ends all watching. Returns everything that was heard; `heaviest` says what to keep of it."""
        if self._discovery is not None:
            self._discovery.remove()
        if self._surveyor is None:
            return []
        self._surveyor.remove()
        self._surveyor.wait(_DEVICE_SECONDS)
        return listed(self._surveyor.rounds)
