"""What can be measured in a model, in the order it runs, and a plan of it to edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepscope.record import annotate
from stepscope.record.clock import HostClock
from stepscope.record.plan import plan_from
from stepscope.record.targets.find import Finder
from stepscope.record.trouble import Guard
from stepscope.record.watch import Surveyed, SurveyWatch, WatchedRegion

_EVERYTHING = ("zero_grad", "forward", "**.forward", "backward", "**.backward", "optimizer.step")
_OPERATORS = ("**.forward.*::*", "**.backward.*::*")


def measurable(
    step: Callable[[], object],
    model: Any,
    optimizers: Sequence[Any] = (),
    *,
    operators: bool = False,
) -> list[Surveyed]:
    """Runs one training step and returns every event that a plan could name, in order.

    Args:
        step: one training step: forward, backward, optimizer.
        model: the outermost module.
        optimizers: those whose `zero_grad` counts.
        operators: also every operator inside every module, which are many.

    Raises:
        Exception: what the step itself raises.
    """
    wanted = [*_EVERYTHING, *(_OPERATORS if operators else ())]
    # A region may have any name, so the last entry names all of them.
    plan = plan_from({"events": [*wanted, "**"]}, source="everything")
    clock = HostClock()
    watch = SurveyWatch(plan, lambda _: clock)
    guard = Guard("the survey")
    targets = Finder(model, optimizers, None).survey(plan)

    def open_region(name: str) -> WatchedRegion:
        return WatchedRegion(watch, guard, name)

    for target in targets:
        target.install(watch, guard)
    annotate.listen(open_region)
    try:
        step()
    finally:
        annotate.stop_listening(open_region)
        for target in targets:
            target.remove()
    if guard.error is not None:
        raise guard.error
    return [event for event in watch.events if event.end_index is not None]


def plan_text(events: Iterable[Surveyed], *, repetitions: int = 50) -> str:
    """A plan in TOML that names these events, one per line, for people to cut down.

    >>> print(plan_text([Surveyed("forward", 0, 0, 0, "host", 0, 1)], repetitions=20))
    warmup = 10
    repetitions = 20
    events = [
        "forward",
    ]
    <BLANKLINE>
    """
    labels = dict.fromkeys(event.label for event in events)
    lines = "\n".join(f'    "{_escaped(label)}",' for label in labels)
    return f"warmup = 10\nrepetitions = {repetitions}\nevents = [\n{lines}\n]\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"')
