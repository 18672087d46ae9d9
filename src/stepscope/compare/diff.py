"""`diff`: what got slower or faster between two recordings, by how much, and how sure that is.

Unlike other questions it is asked of two recordings: a change of code, of a setting or of the machine
lies between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.answers.ask import SOURCES, check_top
from stepscope.answers.declare import Parameter, Question
from stepscope.answers.table import Table
from stepscope.api.inline_profiles import trace_of_profiles
from stepscope.api.trace import Trace, open_trace
from stepscope.compare.rows import COLUMNS, COUNTED_CALLS, set_beside
from stepscope.compare.scaling import names_of
from stepscope.compare.sides import (
    ANSWERED_LIKE,
    Side,
    marks_steps,
    offered,
    read_side,
)
from stepscope.floor.errors import SourceError, UsageError
from stepscope.formats.evidence import EVERYTHING, bears_on
from stepscope.questions import find

if TYPE_CHECKING:
    from stepscope.progress import Progress

Source = str | os.PathLike[str] | Trace | Sequence[Mapping[str, Any]]
BY = tuple(ANSWERED_LIKE)

_WITHIN = (
    " Intervals (±) know how steps scatter within each recording; two runs may differ by more."
)

_FAILED = "SELECT * FROM data_check WHERE severity <> 'ok' ORDER BY rank, span, \"check\""

ERRORS = {
    "recorded-differently": (
        "`diff` was given two recordings that cannot be compared: one is a trace and the other "
        "has phases, say, or one has a device and the other has not, or what `--by` asks for is "
        "not in both. The message says what each has. Record both in the same way, or choose with "
        "`--by` something that both have."
    ),
}


def diff(
    before: Source,
    after: Source,
    *,
    by: str | None = None,
    names: Sequence[str] | None = None,
    top: int | None = None,
    cache: bool = True,
    strict: bool = False,
    progress: Progress | None = None,
) -> Table:
    """What got slower or faster from one recording to another, by how much, and how sure that is.

    The first row is the whole (the step, the iteration, or all device work), the others are its
    parts, the largest changes first. All times are means per step, averaged over ranks, so that
    recordings of different lengths and numbers of ranks can be compared. Intervals are Welch's, with
    steps as samples; they are NULL where a rank has fewer than two.

    Args:
        before: a folder, file, store, open trace or result of `parse_result`.
        after: what it is compared with, recorded in the same way.
        by: `category` (what a step of a trace consists of, as `steps` has it), `operator`, `kernel`
            or `module` (device work, without a device the host's self time), `label` (events measured
            inline) or `phase`. By default the first of category, label and phase that both have.
        names: what to call the two; by default the last parts of their paths.
        top: the first so many rows alone.
        cache: keep what is imported for the next time.
        strict: take any damage in a file as an error.
        progress: hears how far reading is.

    Raises:
        SourceError: a source cannot be read, or the two have nothing that can be compared.
        UsageError: no such `by`, or not two names.

    Example:
        stepscope.diff("runs/before", "runs/after").to_pandas()
    """
    check_top(top)
    opened = open_pair(before, after, names=names, cache=cache, strict=strict, progress=progress)
    with opened as pair:
        table = pair.compare(by)
    return first_rows(table, top)


def first_rows(table: Table, top: int | None) -> Table:
    """The first rows of an answer alone; all of them for None."""
    if top is None:
        return table
    return replace(table, arrow=table.arrow.slice(0, top))


class Pair:
    """Two open recordings and what to call them."""

    def __init__(self, before: Trace, after: Trace, names: tuple[str, str]) -> None:
        self.traces = (before, after)
        self.names = names
        self._offered = (offered(before), offered(after))
        self._answers: dict[str, Table] = {}

    def compare(self, by: str | None = None) -> Table:
        """The comparison by one of `BY`; by default the first of category, label and phase."""
        chosen = self._chosen(by)
        if chosen not in self._answers:
            self._answers[chosen] = self._answer(chosen)
        return self._answers[chosen]

    def _chosen(self, by: str | None) -> str:
        if by is not None and by not in BY:
            raise UsageError(
                f"no comparison by {by!r}",
                hint=f"there is: {', '.join(BY)}",
                slug="unknown-choice",
            )
        wanted = ("category", "label", "phase", "operator", "kernel") if by is None else (by,)
        for name in wanted:
            if all(name in offers for offers in self._offered):
                return name
        told = [
            f"{role} ({name}) has {', '.join(offers) or 'nothing of this kind'}"
            for role, name, offers in zip(
                ("before", "after"), self.names, self._offered, strict=True
            )
        ]
        common = [name for name in self._offered[0] if name in self._offered[1]]
        problem = "were not recorded alike" if by is None else f"cannot be compared by {by}"
        raise SourceError(
            f"the two {problem}: {'; '.join(told)}",
            hint=f"compare --by {common[0]}, or record both with what it needs"
            if common
            else "record both in the same way",
            slug="recorded-differently",
        )

    def _answer(self, by: str) -> Table:
        before, after = (read_side(trace, by) for trace in self.traces)
        if by not in ("label", "phase"):
            self._require_alike(
                [marks_steps(trace) for trace in self.traces],
                ("has steps", "has none marked, and the whole recording would be one"),
                "call profiler.step() after each step in both",
            )
        self._require_alike(
            [side.of != "host work" for side in (before, after)],
            ("has device work", "has the host alone"),
            "record both with the same activities, or compare --by category",
        )
        question = find(ANSWERED_LIKE[by])
        rows = set_beside(before, after, by)
        return Table(
            question=DIFF,
            arrow=rows,
            sources=tuple(
                row["path"] for trace in self.traces for row in trace.sql(SOURCES).rows()
            ),
            checks=tuple(
                {**check, "explanation": f"{role}: {check['explanation']}"}
                for role, trace in zip(("before", "after"), self.traces, strict=True)
                for check in trace.sql(_FAILED).rows()
                if bears_on(check["affects"], question.rests_on)
            ),
            note=_note(before, after, self, by)
            + (_WITHIN if rows.num_rows - rows["ci95_low_ns"].null_count else ""),
        )

    def _require_alike(self, has: list[bool], words: tuple[str, str], hint: str) -> None:
        """Refuses two recordings of which one has what the other has not."""
        if has[0] == has[1]:
            return
        told = [
            f"{role} ({name}) {words[0] if there else words[1]}"
            for role, name, there in zip(("before", "after"), self.names, has, strict=True)
        ]
        raise SourceError(
            f"the two were not recorded alike: {'; '.join(told)}",
            hint=hint,
            slug="recorded-differently",
        )


@contextmanager
def open_pair(
    before: Source,
    after: Source,
    *,
    names: Sequence[str] | None = None,
    cache: bool = True,
    strict: bool = False,
    progress: Progress | None = None,
) -> Iterator[Pair]:
    """Opens two recordings to compare; `diff` says what the arguments are.

    Raises:
        SourceError: a source cannot be read.
        UsageError: not two names.
    """
    if names is not None and (isinstance(names, str) or len(names) != 2):
        raise UsageError(
            f"{names!r} are not two names",
            hint="name what was before and what is after: --names old,new",
            slug="no-runs",
        )
    sources = (before, after)
    if names is None:
        roles = zip(names_of(sources), sources, ("before", "after"), strict=True)
        names = [
            name if isinstance(source, str | os.PathLike) else role for name, source, role in roles
        ]
    with ExitStack() as stack:
        opened = []
        for source in sources:
            if isinstance(source, str | os.PathLike):
                trace = open_trace(source, cache=cache, strict=strict, progress=progress)
                stack.enter_context(trace)
            elif isinstance(source, Trace):
                trace = source
            else:
                trace = stack.enter_context(trace_of_profiles(source))
            opened.append(trace)
        yield Pair(opened[0], opened[1], (names[0], names[1]))


def _note(before: Side, after: Side, pair: Pair, by: str) -> str:
    def told(side: Side) -> str:
        ranks = "1 rank" if side.ranks == 1 else f"{side.ranks} ranks"
        if side.total is None or not side.total.timing.samples:
            return ranks
        steps = side.total.timing.samples
        step = "iteration" if by == "label" else "step"
        return f"{steps} {step}{'' if steps == 1 else 's'} of {ranks}"

    words = [f"before: {pair.names[0]}, {told(before)}; after: {pair.names[1]}, {told(after)}."]
    if by not in ("label", "phase") and not marks_steps(pair.traces[0]):
        words.append("No steps are marked: each recording counts as one.")
    if before.ranks > 1 or after.ranks > 1:
        words.append("Times are per step and averaged over ranks.")
    if by == "label":
        words.append("Events may overlap or lie inside one another: changes do not add up.")
    elif by in COUNTED_CALLS:
        words.append(
            "Durations are summed: what runs at once counts twice."
            if before.of == "device work"
            else "No device was recorded: times are the host's self times."
        )
    return " ".join(words)


DIFF = Question(
    name="diff",
    asks="What got slower or faster, and how sure is that?",
    columns=COLUMNS,
    answer=set_beside,
    rests_on=EVERYTHING,
    parameters=(Parameter("by", "text", "what is compared", None, BY),),
    drawing="comparison",
    fills="Record both in the same way.",
)
