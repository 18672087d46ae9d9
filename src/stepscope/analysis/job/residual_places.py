"""Finds the program's lines in which the residual of steps is spent, from samples of its stack."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stepscope.formats.frames import parsed
from stepscope.formats.vocabulary import is_framework_frame, is_program_frame, runs_steps

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

FEWEST_SAMPLES = 20
"""Fewer samples show no shares: a place with half of 20 has between 30 and 70 % of the time, with 95 % confidence."""

_STACKS = """
    SELECT frames, sum(weight)::BIGINT AS samples FROM stack_sample
    JOIN call_stack USING (rank, span, stack_id) WHERE phase = 'residual' GROUP BY frames
"""


class Place(NamedTuple):
    """A line of the program, the other code that it called, and its samples: `main (train.py:17), in clip_grad_norm_`."""

    text: str
    samples: int


def residual_places(scope: Scope) -> list[Place]:
    """The places of all samples in the residual, most samples first; empty if no stacks were sampled."""
    places: Counter[str] = Counter()
    for row in scope.sql(_STACKS).to_pylist():
        places[_place(row["frames"].split(";"))] += row["samples"]
    return [Place(*pair_of) for pair_of in sorted(places.items(), key=lambda pair: (-pair[1], pair[0]))]


def _place(frames: list[str]) -> str:
    """The program's innermost frame and the other code that it called, or the part of a framework's step that contains
    it (a callback's hook): the line that called the framework is no help."""
    innermost = next(
        (at for at, text in enumerate(frames) if is_program_frame(text) and not is_framework_frame(text)), None
    )
    loop = next((at for at, text in enumerate(frames) if runs_steps(text)), None)
    if loop and (innermost is None or loop < innermost):
        return _step_part(frames[:loop])
    if innermost is None:
        return parsed(frames[0]).function
    frame = parsed(frames[innermost])
    line = "" if frame.line is None else f":{frame.line}"
    return f"{frame.function} ({frame.file}{line}){_callee_text(frames[:innermost])}"


def _step_part(frames: list[str]) -> str:
    parsed_frames = [parsed(text) for text in reversed(frames)]
    part = next((frame for frame in parsed_frames if "<locals>" not in frame.function), parsed_frames[0])
    return part.function if part.file is None else f"{part.function} ({part.file})"


def _callee_text(frames: list[str]) -> str:
    """The function that the program called there, without the wrappers of decorators."""
    names = [parsed(text).function for text in reversed(frames)]
    name = next((name for name in names if "<locals>" not in name), *names[:1] or [""])
    return f", in {name}" if name else ""
