"""The formats that can be read: the core's in one list, those that come with StepScope, and those of plug-ins.

A format is chosen by a file's first bytes, never by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.base.plugins import PlugIn, bundled, load, named, of_type
from stepscope.formats.accepted import accepted
from stepscope.formats.container import BLANK, ByteStream, Member, strip_bom
from stepscope.formats.options import ReadOptions
from stepscope.formats.sniff import advice, what_is
from stepscope.formats.tables import Facts, RankTables

SNIFFED_BYTES = 1 << 16
MAX_BLANK_BYTES = 64 << 20
"""Spaces and zeros before a text; a file with more is of no format."""

ERRORS = {
    "not-a-trace": (
        "The file is not a trace: an execution trace, a picture, or JSON without "
        "`traceEvents`. The message says what it looks like."
    ),
    "unknown-format": (
        "A file of a plug-in's format was to be read by a Python that does not find the plug-in. Install the "
        "plug-in where StepScope is installed. See [plug-ins](plugins.md)."
    ),
}


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file.

    Args:
        name: the word in `source.format`.
        title: what it is, for people.
        sniff: whether a file with these first bytes is one.
        peek: what a file says about itself; None if it has no events. Raises SourceError for a damaged file.
        read: the rows of one file as the recording of one rank. Raises SourceError also if there are none.
        timed: whether its events have times. Recordings without times take no part in guessing ranks.
        end: when a file's last event starts (ns, as `Facts.start_epoch_ns`), if `peek` did not reach the end.
        perhaps: whether a file with these first bytes could be one, if no format is sure.
        processes: names of the processes in a file, in the order of their ranks; None if a file holds one.
        memory: bytes that reading and linking take for each uncompressed byte of a file, roughly.
    """

    name: str
    title: str
    sniff: Callable[[bytes], bool]
    peek: Callable[[Member], Facts | None]
    read: Callable[[Member, ReadOptions], RankTables]
    timed: bool = True
    end: Callable[[Member], int | None] | None = None
    perhaps: Callable[[bytes], bool] | None = None
    processes: Callable[[Member], Sequence[str]] | None = None
    memory: float = 1.0

    def recordings(self, member: Member) -> list[Member]:
        """The recordings in a file: itself, or each process in it."""
        processes = () if self.processes is None else self.processes(member)
        return [member.of_process(process) for process in processes] if len(processes) > 1 else [member]


def _function(module: str, name: str) -> Callable[..., Any]:
    """A function of a reader. Its module is imported when it is first called: most commands need one reader."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"stepscope.formats.{module}"), name)(*arguments)

    return call


def _format(module: str, name: str, title: str, **more: Any) -> Format:
    sniff, peek, read = (_function(module, function) for function in ("looks_like", "peek", "read"))
    return Format(name, title, sniff, peek, read, **more)


FORMATS: tuple[Format, ...] = (
    _format(
        "inline.reader",
        "inline",
        "inline measurements (.prof.json) of StepScope or HugeCTR",
        timed=False,
        processes=_function("inline.reader", "processes"),
    ),
    _format("inline.phases", "phases", "phases of training steps (.phases.json) of StepScope", timed=False),
    _format("inline.host", "host", "what stepscope record --sample measured of its process (.host.json)", timed=False),
    Format(
        name="kineto",
        title="trace of torch.profiler (Kineto), or another in Chrome's trace format",
        sniff=_function("kineto.reader", "looks_like_kineto"),
        peek=_function("kineto.peek", "peek"),
        read=_function("kineto.reader", "read"),
        end=_function("kineto.peek", "end"),
        perhaps=_function("kineto.reader", "may_be_kineto"),
    ),
    _format(
        "nsys.reader",
        "nsys",
        "report of Nsight Systems, or its SQLite export (nsys export --type sqlite)",
        processes=_function("nsys.reader", "processes"),
        memory=2.2,
    ),
    _format(
        "counters.ncu",
        "ncu",
        "report of Nsight Compute (.ncu-rep), or its table (ncu --import FILE --csv --page raw)",
        timed=False,
        perhaps=_function("counters.ncu", "may_be"),
    ),
    _format(
        "sampled.speedscope", "speedscope", "profile in speedscope's format (py-spy record -f speedscope)", timed=False
    ),
    _format("vtune", "vtune", "report of Intel VTune as CSV (vtune -report hotspots -format csv)", timed=False),
    _format("onednn", "onednn", "verbose log of oneDNN, DNNL or MKL-DNN (ONEDNN_VERBOSE=1)", timed=False),
    _format("perf_stat", "perf-stat", "counts of Linux perf (perf stat -o FILE)", timed=False),
    _format(
        "sampled.perf_script",
        "perf-script",
        "samples of Linux perf, recorded (perf.data) or as text (perf script)",
        timed=False,
    ),
    _format("sampled.collapsed", "collapsed", "collapsed stacks (py-spy record -f raw)", timed=False),
    _format(
        "cuda_snapshot.reader",
        "memory-snapshot",
        "memory snapshot of torch (torch.cuda.memory._dump_snapshot), or a page of memory_viz",
        timed=False,
    ),
)


def format_of(member: Member) -> Format:
    """The format of a file.

    Raises:
        SourceError: it cannot be opened, is empty, or is of no known format; the error says what it is.
    """
    with member.open() as stream:
        head = _head(stream)
    for candidate in _all():
        if candidate.sniff(head):
            return candidate
    for candidate in FORMATS:
        if candidate.perhaps is not None and candidate.perhaps(head):
            return candidate
    kind = what_is(head, member.name or member.path.name)
    raise SourceError(f"{member.label}: not a recording ({kind})", hint=advice(kind), slug="not-a-trace")


def _head(stream: ByteStream) -> bytes:
    """The first bytes of a file, or those after the blanks before its text."""
    first = head = stream.read(SNIFFED_BYTES)
    skipped = 0
    while head and skipped < MAX_BLANK_BYTES and not strip_bom(head).strip(BLANK):
        skipped += len(head)
        head = stream.read(SNIFFED_BYTES)
    return head.lstrip(BLANK) + stream.read(SNIFFED_BYTES) if skipped and head else first


def format_named(name: str) -> Format:
    """The format with this name.

    Raises:
        SourceError: there is none, as for a plug-in's that is not installed here.
    """
    for candidate in _all():
        if candidate.name == name:
            return candidate
    raise SourceError(
        f"no format {name!r}",
        hint="its plug-in must be installed for the Python that runs StepScope: what a program puts on "
        "sys.path itself is not found by the processes that read several ranks",
        slug="unknown-format",
    )


def our_formats() -> Iterator[Format]:
    """All formats of StepScope; those outside the core are loaded when the core's are exhausted."""
    yield from FORMATS
    yield from bundled("formats", Format)


def _all() -> Iterator[Format]:
    """Our formats, then those of plug-ins, which are looked for only then."""
    yield from our_formats()
    yield from _added()


@cache
def _added() -> tuple[Format, ...]:
    ours = [candidate.name for candidate in our_formats()]
    return tuple(
        _guarded(plug_in, added) for plug_in, added in load("formats", Format, lambda candidate: [candidate.name], ours)
    )


def _guarded(plug_in: PlugIn, added: Format) -> Format:
    """Wraps the format so that a fault of its plug-in costs only the files that it reads."""

    def peek(member: Member) -> Facts | None:
        with named(plug_in, SourceError, of=member.label):
            facts = added.peek(member)
            return None if facts is None else of_type(Facts, facts)

    def read(member: Member, options: ReadOptions) -> RankTables:
        with named(plug_in, SourceError, of=member.label):
            return accepted(of_type(RankTables, added.read(member, options)))

    return replace(
        added,
        sniff=plug_in.or_else(False, added.sniff),
        peek=peek,
        read=read,
        end=None if added.end is None else plug_in.or_else(None, added.end),
        processes=None if added.processes is None else plug_in.or_else((), added.processes),
    )
