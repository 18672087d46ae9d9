"""Answers the requests of the page's timeline, by the last part of their address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name
from stepscope.timeline.details import details

if TYPE_CHECKING:
    from stepscope.serve.asking import Recordings
    from stepscope.timeline.recording import Timeline

ERRORS = {"bad-timeline-request": "A request about the timeline lacks a parameter, or has one that is not an integer."}

Parameters = Mapping[str, str]
_FARTHEST = 1 << 62
"""No recording has numbers beyond this."""


def ask_timeline(recordings: Recordings, what: str, parameters: Parameters) -> dict[str, Any]:
    """Answers a request about a timeline.

    Args:
        what: `layout`, `tile`, `event`, `find` or `range`.
        parameters: the parameters as texts; `recording` is the first by default.

    Raises:
        UsageError: a parameter is wrong, or names something that does not exist.
    """
    answer = _ANSWERS[check_name(what, _ANSWERS, "answer", of="the timeline")]
    with recordings.timeline(parameters.get("recording", "1")) as timeline:
        return answer(timeline, parameters)


def _layout(timeline: Timeline, _: Parameters) -> dict[str, Any]:
    return timeline.layout()


def _tile(timeline: Timeline, parameters: Parameters) -> dict[str, Any]:
    return timeline.tile(_number(parameters, "level"), _number(parameters, "index"), _tracks(parameters))


def _event(timeline: Timeline, parameters: Parameters) -> dict[str, Any]:
    track = timeline.track(_text(parameters, "track"))
    return details(timeline, track, _number(parameters, "id"))


def _find(timeline: Timeline, parameters: Parameters) -> dict[str, Any]:
    number = _number(parameters, "number") if "number" in parameters else None
    at = _number(parameters, "at") if "at" in parameters else 0
    rank = _number(parameters, "rank") if "rank" in parameters else None
    return timeline.find(_text(parameters, "name"), number=number, at=at, rank=rank)


def _range(timeline: Timeline, parameters: Parameters) -> dict[str, Any]:
    return timeline.measure(_number(parameters, "start"), _number(parameters, "end"), _tracks(parameters))


_ANSWERS: Mapping[str, Callable[[Timeline, Parameters], dict[str, Any]]] = {
    "layout": _layout,
    "tile": _tile,
    "event": _event,
    "find": _find,
    "range": _range,
}


def _tracks(parameters: Parameters) -> list[str]:
    return list(dict.fromkeys(track for track in _text(parameters, "tracks").split(",") if track))


def _text(parameters: Parameters, name: str) -> str:
    if not parameters.get(name):
        raise _bad(name, "is missing")
    return parameters[name]


def _number(parameters: Parameters, name: str) -> int:
    text = _text(parameters, name)
    if len(text) > 20 or not text.removeprefix("-").isdecimal() or abs(int(text)) > _FARTHEST:
        raise _bad(name, "is not an integer")
    return int(text)


def _bad(name: str, what: str) -> UsageError:
    return UsageError(
        f"{name} {what}",
        hint="ask as in api/timeline/tile?recording=1&level=20&index=0&tracks=0.steps",
        slug="bad-timeline-request",
    )
