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
from stepscope.report.page_data import OpenRecording, holds
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

    def __init__(
        self, recordings: Sequence[OpenRecording], sources: Sequence[Path] = (), reopen: Reopen | None = None
    ) -> None:
        """Takes the recordings as they are now; with `reopen`, they follow their `sources` (`Growing`)."""
        self._growing = Growing(recordings, sources, reopen)
        self._timelines: WeakKeyDictionary[Trace, Timeline] = WeakKeyDictionary()
        self._holds: WeakKeyDictionary[Trace, list[str]] = WeakKeyDictionary()
        self._asking: WeakValueDictionary[object, _Turn] = WeakValueDictionary()

    def listed(self) -> list[dict[str, str]]:
        """Ids and names of the recordings."""
        with self._growing.now() as recordings:
            return [{"id": number, "name": recording.name} for number, recording in recordings.items()]

    def for_page(self) -> list[dict[str, Any]]:
        """Ids, names and contents of the recordings; the page derives its empty views from them."""
        described: list[dict[str, Any]] = []
        with self._growing.now() as recordings:
            for number, recording in recordings.items():
                if recording.trace not in self._holds:
                    with recording.trace.scope() as scope:
                        self._holds[recording.trace] = holds(scope)
                described.append({"id": number, "name": recording.name, "holds": self._holds[recording.trace]})
        return described

    def prepare(self) -> None:
        """Prepares what every page asks first: the contents, the declarations and, where that is fast, the overview's
        answers. They are ready by the time a browser has started and read the page."""
        first = self.for_page()[0]["id"]
        questions = all_questions()
        with self._growing.now() as recordings, recordings[first].trace.scope() as scope:
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

    def ask(self, name: str, ids: Sequence[str], parameters: Sequence[tuple[str, str]]) -> Table:
        """Answers a question.

        Args:
            ids: the recordings; by default the first, the first two, or all.
            parameters: the question's parameters as texts, and options for rows, columns and parts of the recording, as on
                the command line.

        Raises:
            UsageError: a recording, question, parameter or option does not exist.
            StepScopeError: the recordings do not have the data.
        """
        with self._growing.now() as recordings:
            question = find(name)
            chosen = _chosen(question, ids, recordings)
            read = _read(question, parameters)
            # Identical questions wait here, and then find the answer kept.
            turn = self._asking.setdefault((name, *ids, *parameters), _Turn())
            with turn.lock:
                return _answer(question, chosen, read)

    def sql(self, number: str, text: str, *, max_rows: int) -> Table:
        """Runs one read-only SQL statement, for at most so many rows.

        Raises:
            UsageError: the recording does not exist, or the statement is not read-only or fails.
        """
        with self._growing.now() as recordings:
            return _recording(number, recordings).trace.sql(text, top=max_rows)

    @contextmanager
    def timeline(self, number: str) -> Iterator[Timeline]:
        """Yields the timeline of a recording, which stays open meanwhile.

        Raises:
            UsageError: the recording does not exist.
        """
        with self._growing.now() as recordings:
            trace = _recording(number, recordings).trace
            yield self._timelines.setdefault(trace, Timeline(trace.store, trace.ranks))


def _recording(number: str, recordings: Mapping[str, OpenRecording]) -> OpenRecording:
    return recordings[check_name(number, recordings, "recording")]


def _chosen(question: Question, ids: Sequence[str], recordings: Mapping[str, OpenRecording]) -> list[OpenRecording]:
    count = {"one": 1, "two": 2, "several": None}[question.recordings]
    chosen = [_recording(number, recordings) for number in ids or list(recordings)[:count]]
    if count is not None and len(chosen) != count:
        raise UsageError(
            f"{question.name} is asked of {count} {plural(count, 'recording')}, not {len(chosen)}",
            hint="name them as in recording=1&recording=2",
            slug="unknown-recording",
        )
    return chosen


def _answer(question: Question, recordings: Sequence[OpenRecording], read: dict[str, Any]) -> Table:
    if question.recordings == "one":
        return recordings[0].trace.ask(question.name, **read)
    if refused := [option for option in ("rank", "step") if option in read]:
        declared = [item.name for item in question.parameters]
        check_name(refused[0], declared, "parameter", of=question.name)
    traces, names = [item.trace for item in recordings], [item.name for item in recordings]
    return ask_of_several(question.name, traces, names=names, **read)


def _read(question: Question, parameters: Sequence[tuple[str, str]]) -> dict[str, Any]:
    declared = {parameter.name: parameter for parameter in question.parameters}
    read: dict[str, Any] = {}
    for name, text in parameters:
        if name in read:
            raise UsageError(f"{name} is given twice", hint="give it once", slug="asked-twice")
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
