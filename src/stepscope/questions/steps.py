"""The time of each training step, divided into activities."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from stepscope.analysis.steps.parts import STEP_PARTS
from stepscope.query.declare import RANK, SPAN, STEP, Column, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.steps.breakdown import Breakdown

_OF_PHASES = "The parts of a step are of traces; `stepscope phases SRC --by step` has what was measured of these steps."

_PARTS = (
    *(Column(f"{part.name}_ns", "int", part.meaning) for part in STEP_PARTS),
    Column("total_ns", "int", "wall time of the step: the sum of the parts", sums=True),
)

_COLUMNS = (
    RANK,
    SPAN,
    STEP,
    Column("steps", "int", "steps in the mean", "count"),
    Column("start_ns", "int", "start, since the run's start", visible=False, moment=True),
    *_PARTS,
    Column("complete", "bool", "false for a step recorded in part, such as a cut one", visible=False),
    Column("counted", "bool", "false for a step that means leave out: see left_out", visible=False),
    Column("left_out", "text", "why means leave it out: cut off, slow first step or damaged rank", visible=False),
)


@question(
    "steps",
    "Where did the time of each training step go?",
    _COLUMNS,
    group="steps",
    rests_on=("host-times", "device-work", "device-times", "kernel-names", "launches", "clocks", "steps"),
    about="time",
    parameters=(by_form("a row a step, or the mean over the steps of a recording that count", "step", "mean"),),
    fills="Call profiler.step() once per iteration to have steps marked.",
    on_overview=True,
)
def steps(scope: Scope, by: str = "step") -> ArrowTable:
    """Every moment of a step is assigned to one activity, so that the parts add up to its wall time exactly.

    If several run at once, the first of this list takes the moment:

    1. **Kernel**: a kernel that computes runs, on any stream of any device of the rank.
    2. **Memcpy**: a copy runs on the device.
    3. **Memset**: a fill runs on the device.
    4. **Communication**: a communication kernel runs, or a collective that the host itself carries out (`gloo:...`,
       `mpi:...`, `ucc:...`); calls that only enqueue a kernel (`nccl:...`, `c10d::...`) are work of the host. What
       kernels and copies hide is in their share, so this is the *exposed* part.
    5. **Runtime**: the host is in a call of the device's runtime or driver.
    6. **DataLoader**: the host is in a DataLoader's `__next__`.
    7. **CPU Exec**: any other operator, annotated range or Python frame, on any thread.
    8. **Other**: none of these was recorded.

    Ranges mark steps (`ProfilerStep#3`); without them steps run from the end of one call of the optimizer to the end of
    the next, the first from the first operator, range or launch. Without an optimizer, as in a server, repetition
    defines steps. The thread that launches most is examined, with its ranges, outermost operators and launches of
    graphs: a range, else a launch of a graph, else an operator, the rarest first, that cuts them into at least three
    repeats with the same content (95 % in common). The check `no_steps` and the column `rule` of the table `step` say
    how steps were found, the check and `similarity` how much the repeats have in common. Otherwise the complete
    recording is one step.

    A step runs from its start on the host, or from where the step before it left the device free if that is later, to
    its end on the host, or the end of the last device work that it launched if that is later. Work that outlasts all
    device work of the next step, such as an all-reduce that overlaps several steps, does not delay a step (if that step
    has at least half as many device events). All work of the rank's devices counts in the step in whose window it runs,
    whatever launched it. A rank that drives several devices has one breakdown: a moment is Kernel if any of them
    computes (`device-time` separates them).

    `by="mean"` gives the mean over the steps of each recording that count, in integer ns that add up to the mean total.
    Incompletely recorded steps do not count, and neither does a first step that takes longer than all others and more
    than 1.5 times their median (of at least 3 steps), because libraries and the recorder warm up in it; the answer says
    which are left out. If no step is complete all count. All means, intervals and comparisons of steps are of these
    steps.

    A part is empty, not 0, if the recording could not show it: the device's parts without any device event,
    Communication if its device events were lost and the host carried out none, Runtime without runtime calls,
    DataLoader and CPU Exec without host events. DataLoader is 0 if host events were recorded but no range of a
    DataLoader; a loader of another kind shows as CPU Exec or Other.

    The activities, their precedence and the extension of steps to the end of their device work are those of the
    TensorBoard profiler plugin (kineto, tb_plugin 0.4), with deliberate differences: the plugin counts later activities
    again once an earlier one has used up every step, so that its parts exceed the total; it takes a kernel for
    communication if its operator has one of ten names (`nccl:all_reduce`, ...), ours by the kernel's own name; it does
    not know driver calls (`cuLaunchKernel`), by which Triton launches; and it drops incomplete last steps, which are
    marked here.
    """
    from stepscope.analysis.counted import how_in_part, left_out_of_means, none_complete
    from stepscope.analysis.job.throughput import throughput_words
    from stepscope.analysis.steps.breakdown import break_down_all
    from stepscope.query.rank_exclusion import damaged_ranks

    damaged, in_part = damaged_ranks(scope), how_in_part(scope)
    names = [c.name for c in _COLUMNS if c.name not in _LEFT_OUT[by]]
    rows = [
        row
        for broken in break_down_all(scope)
        for row in (_mean_row(broken) if by == "mean" else _step_rows(broken, damaged, in_part))
    ]
    answer = answer_dicts(_COLUMNS, rows, names)
    if not rows and scope.value("SELECT count(*) FROM phase_step"):
        return noted(answer, _OF_PHASES)
    left_out = left_out_of_means(scope) if by == "mean" else none_complete(scope)
    words = [left_out, throughput_words(scope)]
    return noted(answer, " ".join(filter(None, words)))


_LEFT_OUT = {"step": ("steps",), "mean": ("step", "start_ns", "complete", "counted", "left_out")}


def _step_rows(broken: Breakdown, damaged: Container[int], in_part: str) -> Iterator[Row]:
    for row, parts in enumerate(broken.parts_ns.tolist()):
        step = {name: values[row].item() for name, values in broken.steps.items()}
        left_out = None if step["counted"] else "slow first step" if step["complete"] else in_part
        left_out = "of a damaged rank" if broken.rank in damaged else left_out
        step |= {"counted": left_out is None, "left_out": left_out}
        yield step | _figures(broken, parts)


def _mean_row(broken: Breakdown) -> Iterator[Row]:
    from stepscope.analysis.steps.breakdown import mean_parts

    counted = broken.counted_parts_ns
    yield {"steps": len(counted)} | _figures(broken, mean_parts(counted))


def _figures(broken: Breakdown, parts: list[int]) -> Row:
    names = (column.name for column in _PARTS)
    measured = (part if is_measured else None for part, is_measured in zip(parts, broken.measured, strict=True))
    sums = zip(names, (*measured, sum(parts)), strict=True)
    return {"rank": broken.rank, "span": broken.span, **dict(sums)}
