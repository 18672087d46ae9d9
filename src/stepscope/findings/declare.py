"""Declares a rule and its findings.

A rule is a function from `Facts` to findings. Its declaration has what it looks for, its thresholds and their sources,
and the evidence whose damage invalidates it; the documentation page is made from it. A rule that would be wrong about a
recording yields nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from stepscope.formats.evidence import MEANINGS, Evidence

if TYPE_CHECKING:
    from stepscope.findings.facts import Facts

Unit = Literal["ns", "ratio", "count", "bytes"]
Severity = Literal["high", "medium", "low", "note"]
LostOn = int | Literal["ranks", "job"]
Confidence = Literal["high", "medium", "low"]
HIGH, MEDIUM = 0.20, 0.05
"""Shares of the step from which a loss has high or medium severity: xprof's bands for time lost to input."""
WITH_OTHERS = " Ranks that wait for each other may gain more."
"""Added if the job may save more than single ranks: the estimate excludes waits between ranks."""
WITH_HOST = " Host time that this frees may shorten other waits, too."
"""Added if the estimate includes those waits."""


Role = Literal["obstacle", "loss", "work", "remedy"]
"""A finding's role in the verdict: an obstacle to judging comes first, then the largest loss or, if none is large, the
work that fills the step. A remedy shortens something and never leads."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold of a rule: what is compared with it, and where it comes from.

    Args:
        unit: ns, ratio (1 is 100 %), count or bytes.
        source: a tool, a document, or `ours` with the reason.
    """

    name: str
    value: float
    unit: Unit
    source: str


_LITTLE = "ours: below it there is little to win"
AS_INPUT = "ours: as for waiting for input; above 15 %, TraceLens' bound for idle time, it leads"
"""Why a loss in waiting is worth a finding above some share of the step."""


def worth(what: str, part: float, source: str = _LITTLE) -> Threshold:
    """The share of the step below which a loss is not worth a finding."""
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
    """Something worth changing, or what fills the step, with its evidence.

    Args:
        title: one line with the number.
        metric: what `value` is.
        value: the number.
        unit: its unit.
        advice: what to do, in PyTorch's terms.
        query: what reproduces the number: a `stepscope` command, or SQL for `stepscope sql SRC`; empty for `stepscope
            findings SRC --id RULE --json`, if nothing simpler does.
        saving_ns: upper bound of the ranks' own saving in a mean step; None if no saving is stated. The engine adds the
            waits of others for them (`Waiting`).
        hidden_ns: what the cure saves beyond that because it also frees host time that device work hides (`Facts.hidden`).
        lost_on: whose time that is: `ranks` for the mean of all, a number for that rank alone, `job` if it already
            includes waits of ranks for each other.
        step_ns: the mean step that limits the saving (ns), if it is that of the phases.
        min_saving: what every job with this recording saves (ns), and the evidence for it; None for 0.
        confidence: how sure the cause is.
        evidence: rows that show it, the most informative first.
        rank, step: where it was seen; None for all.
        window_ns: start and end of where it was seen, since the run's start; None for all counted steps.
        severity: None to derive it from the ranks' own losses.
        share: the share of the step that it is about; losses are compared by it.
        ranks: ranks on which it was found, the worst first; empty if all count together.
        phase: phase of the step in which the time is lost, if known.
        trade_off: that of its cure, if different from the rule's.
        gaps: the waits of a device for its host that it counts, by rank, recording and start, and how much of each
            counts in a mean step (ns).
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
    min_saving: tuple[float, str] | None = None
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
    """Makes a finding whose number is a share of the step; `more` is the rest of `Finding`."""
    return Finding(metric=metric, value=share, unit="ratio", role=role, share=share, **more)


def of_time(time_ns: float, *, saving_ns: float | None = None, **more: Any) -> Finding:
    """Makes a finding whose number is a time in the step; all of it may be saved unless `saving_ns` is less."""
    saving_ns = time_ns if saving_ns is None else saving_ns
    return Finding(value=time_ns, unit="ns", saving_ns=saving_ns, **more)


@dataclass(frozen=True, slots=True)
class Rule:
    """A declared rule."""

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
        looks_for: what it looks for, in one line.
        trade_off: what the cure costs elsewhere, as sentences; the bounds of the saving do not include it.
        rests_on: evidence whose damage, by a failing check, makes its findings only a hint.
        silent_without: evidence whose damage would make it wrong.
        shortens_device: whether its cure shortens device work but not the host's, so that it saves little if the host
            sets the pace (`findings/host_pace.py`); the finding then says so.

    The function's docstring becomes the explanation: what counts, and the bounds of the saving.

    Raises:
        ValueError: there is no such kind of evidence.
    """

    def declare(find: Callable[[Facts], Iterator[Finding]]) -> Rule:
        explanation = find.__doc__ or ""
        return Rule(id, looks_for, find, thresholds, rests_on, silent_without, trade_off, explanation, shortens_device)

    return declare


kernel_rule = partial(rule, rests_on=("stream-order", "device-times"), shortens_device=True)
"""Declares a rule about kernels that could be shorter or fewer."""
