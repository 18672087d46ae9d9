"""Asks open recordings what a request's address says, with the same rules as the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from stepscope.api.several import ask_of_several
from stepscope.base.chosen_numbers import parse_numbers
from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name
from stepscope.base.units import plural
from stepscope.query.declare import Parameter, Question
from stepscope.questions import all_questions, find
from stepscope.report.page_data import Shown, holds
from stepscope.serve.growing import Growing, Reopen
from stepscope.timeline.recording import Timeline

if TYPE_CHECKING:
    from stepscope.api.trace import Trace
    from stepscope.query.table import Table

ERRORS = {
    "asked-twice": "A request has a parameter twice.",
    "unknown-recording": (
        "A request names a recording that the server does not have, or another number of recordings than the "
        "question compares; `api/recordings` lists them."
    ),
}

_FLAGS = {"true": True, "false": False}

PREPARED_UP_TO = 5_000_000
"""Recordings with up to this many events are asked the overview's questions before the page asks: some seconds of one
processor."""


class _Turn:
    """Lets identical questions wait for the first of them."""

    def __init__(self) -> None:
        self.lock = Lock()


class Recordings:
    """Open recordings, by the ids in requests: 1, 2, ..."""

    def __init__(self, shown: Sequence[Shown], sources: Sequence[Path] = (), reopen: Reopen | None = None) -> None:
        """Takes the recordings as they are now; with `reopen`, they follow their `sources` (`Growing`)."""
        self._growing = Growing(shown, sources, reopen)
        self._timelines: WeakKeyDictionary[Trace, Timeline] = WeakKeyDictionary()
        self._holds: WeakKeyDictionary[Trace, list[str]] = WeakKeyDictionary()
        self._asking: WeakValueDictionary[object, _Turn] = WeakValueDictionary()

    def listed(self) -> list[dict[str, str]]:
        """Ids and names of the recordings."""
        with self._growing.now() as all_shown:
            return [{"id": number, "name": one.name} for number, one in all_shown.items()]

    def for_page(self) -> list[dict[str, Any]]:
        """Ids, names and contents of the recordings; the page derives its empty views from them."""
        told: list[dict[str, Any]] = []
        with self._growing.now() as all_shown:
            for number, one in all_shown.items():
                if one.trace not in self._holds:
                    with one.trace.scope() as scope:
                        self._holds[one.trace] = holds(scope)
                told.append({"id": number, "name": one.name, "holds": self._holds[one.trace]})
        return told

    def prepare(self) -> None:
        """Prepares what every page asks first: the contents, the declarations and, where that is fast, the overview's
        answers. They are ready by the time a browser has started and read the page."""
        first = self.for_page()[0]["id"]
        questions = all_questions()
        with self._growing.now() as all_shown, all_shown[first].trace.scope() as scope:
            events = scope.value("SELECT sum(events_read) FROM source") or 0
        if events <= PREPARED_UP_TO:
            for question in questions:
                if question.on_overview:
                    self.ask(question.name, [first], [])

    def state(self) -> dict[str, Any]:
        """How often the recordings were reopened because their files changed, and the error if that failed."""
        return self._growing.look()

    def close(self) -> None:
        """Closes the recordings that were opened since."""
        self._growing.close()

    def ask(self, name: str, ids: Sequence[str], asked: Sequence[tuple[str, str]]) -> Table:
        """Answers a question.

        Args:
            name: the question's name.
            ids: the recordings; by default the first, the first two, or all.
            asked: the question's parameters as texts, and options for rows, columns and parts of the recording, as on
                the command line.

        Raises:
            UsageError: a recording, question, parameter or option does not exist.
            StepScopeError: the recordings do not have the data.
        """
        with self._growing.now() as all_shown:
            question = find(name)
            shown = _chosen(question, ids, all_shown)
            read = _read(question, asked)
            # Identical questions wait here, and then find the answer kept.
            turn = self._asking.setdefault((name, *ids, *asked), _Turn())
            with turn.lock:
                return _asked(question, shown, read)

    def sql(self, number: str, text: str, *, most: int) -> Table:
        """Runs one read-only SQL statement, for at most so many rows.

        Raises:
            UsageError: the recording does not exist, or the statement is not read-only or fails.
        """
        with self._growing.now() as all_shown:
            return _one(number, all_shown).trace.sql(text, top=most)

    @contextmanager
    def timeline(self, number: str) -> Iterator[Timeline]:
        """Yields the timeline of a recording, which stays open meanwhile.

        Raises:
            UsageError: the recording does not exist.
        """
        with self._growing.now() as all_shown:
            trace = _one(number, all_shown).trace
            yield self._timelines.setdefault(trace, Timeline(trace.store, trace.ranks))


def _one(number: str, shown: Mapping[str, Shown]) -> Shown:
    return shown[check_name(number, shown, "recording")]


def _chosen(question: Question, ids: Sequence[str], shown: Mapping[str, Shown]) -> list[Shown]:
    wanted = {"one": 1, "two": 2, "several": None}[question.recordings]
    chosen = [_one(number, shown) for number in ids or list(shown)[:wanted]]
    if wanted is not None and len(chosen) != wanted:
        raise UsageError(
            f"{question.name} is asked of {wanted} {plural(wanted, 'recording')}, not {len(chosen)}",
            hint="name them as in recording=1&recording=2",
            slug="unknown-recording",
        )
    return chosen


def _asked(question: Question, shown: Sequence[Shown], read: dict[str, Any]) -> Table:
    if question.recordings == "one":
        return shown[0].trace.ask(question.name, **read)
    if refused := [option for option in ("rank", "step") if option in read]:
        known = [one.name for one in question.parameters]
        check_name(refused[0], known, "parameter", of=question.name)
    traces, names = [one.trace for one in shown], [one.name for one in shown]
    return ask_of_several(question.name, traces, names=names, **read)


def _read(question: Question, asked: Sequence[tuple[str, str]]) -> dict[str, Any]:
    declared = {one.name: one for one in question.parameters}
    read: dict[str, Any] = {}
    for name, text in asked:
        if name in read:
            raise UsageError(f"{name} is there twice", hint="name it once", slug="asked-twice")
        if name in declared:
            read[name] = _value(declared[name], text)
        elif name in ("rank", "step"):
            read[name] = parse_numbers(text)
        elif name == "columns":
            read[name] = text.split(",")
        elif name == "top":
            read[name] = _value(_TOP, text)
        elif name in _TEXTS:
            read[name] = text
        else:
            check_name(name, declared, "parameter", of=question.name)
    return read


_TEXTS = ("sort", "name", "under", "window")
_TOP = Parameter("top", "int", "the first so many rows", None)


def _value(parameter: Parameter, text: str) -> Any:
    try:
        if parameter.type == "bool":
            return _FLAGS[text.lower()]
        return {"int": int, "float": float, "text": str}[parameter.type](text)
    except (KeyError, ValueError):
        raise UsageError(
            f"{parameter.name}={text!r} is not of type {parameter.type}",
            hint=f"{parameter.name}: {parameter.meaning}",
            slug="bad-parameter",
        ) from None
