"""Time spent in host functions: sampled stacks and traced Python frames as one kind of call tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.call_tree import CallTree, call_tree, call_tree_of_stacks, regrouped
from stepscope.analysis.job.residual_places import FEWEST_SAMPLES
from stepscope.analysis.recording import once
from stepscope.base.units import count_text, plural
from stepscope.formats.frames import UNKNOWN, Frame, parsed
from stepscope.link.columns import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.query.scope import Scope

FIGURES = ("ns", "samples", "instructions", "cycles")
"""The columns of a tree's values."""

_SAMPLED = """
    SELECT coalesce(clock, 'unknown') AS clock, coalesce(frames, '') AS frames,
        rank, span, coalesce(stack_sample.thread, -1) AS thread, any_value(stack_sample.thread IS NOT NULL) AS has_thread,
        coalesce(sum(sampled_ns), 0)::BIGINT AS ns, coalesce(sum(weight), 0)::BIGINT AS samples,
        coalesce(sum(instructions), 0)::BIGINT AS instructions,
        coalesce(sum(cycles), 0)::BIGINT AS cycles,
        bool_and(sampled_ns IS NOT NULL) AS has_ns, bool_and(weight IS NOT NULL) AS has_samples,
        bool_or(instructions IS NOT NULL) AS has_instructions, bool_or(cycles IS NOT NULL) AS has_cycles
    FROM stack_sample LEFT JOIN call_stack USING (rank, span, stack_id)
    GROUP BY ALL ORDER BY ALL
"""
_TRACED = """
    SELECT rank, span, thread, id, coalesce(parent_id, -1) AS parent_id, kind = 'python' AS python, dur_ns,
        CASE WHEN kind = 'python' THEN name ELSE '' END AS name
    FROM host_event
    WHERE (rank, span, thread) IN (SELECT (rank, span, thread) FROM host_event WHERE kind = 'python')
    ORDER BY rank, id
"""
_STARTER = "stepscope/record/job/as_main.py("
"""The innermost StepScope frame above a script."""
_IMPORTS = "<frozen importlib._bootstrap>("
"""The frames in which Python imports a module."""
IMPORTED = Frame("(import of modules)").text()
"""Replaces these frames and everything that they call."""
_OURS = "stepscope/record/"
_WAITS = re.compile(
    r"(?:^|[/\\])(?:threading\.py\(\d*\): (?:wait|join|_wait_for_tstate_lock)|selectors\.py\(\d*\): select)$"
    r"|<built-in (?:method|function) (?:acquire|sleep|select|poll|recv|recv_into|accept)\b"
)
"""Calls in which Python waits for another thread, a file or a time."""
_ONLY = 0.99
"""A thread that spends at least this share of its time in such calls did nothing else."""
_THREAD_STARTS = "threading.py("
"""The frames in which Python starts a thread; a StepScope thread continues in one of our frames."""
_ANY_TRACED = "SELECT count(*) FROM host_event WHERE kind = 'python'"


class Thread(NamedTuple):
    """A host thread; -1 if unknown."""

    rank: int
    span: int
    thread: int


@dataclass(frozen=True, slots=True)
class HostTime:
    """Time spent in functions, by one clock.

    Args:
        clock: `stack_sample.clock`, `unknown`, or `traced`.
        frames: the frames that the tree's codes number.
        tree: the values of `FIGURES` by path of frames.
        threads: the same by thread.
        recorded: the figures that all rows have; of instructions and cycles, that some rows have.
        left_out_ns: time of StepScope's own threads, not included elsewhere.
        waiting: values of threads that only waited while others worked, not included elsewhere.
    """

    clock: str
    frames: list[Frame]
    tree: CallTree
    threads: dict[Thread, NDArray[np.int64]]
    recorded: frozenset[str]
    left_out_ns: int = 0
    waiting: dict[Thread, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def samples(self) -> int | None:
        """The number of samples; None if it is unknown or nothing was sampled."""
        if "samples" not in self.recorded:
            return None
        place = FIGURES.index("samples")
        return sum(int(figures[place]) for figures in self.threads.values())

    @property
    def few(self) -> bool:
        """Whether there are too few samples to compare parts."""
        return self.samples is not None and 0 < self.samples < FEWEST_SAMPLES

    def regrouped(self, names: list[str]) -> tuple[CallTree, list[int]]:
        """Groups the tree's frames by name; also returns the first frame of each group."""
        number: dict[str, int] = {}
        keys = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
        first: list[int] = []
        for frame, key in enumerate(keys.tolist()):
            if key == len(first):
                first.append(frame)
        return regrouped(self.tree, keys), first


@once
def host_times(scope: Scope) -> list[HostTime]:
    """Times from the recording's samples and traced Python frames, ordered by the clock's name."""
    traced = [_traced(scope)] if scope.value(_ANY_TRACED) else []
    return [*_sampled(scope), *traced]


def _sampled(scope: Scope) -> list[HostTime]:
    table = scope.sql(_SAMPLED)
    result = []
    clocks = table.column("clock").to_pylist()
    for clock in dict.fromkeys(clocks):
        rows = table.filter(np.array([text == clock for text in clocks]))
        ours = np.array([_is_stepscope_stack(text) for text in rows.column("frames").to_pylist()])
        left_out_ns = int(rows.column("ns").to_numpy()[ours].sum())
        rows = rows.filter(~ours)
        column = {name: rows.column(name).to_numpy() for name in rows.column_names}
        figures_of_stack = np.stack([column[name] for name in FIGURES], axis=1).astype(np.int64)
        texts = [_script_frames(text) for text in rows.column("frames").to_pylist()]
        number: dict[str, int] = {}
        keys = [number.setdefault(text, len(number)) for text in chain.from_iterable(texts)]
        lengths = np.array([len(text) for text in texts], np.int64)
        threads: dict[Thread, NDArray[np.int64]] = {}
        places = zip(*(column[name].tolist() for name in Thread._fields), strict=True)
        for place, figures in zip(places, figures_of_stack, strict=True):
            at = Thread(*place)
            threads[at] = threads.get(at, 0) + figures
        measured = {
            name
            for name in FIGURES
            if (column[f"has_{name}"].all() if name in ("ns", "samples") else column[f"has_{name}"].any())
        }  # fmt: skip
        frames = [parsed(text) for text in number]
        tree = call_tree_of_stacks(np.array(keys, np.int64), lengths, figures_of_stack)
        result.append(HostTime(clock, frames, tree, threads, frozenset(measured), left_out_ns))
    return result


def _is_stepscope_stack(stack: str) -> bool:
    """Whether it is a StepScope thread's: our frame is right above those in which Python starts a thread."""
    if _OURS not in stack:
        return False
    outermost_first = stack.split(";")[::-1]
    starts = [_THREAD_STARTS in frame for frame in outermost_first]
    if True not in starts:
        return False
    inside = starts.index(False, starts.index(True)) if False in starts[starts.index(True) :] else 0
    return _OURS in outermost_first[inside]


def _script_frames(stack: str) -> list[str]:
    """A stack's frames without those that run a script under `stepscope record`; an import becomes one frame."""
    frames = stack.split(";") if stack else [UNKNOWN]
    started = next((at for at, frame in enumerate(frames) if _STARTER in frame), len(frames))
    inner = frames[:started] or frames
    for at in range(len(inner) - 1, -1, -1):
        if inner[at].startswith(_IMPORTS):
            return [IMPORTED, *inner[at + 1 :]]
    return inner


@dataclass(frozen=True, slots=True)
class _Calls:
    """Traced Python frames.

    Args:
        keys: index of each name in `texts`.
        above: row of the parent, -1 for none.
        dur, self_ns: ns with and without what it calls.
        whose: its thread (rank, span, thread).
        ours, idle: whether that is StepScope's, or only waited.
    """

    texts: list[str]
    keys: NDArray[np.int64]
    above: NDArray[np.int64]
    dur: NDArray[np.int64]
    self_ns: NDArray[np.int64]
    whose: NDArray[np.int64]
    ours: NDArray[np.bool_]
    idle: NDArray[np.bool_]


def waiting_threads(scope: Scope) -> set[Thread]:
    """Traced threads that only waited while others worked."""
    if not scope.value(_ANY_TRACED):
        return set()
    calls = _calls(scope)
    return {Thread(*thread) for thread in np.unique(calls.whose[calls.idle], axis=0).tolist()}


def waiting_text(threads: int) -> str:
    """Says how many threads that only waited are left out; empty for none."""
    if not threads:
        return ""
    return f"Left out: {count_text(threads)} {plural(threads, 'thread')} that only waited (--by thread has them)."


@once
def _calls(scope: Scope) -> _Calls:
    table = scope.sql(_TRACED)
    column = {
        name: table.column(name).to_numpy()
        for name in ("rank", "span", "thread", "id", "parent_id", "python", "dur_ns")
    }
    above = _nearest(column)
    frames = np.flatnonzero(column["python"])
    place = np.full(len(column["id"]) + 1, -1, np.int64)
    place[frames] = np.arange(len(frames))
    above = place[above[frames]]
    dur = column["dur_ns"][frames].astype(np.int64)
    self_ns = dur.copy()
    np.subtract.at(self_ns, above[above >= 0], dur[above >= 0])
    named = table.column("name").combine_chunks().dictionary_encode()
    texts = named.dictionary.to_pylist()
    keys = named.indices.to_numpy()[frames].astype(np.int64)
    whose = np.stack([column[name][frames] for name in Thread._fields], axis=1).astype(np.int64)
    ours = _on_stepscope_threads(lambda mark: np.array([mark in text for text in texts])[keys], above)
    waits = np.array([_WAITS.search(text) is not None for text in texts], bool)[keys]
    idle = ~ours
    idle[~ours] = _only_waiting(whose[~ours], self_ns[~ours], waits[~ours])
    return _Calls(texts, keys, above, dur, self_ns, whose, ours, idle)


def _traced(scope: Scope) -> HostTime:
    calls = _calls(scope)
    outermost = calls.above < 0

    def threads(which: NDArray[np.bool_]) -> dict[Thread, NDArray[np.int64]]:
        figures_of: dict[Thread, NDArray[np.int64]] = {}
        at = which & outermost
        for place, ns in zip(calls.whose[at].tolist(), calls.dur[at].tolist(), strict=True):
            thread = Thread(*place)
            figures_of[thread] = figures_of.get(thread, 0) + np.array([ns, 0, 0, 0], np.int64)
        return figures_of

    left = ~(calls.ours | calls.idle)
    place = np.append(np.cumsum(left) - 1, -1)
    figures = np.zeros((int(left.sum()), len(FIGURES)), np.int64)
    figures[:, 0] = np.maximum(calls.self_ns[left], 0)
    return HostTime(
        clock="traced",
        frames=[parsed(text) for text in calls.texts],
        tree=call_tree(place[calls.above[left]], calls.keys[left], figures),
        threads=threads(left),
        recorded=frozenset({"ns"}),
        left_out_ns=int(calls.dur[calls.ours & outermost].sum()),
        waiting=threads(calls.idle),
    )


def _only_waiting(whose: NDArray[np.int64], self_ns: NDArray[np.int64], waits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Calls on threads that only waited while another thread did more.

    Args:
        whose: (calls, 3), the thread of each.
        self_ns: ns of each call without what it calls.
        waits: whether a call waits.
    """
    thread = np.zeros(len(self_ns), np.int64)
    for column in whose.T:  # with a million rows at once this takes seconds
        packed = thread * (int(column.max(initial=0)) + 2) + column + 1
        thread = np.unique(packed, return_inverse=True)[1]
    total, waited = (np.bincount(thread, ns) for ns in (self_ns, self_ns * waits))
    only: NDArray[np.bool_] = waited >= _ONLY * total
    return only[thread] & ~only.all()


def _on_stepscope_threads(named: Callable[[str], NDArray[np.bool_]], above: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which frames are on StepScope's own threads: our frame is right below those in which Python starts a thread."""
    starts, outermost = named(_THREAD_STARTS), above < 0
    only_starts = starts & outermost
    for _ in range(2):  # `_bootstrap` calls `_bootstrap_inner`, and that calls `run`
        only_starts |= starts & ~outermost & only_starts[above]
    root = np.where(outermost, np.arange(len(above)), above)
    while (further := root[root]).tolist() != root.tolist():
        root = further
    return np.isin(root, root[named(_OURS) & ~outermost & only_starts[above]])


def _nearest(column: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The row of the innermost Python frame around each event, -1 for none."""
    identity = column["rank"].astype(np.int64) << 52 | column["id"]
    has_parent = column["parent_id"] >= 0
    parent = column["rank"].astype(np.int64) << 52 | column["parent_id"]
    up = np.append(places(identity, np.where(has_parent, parent, -1)), -1)
    python = np.append(column["python"], True)
    nearest: NDArray[np.int64] = up[:-1].copy()
    while len(pending := np.flatnonzero(~python[nearest])):
        nearest[pending] = up[nearest[pending]]
    return nearest
