"""`scaling`: whether what runs on more processes really scales, event by event.

Unlike other questions it is asked of several recordings, one for each number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.answers.declare import Column, Parameter, Question
from stepscope.answers.table import Table
from stepscope.api.inline_profiles import trace_of_profiles
from stepscope.api.trace import Trace, open_trace
from stepscope.floor.errors import SourceError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.progress import Progress

WHOLE = "iteration"
MODES = ("weak", "strong")
BELOW = 0.8

Source = str | os.PathLike[str] | Trace | Sequence[Mapping[str, Any]]
Key = tuple[str, int]

ERRORS = {
    "no-runs": (
        "`scaling` compares several runs: one source for each number of processes, and as many "
        "names as sources where names are given. `diff` compares two, which `--names` names."
    ),
}


@dataclass(slots=True)
class _Label:
    """A label in one run: its time on each rank, and both ends of its mean's interval there."""

    place: float
    inside: str | None
    means: dict[int, float] = field(default_factory=dict)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        mean, rank = float(row["mean_ns"]), int(row["rank"])
        self.means[rank] = max(mean, self.means.get(rank, mean))
        low, high = row.get("ci95_low_ns"), row.get("ci95_high_ns")
        self.lows.append(mean if low is None else max(low, 0.0))
        self.highs.append(mean if high is None else high)

    @property
    def average(self) -> float:
        return sum(self.means.values()) / len(self.means)


@dataclass(slots=True)
class _Run:
    name: str
    ranks: int
    labels: dict[Key, _Label]
    sources: tuple[str, ...]
    checks: tuple[dict[str, Any], ...] = ()


def scaling(
    sources: Sequence[Source],
    *,
    names: Sequence[str] | None = None,
    mode: str = "weak",
    below: float = BELOW,
    progress: Progress | None = None,
) -> Table:
    """Sets the inline measurements of several runs beside each other.

    Args:
        sources: a folder, file, store, open trace or result of `parse_result` for each run; the one
            with the fewest ranks is what the others are compared with.
        names: what to call them; by default the last part of their paths.
        mode: `weak` when every rank has the same work in all runs, as with a fixed batch per
            process; `strong` when the whole work is the same and is shared by more ranks.
        below: a label stops scaling where its efficiency is below this.
        progress: hears how far reading is.

    Raises:
        SourceError: a source cannot be read, or has neither inline measurements nor phases.
        UsageError: no sources, other names than sources, or no such mode.

    Example:
        stepscope.scaling(["1node", "2nodes", "4nodes"]).to_pandas()
    """
    if not sources or isinstance(sources, str | os.PathLike | Trace):
        raise UsageError(
            "scaling compares several runs",
            hint="give one source per number of processes: scaling(['1gpu', '2gpus'])",
            slug="no-runs",
        )
    if mode not in MODES:
        raise UsageError(
            f"no mode {mode!r}", hint=f"there is: {', '.join(MODES)}", slug="unknown-choice"
        )
    if names is not None and len(names) != len(sources):
        raise UsageError(
            f"the number of names, {len(names)}, is not that of the runs, {len(sources)}",
            hint="give each run one name",
            slug="no-runs",
        )
    called = list(names) if names is not None else names_of(sources)
    runs = [_read(source, name, progress) for source, name in zip(sources, called, strict=True)]
    return Table(
        question=SCALING,
        arrow=compare(runs, mode=mode, below=below),
        sources=tuple(path for run in runs for path in run.sources),
        checks=tuple(
            {**check, "explanation": f"{run.name}: {check['explanation']}"}
            for run in runs
            for check in run.checks
        ),
    )


def compare(runs: Iterable[_Run], *, mode: str, below: float) -> pa.Table:
    """One row is a label in a run; the whole iteration comes first, then labels as they run."""
    import pyarrow as pa

    ordered = sorted(runs, key=lambda run: run.ranks)
    base = ordered[0]
    rows = []
    for key in _keys(ordered):
        there = base.labels.get(key)
        of_label = []
        stops_at = None
        for run in ordered:
            here = run.labels.get(key)
            if here is None:
                continue
            row: dict[str, Any] = {
                "label": _text(key, ordered),
                "run": run.name,
                "ranks": run.ranks,
                "average_ns": here.average,
                "max_ns": max(here.means.values()),
                "slowest_rank": max(here.means, key=lambda rank: here.means[rank]),
                "inside": here.inside,
            }
            if there is not None:
                weak = _ratio(there.average, here.average)
                shared = base.ranks / run.ranks
                row["weak_efficiency_ratio"] = weak
                row["strong_efficiency_ratio"] = None if weak is None else weak * shared
                # Even at the favourable ends of both intervals: noise alone stops no label.
                best = _ratio(_mean(there.highs), _mean(here.lows))
                if best is not None and stops_at is None and run.ranks > base.ranks:
                    best *= shared if mode == "strong" else 1.0
                    stops_at = run.ranks if best < below else None
            of_label.append(row)
        rows += [{**row, "stops_at_ranks": stops_at} for row in of_label]
    types = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
    schema = pa.schema([(column.name, types[column.type]) for column in SCALING.columns])
    return pa.Table.from_pylist(rows, schema=schema)


def _read(source: Source, name: str, progress: Progress | None) -> _Run:
    with ExitStack() as stack:
        if isinstance(source, Trace):
            trace = source
        elif isinstance(source, str | os.PathLike):
            trace = stack.enter_context(open_trace(source, progress=progress))
        else:
            trace = stack.enter_context(trace_of_profiles(source))
        answer = trace.ask("inline")
        rows = answer.rows()
        if not any(row["kind"] == "event" for row in rows):
            by_phase = trace.ask("phases")
            if len(by_phase):
                answer = by_phase
                rows = [_as_event(place, row) for place, row in enumerate(answer.rows())]
        if not rows:
            raise SourceError(
                f"{name}: neither inline measurements nor phases in it",
                hint="record with stepscope record --inline PLAN -- train.py",
                slug="no-inline-profile",
            )
        asked = trace.sql("SELECT max(world_size) AS size, count(*) AS ranks FROM rank").rows()[0]
    labels: dict[Key, _Label] = {}
    for row in rows:
        key = WHOLE if row["kind"] == "iteration" else row["label"], row["occurrence"]
        place = row["start_index"]
        place = -1.0 if row["kind"] == "iteration" else float("inf") if place is None else place
        labels.setdefault(key, _Label(place, row["inside"])).add(row)
    ranks = max(asked["size"] or 0, asked["ranks"])
    return _Run(name, ranks, labels, answer.sources, answer.checks)


def _as_event(place: int, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "iteration" if row["phase"] == "step" else "event",
        "label": row["phase"],
        "occurrence": 0,
        "rank": row["rank"],
        "mean_ns": row["mean_ns"],
        "start_index": place,
        "inside": None,
    }


def names_of(sources: Sequence[Source]) -> list[str]:
    """The last parts of their paths, as many as tell them apart."""
    paths = [
        Path(source).absolute() if isinstance(source, str | os.PathLike) else Path(f"run {number}")
        for number, source in enumerate(sources, 1)
    ]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]


def _keys(runs: Sequence[_Run]) -> list[Key]:
    """All labels, in the order of the first run that has them."""
    places: dict[Key, tuple[float, str, int]] = {}
    for run in runs:
        for key, label in run.labels.items():
            places.setdefault(key, (label.place, *key))
    return sorted(places, key=lambda key: places[key])


def _text(key: Key, runs: Sequence[_Run]) -> str:
    label, occurrence = key
    several = any((label, 1) in run.labels for run in runs)
    return f"{label}#{occurrence}" if several or occurrence else label


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ratio(before: float, now: float) -> float | None:
    return before / now if now > 0 else None


def stopped(table: Table) -> dict[str, int]:
    """Labels of a `scaling` table that stop scaling, and at how many ranks."""
    return {
        row["label"]: row["stops_at_ranks"]
        for row in table.rows()
        if row["stops_at_ranks"] is not None
    }


SCALING = Question(
    name="scaling",
    asks="Does it really scale, event by event?",
    columns=(
        Column("label", "text", "what was measured; iteration for a whole one"),
        Column("run", "text", "which run"),
        Column("ranks", "int", "ranks of the run", "count"),
        Column("average_ns", "float", "average over ranks of their means", "ns"),
        Column("max_ns", "float", "largest of the ranks' means", "ns"),
        Column("slowest_rank", "int", "rank with that mean", shown=False),
        Column(
            "weak_efficiency_ratio",
            "float",
            "average with the fewest ranks over this one: 1 if the same work per rank takes as long",
            "ratio",
        ),
        Column(
            "strong_efficiency_ratio",
            "float",
            "the same times the ratio of ranks: 1 if twice the ranks take half the time",
            "ratio",
        ),
        Column("stops_at_ranks", "int", "ranks from which on it scales no longer", "count"),
        Column("inside", "text", "measured event around it on its stream", shown=False),
    ),
    answer=compare,
    rests_on=(),
    parameters=(
        Parameter("mode", "text", "what stays the same: work per rank, or all work", "weak", MODES),
        Parameter("below", "float", "efficiency below which a label stops scaling", BELOW),
    ),
    drawing="runs",
    fills="Record each run with stepscope record --inline PLAN -- train.py",
)
