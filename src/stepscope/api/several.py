"""Opens several recordings for questions that compare them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stepscope.api.inline_profiles import trace_of_profiles
from stepscope.api.trace import Captures, Trace, open_trace
from stepscope.base.chosen_numbers import wrong_argument
from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name
from stepscope.base.path_names import path_names
from stepscope.base.units import plural
from stepscope.query.ask import ask_several, check_asked
from stepscope.query.declare import Question
from stepscope.query.event_filter import EVERYTHING, EventFilter, event_filter
from stepscope.query.jobs import NAME_FILES, PICK_EACH, several_jobs
from stepscope.query.scope import ComparedRun
from stepscope.query.table import Table
from stepscope.questions import find
from stepscope.store.progress import Progress

Source = str | os.PathLike[str] | Trace | Sequence[Mapping[str, Any]]
"""A path, an open trace, or what `parse_result` returned."""

ERRORS = {
    "no-runs": (
        "`scaling` compares several runs: give one source for each number of processes, and with `--names` "
        "one name for each. `diff` compares two."
    )
}

_ROLES = ("before", "after")


@contextmanager
def open_several(
    question: Question,
    sources: Sequence[Source],
    *,
    names: Sequence[str] | None = None,
    jobs: Sequence[str] = (),
    part: EventFilter = EVERYTHING,
    **reading: Any,
) -> Iterator[Callable[..., Table]]:
    """Opens the recordings for a question, and returns its parameters and a function that asks it.

    Args:
        sources: the recordings; traces that are already open stay open.
        names: names for them; by default the last parts of their paths.
        jobs: which job to use where files are of several jobs: one name for all recordings, or one for each.
        part: the events of each that the question is about.
        reading: `capture`, `cache`, `strict` and `progress`, as in `open_trace`.

    Raises:
        SourceError: a source cannot be read.
        UsageError: the number of sources or names is wrong; no job is chosen of a recording of several; or no recording
            has any event of the part.
    """
    labels = _labels(question, sources, names)
    with ExitStack() as stack:
        traces = [opened(source, stack, **reading) for source in sources]
        chosen_jobs = _chosen_jobs(traces, jobs)
        scopes = [
            stack.enter_context(_of_job(*source).scope(part, may_lack=True))
            for source in zip(traces, labels, chosen_jobs, strict=True)
        ]
        # If only some recordings lack the part, a new kernel for example, the comparison shows that.
        lacking = [scope.lacks for scope in scopes if scope.lacks is not None]
        if len(lacking) == len(scopes):
            raise lacking[0]
        if names is None:
            labels = _with_jobs(traces, labels, chosen_jobs)
        roles = _ROLES if question.recordings == "two" else labels
        yield partial(ask_several, question, list(map(ComparedRun, labels, roles, scopes)))


def _with_jobs(traces: Sequence[Trace], labels: Sequence[str], chosen_jobs: Sequence[str | None]) -> list[str]:
    """Names recordings after their chosen jobs, with the recording's name where that is needed."""
    picked = [job if len(trace.jobs) > 1 else None for trace, job in zip(traces, chosen_jobs, strict=True)]
    return [
        name if job is None else job if picked.count(job) == 1 else f"{name}: {job}"
        for name, job in zip(labels, picked, strict=True)
    ]


def _chosen_jobs(traces: Sequence[Trace], jobs: Sequence[str]) -> Sequence[str | None]:
    """The chosen job of each recording; a single name applies to the recordings of several jobs.

    Raises:
        UsageError: the number of names differs from the number of recordings.
    """
    if len(jobs) == 1 and any(len(trace.jobs) > 1 for trace in traces):
        return [jobs[0] if len(trace.jobs) > 1 else None for trace in traces]
    if len(jobs) not in (0, 1, len(traces)):
        raise UsageError(
            f"{len(jobs)} jobs for {len(traces)} recordings: {', '.join(jobs)}",
            hint="name one job for all recordings, or one for each in order",
            slug="no-runs",
        )
    if len(jobs) == len(traces):
        return jobs
    return [jobs[0] if jobs else None] * len(traces)


def _of_job(trace: Trace, name: str, job: str | None) -> Trace:
    """The trace of one job of a recording.

    Raises:
        UsageError: it has several jobs and none is named, or it has no job of that name.
    """
    if job is not None:
        return trace.jobs[check_name(job, trace.jobs, "job", of=name)]
    if len(trace.jobs) > 1:
        raise several_jobs(trace.jobs, PICK_EACH, whose=f"the files of {name}")
    return trace


def opened(source: Source, stack: ExitStack, **reading: Any) -> Trace:
    """Opens a source; the stack closes it, unless it was open already. `reading` is for `open_trace`."""
    if isinstance(source, str | os.PathLike):
        source = stack.enter_context(open_trace(source, **reading))
    elif not isinstance(source, Trace):
        if not isinstance(source, Iterable):
            raise wrong_argument(f"{source!r} is not a recording", "give a path, as in 'trace.json', or an open trace")
        source = stack.enter_context(trace_of_profiles(source))
    return source


def check_one_job(trace: Trace) -> None:
    """Refuses recordings of several jobs where one recording is expected.

    Raises:
        UsageError: there are several jobs.
    """
    if len(trace.jobs) > 1:
        raise several_jobs(trace.jobs, NAME_FILES)


def ask_of_several(
    question_name: str,
    sources: Sequence[Source],
    *,
    names: Sequence[str] | None = None,
    job: str | Sequence[str] | None = None,
    capture: Captures = (),
    cache: bool = True,
    strict: bool = False,
    progress: Progress | None = None,
    name: str | None = None,
    under: str | None = None,
    window: str | tuple[int, int] | None = None,
    **arguments: Any,
) -> Table:
    """Opens recordings, asks a question by name, and closes them."""
    question = find(question_name)
    chosen = event_filter(name, under, window)
    chosen.check_allowed(question, check_asked(question, **arguments).get("by"))
    reading: dict[str, Any] = {"cache": cache, "strict": strict, "progress": progress}
    reading["capture"] = capture
    jobs = [job] if isinstance(job, str) else list(job or ())
    with open_several(question, sources, names=names, jobs=jobs, part=chosen, **reading) as ask:
        return ask(**arguments)


def _labels(question: Question, sources: Sequence[Source], names: Sequence[str] | None) -> Sequence[str]:
    if not sources or isinstance(sources, str | os.PathLike | Trace):
        raise UsageError(
            f"{question.name} compares several recordings",
            hint=f"give one source for each: {question.name}(['first', 'second'])",
            slug="no-runs",
        )
    if names is None:
        by_path = _names_of(sources)
        if question.recordings != "two":
            return by_path
        return [
            name if isinstance(source, str | os.PathLike) else role
            for name, source, role in zip(by_path, sources, _ROLES, strict=True)
        ]
    given = [names] if isinstance(names, str) else names
    if len(given) != len(sources):
        raise UsageError(
            f"{len(given)} {plural(len(given), 'name')} for {len(sources)} "
            f"{plural(len(sources), 'recording')}: {', '.join(given)}",
            hint="give each recording one name",
            slug="no-runs",
        )
    return given


def _names_of(sources: Sequence[Source]) -> list[str]:
    """The last parts of the paths, as many as needed to tell them apart."""
    paths = [
        Path(source).absolute() if isinstance(source, str | os.PathLike) else Path(f"run {number}")
        for number, source in enumerate(sources, 1)
    ]
    return path_names(paths)
