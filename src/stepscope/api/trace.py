"""An open recording, of which Python code asks questions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from stepscope.api.question_methods import QuestionMethods
from stepscope.base.chosen_numbers import check_known, numbers_of, wrong_argument
from stepscope.base.errors import StoreError, UsageError
from stepscope.base.known_names import check_name
from stepscope.base.path_names import path_names
from stepscope.base.quoting import printable
from stepscope.base.units import plural
from stepscope.query.ask import ask, check_asked, reading
from stepscope.query.declare import RESERVED, Filter
from stepscope.query.event_filter import EVERYTHING, EventFilter, event_filter
from stepscope.query.jobs import joined, several_jobs, without_job
from stepscope.query.scope import Scope
from stepscope.query.table import Table
from stepscope.questions import find, of_one_recording
from stepscope.store.copies import is_standard_input
from stepscope.store.jobs import StoredJob, stored_jobs
from stepscope.store.manifest import given_path, is_store
from stepscope.store.open import Store
from stepscope.store.progress import SILENT, Progress

Numbers = int | Iterable[int]
Window = str | tuple[int, int]
Captures = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

ERRORS = {
    "filter-on-store": (
        "`window`, `capture` and `python_stack` apply when files are read. A store has been read already: give "
        "the files, or import them again."
    )
}


_CACHE_ERRORS = ("cache-not-writable", "disk-full", "not-writable")
"""Errors of an unusable cache; the question is then answered without it."""

_LACKING = ("unknown-rank", "unknown-step", "named-nothing", "nothing-in-window")
"""Errors of a job without ranks, steps or events that another job may have."""


class Trace(QuestionMethods):
    """An open recording: one method per question, and `sql` for everything else. `stepscope.open` makes one.

    Questions of plug-ins are methods, too: `trace.their_name()` is `trace.ask("their-name")`.

    Every question's method takes `rank=` and `step=` (a number or several) to narrow it, `top=` for only the first rows
    and `columns=` for some of the columns, and returns a `Table`. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        store: Store,
        *,
        ranks: Iterable[int] | None = None,
        steps: Iterable[int] | None = None,
        scratch: Path | None = None,
    ) -> None:
        """Takes over an open store, and a folder that is deleted on close.

        Raises:
            UsageError: a rank or step that the recording does not have.
        """
        self.store = store
        self._ranks = None if ranks is None else tuple(ranks)
        self._steps = None if steps is None else tuple(steps)
        self._scratch = scratch
        self.ranks: tuple[int, ...] = store.ranks
        if ranks is not None or steps is not None:
            with self.scope() as scope:
                self.ranks = scope.ranks

    @property
    def jobs(self) -> Mapping[str, Trace]:
        """Its jobs by name: only itself if all files are of one job."""
        return {str(self.store.facts.get("job", "")): self}

    def scope(self, part: EventFilter = EVERYTHING, *, may_lack: bool = False) -> Scope:
        """Returns the tables that its questions use. Close it, or use it as a context manager."""
        return Scope(self.store, self._ranks, self._steps, part, may_lack=may_lack)

    @property
    def step_numbers(self) -> tuple[int, ...]:
        """The numbers of its steps, in order."""
        with self.scope() as scope:
            rows = scope.sql("SELECT DISTINCT step FROM step ORDER BY step")
        return tuple(rows.column("step").to_pylist())

    def ask(
        self,
        question: str,
        *,
        top: int | None = None,
        columns: Sequence[str] | None = None,
        sort: str | None = None,
        rank: Numbers | None = None,
        step: Numbers | None = None,
        name: str | None = None,
        under: str | None = None,
        window: Window | None = None,
        **parameters: Any,
    ) -> Table:
        """Asks a question by name; `trace.ask("kernels", top=3)` is `trace.kernels(top=3)`.

        Raises:
            UsageError: the question, rank, step, column or parameter does not exist, the question does not take such a
                part of the recording, or it compares recordings.
        """
        return ask(
            of_one_recording(find(question)),
            self.store,
            ranks=self._within(rank),
            steps=self._during(step),
            part=event_filter(name, under, window),
            top=top,
            columns=columns,
            sort=sort,
            **parameters,
        )

    def sql(
        self,
        text: str,
        *,
        top: int | None = None,
        rank: Numbers | None = None,
        step: Numbers | None = None,
        name: str | None = None,
        under: str | None = None,
        window: Window | None = None,
    ) -> Table:
        """Runs one read-only SQL statement; `stepscope schema` lists the tables.

        The answer to each question is a table in the schema `answer`, with default parameters, computed only when a
        statement names it: `answer.kernels`, `answer.device_time`. `top` returns only the first rows.

        >>> trace.sql("SELECT name, dur_ns FROM device_event ORDER BY dur_ns DESC LIMIT 3")
        ... # doctest: +SKIP

        Raises:
            UsageError: the statement is not read-only, or it fails.
        """
        if not isinstance(text, str):
            raise wrong_argument(f"{text!r} is not SQL", "give a text: 'SELECT * FROM step'")
        from stepscope.api.free_query import answer_query

        if "duckdb_" in text.lower():  # only DuckDB's own catalogue shows what columns mean
            self.store.comment()
        with (
            reading(self.store),
            Scope(self.store, self._within(rank), self._during(step), event_filter(name, under, window)) as scope,
        ):
            return answer_query(scope, text, top=top)

    def _within(self, rank: Numbers | None) -> tuple[int, ...] | None:
        if rank is None:
            return self._ranks
        return check_known(numbers_of(rank, "rank"), self.ranks, "rank")

    def _during(self, step: Numbers | None) -> tuple[int, ...] | None:
        if step is None or self._steps is None:
            return self._steps if step is None else numbers_of(step, "step")
        return check_known(numbers_of(step, "step"), self._steps, "step")

    def close(self) -> None:
        """Closes its store. May be called again."""
        self.store.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        ranks = f"{len(self.ranks)} {plural(len(self.ranks), 'rank')}"
        where = "rows in memory" if self.store.directory is None else self.store.directory
        return printable(f"<Trace of {ranks} in {where}>")


RESERVED.update(name.replace("_", "-") for name in (*vars(Trace), "store", "ranks") if not name.startswith("_"))


class TraceOfJobs(Trace):
    """Open recordings of several jobs. A question is asked of each job; the answers become one table with a column
    `job`. `jobs` has a trace of each.
    """

    def __init__(self, jobs: Mapping[str, Trace], about: Mapping[str, str], *, scratch: Path | None = None) -> None:
        """Takes over open traces."""
        self._jobs = dict(jobs)
        self._about = about
        self._scratch = scratch

    @property
    def jobs(self) -> Mapping[str, Trace]:
        """Its jobs by name."""
        return self._jobs

    def ask(
        self, question: str, *, columns: Sequence[str] | None = None, sort: str | None = None, **arguments: Any
    ) -> Table:
        """Asks each job a question by name. Jobs without the requested ranks, steps or part are left out, and the
        answer's note names them.

        Raises:
            UsageError: the question, column or parameter does not exist, or no job has the rank, step or part.
        """
        declared = of_one_recording(find(question))
        named = without_job(columns)
        narrowing = {"rank", "step", *get_args(Filter)}
        parameters = {name: value for name, value in arguments.items() if name not in narrowing}
        complete = check_asked(declared, columns=named, sort=sort, **parameters)
        filters = {name: arguments.get(name) for name in get_args(Filter)}
        event_filter(**filters).check_allowed(declared, complete.get("by"))
        answers: dict[str, Table] = {}
        lacking: dict[str, UsageError] = {}
        for name, trace in self._jobs.items():
            try:
                answers[name] = trace.ask(question, columns=named, sort=sort, **arguments)
            except UsageError as error:
                if error.slug not in _LACKING:
                    raise
                lacking[name] = error
        if not answers:
            raise next(iter(lacking.values()))
        notes = [self._note(), *(f"{name}: {error.message}." for name, error in lacking.items())]
        answer = joined(answers, "\n".join(notes))
        if sort is not None and sort.partition(":")[0] in answer.arrow.column_names:
            return answer.sort(sort)
        return answer

    def scope(self, *_: Any, **__: Any) -> Scope:
        """Refuses: each job has its own tables.

        Raises:
            UsageError: always.
        """
        raise several_jobs(self.jobs)

    def sql(self, text: str, **_: Any) -> Table:  # noqa: ARG002  # refused, whatever it is
        """Refuses: each job has its own tables.

        Raises:
            UsageError: always.
        """
        raise several_jobs(self.jobs)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("store", "ranks"):  # attributes of a trace of one job
                raise several_jobs(self.jobs)
            return super().__getattr__(name)

    def _note(self) -> str:
        jobs = [f"{name} ({about})" if about else name for name, about in self._about.items()]
        return f"The files are of {len(jobs)} jobs: {', '.join(jobs)}. `--job NAME` picks one."

    def close(self) -> None:
        """Closes the stores of all jobs. May be called again."""
        for trace in self._jobs.values():
            trace.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<Trace of {len(self._jobs)} jobs: {', '.join(self._jobs)}>"


def open_trace(
    path: str | os.PathLike[str],
    *further: str | os.PathLike[str],
    job: str | None = None,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    window: Window | None = None,
    python_stack: bool = True,
    capture: Captures = (),
    cache: bool = True,
    strict: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Opens a recording: a trace file, a folder of them, or a store.

    Other sources than stores are imported first, into the user's cache, and read from there while the files stay
    unchanged; if the cache cannot be written, that is logged once and nothing is kept. Files of one job become one
    recording. Files of several jobs are separated by device, world size, versions, host and time; answers then have a
    column `job`, and the trace's `jobs` has a trace of each.

    Args:
        path: the file, folder or store; `-` for standard input, which is read once and not cached; or a URL
            (`s3://bucket/run/`, `https://host/trace.json.gz`), which is copied, read and kept as tables.
        further: more of them.
        job: only this job; all by default.
        ranks: only these ranks; all by default.
        steps: only these steps, as the program counts them; all by default.
        window: only events that start in this part of the recording, as `500ms:2s` or (from, to) in ns since its start.
            For files only.
        python_stack: also read the frames of Python functions. For files only.
        capture: recordings in which the job's CUDA graphs were captured; replayed work gets its operators and modules
            from them. For files only.
        cache: keep the imported tables for the next time; without it they are deleted on close.
        strict: treat any damage in a file as an error.
        progress: called with the progress of the import.

    Raises:
        SourceError: the path is not a readable recording.
        DamagedSourceError: a file is damaged and `strict` was given.
        StoreError: the store cannot be opened, or the temporary folder cannot be written.
        UsageError: the recording does not have a given rank, step or job.

    Example:
        with stepscope.open("traces/") as trace:
            print(trace.kernels(top=20))
    """
    chosen = event_filter(window=window).window
    ranks = None if ranks is None else numbers_of(ranks, "ranks")
    steps = None if steps is None else numbers_of(steps, "steps")
    for source in (path, *further):
        if not isinstance(source, (str, os.PathLike)):
            raise wrong_argument(f"{source!r} is not a path", "give a file's or a folder's, as in 'trace.json'")
    paths = [given_path(source) for source in (path, *further)]
    stores = list(dict.fromkeys(source for source in paths if is_store(source)))
    files = [source for source in paths if source not in stores]
    captures = [capture] if isinstance(capture, str | os.PathLike) else list(capture)
    if stores and (window is not None or not python_stack or captures):
        raise UsageError(
            f"{stores[0]} is a store: a window, --capture and --no-python-stack apply to files",
            hint="give them when the store is made: stepscope import SRC -o DIR",
            slug="filter-on-store",
        )
    jobs = [_StoredJob(cached, source, source) for source in stores for cached in stored_jobs(source)]
    if not files:
        return _of_jobs(jobs, job, ranks=ranks, steps=steps, strict=strict)
    from stepscope.store.build import is_cached, open_source, rebuild_cached
    from stepscope.store.chosen import ImportOptions

    cache = cache and not any(map(is_standard_input, files))
    options = ImportOptions(
        ranks=None if ranks is None else tuple(sorted(set(ranks))),
        window=chosen,
        python_stack=python_stack,
        strict=strict,
        captures=tuple(str(given_path(source)) for source in captures),
    )
    progress = progress or SILENT
    try:
        directory = open_source(files, options, cache=cache, progress=progress)
    except StoreError as error:
        if not cache or error.slug not in _CACHE_ERRORS:
            raise
        # Imported only here, because it is rarely needed.
        from logging import getLogger

        note = f"stepscope: {error.message}; what was read is not kept for the next question"
        getLogger("stepscope").warning(printable(note))
        directory = open_source(files, options, cache=False, progress=progress)
    cached = is_cached(directory)
    rebuild = partial(rebuild_cached, files, options, progress) if cached else None
    scratch = None if cached else directory
    try:
        jobs += [_StoredJob(cached, directory, files[0], rebuild) for cached in stored_jobs(directory)]
        return _of_jobs(jobs, job, ranks=ranks, steps=steps, strict=strict, scratch=scratch)
    except BaseException:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        raise


@dataclass(frozen=True, slots=True)
class _StoredJob:
    """A job, the directory of its store, the given source, and a function that makes a damaged store again."""

    job: StoredJob
    directory: Path
    source: Path
    rebuild: Callable[[], object] | None = None

    def open(self) -> Store:
        return Store.open(self.directory / self.job.folder, rebuild=self.rebuild)


def _of_jobs(jobs: Sequence[_StoredJob], job: str | None, *, scratch: Path | None = None, **narrowed: Any) -> Trace:
    names = [stored.job.name for stored in jobs]
    if len(set(names)) < len(names):
        names = path_names([stored.source.absolute() / stored.job.name for stored in jobs])
    chosen = dict(zip(names, jobs, strict=True))
    if job is not None:
        chosen = {job: chosen[check_name(job, names, "job", of="these files")]}
    if len(chosen) == 1:
        return _trace(next(iter(chosen.values())).open(), scratch=scratch, **narrowed)
    traces: dict[str, Trace] = {}
    lacking: list[UsageError] = []
    try:
        for name, stored in chosen.items():
            try:
                traces[name] = _trace(stored.open(), **narrowed)
            except UsageError as error:
                if error.slug not in _LACKING:
                    raise
                lacking.append(error)
        if not traces:
            raise lacking[0]
    except BaseException:
        for trace in traces.values():
            trace.close()
        raise
    if len(traces) == 1:
        (trace,) = traces.values()
        trace._scratch = scratch
        return trace
    about = {name: chosen[name].job.about for name in traces}
    return TraceOfJobs(traces, about, scratch=scratch)


def _trace(
    store: Store,
    *,
    ranks: tuple[int, ...] | None = None,
    steps: tuple[int, ...] | None = None,
    scratch: Path | None = None,
    strict: bool = False,
) -> Trace:
    try:
        if strict:
            from stepscope.store.build import refuse_damage

            refuse_damage(store)
        return Trace(store, ranks=ranks, steps=steps, scratch=scratch)
    except BaseException:
        store.close()
        raise
