"""Imports the recordings of one rank: read, link, write.

A job is what one process does. Several ranks are imported by several processes, each started by `workers` with its job
as JSON on stdin. This works in any program, also in one that cannot be imported again, as `multiprocessing` requires.
"""

from __future__ import annotations

import ctypes
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.environment import without_secrets
from stepscope.base.errors import DamagedSourceError, SourceError, StepScopeError, out_of_memory
from stepscope.formats.container import Listings, Member, display_name
from stepscope.formats.damage import check_strict
from stepscope.formats.inductor import origins
from stepscope.formats.options import ReadOptions
from stepscope.formats.registry import Format, format_named
from stepscope.formats.runs import rank_of_single
from stepscope.formats.scratch import Scratch
from stepscope.formats.tables import Facts, RankTables, ReadReport
from stepscope.link.captures import EARLIER, Captured
from stepscope.link.checks import OK
from stepscope.link.folder_checks import spans_apart
from stepscope.link.rank import captures_of, link_rank
from stepscope.schema.tables import TABLES
from stepscope.store.narrow import narrowed
from stepscope.store.ranks import add_check
from stepscope.store.without_secrets import leave_out_secrets
from stepscope.store.worker_process import conversation, limit_imports
from stepscope.store.write import rank_folder, write_tables

ERRORS = {
    "no-capture": (
        "A file given with `--capture` has no capture of a CUDA graph. It must be a trace of the time in "
        "which the program captured its graphs, such as inference servers write when they start; its launches "
        "show which operator and module each kernel of the graph belongs to."
    ),
}


@dataclass(frozen=True, slots=True)
class Job:
    """The recordings of one rank, in order of span, and how to import them.

    Args:
        directory: the store that is being made.
        sources: path, member name and process (or None), and format of each recording.
        offset: where the first of them is in its archive.
        rank: -1 if the recording stands alone and may state its rank itself.
        rule: how the rank was found.
        steps: the steps to keep; None for all.
        window: the stretch to keep (ns from each recording's start); None for all.
        captures: recordings of the captures of CUDA graphs, as `sources`.
        provenance: Inductor's files that say where its kernels come from.
        memory: bytes that it takes while it runs, roughly.
        to_be_joined: whether its files are joined with those of other ranks.
        limit: bytes that it should take: if it needs more, what it keeps of events is in files.
    """

    directory: str
    sources: Sequence[tuple[str, str | None, str | None, str]]
    rank: int
    rule: str
    steps: Sequence[int] | None = None
    window: tuple[int, int] | None = None
    python_stack: bool = True
    strict: bool = False
    threads: int | None = None
    offset: int = 0
    captures: Sequence[tuple[str, str | None, str | None, str]] = ()
    provenance: Sequence[str] = ()
    memory: int = 0
    to_be_joined: bool = False
    limit: int | None = None

    @property
    def label(self) -> str:
        """The name of its first recording in messages."""
        path, name, process, _ = self.sources[0]
        parts = (display_name(Path(path)), name, process)
        return "!".join(part for part in parts if part is not None)


class Done(NamedTuple):
    """What became of a job: the rank, the numbers of all steps in its recordings, and whether anything with a time was
    kept."""

    rank: int
    steps: list[int]
    has_events: bool = True


Outcome: TypeAlias = "Done | SourceError"
"""What became of a job, or why its recordings cannot be read."""


def run_job(job: Job, progress: Callable[[int], None] | None = None, listings: Listings | None = None) -> Outcome:
    """Imports one rank's recordings, with listings that the jobs of a process share. One that cannot be read does not stop other ranks: the error is the
    outcome, and nothing is left behind.

    Raises:
        DamagedSourceError: a recording is damaged and `job.strict` is set.
        OSError: the store cannot be written.
    """
    try:
        with _scratch(job):
            return _imported(job, progress, listings or Listings())
    except DamagedSourceError:
        raise
    except SourceError as error:
        shutil.rmtree(rank_folder(Path(job.directory), job.rank), ignore_errors=True)
        return error


def _scratch(job: Job) -> AbstractContextManager[object]:
    if job.limit is None or job.memory <= job.limit:
        return nullcontext()
    folder = Path(job.directory)
    folder.mkdir(parents=True, exist_ok=True)
    # Intermediate arrays need memory besides what is mapped.
    return Scratch(folder, job.limit // 2)


def _imported(job: Job, progress: Callable[[int], None] | None, listings: Listings) -> Done:
    rank, rule, origin, shift = job.rank, job.rule, None, 0
    steps: set[int] = set()
    has_events = False
    recorded: list[tuple[int, int]] = []
    given = (_capture(job, capture, listings, progress) for capture in job.captures)
    captures = [capture for capture in given if capture is not None]
    for span, (path, name, process, format_name) in enumerate(job.sources):
        member = listings.member(path, name).of_process(process)
        format_ = format_named(format_name)
        tables = _read(member, format_, ReadOptions(job.python_stack, job.threads, progress=progress))
        if job.strict:
            check_strict(member.label, tables.report.damage, lost=tables.report.lost)
        if rank < 0:
            rank, rule = rank_of_single(member, tables.facts)
        facts, report, lasted = tables.facts, tables.report, _end(tables)
        _give_back(job)
        written, captured = link_rank(tables, captures)
        del tables
        if captured is not None and span + 1 < len(job.sources):
            captures.append(replace(captured, rule=EARLIER, path=member.label))
        del captured
        _give_back(job)
        for table in ("step", "phase_step"):
            steps.update(pc.unique(written[table]["step"]).to_pylist())
        written = narrowed(written, job.steps, job.window)
        has_events = has_events or any(
            table.num_rows and not {"start_ns", "time_ns"}.isdisjoint(table.column_names) for table in written.values()
        )
        if format_.timed and facts.start_epoch_ns is not None:
            recorded.append((facts.start_epoch_ns, facts.start_epoch_ns + lasted))
        if span == 0:
            origin = facts.start_epoch_ns
        elif origin is not None and facts.start_epoch_ns is not None:
            shift = facts.start_epoch_ns - origin
        written["source"] = _source_row(member.label, member.size, format_name, facts, report)
        if span == 0:
            written["rank"] = _rank_row(facts, rule)
            written["kernel_origin"] = _kernel_origins(job.provenance)
        leave_out_secrets(written)
        write_tables(Path(job.directory), written, rank=rank, span=span, shift_ns=shift, to_be_joined=job.to_be_joined)
        shift += lasted
    apart = spans_apart.row(recorded)
    if apart["severity"] != OK:
        add_check(Path(job.directory), rank, apart)
    return Done(rank, sorted(steps), has_events)


def _read(member: Member, format_: Format, options: ReadOptions) -> RankTables:
    """Reads a recording; its progress ends with its last byte, even if the reader reports none."""
    reported, progress = 0, options.progress
    if progress is None:
        return format_.read(member, options)

    def report(done: int) -> None:
        nonlocal reported
        reported = done
        progress(done)

    tables = format_.read(member, replace(options, progress=report))
    if reported < member.size:
        progress(member.size)
    return tables


def _give_back(job: Job) -> None:
    """Gives freed memory back to the system, if the C library can.

    Reading and linking free many arrays of some MB each, between which others stay: otherwise as much again as is in
    use would be kept for later. For one short recording after another that is just as well.
    """
    if job.to_be_joined:
        return
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _capture(
    job: Job,
    source: tuple[str, str | None, str | None, str],
    listings: Listings,
    progress: Callable[[int], None] | None,
) -> Captured | None:
    """The captures in a recording that was made or given for them; None if we recorded one and the
    profiler noticed nothing.

    Raises:
        SourceError: it cannot be read, or was given and has none.
    """
    path, name, process, format_name = source
    member = listings.member(path, name).of_process(process)
    # Frames are kept whatever is chosen for the job's own: those of a capture name its modules.
    format_ = format_named(format_name)
    tables = _read(member, format_, ReadOptions(threads=job.threads, progress=progress))
    if job.strict:
        check_strict(member.label, tables.report.damage, lost=tables.report.lost)
    captured = captures_of(tables, member.label)
    if captured is None and not tables.facts.graph_capture:
        raise SourceError(
            f"{member.label}: no CUDA graph was captured in this recording",
            hint="give the trace in which the graphs were captured: it has calls of "
            "cudaStreamBeginCapture or hipStreamBeginCapture",
            slug="no-capture",
        )
    return captured


def _end(tables: RankTables) -> int:
    """Where the next recording of the rank is placed if no epoch is known (ns)."""
    return max(
        (
            pc.max(pc.add(table["start_ns"], table["dur_ns"])).as_py()
            for table in (tables.host_event, tables.device_event)
            if table.num_rows
        ),
        default=0,
    )


def _kernel_origins(provenance: Sequence[str]) -> pa.Table:
    rows = [
        {
            "kernel": origin.kernel,
            "graph": origin.graph,
            "lines": json.dumps(origin.lines),
            "modules": json.dumps(origin.modules) if origin.modules else None,
        }
        for origin in origins(map(Path, provenance))
    ]
    names = ("kernel", "graph", "lines", "modules")
    return pa.Table.from_pylist(rows, schema=TABLES["kernel_origin"].arrow(names))


def _rank_row(facts: Facts, rule: str) -> pa.Table:
    values = {fact.name: getattr(facts, fact.name) for fact in fields(facts)}
    return _one_row("rank", values | {"rank_rule": rule})


def _source_row(label: str, size: int, format_name: str, facts: Facts, report: ReadReport) -> pa.Table:
    row = {
        "path": label,
        "format": format_name,
        "tool": facts.tool,
        "tool_version": facts.tool_version,
        "bytes": size,
        "events_read": report.read,
        "events_repaired": report.repaired,
        "events_dropped": report.dropped,
        "damage_offset": report.damage_offset,
        "damage": _json(report.damage),
        "truncated": report.truncated,
        "unknown_categories": _json(report.unknown_categories),
        "unknown_fields": _json(report.unknown_fields),
        "metadata": _json(without_secrets(facts.metadata)),
    }
    return _one_row("source", row)


def _json(values: dict[str, Any]) -> str | None:
    return json.dumps(values, default=str) if values else None


def _one_row(table: str, row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], schema=TABLES[table].arrow(row))


def main() -> int:
    """Runs the jobs on stdin, one a line; writes progress and the outcomes to stdout, a JSON object per line."""
    limit_imports()
    requests, send = conversation()
    listings = Listings()
    source = ""
    try:
        for line in requests:
            job = Job(**json.loads(line))
            source = job.sources[0][0]
            outcome = run_job(job, lambda read: send(read=read), listings)
            if isinstance(outcome, SourceError):
                send(unread=_error_fields(outcome))
            else:
                send(**outcome._asdict())
    except StepScopeError as error:
        send(error=type(error).__name__, **_error_fields(error))
        return 1
    except MemoryError:
        send(error="StepScopeError", **_error_fields(out_of_memory(source)))
        return 1
    except OSError as error:
        send(oserror=error.errno, message=str(error))
        return 1
    return 0


def _error_fields(error: StepScopeError) -> dict[str, str | None]:
    return {"message": error.message, "hint": error.hint, "slug": error.slug}


def described(job: Job) -> str:
    """A job as JSON for `main`."""
    return json.dumps(asdict(job))
