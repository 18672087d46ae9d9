"""What a report holds: which answers, in what order, and what is left out where they are too many.

One list decides it, made of the declarations (`forms`): every question as it is asked by default, then
each of its forms (`Parameter.form`). A plug-in's question is on it like ours.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stepscope import __version__
from stepscope.answers.ask import ask_within
from stepscope.answers.declare import Question
from stepscope.answers.kernel_names import short_names
from stepscope.floor.errors import StepScopeError
from stepscope.floor.units import bytes_text
from stepscope.questions import every
from stepscope.report.declaration import page_declaration
from stepscope.report.private_names import without_places
from stepscope.report.timeline_data import MOST_EVENTS, timeline_data
from stepscope.schema.tables import TABLES
from stepscope.timeline.recording import Timeline

if TYPE_CHECKING:
    from stepscope.answers.scope import Scope
    from stepscope.answers.table import Table
    from stepscope.api.trace import Trace

VERSION = 1
"""Of what is in the block; a page of another version does not read it."""
MOST_ROWS = 2_000
"""Rows of one answer in a report: more is nothing to read, and the command line has all of them."""
MOST_BYTES = 14_000_000
"""Of all answers and the timeline together, as they stand in the file, so that script and style leave it
below 15 MB."""
MOST_TIMELINE_BYTES = 5_000_000
"""Of the timelines of all recordings."""

Scrub = Callable[[Any], Any]


@dataclass(frozen=True)
class Shown:
    """A recording in a report: what to call it, and the open trace."""

    name: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class Form:
    """A question with the parameters that it is asked with beside its defaults."""

    question: Question
    parameters: Mapping[str, Any]


def forms() -> list[Form]:
    """What a report asks: every question as it is, and then in each of its forms."""
    asked = every()
    by_default = [Form(question, {}) for question in asked]
    return by_default + [
        Form(question, {parameter.name: form})
        for question in asked
        for parameter in question.parameters
        if parameter.form
        for form in parameter.choices
        if form != parameter.default
    ]


def page_data(shown: Sequence[Shown], *, with_places: bool = False) -> dict[str, Any]:
    """The data block of a report.

    Args:
        shown: the recordings; the first is the one that others are compared with.
        with_places: keep the names of hosts and the paths of files.

    Returns:
        What the page's `EmbeddedSource` reads: `recordings`, `declarations`, `replies` (compressed, by
        `key`), `left_out` with the reason for each, `timelines` and `timeline_events` (compressed).
    """
    ids = [str(number) for number, _ in enumerate(shown, 1)]
    with ExitStack() as stack:
        scopes = [stack.enter_context(recording.trace.scope()) for recording in shown]
        for scope in scopes:
            scope.hold(TABLES)
        scrub: Scrub = (lambda value: value) if with_places else _scrub_for(scopes)
        held = [holds(scope) for scope in scopes]
        # What is drawn, and answers that are there, are put into the file's form while the next question is asked.
        beside = stack.enter_context(ThreadPoolExecutor(2))
        drawn = beside.submit(_timelines, shown, ids, scrub)
        answers = _answers(_asked(shown, ids, scopes), scrub, beside)
        layouts, events, taken = drawn.result()
        replies, left_out = _fitting(answers, scrub, MOST_BYTES - taken)
    return {
        "version": VERSION,
        "stepscope": __version__,
        "recordings": [
            {"id": one, "name": scrub(recording.name), "holds": has}
            for one, recording, has in zip(ids, shown, held, strict=True)
        ],
        "declarations": [page_declaration(question) for question in every()],
        "replies": replies,
        "left_out": left_out,
        "timelines": layouts,
        "timeline_events": events,
    }


def holds(scope: Scope) -> list[str]:
    """What a recording has rows of: its tables, of events each kind, as in `host_event python`, and `counter kind`
    where counters are of a known one."""
    return [*scope.store.filled(), *scope.sql(_KINDS)["held"].to_pylist()]


_KINDS = " UNION ALL ".join(
    (
        *(
            f"SELECT '{table} ' || kind AS held FROM (SELECT DISTINCT kind FROM {table})"
            for table in ("host_event", "device_event")
        ),
        "SELECT 'counter kind' WHERE EXISTS (FROM counter WHERE kind IS NOT NULL AND value IS NOT NULL)",
    )
)


def _timelines(
    shown: Sequence[Shown], ids: Sequence[str], scrub: Scrub
) -> tuple[dict[str, Any], dict[str, str], int]:
    """By recording what its timeline shows, its events, compressed, and how many bytes these take."""
    layouts, events = {}, {}
    room = MOST_TIMELINE_BYTES // len(ids)
    for number, one in zip(ids, shown, strict=True):
        timeline = Timeline(one.trace.store, one.trace.ranks)
        most = MOST_EVENTS
        while True:
            layouts[number], data = timeline_data(timeline, scrub, most)
            events[number] = _packed(data)
            if len(events[number]) <= room or most < 1000:
                break
            most //= 2
    return layouts, events, sum(map(len, events.values()))


def _answers(
    questions: Iterable[tuple[list[str], Form, Callable[[], Table]]], scrub: Scrub, beside: Executor
) -> list[tuple[list[str], Form, Callable[[], str]]]:
    """What is asked, and what gives its answer, compressed, or raises why there is none."""

    def packed(table: Table) -> str:
        return _packed(scrub(reply(table, most=MOST_ROWS)))

    def refused(error: StepScopeError) -> str:
        raise error

    answers: list[tuple[list[str], Form, Callable[[], str]]] = []
    for recordings, form, ask in questions:
        try:
            given = beside.submit(packed, ask()).result
        except StepScopeError as error:
            given = partial(refused, error)
        answers.append((recordings, form, given))
    return answers


def _fitting(
    answers: Iterable[tuple[list[str], Form, Callable[[], str]]], scrub: Scrub, room: int
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The answers by their keys; and what there is no answer to, or no room for, with why."""
    replies: dict[str, str] = {}
    left_out: list[dict[str, Any]] = []
    for recordings, form, given in answers:
        try:
            packed = given()
        except StepScopeError as error:
            why = f"{error.message}; {error.hint}"
        else:
            if len(packed) <= room:
                room -= len(packed)
                replies[key(recordings, form)] = packed
                continue
            why = f"its {bytes_text(len(packed))} are more than this report has room for"
        left_out.append(
            {
                "recordings": recordings,
                "question": form.question.name,
                "parameters": dict(form.parameters),
                "why": scrub(why),
            }
        )
    return replies, left_out


def reply(table: Table, *, most: int | None = None) -> dict[str, Any]:
    """An answer for the page: its JSON, how many rows there are in all, and short names of kernels.

    Args:
        most: its first rows alone; all by default.
    """
    rows = len(table)
    if most is not None and rows > most:
        table = replace(table, arrow=table.arrow.slice(0, most))
    names = {
        column.name: [one for one in dict.fromkeys(table[column.name]) if one is not None]
        for column in table.columns
        if column.kernels
    }
    return {
        "answer": table.to_dict(),
        "rows_total": rows,
        "labels": {
            column: [[full, short] for full, short in zip(own, short_names(own), strict=True)]
            for column, own in names.items()
        },
    }


def key(recordings: Sequence[str], form: Form) -> str:
    """Under what a page finds the answer: as JavaScript would write it."""
    asked = [list(recordings), form.question.name, sorted(form.parameters.items())]
    return json.dumps(asked, separators=(",", ":"), ensure_ascii=False)


def _asked(
    shown: Sequence[Shown], ids: Sequence[str], scopes: Sequence[Scope]
) -> Iterator[tuple[list[str], Form, Callable[[], Table]]]:
    """What is asked of which recordings, in the order in which there is room for it."""
    from stepscope.api.several import ask_of_several

    def one(scope: Scope, form: Form) -> Callable[[], Table]:
        return lambda: ask_within(form.question, scope, **form.parameters)

    def several(group: Sequence[int], form: Form) -> Callable[[], Table]:
        traces = [shown[index].trace for index in group]
        names = [shown[index].name for index in group]
        return lambda: ask_of_several(form.question.name, traces, names=names, **form.parameters)

    every_one = tuple(range(len(shown)))
    for form in forms():
        if form.question.recordings == "one":
            for name, scope in zip(ids, scopes, strict=True):
                yield [name], form, one(scope, form)
            continue
        two = form.question.recordings == "two"
        for group in combinations(every_one, 2) if two else [every_one]:
            yield [ids[index] for index in group], form, several(group, form)


_HOSTS = """
    SELECT host FROM rank WHERE host IS NOT NULL UNION SELECT host FROM host_metric WHERE host IS NOT NULL
    ORDER BY host
"""


def _scrub_for(scopes: Sequence[Scope]) -> Scrub:
    hosts: dict[str, None] = {}
    folders: set[str] = set()
    for scope in scopes:
        found = scope.sql(_HOSTS)
        hosts |= dict.fromkeys(found.column("host").to_pylist())
        paths = scope.sql("SELECT path FROM source").column("path").to_pylist()
        paths += [path for path, _ in scope.store.skipped]
        folders |= {str(PurePath(path).parent) for path in paths}
    return without_places(list(hosts), folders)


def _packed(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 6)).decode()
