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

Asked = Mapping[str, str]
_FARTHEST = 1 << 62
"""No recording has numbers beyond this."""


def ask_timeline(recordings: Recordings, what: str, asked: Asked) -> dict[str, Any]:
    """Answers a request about a timeline.

    Args:
        recordings: the open recordings.
        what: `layout`, `tile`, `event`, `find` or `range`.
        asked: the parameters as texts; `recording` is the first by default.

    Raises:
        UsageError: a parameter is wrong, or names something that does not exist.
    """
    answer = _ANSWERS[check_name(what, _ANSWERS, "answer", of="the timeline")]
    with recordings.timeline(asked.get("recording", "1")) as timeline:
        return answer(timeline, asked)


def _layout(timeline: Timeline, _: Asked) -> dict[str, Any]:
    return timeline.layout()


def _tile(timeline: Timeline, asked: Asked) -> dict[str, Any]:
    return timeline.tile(_number(asked, "level"), _number(asked, "index"), _tracks(asked))


def _event(timeline: Timeline, asked: Asked) -> dict[str, Any]:
    track = timeline.track(_text(asked, "track"))
    return details(timeline, track, _number(asked, "id"))


def _find(timeline: Timeline, asked: Asked) -> dict[str, Any]:
    number = _number(asked, "number") if "number" in asked else None
    at = _number(asked, "at") if "at" in asked else 0
    rank = _number(asked, "rank") if "rank" in asked else None
    return timeline.find(_text(asked, "name"), number=number, at=at, rank=rank)


def _range(timeline: Timeline, asked: Asked) -> dict[str, Any]:
    return timeline.measure(_number(asked, "start"), _number(asked, "end"), _tracks(asked))


_ANSWERS: Mapping[str, Callable[[Timeline, Asked], dict[str, Any]]] = {
    "layout": _layout,
    "tile": _tile,
    "event": _event,
    "find": _find,
    "range": _range,
}


def _tracks(asked: Asked) -> list[str]:
    return list(dict.fromkeys(one for one in _text(asked, "tracks").split(",") if one))


def _text(asked: Asked, name: str) -> str:
    if not asked.get(name):
        raise _bad(name, "is missing")
    return asked[name]


def _number(asked: Asked, name: str) -> int:
    text = _text(asked, name)
    if len(text) > 20 or not text.removeprefix("-").isdecimal() or abs(int(text)) > _FARTHEST:
        raise _bad(name, "is not an integer")
    return int(text)


def _bad(name: str, what: str) -> UsageError:
    return UsageError(
        f"{name} {what}",
        hint="ask as in api/timeline/tile?recording=1&level=20&index=0&tracks=0.steps",
        slug="bad-timeline-request",
    )
