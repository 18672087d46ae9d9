"""How a rule is declared, once, and what it finds.

A rule is a function from `Facts` to findings, with a declaration beside it: what it looks for, the
thresholds it goes by and where they come from, and the evidence whose damage spoils it. The page of
the documentation is made from the declaration. A rule that would be wrong about a recording yields
nothing.

To add a rule, add a file to `rules` with one `@rule(...)` function, named alike, and name it in
`rules.ALL`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from stepscope.formats.evidence import MEANINGS, Evidence

if TYPE_CHECKING:
    from stepscope.judge.facts import Facts

Unit = Literal["ns", "ratio", "count", "bytes"]
Severity = Literal["high", "medium", "low", "note"]
LostOn = int | Literal["ranks", "job"]
Confidence = Literal["high", "medium", "low"]
HIGH, MEDIUM = 0.20, 0.05
"""Parts of the step from which a loss is of high or medium severity: xprof's bands for time lost to input."""
WITH_OTHERS = " Ranks that wait for each other may gain more."
"""Said where the job may save more than ranks themselves: what these wait for each other is not in what is said of a saving."""
WITH_HOST = " Host time that this frees may shorten other waits, too."
"""Said where what is said of a saving holds such waits beside the loss."""


Role = Literal["obstacle", "loss", "work", "remedy"]
"""What a finding is to the verdict: an obstacle to judging comes first; then the largest loss, a part
of the step in which nothing useful is done, or, where none is large, the work that the step is filled
with. A remedy shortens something and never leads."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule goes by.

    Args:
        name: what is compared with it.
        value: the number.
        unit: ns, ratio (1 is 100 %), count or bytes.
        source: where it comes from: a tool, a document, or `ours` with the reason.
    """

    name: str
    value: float
    unit: Unit
    source: str


_LITTLE = "ours: below it there is little to win"
AS_INPUT = "ours: as for waiting for input; above 15 %, TraceLens' bound for idle time, it leads"
"""Why a loss that waits is worth a finding from some part of the step on."""


def worth(what: str, part: float, source: str = _LITTLE) -> Threshold:
    """The part of the step below which a loss is not worth a finding."""
    return Threshold(f"{what}, of the step", part, "ratio", source)


LEADING = Threshold("a loss that leads, of the step", 0.15, "ratio", "TraceLens: computation below 85 % of the total")
FILLED = Threshold(
    "part of the step that work fills, below which the largest loss leads whatever its size",
    0.50,
    "ratio",
    "TensorBoard profiler plugin: GPU utilisation < 50 %",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth changing, or what the step is made of, with what shows it.

    Args:
        title: one line with the number.
        metric: what `value` is.
        value: the number.
        unit: its unit.
        advice: what to do, in PyTorch's terms.
        query: what reproduces the number: a `stepscope` command, or SQL for `stepscope sql SRC`; empty
            for `stepscope findings SRC --id RULE --json`, which does wherever nothing simpler does.
        saving_ns: what ranks could save themselves at most, in a mean step; None where nothing is said of it. What
            others wait for them meanwhile is added (`Waiting`): no cure saves more, in any job that has this recording.
        hidden_ns: how much more that may be, since the cure takes time from the host that lies beside device work now
            (`Facts.hidden`).
        lost_on: whose time that is: `ranks` for the mean of all, the number of a rank for that of one alone, `job`
            where it holds what ranks wait for each other already.
        step_ns: the mean step that its saving is a part of and cannot exceed (ns), where that is of the phases of the run
            and not the recording's mean step.
        at_least: what every job that has this recording saves by the advice (ns), and what in the
            recording shows it; None for 0, which is what a recording of the loss alone shows.
        confidence: how sure the cause is.
        evidence: rows that show it, the most telling first.
        rank: rank it is about; None for all.
        step: step it was seen in; None for all.
        window_ns: start and end of where it was seen, since the run's start; None for all counted steps.
        severity: None to follow from what ranks lose themselves.
        role: what it is to the verdict.
        share: the part of the step that it is about; losses are compared by it.
        ranks: ranks on which it was found, the worst first; empty where all count together.
        phase: phase of the step in which the time is lost, where one is known.
        trade_off: that of its cure, where it is not the rule's.
        gaps: which waits of a device for its host it counts, by rank, recording and start, and what of each, in a mean
            step (ns); empty where it counts none, or where they are not known one by one.
    """

    title: str
    metric: str
    value: float
    unit: Unit
    advice: str
    query: str = ""
    saving_ns: float | None = None
    hidden_ns: float = 0.0
    lost_on: LostOn = "ranks"
    step_ns: float | None = None
    at_least: tuple[float, str] | None = None
    confidence: Confidence = "medium"
    evidence: tuple[Mapping[str, Any], ...] = ()
    rank: int | None = None
    step: int | None = None
    window_ns: tuple[int, int] | None = None
    severity: Severity | None = None
    role: Role = "remedy"
    share: float | None = None
    ranks: tuple[int, ...] = ()
    phase: str | None = None
    trade_off: str = ""
    gaps: Mapping[tuple[int, int, int], float] = field(default_factory=dict)


def of_step(role: Role, share: float, metric: str, **more: Any) -> Finding:
    """A finding about a part of the step, which is its number; `more` is the rest of `Finding`."""
    return Finding(metric=metric, value=share, unit="ratio", role=role, share=share, **more)


def of_time(time_ns: float, *, saving_ns: float | None = None, **more: Any) -> Finding:
    """A finding about a time in the step, which is its number; all of it is saved at most, where `saving_ns` is not less."""
    saving_ns = time_ns if saving_ns is None else saving_ns
    return Finding(value=time_ns, unit="ns", saving_ns=saving_ns, **more)


@dataclass(frozen=True, slots=True)
class Rule:
    """A declared rule. `find` gets the facts of a recording."""

    id: str
    looks_for: str
    find: Callable[[Facts], Iterator[Finding]]
    thresholds: tuple[Threshold, ...]
    rests_on: tuple[Evidence, ...]
    silent_without: tuple[Evidence, ...]
    trade_off: str
    explanation: str
    shortens_device: bool = False

    def __post_init__(self) -> None:
        """Refuses evidence that no check can damage.

        Raises:
            ValueError: there is no such kind.
        """
        if unknown := {*self.rests_on, *self.silent_without} - set(MEANINGS):
            names = ", ".join(sorted(unknown))
            raise ValueError(f"{self.id} rests on {names}, which is not a kind of evidence")


def rule(
    id: str,  # noqa: A002  # what a finding's field is called
    looks_for: str,
    *thresholds: Threshold,
    trade_off: str = "",
    rests_on: tuple[Evidence, ...] = (),
    silent_without: tuple[Evidence, ...] = (),
    shortens_device: bool = False,
) -> Callable[[Callable[[Facts], Iterator[Finding]]], Rule]:
    """Declares the decorated function as a rule.

    Args:
        id: name of its findings.
        looks_for: one line: what it looks for.
        thresholds: numbers that it goes by.
        trade_off: what the cure moves elsewhere or asks for in exchange, as sentences; shown with the
            finding, since the bounds of the saving do not count it.
        rests_on: evidence whose damage, by a failing check, makes its findings no more than a hint.
        silent_without: evidence whose damage would make it wrong.
        shortens_device: whether its cure makes device work shorter and leaves the host what it does, so that it saves
            little where the host sets the pace (`judge/host_pace.py`), which is then said with it.

    The function's docstring becomes the explanation: what counts, and how the saving is bounded.

    Raises:
        ValueError: there is no such kind of evidence.
    """

    def declare(find: Callable[[Facts], Iterator[Finding]]) -> Rule:
        explanation = find.__doc__ or ""
        told = (rests_on, silent_without, trade_off, explanation, shortens_device)
        return Rule(id, looks_for, find, thresholds, *told)

    return declare


kernel_rule = partial(rule, rests_on=("stream-order", "device-times"), shortens_device=True)
"""Declares a rule about kernels that could be shorter or fewer."""
