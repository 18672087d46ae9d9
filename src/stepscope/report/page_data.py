"""Writes a report, and chooses what it holds: which answers, in which order, and which rows if there are too many.

One list decides that, made from the declarations (`forms`): every question with its defaults, then each of its forms
(`Parameter.form`). Questions of plug-ins are included in the same way.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from stepscope import __version__
from stepscope.base.complete_file import complete_output
from stepscope.base.errors import StepScopeError
from stepscope.base.units import bytes_text
from stepscope.query.ask import ask_within
from stepscope.query.declare import Question
from stepscope.query.kernel_names import short_names
from stepscope.questions import all_questions
from stepscope.report.declaration import page_declaration
from stepscope.report.page import json_in_html, page
from stepscope.report.redaction import redact_paths
from stepscope.report.renderers import conclusions
from stepscope.report.timeline_data import MAX_EVENTS, timeline_data
from stepscope.schema.tables import TABLES
from stepscope.timeline.recording import Timeline

if TYPE_CHECKING:
    from stepscope.api.trace import Trace
    from stepscope.query.scope import Scope
    from stepscope.query.table import Table

VERSION = 1
"""Version of the data block; a page of another version does not read it."""
MAX_ROWS = 2_000
"""Rows of one answer in a report: nobody reads more, and the command line shows all."""
MAX_BYTES = 14_000_000
"""Size of all answers and the timeline together in the file, so that with script and style it stays below 15 MB."""
MAX_TIMELINE_BYTES = 5_000_000
"""Size of the timelines of all recordings, with the names of their tracks."""
_MIN_SHARE = 50_000
"""Size that one answer may always have if all are too large: the first questions are kept rather than a few rows of
each."""
_MAX_GUESSES = 6
"""Attempts to find how many rows fit into a report."""
_FEWEST_EVENTS = 100
"""A timeline without room for this many events is left out."""
_PART_OF_RECORDING = ("held", "left_out")
"""What a timeline says about its events."""
_NO_ROOM = "Its names have no room in this report. `stepscope view` shows it."

Scrub = Callable[[Any], Any]
_ReportQuestion = tuple[list[str], "Form", Callable[[], "Table"]]
"""The ids of recordings, what is asked about them, and the function that asks."""


@dataclass(frozen=True)
class OpenRecording:
    """A recording in a report: its name and the open trace."""

    name: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class Form:
    """A question with the parameters that differ from its defaults."""

    question: Question
    parameters: Mapping[str, Any]


def forms() -> list[Form]:
    """What a report asks: every question with its defaults, followed by each of its forms."""
    questions = all_questions()
    by_default = [Form(question, {}) for question in questions]
    return by_default + [
        Form(question, {parameter.name: form})
        for question in questions
        for parameter in question.parameters
        if parameter.form
        for form in parameter.choices
        if form != parameter.default
    ]


def page_data(recordings: Sequence[OpenRecording], *, with_paths: bool = False) -> dict[str, Any]:
    """Makes the data block of a report.

    Args:
        recordings: the recordings; others are compared with the first.
        with_paths: keep the names of hosts and the paths of files.

    Returns:
        The data that the page's `EmbeddedSource` reads: `recordings`, `declarations`, `replies` (compressed, by `key`),
        `left_out` with the reason for each, `timelines` and `timeline_events` (compressed).
    """
    ids = [str(number) for number, _ in enumerate(recordings, 1)]
    with ExitStack() as closing:
        scopes = [closing.enter_context(recording.trace.scope()) for recording in recordings]
        for scope in scopes:
            scope.preload(TABLES)
        scrub: Scrub = (lambda value: value) if with_paths else _scrub_for(scopes)
        questions = list(_report_questions(recordings, ids, scopes))
        packed = [_packed_or_error(ask, scrub) for _, _, ask in questions]
        layouts, events = _timelines(recordings, ids, scrub)
        described = [
            {"id": number, "name": scrub(recording.name), "holds": holds(scope)}
            for number, recording, scope in zip(ids, recordings, scopes, strict=True)
        ]
    room = MAX_BYTES - sum(_taken(layouts[number], events[number]) for number in ids)
    replies, left_out = _fitting(questions, packed, room, scrub)
    return {
        "version": VERSION,
        "stepscope": __version__,
        "recordings": described,
        "declarations": [page_declaration(question) for question in all_questions()],
        "replies": replies,
        "left_out": left_out,
        "timelines": layouts,
        "timeline_events": events,
    }


def write_report(recordings: Sequence[OpenRecording], target: Path, *, with_paths: bool = False) -> int:
    """Writes recordings into one HTML file and returns its size in bytes.

    Raises:
        StepScopeError: the file cannot be written. Then nothing is left behind.
    """
    data = page_data(recordings, with_paths=with_paths)
    text = page(f"{data['recordings'][0]['name']} – StepScope", data)
    with complete_output(target) as unfinished:
        # HTML cannot hold a name that is not Unicode.
        return unfinished.write_bytes(text.encode("utf-8", "replace"))


def _packed_or_error(ask: Callable[[], Table], scrub: Scrub) -> str | StepScopeError:
    try:
        return _packed(scrub(reply(ask(), max_rows=MAX_ROWS)))
    except StepScopeError as error:
        return error


def holds(scope: Scope) -> list[str]:
    """Names what a recording has rows of: its tables, and each kind of event, as in `host_event python`."""
    return [*scope.store.filled(), *scope.sql(_KINDS)["held"].to_pylist()]


_KINDS = " UNION ALL ".join(
    f"SELECT '{table} ' || kind AS held FROM (SELECT DISTINCT kind FROM {table})"
    for table in ("host_event", "device_event")
)


def _timelines(
    recordings: Sequence[OpenRecording], ids: Sequence[str], scrub: Scrub
) -> tuple[dict[str, Any], dict[str, str]]:
    """By recording, the layout of its timeline and its compressed events."""
    layouts, events = {}, {}
    room = MAX_TIMELINE_BYTES // len(ids)
    for number, recording in zip(ids, recordings, strict=True):
        timeline = Timeline(recording.trace.store, recording.trace.ranks)
        max_events = MAX_EVENTS
        while True:
            layouts[number], data = timeline_data(timeline, scrub, max_events)
            events[number] = _packed(data)
            if _taken(layouts[number], events[number]) <= room:
                break
            if max_events < _FEWEST_EVENTS:
                layout = {name: layouts[number][name] for name in layouts[number] if name not in _PART_OF_RECORDING}
                layouts[number] = layout | {"missing": _NO_ROOM, "ranks": []}
                events[number] = _packed({})
                break
            max_events //= 2
    return layouts, events


def _taken(layout: Mapping[str, Any], events: str) -> int:
    """The size of a timeline in the file (bytes)."""
    return len(json_in_html(layout).encode("utf-8", "replace")) + len(events)


def _fitting(
    questions: Sequence[_ReportQuestion], answers: Sequence[str | StepScopeError], room: int, scrub: Scrub
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Fits answers into the room: the largest lose their last rows. Returns the answers by key, and those that failed
    or did not fit, with the reason."""
    replies: dict[str, str] = {}
    left_out: list[dict[str, Any]] = []
    share = max(_share([len(packed) for packed in answers if isinstance(packed, str)], room), _MIN_SHARE)
    for (recordings, form, _), packed in zip(questions, answers, strict=True):
        if isinstance(packed, StepScopeError):
            why, hint = packed.message, packed.hint
        elif fits := _first_rows(packed, min(share, room)):
            room -= len(fits)
            replies[key(recordings, form)] = fits
            continue
        else:
            why, hint = f"its {bytes_text(len(packed))} are more than this report has room for", ""
        left_out.append(
            {
                "recordings": recordings,
                "question": form.question.name,
                "parameters": dict(form.parameters),
                "why": scrub(why),
                "hint": scrub(hint),
            }
        )
    return replies, left_out


def _share(sizes: Sequence[int], room: int) -> int:
    """The largest size that each may have so that all together fit.

    >>> _share([10, 30, 80], 60)
    25
    """
    for place, size in enumerate(sorted(sizes)):
        share = max(room, 0) // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _first_rows(packed: str, room: int) -> str | None:
    """A packed reply with as many of its first rows as fit; None if none fits."""
    if len(packed) <= room:
        return packed
    unpacked = json.loads(zlib.decompress(base64.b64decode(packed)))
    rows = unpacked["answer"]["rows"]

    def first(count: int) -> str:
        first_rows = rows[:count]
        named = {column: {row[column] for row in first_rows} for column in unpacked["labels"]}
        labels = {
            column: [label for label in pairs if label[0] in named[column]]
            for column, pairs in unpacked["labels"].items()
        }
        return _packed(unpacked | {"answer": unpacked["answer"] | {"rows": first_rows}, "labels": labels})

    # Rows have similar lengths, so the first guess is close; a guess costs as much as packing its rows.
    fitting, low, high = None, 0, len(rows)
    fits, large = len(first(low)), len(packed)
    for _ in range(_MAX_GUESSES):
        if high - low <= 1:
            break
        guess = low + (high - low) * (room - fits) // max(large - fits, 1)
        guess = min(max(guess, low + 1), high - 1)
        tried = first(guess)
        if len(tried) <= room:
            fitting, fits, low = tried, len(tried), guess
        else:
            large, high = len(tried), guess
    return fitting


def reply(table: Table, *, max_rows: int | None = None) -> dict[str, Any]:
    """Makes an answer for the page: its JSON, its sentences, the number of all rows, and short names of kernels.

    Args:
        max_rows: only its first rows; all by default.
    """
    rows, sentences = len(table), conclusions(table)
    if max_rows is not None and rows > max_rows:
        table = replace(table, arrow=table.arrow.slice(0, max_rows))
    names = {
        column.name: [name for name in dict.fromkeys(table[column.name]) if name is not None]
        for column in table.columns
        if column.kernels
    }
    return {
        "answer": table.to_dict(),
        "conclusions": sentences,
        "rows_total": rows,
        "labels": {
            column: [[full, short] for full, short in zip(full_names, short_names(full_names), strict=True)]
            for column, full_names in names.items()
        },
    }


def key(recordings: Sequence[str], form: Form) -> str:
    """The key under which a page finds an answer, spelled as JavaScript would."""
    parts = [list(recordings), form.question.name, sorted(form.parameters.items())]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def _report_questions(
    recordings: Sequence[OpenRecording], ids: Sequence[str], scopes: Sequence[Scope]
) -> Iterator[_ReportQuestion]:
    """The questions for which recordings, by priority when room is short."""
    from stepscope.api.several import ask_of_several

    def ask_one(scope: Scope, form: Form) -> Callable[[], Table]:
        return lambda: ask_within(form.question, scope, **form.parameters)

    def ask_several(group: Sequence[int], form: Form) -> Callable[[], Table]:
        traces = [recordings[index].trace for index in group]
        names = [recordings[index].name for index in group]
        return lambda: ask_of_several(form.question.name, traces, names=names, **form.parameters)

    every_one = tuple(range(len(recordings)))
    for form in forms():
        if form.question.recordings == "one":
            for name, scope in zip(ids, scopes, strict=True):
                yield [name], form, ask_one(scope, form)
            continue
        two = form.question.recordings == "two"
        for group in combinations(every_one, 2) if two else [every_one]:
            yield [ids[index] for index in group], form, ask_several(group, form)


_HOSTS = """
    SELECT host FROM rank WHERE host IS NOT NULL UNION SELECT host FROM host_metric WHERE host IS NOT NULL
    ORDER BY host
"""


def _scrub_for(scopes: Sequence[Scope]) -> Scrub:
    hosts: dict[str, None] = {}
    folders: set[str] = set()
    for scope in scopes:
        rows = scope.sql(_HOSTS)
        hosts |= dict.fromkeys(rows.column("host").to_pylist())
        paths = scope.sql("SELECT path FROM source").column("path").to_pylist()
        paths += [path for path, _ in scope.store.skipped]
        folders |= {str(PurePath(path).parent) for path in paths}
    return redact_paths(list(hosts), folders)


def _packed(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 6)).decode()
