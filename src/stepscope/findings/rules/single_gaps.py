"""Long waits of a device in few gaps: the cost of a first use, what the host does in them, and those in which the host
itself waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepscope.base.units import mean_count_text, plural, time_text
from stepscope.findings.cures import device_tool, show_the_host
from stepscope.findings.declare import AS_INPUT, Finding, Threshold, of_step, rule, worth
from stepscope.findings.facts import Facts, Row
from stepscope.findings.host_waits import EACH, FEW, LARGEST, LONG_NS, Wait
from stepscope.findings.rules.low_utilization import low_use

_SINGLE = worth("single long waits for the host", 0.05, AS_INPUT)
_COLD = worth("waits for what is done once", 0.05, AS_INPUT)
_FEW = Threshold(
    f"the {LARGEST} longest waits for the host in a step, of all its waits for the host",
    FEW,
    "ratio",
    "ours: in recordings in which many launches make the wait they hold at most 0.36 of it, in those "
    "in which single gaps do at least 0.85; from half of it on, launching less saves the smaller part",
)
_EACH = Threshold("a single long wait, of its step's waits for the host", EACH, "ratio", "ours: less is one of many")
_LONG = Threshold(
    "a single long wait", LONG_NS, "ns", "ours: eager PyTorch launches an operator in 5 to 100 µs, recorded"
)
_SLOW = Threshold(
    "what is done once, over the median of calls of its name",
    100,
    "count",
    "ours: loading a module takes 1 to 300 ms within a launch, which takes some µs otherwise; calls "
    "that allocate or set up take 1 ms and more, and are in no second step",
)
_BLOCKED = worth("time in which the host waits and no device works", 0.05, AS_INPUT)

_NAMED = 3
_EVIDENCE = 5


@rule(
    "cold-start",
    "Waits for what a program does once: loading modules, allocating and setting up on first use.",
    _COLD,
    _FEW,
    _EACH,
    _LONG,
    _SLOW,
    rests_on=("clocks", "launches"),
    silent_without=("device-work",),
)
def cold_start(facts: Facts) -> Iterator[Finding]:
    """Single long waits for the host (see `single-gaps`) that are filled by a runtime call that takes a millisecond and
    more in no other step (`cudaMalloc`, `cudaFree`, loading a library), by the first launch of a kernel, or by the
    first call of an operator or frame, if these take a hundred times the median of their name. Long training does not
    lose this time, so no saving is stated; it distorts the means of a recording.
    """
    yield from _loss(
        facts,
        facts.host_waits.sort(cold=True),
        _COLD,
        title="Cold start: for {amount} the device waits for one-time work: {filled}",
        advice=f"Warm up before recording ({_warm_up(facts)}); load or allocate before the first step what recurs in every "
        "recording.",
        saves=False,
    )


@rule(
    "single-gaps",
    "Few long waits for the host that make most of a step's.",
    _SINGLE,
    _FEW,
    _EACH,
    _LONG,
    trade_off="A thread or process that takes the work over needs a CPU core of its own.",
    rests_on=("clocks", "launches"),
    silent_without=("device-work",),
)
def single_gaps(facts: Facts) -> Iterator[Finding]:
    """The waits that `host-bound` would count, if the five longest gaps of a step contain most of them: those of at
    least 100 µs and 5 % of the step's waits. Launching less does not shorten them. The finding names what fills a gap:
    runtime calls of one name that cover half of it, or the innermost operator, Python frame or range that does. `host-bound` counts the short ones.

    At most all of it can be saved, plus the time of the fillers outside of the gaps, while the device works: a host without
    them gets ahead, and hides other waits.
    """
    yield from _loss(
        facts,
        facts.host_waits.sort(),
        _SINGLE,
        title="Single gaps: for {amount} the device waits for the host in {few}: {filled}",
        advice="`stepscope idle` for the longest gaps; move what fills them out of the step or to another thread or process, "
        "or launch work before it.",
        saves=True,
    )


@rule(
    "unrecorded-work",
    "Time in which the host waits for a device that, by the recording, does nothing.",
    _BLOCKED,
    _LONG,
    silent_without=("device-work",),
)
def unrecorded_work(facts: Facts) -> Iterator[Finding]:
    """Gaps in which the host is for 100 µs and more, and for most of the time, in a call that waits for the device: a
    copy or a synchronisation. Such a call returns at once if the device is idle. So the device did unrecorded work, or
    another process used it, and it cannot be said that it waited for the host.
    """
    yield from _loss(
        facts,
        facts.host_waits.sort(blocked=True),
        _BLOCKED,
        title="Unrecorded work: for {amount} the host waits for a device without recorded work: {filled}",
        advice="Record all that the device does (all threads, other libraries, graphs), and look with "
        f"{device_tool(facts)} for other processes. Copies of pageable memory wait too: `stepscope copies`.",
        saves=False,
    )


def _loss(
    facts: Facts, waits: list[Wait], share: Threshold, *, title: str, advice: str, saves: bool
) -> Iterator[Finding]:
    time_ns = facts.host_waits.mean_ns(waits)
    if facts.part_of_step(time_ns) <= share.value:
        return
    longest = waits[0]
    named = bool(longest.filler)
    if not named and saves:
        advice = show_the_host(facts)
    yield of_step(
        "loss",
        facts.part_of_step(time_ns),
        share.name,
        title=title.format(amount=facts.amount(time_ns), few=_few(facts, waits), filled=_filled(facts, waits))
        + (low_use(facts) if share is not _BLOCKED else ""),  # its use is unknown then
        saving_ns=time_ns if saves and facts.enough_work else None,
        hidden_ns=facts.hidden(_filling_ns(facts, waits), time_ns) if saves else 0.0,
        confidence="medium" if named else "low",
        evidence=tuple(_row(wait) for wait in waits[:_EVIDENCE]),
        gaps={wait.key: wait.time_ns / facts.host_waits.steps for wait in waits},
        advice=advice,
        rank=longest.gap.rank if len(facts.scope.ranks) > 1 else None,
    )


def _warm_up(facts: Facts) -> str:
    if facts.by_torch_profiler:
        return "some steps first, or wait and warmup in torch.profiler.schedule"
    return "some steps first, with a tool that waits for cudaProfilerStart (torch.cuda.profiler.start())"


def _few(facts: Facts, waits: list[Wait]) -> str:
    """Their number in a step, or, if not every step has one, in all steps, with the length of each."""
    steps = facts.host_waits.steps
    if len(waits) >= steps:
        number = mean_count_text(len(waits) / steps)
        return f"{number} long {plural(number, 'gap')} a {facts.per}"
    times = sorted(wait.time_ns for wait in waits)
    each = time_text(times[0])
    if time_text(times[-1]) != each:
        each += f" to {time_text(times[-1])}"
    return f"{len(times)} long {plural(len(times), 'gap')} in {steps} {facts.per}s, of {each}"


def _filling_ns(facts: Facts, waits: list[Wait]) -> float:
    """How long the host takes for what fills them, in a mean step (ns): the entire step if that is unknown."""
    filled = [wait.filler.dur_ns for wait in waits if wait.filler is not None]
    if not filled:
        return float(facts.step_ns)
    unknown = (len(waits) - len(filled)) * max(filled)  # those not looked into are shorter, and repeat
    return (sum(filled) + unknown) / facts.host_waits.steps


def _filled(facts: Facts, waits: Iterable[Wait]) -> str:
    """What fills the waits of a mean step, and for how long: `` `cudaFree` 6.000 s, `mm` 2.1 ms``."""
    times: dict[str, int] = {}
    for wait in waits:
        words = _name(wait)
        ns = wait.time_ns if wait.filler is None else wait.filler.covered_ns
        times[words] = times.get(words, 0) + ns
    ranked = sorted(times.items(), key=lambda pair: -pair[1])
    steps = facts.host_waits.steps
    listed = [f"{words} {time_text(ns / steps)}" for words, ns in ranked[:_NAMED]]
    return ", ".join(listed) + (" and others" if len(ranked) > _NAMED else "")


def _name(wait: Wait) -> str:
    filler = wait.filler
    if filler is None:
        return "nothing recorded on the host"
    where = f" in {filler.operator}" if filler.operator else ""
    return f"`{filler.name}`{where}"


def _row(wait: Wait) -> Row:
    filler, gap = wait.filler, wait.gap
    return {
        "rank": gap.rank,
        "step": gap.step,
        "start_ns": gap.start_ns,
        "gap_ns": gap.end_ns - gap.start_ns,
        "host": None if filler is None else filler.name,
        "kind": None if filler is None else filler.kind,
        "calls": None if filler is None else filler.calls,
        "covered_ns": None if filler is None else filler.covered_ns,
        "operator": None if filler is None else filler.operator,
        "frame": None if filler is None else filler.frame,
    }
