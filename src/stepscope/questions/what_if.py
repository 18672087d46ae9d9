"""What a change would save: the steps as they would have been, with bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepscope.analysis.dependencies import FILLS, RESTS_ON
from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rank_exclusion import ranks_without_their_device
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.dependencies.change import Change, WhatIf

_COLUMNS = (
    Column("span", "int", "which of the ranks' recordings, from 0", visible="varying"),
    Column("change", "text", "the assumed change"),
    Column("step_ns", "float", "resulting mean time of a rank's step", sums=True),
    Column("saved_ns", "float", "saving; empty where only bounds are known"),
    Column("saved_ratio", "float", "fraction of the recorded step", sums=True),
    Column("saved_low_ns", "float", "lower bound of the saving: unexplained waits stay"),
    Column("saved_high_ns", "float", "upper bound of the saving"),
)
_FASTER = re.compile(r"=\s*([^,=\s]+)\s*(?:,|\Z)")
_MIN_FACTOR, _MAX_FACTOR = 0.01, 1000.0
_HOW = f"write a class or a pattern of names and a factor from {_MIN_FACTOR:g} to {_MAX_FACTOR:g}"
_RECORDED = "as recorded"
_TOGETHER = "all of these"
_WORTH_RATIO = 0.01
"""A class of kernels with a smaller share of the path is tried only on request."""
_WORDS = {
    "communication": "without transfers between ranks",
    "input": "without input wait",
    "launch": "without launch overhead",
    "straggler": "without a straggler",
}

_OF_SEVERAL = "Without transfers, ranks still wait for one another; exposed communication in `findings` holds both."
_OF_BOUNDS = "What makes their transfers faster has bounds, and no estimate."

ERRORS = {
    "unknown-change": (
        "What `what-if` was asked to change is not in the recording, or not written as it takes it: `--faster` "
        "takes classes of kernels, as the question `classes` names them, or patterns of kernel names with `*`, "
        "each with a factor from 0.01 to 1000: `--faster GEMM=2,*softmax*=1.5`; `--without` takes communication, input, launch and "
        "straggler, separated by commas."
    )
}


@question(
    "what-if",
    "How long would a step take if something were faster, or were not there?",
    _COLUMNS,
    group="steps",
    rests_on=RESTS_ON,
    about="recording",
    parameters=(
        Parameter(
            "faster",
            "text",
            "classes or name patterns of kernels and how many times as fast they would be: GEMM=2,*softmax*=1.5; by default each class is tried",
            "",
        ),
        Parameter("without", "text", "communication, input, launch or straggler, separated by commas; by default each is tried", ""),
    ),
    fills=FILLS,
)  # fmt: skip
def what_if(scope: Scope, faster: str = "", without: str = "") -> ArrowTable:
    """The recorded steps are replayed with other durations: the dependencies stay (see `critical-path`), and each
    moment comes as early as its dependencies allow. Without any change that gives the recorded times exactly. A gain is
    not the changed part's share of the step: what it hid becomes visible, and changes do not add up, so the last row
    combines all of them.

    * **Faster kernels**: of a class (`--faster GEMM=2`), or by name (`--faster '*softmax*=1.5'`). For a collective the
      transfer is faster; the wait for the last rank is not.
    * **communication**: transfers take no time. Ranks still wait for one another, which is also part of the exposed
      communication in `summary` and `findings`.
    * **input**: batches are ready when the loop asks for them.
    * **launch**: calls that launch take no time and kernels start when they are launched, almost as in a CUDA graph.
    * **straggler**: no rank waits for the one that `stragglers` names, and the job is done without it.

    Without `--faster` and `--without`, each of these is tried, and each class with a hundredth of the critical path or
    more as twice as fast.

    A stream still runs one piece of work after the other, a full queue still delays the host, a loader that was waited
    for in every step still sets the pace, and the host still waits where it waited. Not modelled: the machine's limits
    (kernels that no longer share the device or its memory would run faster, those that newly do, slower), and
    unrecorded waits. A wait of 30 µs or more without a recorded reason moves along with what was before it; for the
    lower bound it ends when it did. For communication that was not matched over all ranks of its group it is unknown
    how much was waiting: what depends on it has no estimate, and for the lower bound only as much is removed as the
    fastest kernel of its name took, or nothing if a rank of the matched ones is missing. The upper bound is everything
    that becomes shorter on the rank and in the step where that is most, as long as one thread or stream still has the
    time for all that it does. It is left out if nothing of the step remains.

    A step's time is the mean over ranks: from when a rank had done the step before those that count (without one, from
    when it started) until it had done the last, over their number.
    """
    from stepscope.analysis.dependencies.change import WhatIf
    from stepscope.analysis.dependencies.paths import graphs_of, lacks
    from stepscope.analysis.recording import every_step

    requested = [*_faster(faster), *_without(without)]
    rows: list[list[Any]] = []
    graphs = graphs_of(scope)
    late = guessed = False
    with every_step(scope) as all_steps:
        for number, graph in enumerate(graphs):
            window = graph.window
            model = WhatIf(all_steps, graph, scope)
            steps = len(window.steps)
            recorded = model.recorded / steps
            named = model.straggler() is not None
            # If no rank is named, that does not mean that there is nothing to gain.
            changes = (
                [
                    _checked(model, requested_change)
                    for requested_change in requested
                    if named or "straggler" not in requested_change.without
                ]
                if requested
                else _usual(scope, number, model)
            )
            late |= named
            if len(changes) > 1:
                total = changes[0]
                for change in changes[1:]:
                    total = total + change
                changes.append(total)
            rows.append([window.span, _RECORDED, recorded, None, None, None, None])
            for place, change in enumerate(changes):
                outcome = model.outcome(change)
                label = _label(model, change)
                if place and place == len(changes) - 1:
                    label = _TOGETHER
                guessed |= outcome.saved is None
                saved = None if outcome.saved is None else outcome.saved / steps
                paths = (
                    [None] * 3 if saved is None else [recorded - saved, saved, saved / recorded if recorded else None]
                )
                high = None if outcome.high is None else outcome.high / steps
                rows.append([window.span, label, *paths, outcome.low / steps, high])
    note = lacks(graphs, "a wait for other ranks in them stays as long as it was")
    if guessed:
        note = f"{note} {_OF_BOUNDS}"
    if any(len(graph.window.ranks) > 1 for graph in graphs):
        note = f"{_OF_SEVERAL} {note}"
    if not requested and graphs and len(rows) == len(graphs):
        why = "Nothing is there to change: no kernel, launch, transfer, awaited batch or late rank."
        if ranks_without_their_device(scope):
            why = "Device work is missing (`stepscope checks`), so what could change is not known."
        note = f"{why} {note}"
    if any("straggler" in change.without for change in requested) and not late:
        note = f"No rank is a straggler (`stepscope stragglers SRC`). {note}"
    return noted(answer_rows(_COLUMNS, rows), note.strip())


def _faster(text: str) -> list[Change]:
    from stepscope.analysis.dependencies.change import Change

    changes, at = [], 0
    while at < len(text):
        match = _FASTER.search(text, at)
        name = text[at : match.start()].strip() if match else ""
        if match is None or not name:
            raise UsageError(
                f"--faster {text!r}: no class or pattern of names with a number after =",
                hint=f"{_HOW}: --faster GEMM=2",
                slug="unknown-change",
            )
        factor = _factor(match[1])
        if not _MIN_FACTOR <= factor <= _MAX_FACTOR:
            raise UsageError(
                f"--faster {name}={match[1]}: {match[1]} is not from {_MIN_FACTOR:g} to {_MAX_FACTOR:g}",
                hint=f"{_HOW}, how many times as fast: --faster GEMM=2",
                slug="unknown-change",
            )
        changes.append(Change(faster=((_as_named(name), factor),)))
        at = match.end()
    return changes


def _factor(text: str) -> float:
    """Parses a factor; NaN, which is in no range, if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _as_named(which: str) -> str:
    """A class in its own spelling; else a pattern of names unchanged."""
    from stepscope.costs import CLASSES

    return {name.casefold(): name for name in CLASSES}.get(which.casefold(), which)


def _without(text: str) -> list[Change]:
    from stepscope.analysis.dependencies.change import Change

    words = [word.strip() for word in text.split(",") if word.strip()]
    return [Change(without=(check_name(word, tuple(_WORDS), "change"),)) for word in words]


def _checked(model: WhatIf, change: Change) -> Change:
    for which, _ in change.faster:
        if not model.has(which):
            raise UsageError(
                f"no kernel of the recording is of the class, or has the name, {which!r}",
                hint="see which classes there are: stepscope classes SRC",
                slug="unknown-change",
            )
    return change


def _label(model: WhatIf, change: Change) -> str:
    (words,) = [f"{which} {factor:g} × as fast" for which, factor in change.faster[:1]] or [_WORDS[change.without[0]]]
    if change.without[:1] == ("straggler",) and (late := model.straggler()) is not None:
        return f"{words} (rank {model.graph.recordings[late].rank})"
    return words


def _usual(scope: Scope, number: int, model: WhatIf) -> list[Change]:
    """The changes that the recording gives reason to try; `number` is the graph's."""
    from stepscope.analysis.dependencies.change import Change
    from stepscope.analysis.dependencies.paths import paths_of

    pieces = paths_of(scope)[number]
    by_class = pieces.group_by(["class"]).aggregate([("dur_ns", "sum")]).to_pylist()
    total = sum(row["dur_ns_sum"] for row in by_class)
    large = [row for row in by_class if row["class"] and row["dur_ns_sum"] >= _WORTH_RATIO * total]
    large.sort(key=lambda row: (-row["dur_ns_sum"], row["class"]))
    changes = [Change(faster=((row["class"], 2.0),)) for row in large]
    return changes + [Change(without=(name,)) for name in _WORDS if model.applies(name)]
