"""`hotspots`: the functions of the host in which time is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from stepscope.analysis.call_tree import added, from_below, outermost
from stepscope.analysis.host_time import FIGURES, IMPORTED, HostTime, host_times, waiting_text
from stepscope.analysis.recording import Array
from stepscope.analysis.tree import listed
from stepscope.base.units import ratio_text, time_text
from stepscope.formats.frames import UNKNOWN, Frame
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope

MIN_RATIO = 0.001
_NS, _SAMPLES, _INSTRUCTIONS, _CYCLES = range(len(FIGURES))
_TAKEN_FOR_RUNNING = "running: threads that py-spy took for running; sleeps and waits can be among the samples."
_WAITS = "waiting"
"""Replaces the clock for threads that only waited."""
_IMPORTS = "{} went to imports of modules, most of it at the start: a longer run has more of its steps in it."
_MOSTLY = 0.5
"""From this share on, the note says that imports are most of the samples."""
_FEW = "Of {} samples ({}) no part is sure; record for longer."


def _function(frame: Frame) -> str:
    return "\0".join((frame.function, frame.library or "", frame.file or ""))


_GROUPS: dict[str, Callable[[Frame], str]] = {
    "function": _function,
    "library": lambda frame: frame.library or frame.file or UNKNOWN,
    "line": lambda frame: f"{_function(frame)}\0{frame.line}",
}
_OTHERS = ("thread", "top-down", "bottom-up")
_THREADS = "SELECT rank, span, thread, pid, tid, process_name, thread_name FROM thread"


@question(
    "hotspots",
    "In which functions of the host does the time go, and who calls them?",
    (
        Column("function", "text", "function; by library the binary or Python file; by thread the thread"),
        Column(
            "clock",
            "text",
            "what is counted: cpu (threads on a processor), running (not waiting, by the sampler), wall (samples by "
            "the clock, including waits), traced (calls from start to end), waiting (traced threads that only "
            "waited), unknown",
            visible="varying",
        ),
        Column("library", "text", "binary that it is in", visible="varying"),
        Column("file", "text", "source file"),
        Column("line", "int", "line of the source file that ran"),
        Column("rank", "int", "rank of the thread"),
        Column("pid", "text", "process of the thread, as the recorder calls it", visible=False),
        Column("tid", "text", "the thread, as the recorder calls it", visible=False),
        Column("self_ns", "int", "time in it, without what it calls", sums=True),
        Column("self_ratio", "float", "fraction of all time of that clock"),
        Column("total_ns", "int", "time in it and in what it calls"),
        Column("total_ratio", "float", "fraction of all time of that clock"),
        Column("self_samples", "int", "samples taken in it", "count"),
        Column("total_samples", "int", "samples taken in it and in what it calls", "count", visible=False),
        Column("instructions", "int", "instructions retired in it, without what it calls", "count", visible="varying"),
        Column("cpi", "float", "clock cycles of the core an instruction, in it", visible="varying"),
        Column("depth", "int", "number of rows of the tree around it", visible=False),
        Column("node", "int", "number of the row in the tree, from 0", visible=False),
        Column("parent", "int", "node around it: what called it or, bottom-up, what it called", visible=False),
    ),
    group="host",
    rests_on=("host-times",),
    parameters=(
        by_form("what a row is; `top-down` below what called it, `bottom-up` below what it called", *_GROUPS, *_OTHERS),
        Parameter("min_ratio", "float", "leave out rows below this fraction of all time, with their subtree", MIN_RATIO),
    ),
    drawing="tree",
    fills="Sample it: stepscope record --sample -- train.py, or record Python frames with "
    "stepscope record --stack -- train.py.",
)  # fmt: skip
def hotspots(scope: Scope, by: str = "function", min_ratio: float = MIN_RATIO) -> ArrowTable:
    """Sampled or traced functions, of all requested ranks and files together, the heaviest first. Samples are those of
    py-spy (raw or speedscope), Linux perf (`perf script`), collapsed stacks, Nsight Systems' CPU samples and VTune's
    reports of functions and of call trees; traced calls are the Python frames of torch.profiler (`with_stack`).

    **self** is the time in a function without what it called, **total** includes that; a function that calls itself
    adds to its total once. A call tree has both: `--by top-down` starts at the outermost functions, and the total of a
    row is its self and the totals of the rows below it; `--by bottom-up` starts at the functions in which time is
    spent, and the rows below one divide its self by caller, so that they add up to it. `node` and `parent` are the tree
    for programs, `depth` indents it.

    The meaning of time depends on the tool, and values of two clocks are never added: `cpu` are threads on a processor
    (perf, VTune, Nsight Systems), `running` threads that py-spy considered running, some of which sleep or wait in
    native code, unless it was run with `--idle` or `--gil`, which its files do not show, `wall` samples by the clock,
    waiting included (the recorder's own), and `traced` the duration of traced calls. Traced threads that spend 99 % of
    their time in Python's own waits (locks, queues, sleeps) while another works are left out, and counted; `--by
    thread` includes them. If a file has no time (raw files of py-spy, Nsight Systems), time is missing, and shares are
    those of samples; if it has neither, of instructions. A statistical profile is sampled: for a share p of n samples
    the standard error is about √(p(1−p)/n). Everything that Python ran to import modules, most of it at the start, is
    one row, `(import of modules)`.

    A function is identified by its name, binary and source file; with `--by line` also by the line that ran, if the
    file has it (py-spy); for traced calls that is the line where a function is defined. `cpi` is cycles divided by
    instructions if both were counted. Totals are missing if no file shows who called whom, as in VTune's report of
    functions. Shares below `--min-ratio` are not shown; totals include them.
    """
    rows: list[Row] = []
    threads = {
        (thread["rank"], thread["span"], thread["thread"]): thread
        for thread in (scope.sql(_THREADS).to_pylist() if by == "thread" else ())
    }
    times = host_times(scope)
    for time in times:
        if by == "thread":
            rows += _threads(time, threads)
        elif by in _GROUPS:
            rows += _flat(time, _GROUPS[by], by, min_ratio)
        else:
            rows += _tree(time, min_ratio, first=len(rows), upside_down=by == "bottom-up")
    names = [column.name for column in hotspots.columns if column.name in _OF_FORM[by]]
    table = answer_dicts(hotspots.columns, rows, names)
    imported = max((row.get("total_ratio") or 0 for row in rows if row.get("function") == IMPORTED), default=0)
    left_out_ns = sum(time.left_out_ns for time in times)
    notes = [
        *(_FEW.format(time.samples, time.clock) for time in times if time.few),
        _IMPORTS.format(ratio_text(imported)) if imported >= _MOSTLY else "",
        _TAKEN_FOR_RUNNING if any(time.clock == "running" for time in times) else "",
        f"Left out: {time_text(left_out_ns)} of StepScope's own threads." if left_out_ns else "",
        waiting_text(sum(len(time.waiting) for time in times)) if by != "thread" else "",
    ]
    return noted(table, " ".join(filter(None, notes)))


_FIGURED = frozenset({"clock", "self_ns", "self_ratio", "self_samples", "instructions", "cpi"})
_TOTALS = frozenset({"total_ns", "total_ratio", "total_samples"})
_PLACED = frozenset({"function", "library", "file"})
_OF_TREE = frozenset({"depth", "node", "parent"})
_OF_FORM = {
    "function": _PLACED | _FIGURED | _TOTALS,
    "library": {"function"} | _FIGURED | _TOTALS,
    "line": _PLACED | {"line"} | _FIGURED | _TOTALS,
    "thread": {"function", "rank", "pid", "tid"} | _FIGURED,
    "top-down": _PLACED | _FIGURED | _TOTALS | _OF_TREE,
    "bottom-up": _PLACED | _FIGURED | _OF_TREE,
}


def _basis(time: HostTime) -> int:
    """The value to which shares are relative."""
    recorded = (place for place, name in enumerate(FIGURES) if name in time.recorded)
    return next(recorded, _SAMPLES)


def _figures(time: HostTime, self_values: Array, total: Array | None, everything: Array) -> Row:
    basis = _basis(time)
    of_all = int(everything[basis])

    def recorded(values: Array, place: int) -> int | None:
        return int(values[place]) if FIGURES[place] in time.recorded else None

    row: Row = {"clock": time.clock, "instructions": recorded(self_values, _INSTRUCTIONS)}
    for name, values in (("self", self_values), ("total", total)):
        if values is not None:
            row[f"{name}_ns"] = recorded(values, _NS)
            row[f"{name}_samples"] = recorded(values, _SAMPLES)
            row[f"{name}_ratio"] = int(values[basis]) / of_all if of_all else None
    cycles, instructions = recorded(self_values, _CYCLES), row["instructions"]
    if cycles is not None and instructions:
        row["cpi"] = cycles / instructions
    return row


def _named(frame: Frame) -> Row:
    return {"function": frame.function, "library": frame.library, "file": frame.file}


def _flat(time: HostTime, group: Callable[[Frame], str], by: str, min_ratio: float) -> Iterator[Row]:
    names = [group(frame) for frame in time.frames]
    tree, first = time.regrouped(names)
    everything = tree.self_values.sum(axis=0)
    total = tree.totals * outermost(tree)[:, None]
    self_values, below = (added(tree.code, values, len(first)) for values in (tree.self_values, total))
    basis = _basis(time)
    # If no stack has two frames, nothing shows what a function called.
    has_callers = bool((tree.parent >= 0).any())
    order = np.lexsort((-below[:, basis], -self_values[:, basis]))
    for key in order.tolist():
        if below[key, basis] < min_ratio * everything[basis]:
            continue
        frame = time.frames[first[key]]
        named = {"function": names[first[key]]} if by == "library" else _named(frame)
        figures = _figures(time, self_values[key], below[key] if has_callers else None, everything)
        yield named | {"line": frame.line} | figures


def _threads(time: HostTime, names: dict[tuple[int, int, int], Row]) -> Iterator[Row]:
    everything = sum(time.threads.values(), np.zeros(len(FIGURES), np.int64))
    basis = _basis(time)
    for clock, threads in ((time.clock, time.threads), (_WAITS, time.waiting)):
        for place, values in sorted(threads.items(), key=lambda item: (-item[1][basis], item[0])):
            about = names.get(place, {})
            thread = about.get("thread_name") or about.get("tid") or UNKNOWN
            yield {
                **_figures(time, values, None, everything),
                "function": thread,
                "rank": place.rank,
                "pid": about.get("pid") or None,
                "tid": about.get("tid") or None,
                "clock": clock,
            } | ({"self_ratio": None} if clock == _WAITS else {})


def _tree(time: HostTime, min_ratio: float, *, first: int, upside_down: bool) -> Iterator[Row]:
    tree, frame_of = time.regrouped([_function(frame) for frame in time.frames])
    everything = tree.self_values.sum(axis=0)
    if upside_down:
        tree = from_below(tree)
    total = tree.totals
    basis = _basis(time)
    listed_nodes = np.flatnonzero(total[:, basis] >= max(min_ratio * everything[basis], 1))
    rows, above = listed(listed_nodes[np.lexsort((listed_nodes, -total[listed_nodes, basis]))], tree.parent)
    depth = tree.depth[rows].tolist()
    for place, node in enumerate(rows.tolist()):
        values = total[node] if upside_down else tree.self_values[node]
        figures = _figures(time, values, None if upside_down else total[node], everything)
        parent = None if above[place] < 0 else first + above[place]
        at = {"depth": depth[place], "node": first + place, "parent": parent}
        yield _named(time.frames[frame_of[tree.code[node]]]) | figures | at
