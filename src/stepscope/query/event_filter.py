"""Which events of a recording a question is about: by name, by enclosing range or module, by time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, get_args

from stepscope.base.errors import UsageError
from stepscope.base.quoting import sql_literal
from stepscope.base.units import parse_time, time_text
from stepscope.query.declare import About, Filter, Question

OPEN_END_NS = 1 << 62
"""The end of a stretch of time without an end: later than any event."""

ERRORS = {
    "bad-pattern": (
        "`--name` and `--under` take a name, a name with `*` for any text and `?` for one character, or "
        "a regular expression between slashes, `/sgemm|hgemm/`. The syntax is RE2's: it has no look-around "
        "and no back-references, and its cost is linear in the name."
    ),
    "bad-window": (
        "`--window` takes a stretch of time, START:END in seconds from the run's start or with units: "
        "`10ms:20ms`, `1.5s:`, `:3s`. The run starts at 0, so that no end is negative, and the end comes "
        "after the start."
    ),
    "cannot-narrow": (
        "The question cannot be asked of a part of the recording in this way. One about times (`steps`, "
        "`idle`) takes `--window` and no filter of events: what is idle for some events may be busy with "
        "others. One that judges steps or describes files takes neither."
    ),
    "named-nothing": (
        "`--name` or `--under` names what the recording has on no rank and in no step; the hint lists names "
        "like it. What the recording has, and not in the asked ranks and steps, is an empty answer."
    ),
    "several-under": (
        "What `--under` names is a module, an operator and a range, or two of these. Say which: "
        "`module:NAME`, `operator:NAME` or `range:NAME`."
    ),
    "nothing-in-window": (
        "No event of the recording lies in the window, or, where none was recorded, no sample; the hint says "
        "when it ran."
    ),
}

_TAKES: dict[About, frozenset[Filter]] = {
    "events": frozenset(get_args(Filter)),
    "time": frozenset(("window",)),
    "recording": frozenset(),
}


def filters_of(question: Question) -> dict[str | None, tuple[Filter, ...]]:
    """The filters that a question takes, by the value of `by` if that decides, else under None."""
    of_forms = {None: question.about} if isinstance(question.about, str) else question.about
    return {
        by: tuple(filter_ for filter_ in get_args(Filter) if filter_ in _TAKES[about]) for by, about in of_forms.items()
    }


_WHY = {
    "time": "is about all that went on in a stretch of time",
    "recording": "is about the recording as such, its steps, files or labels",
}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events that a question is about; all of them by default.

    Args:
        name: events whose name matches: a name, one with `*` and `?`, or `/a regular expression/`.
        under: events of a module, or inside an operator or range, whose name matches.
        window: events in this stretch of time, from and to (ns since the run's start); events that extend
            beyond it are cut.
    """

    name: str | None = None
    under: str | None = None
    window: tuple[int, int] | None = None

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters that are set."""
        return tuple(filter_ for filter_ in get_args(Filter) if getattr(self, filter_) is not None)

    def __bool__(self) -> bool:
        return bool(self.filters)

    def check_allowed(self, question: Question, by: str | None = None) -> None:
        """Refuses filters that would make the question's answer, in the form `by`, untrue.

        Raises:
            UsageError: the question does not take these filters.
        """
        by_form = not isinstance(question.about, str)
        taken = filters_of(question)
        allowed = taken[by if by_form else None]
        wrong = [filter_ for filter_ in self.filters if filter_ not in allowed]
        if not wrong:
            return
        about = question.about[by] if not isinstance(question.about, str) else question.about
        form = f" --by {by}" if by_form and by is not None else ""
        others = [
            f"--by {other}"
            for other, filters in taken.items()
            if other is not None and set(self.filters) <= set(filters)
        ]
        hint = [f"it takes {', '.join(f'--{filter_}' for filter_ in allowed)}"] if allowed else []
        if others:
            hint.append(f"with {' or '.join(others)} it takes {' and '.join(map(_option, wrong))} too")
        else:
            able = "steps, operators" if wrong == ["window"] else "operators, kernels"
            hint.append(f"{able} and others take {'it' if len(wrong) == 1 else 'them'}")
        raise UsageError(
            f"{question.name}{form} {_WHY[about]}: it cannot be asked with {' or '.join(map(_option, wrong))}",
            hint="; ".join(hint),
            slug="cannot-narrow",
        )

    def words(self) -> str:
        """Describes the part, for a note to an answer; empty for everything."""
        words = []
        if self.name is not None:
            words.append(f"events named {self.name}")
        if self.under is not None:
            words.append(f"what is under {self.under}")
        if self.window is not None:
            words.append(f"{window_text(self.window)} of the run, cutting events at its edges")
        return f"Only {', '.join(words)}; shares are of this part." if words else ""


def _option(filter_: str) -> str:
    return f"--{filter_}"


EVERYTHING = EventFilter()


def event_filter(name: Any = None, under: Any = None, window: Any = None) -> EventFilter:
    """Makes a part from what people typed; `window` is a text or two times in ns.

    Raises:
        UsageError: a pattern or window is invalid.
    """
    for filter_name, pattern in (("name", name), ("under", under)):
        if pattern is not None and not _is_pattern(pattern):
            raise UsageError(
                f"{filter_name}={pattern!r} names nothing",
                hint="give a name, as in aten::mm, '*gemm*' or '/sgemm|hgemm/'",
                slug="bad-pattern",
            )
    if isinstance(window, str):
        window = parse_window(window)
    elif window is not None:
        window = _window(window)
    return EventFilter(name, under, window)


def _is_pattern(given: Any) -> bool:
    """Whether it can be a name pattern: a text that is valid Unicode and not empty."""
    if not isinstance(given, str) or given in ("", "/", "//"):
        return False
    # A surrogate is a byte of the command line that was not UTF-8; no recorded name has one.
    return not any("\ud800" <= letter <= "\udfff" for letter in given)


def parse_window(text: str) -> tuple[int, int]:
    """Parses `0.5:2`, `500ms:2s`, `1.5s:` or `:3s` into start and end in ns. An end left out is open; a number
    without a unit is in seconds.

    Raises:
        UsageError: it is not such a text, it starts before the run, or the window is empty.
    """
    first, colon, last = text.partition(":")
    try:
        start = _seconds(first) if first.strip() else 0
        end = _seconds(last) if last.strip() else OPEN_END_NS
    except (ValueError, OverflowError):
        colon, start, end = "", 0, 0
    if not colon:
        raise _no_window(text)
    return _checked_window(text, start, end)


def _seconds(text: str) -> int:
    plain = re.fullmatch(r"\s*[-+.\deE]+\s*", text)
    return parse_time(f"{text.strip()}s" if plain else text)


def _window(ends: Any) -> tuple[int, int]:
    try:
        start, end = ends
    except (TypeError, ValueError):
        raise _no_window(ends) from None
    if not all(isinstance(end_, int) and not isinstance(end_, bool) for end_ in (start, end)):
        raise _no_window(ends)
    return _checked_window(ends, start, end)


def _checked_window(given: object, start: int, end: int) -> tuple[int, int]:
    if start < 0:
        raise _no_window(given, ": it starts before the run, which starts at 0")
    if end <= start:
        raise _no_window(given, ": its end does not come after its start")
    return start, min(end, OPEN_END_NS)


def _no_window(given: object, why: str = "") -> UsageError:
    return UsageError(
        f"{given!r} is not a stretch of time{why}",
        hint="write 500ms:2s, :2s or 1.5s:, in seconds from the run's start where there is no unit; in "
        "Python also two integers in ns",
        slug="bad-window",
    )


def window_text(window: tuple[int, int]) -> str:
    """A window in words: `1.500 ms to 2.000 ms`."""
    start, end = window
    return f"{time_text(start)} to {'the end' if end >= OPEN_END_NS else time_text(end)}"


def window_typed(window: tuple[int, int]) -> str:
    """A window as text that `parse_window` accepts.

    >>> window_typed((1_500_000, OPEN_END_NS))
    '1500000ns:'
    """
    start, end = window
    return f"{start}ns:{'' if end >= OPEN_END_NS else f'{end}ns'}"


def matching(column: str, pattern: str) -> str:
    """SQL condition: whether a text column matches a name, a GLOB or `/a regular expression/`.

    A name or GLOB must match the complete text; `*` is any text, `?` one character, all else literal. A
    regular expression may match anywhere. Both use RE2, whose cost is linear.
    """
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        return f"regexp_matches({column}, {sql_literal(pattern[1:-1])})"
    if not set("*?").intersection(pattern):
        return f"{column} = {sql_literal(pattern)}"
    wild = {"*": ".*", "?": "."}
    regex = "".join(wild.get(letter) or _escaped(letter) for letter in pattern)
    return f"regexp_full_match({column}, {sql_literal(f'(?s){regex}')})"


def _escaped(letter: str) -> str:
    return letter if letter.isalnum() or letter == "_" or ord(letter) > 127 else f"\\{letter}"
