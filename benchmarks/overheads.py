"""Measures what recording adds to steps of 1 to 100 ms, in every way, beside torch.profiler and TraceML, with intervals.

Plain steps and steps of one way alternate in one process, with the same model and memory: short blocks of each, in
random order. So both have the same caches, the same alignment and, within a tenth of a second, the same state of the
machine. Before its first block, enough steps of a way run for it to settle: by then a recording has decided which steps
it measures. The first steps of each block do not count.

A recording measures a step now and then and rests in between. So a figure is the sum of two parts:

* the cost of a resting step: each pair of blocks gives a ratio of typical steps (means without the longest and the
  shortest fifth); the figure is the mean over pairs, without the highest and the lowest fifth, with the interval of
  such a mean;
* the additional time of measured steps, compared with resting ones of their block, and of the steps before them, in
  which measuring is prepared: its mean times their share of all steps. Resting steps exceed their typical one, too,
  when the machine does something else; that mean is subtracted. No step is left out here.

If most steps are measured, or none, the first part covers all steps and the second is 0. The halves of both intervals
add up as independent ones do.

The processor time is that of the training thread. Other threads of the process run during both kinds of blocks. Their
time in blocks of the way, minus their time when nothing was started, is added to both figures as a part of the time in
which they took it: for the wall clock that is an upper bound, because they have other cores.

torch.profiler starts in each of its blocks, before the steps that do not count, of which there are enough for it to
settle; it ends, and makes its events, after the block, and its memory is freed before the next one. TraceML's patches
of torch stay in its plain steps, so its figures show what `trace_step` adds, a lower bound. The time is divided equally
among all ways and lengths; each way has a new process in every round, one after the other. The load at the start and at
the end is printed below.

    python benchmarks/overheads.py [--minutes 15] [--steps-ms 1,5,20,100] [--device cuda] [-o overheads.json]
    python benchmarks/overheads.py --memory 100000     # whether memory grows over so many fast iterations
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import nn

from stepscope.base.statistics import student_t
from stepscope.record import inline

LEAD_IN_STEPS, LEAD_IN_SECONDS = 1024, 5.0
"""Limits, in steps and seconds, of the steps of a way before the first that counts; by then its measuring has mostly
settled."""
FEWEST, COLD_SECONDS, PROFILER_COLD_SECONDS = 2, 0.01, 0.2
"""Least number of steps of a block that count, and approximate time of those that do not, at least one: for
torch.profiler, which starts in each block, and for others."""
FIGURES = {"wall": "by the clock", "processor": "of processor time"}
FEWEST_PAIRS = 3
"""Pairs of blocks in a round."""
MOST = 0.02
"""The most that recording should add."""
PATIENCE_SECONDS = 300
STEPS_MS = (1.0, 5.0, 20.0, 100.0)
LAYERS = 4
WIDTHS = {"cpu": (128, 512), "cuda": (512, 4096)}
"""Features of layers, for steps below 3 ms and for longer ones."""

MOST_MEASURED = 0.5
"""If a larger part of a way's steps is measured, too few are resting to know their cost."""

Batches = Iterable[torch.Tensor]
Timed = tuple[float, float]
"""Seconds of wall clock and of the training thread."""


class Job:
    """A training loop.

    Args:
        device: the model's device.
        width: features of each layer.
        batch: rows of a batch.
    """

    def __init__(self, device: str, width: int, batch: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.device = device
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(batch, width, device=device)

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()

    def now(self) -> Timed:
        return time.perf_counter(), time.thread_time()

    def batches(self, cold: int, counted: int, block: Block) -> Iterator[torch.Tensor]:
        """Yields batches; reads the clocks before the first that counts and after each, on a device only after the
        last."""
        on_device = self.device != "cpu"
        marks: list[Timed] = []
        measured: list[bool] = []
        for _ in range(cold):
            yield self.data
        if on_device:
            torch.cuda.synchronize()
        all_threads = time.process_time()
        marks.append(self.now())
        if on_device:
            for _ in range(counted):
                yield self.data
            torch.cuda.synchronize()
            marks.append(self.now())
        else:
            for _ in range(counted):
                yield self.data
                marks.append(self.now())
                measured.append(block.measures())
        block.others = time.process_time() - all_threads - (marks[-1][1] - marks[0][1])
        block.seconds = marks[-1][0] - marks[0][0]
        ran = 1 if not on_device else counted
        block.steps = [
            ((end[0] - begin[0]) / ran, (end[1] - begin[1]) / ran) for begin, end in itertools.pairwise(marks)
        ]
        block.measured = [any(measured[max(0, at - 1) : at + 2]) for at in range(len(block.steps))]

    def block(self, way: Way, cold: int, counted: int) -> Block:
        """Runs steps of a way."""
        block = Block()
        way.run(self, self.batches(cold, counted, block))
        return block


class Block:
    """Consecutive steps of one way.

    Attributes:
        steps: the time of each step that counts; on a device one entry, their mean.
        measured: whether a recording measured it or a neighbour.
        seconds: wall time of all of them.
        others: seconds of processor time of other threads meanwhile.
    """

    steps: list[Timed]
    measured: list[bool]
    seconds: float
    others: float

    @staticmethod
    def measures() -> bool:
        """Whether a recording measures the step that has just run."""
        recording = inline.active()
        return recording is not None and not recording.rests

    def typical(self, *, resting: bool) -> Timed:
        """The mean of its steps, or of unmeasured ones, without the longest fifth and the shortest fifth."""
        kept = [step for step, measured in zip(self.steps, self.measured, strict=True) if not (resting and measured)]
        cut = len(kept) // 5
        middle = [sorted(one)[cut : len(kept) - cut] for one in zip(*kept, strict=True)]
        return fmean(middle[0]), fmean(middle[1])


class Way:
    """How steps run while something records.

    Args:
        wrap: wraps the batches of a loop.
        after: called after each step.
        around: the context of each step.
    """

    def __init__(
        self,
        wrap: Callable[[Iterator[torch.Tensor]], Batches] = lambda batches: batches,
        *,
        after: Callable[[], object] | None = None,
        around: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._wrap, self._after, self._around = wrap, after, around

    def run(self, job: Job, batches: Iterator[torch.Tensor]) -> None:
        if self._around is not None:
            for batch in self._wrap(batches):
                with self._around():
                    job.step(batch)
        elif self._after is not None:
            for batch in self._wrap(batches):
                job.step(batch)
                self._after()
        else:
            for batch in self._wrap(batches):
                job.step(batch)


PLAIN = Way()
Started = Callable[[Job], AbstractContextManager[Way]]


def started_by_block(way: Callable[[], Way]) -> Started:
    """A way that each block starts and ends, or that needs no start."""

    @contextmanager
    def started(_job: Job) -> Iterator[Way]:
        yield way()

    return started


@contextmanager
def off(_job: Job) -> Iterator[Way]:
    from stepscope.record.annotate import region

    def touched() -> None:
        with region("interaction"):
            pass

    yield Way(inline.iterate, after=touched)


def inline_way(plan: Any, *, phases: bool) -> Started:
    """Phases, a plan, or both, recorded by `inline.start`."""

    @contextmanager
    def started(job: Job) -> Iterator[Way]:
        with tempfile.TemporaryDirectory() as out:
            inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=phases)
            yield Way(inline.iterate)
            inline.stop()

    return started


def event(label: str) -> Started:
    """One event of an endless plan, without phases, to see its cost."""
    return inline_way({"warmup": 1, "repetitions": 10**6, "events": [label]}, phases=False)


@contextmanager
def listening(job: Job) -> Iterator[Way]:
    from stepscope.record.on_demand.listener import on_demand

    with tempfile.TemporaryDirectory() as asked, on_demand(asked, model=job.model) as listener:
        yield Way(listener.iterate)


def captured(first: int, signal: Any, *, nvtx: bool) -> AbstractContextManager[Any]:
    from stepscope.base.captured_steps import StepRange
    from stepscope.record.capture.steps import CapturedSteps

    return CapturedSteps(StepRange(first, 1 << 40), signal, nvtx=nvtx)


@contextmanager
def waiting_for_steps(_job: Job) -> Iterator[Way]:
    """Starts and stops another profiler, in steps that are not captured."""
    from stepscope.record.capture.signals import NvtxRange

    with captured(1 << 40, NvtxRange(), nvtx=False) as recording:
        yield Way(recording.iterate)


class NvtxRanges(Way):
    """Ranges of steps, phases, modules and operators without a profiler; made anew for each block, since they stay."""

    def run(self, job: Job, batches: Iterator[torch.Tensor]) -> None:
        with captured(1, None, nvtx=True) as recording:
            Way(recording.iterate).run(job, batches)


class TorchProfiler(Way):
    """While it records; starting and stopping happen outside the steps that count."""

    def run(self, job: Job, batches: Iterator[torch.Tensor]) -> None:
        from torch.profiler import profile, supported_activities

        with profile(activities=supported_activities()) as profiler:
            Way(after=profiler.step).run(job, batches)


@contextmanager
def traceml(job: Job) -> Iterator[Way]:
    import traceml_ai

    traceml_ai.init(mode="auto")
    yield Way(around=lambda: traceml_ai.trace_step(job.model))


PROFILER, TRACEML = "torch.profiler", "TraceML"
WAYS: dict[str, Started] = {
    "nothing": started_by_block(Way),
    "off": off,
    "phases": inline_way(None, phases=True),
    "--inline": inline_way("auto", phases=True),
    "a module's forward": event("2.forward"),
    "a module's backward": event("2.backward"),
    "an operator in backward": event("2.backward.aten::mm"),
    "on demand, waiting": listening,
    "capture, waiting": waiting_for_steps,
    "NVTX ranges": started_by_block(NvtxRanges),
    PROFILER: started_by_block(TorchProfiler),
}
ALL = [*WAYS, TRACEML]
ALL_MEASURED = {"NVTX ranges", PROFILER, TRACEML, "nothing", "off"}
"""They need not settle."""
PATHS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def turns(name: str, spec: tuple[str, int, int], step_ms: float, block: float, seconds: float, seed: int) -> Any:
    """A round of one way, in its own process, for so many seconds.

    Returns:
        `pairs`: for blocks, a step of the way and a plain step, by wall clock and training thread, in seconds;
        `beyond`: by how much each measured step was longer than the typical one of its block, with the same clocks;
        `noise`: the same for resting steps; `others`: the time of other threads as a part of the time of the way's
        blocks.
    """
    warnings.simplefilter("ignore")
    until = time.monotonic() + seconds
    drawn = random.Random(seed)  # noqa: S311 - an order, no secret
    counted = max(FEWEST, round(block * 1e3 / step_ms))
    cold_seconds = PROFILER_COLD_SECONDS if name == PROFILER else COLD_SECONDS
    cold = max(1, round(cold_seconds * 1e3 / step_ms))
    settling = cold
    if name not in ALL_MEASURED:
        settling = min(LEAD_IN_STEPS, round(LEAD_IN_SECONDS * 1e3 / step_ms))
    job = Job(*spec)
    blocks: list[tuple[Block, Block]] = []
    with {**WAYS, TRACEML: traceml}[name](job) as way:
        job.block(PLAIN, cold, counted)
        job.block(way, settling, counted)
        gc.collect()
        gc.freeze()  # objects that stay are not scanned in any block
        while len(blocks) < FEWEST_PAIRS or time.monotonic() < until:
            kinds = [way, PLAIN]
            drawn.shuffle(kinds)
            took = {}
            for kind in kinds:
                gc.collect()  # garbage of the previous block is freed outside the counted steps
                took[kind is way] = job.block(kind, cold, counted)
            blocks.append((took[True], took[False]))
    return summed_up(blocks)


def summed_up(blocks: list[tuple[Block, Block]]) -> dict[str, Any]:
    """The result of `turns` from pairs of a block of the way and a plain one."""
    measured = [step for own, _ in blocks for step in own.measured]
    resting = 0 < sum(measured) < MOST_MEASURED * len(measured)
    found: dict[str, Any] = {"pairs": [], "beyond": [], "noise": []}
    for own, plain in blocks:
        if all(own.measured) and resting:
            continue
        usual = own.typical(resting=resting)
        found["pairs"].append([*usual, *plain.typical(resting=False)])
        if resting:
            for step, one in zip(own.steps, own.measured, strict=True):
                beyond = [took - typical for took, typical in zip(step, usual, strict=True)]
                found["beyond" if one else "noise"].append(beyond)
    found["others"] = sum(own.others for own, _ in blocks) / sum(own.seconds for own, _ in blocks)
    return found


def round_of(name: str, *told: Any) -> Any:
    """As `turns`, in a new process."""
    if name == TRACEML:
        return under_traceml([name, *told])
    # Forked, so that torch's data is at the same addresses as in the others.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply_async(turns, (name, *told)).get(PATIENCE_SECONDS)


def under_traceml(told: list[Any]) -> Any:
    """As `turns`, started by TraceML's launcher."""
    program = shutil.which("traceml", path=PATHS)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "turns.json")
        command = [str(program), "run", "--mode", "summary", "--logs-dir", folder]
        command += ["--run-name", "overheads", str(Path(__file__).resolve()), "--args"]
        command += ["--worker", json.dumps(told), "-o", str(kept)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, **quiet)
        return json.loads(kept.read_text())


def spec_of(step_ms: float, device: str) -> tuple[str, int, int]:
    """Device, width and batch of a job with steps of about this long."""
    width = WIDTHS[device][step_ms >= 3]
    batch, took_ms = 8, 0.0
    while took_ms <= step_ms / 2:  # from there on it grows with the batch
        batch *= 2
        with multiprocessing.get_context("fork").Pool(1) as pool:
            took_ms = 1e3 * pool.apply(plain_step, (device, width, batch))
    return device, width, max(1, round(batch * step_ms / took_ms))


def plain_step(*spec: Any) -> float:
    """Seconds of a step."""
    job = Job(*spec)
    return job.block(PLAIN, 2, 25).typical(resting=False)[0]


def trimmed(values: list[float]) -> tuple[float, float]:
    """The mean without the highest and the lowest fifth, and half its 95 % interval.

    J. W. Tukey and D. H. McLaughlin, 1963: it scatters as the values do with the omitted ones replaced by the outermost
    kept ones.
    """
    cut = len(values) // 5
    kept = sorted(values)[cut : len(values) - cut]
    as_outermost = [kept[0]] * cut + kept + [kept[-1]] * cut
    half = student_t(len(kept) - 1) * stdev(as_outermost) * len(values) ** 0.5 / len(kept)
    return fmean(kept), half


def beyond(rounds: list[dict[str, Any]], clock: int) -> tuple[float, float]:
    """The mean additional time of a step because some are measured, over all steps, and half its 95 % interval, in
    seconds."""
    measured = [one[clock] for own in rounds for one in own["beyond"]]
    noise = [one[clock] for own in rounds for one in own["noise"]]
    if len(measured) < FEWEST_PAIRS:
        return 0.0, 0.0
    share = len(measured) / (len(measured) + len(noise))
    half = math.sqrt(sum((student_t(len(one) - 1) * stdev(one)) ** 2 / len(one) for one in (measured, noise)))
    return share * (fmean(measured) - fmean(noise)), share * half


def row(name: str, step_ms: float, rounds: list[Any], others: float) -> dict[str, Any]:
    """What a way adds to a step, as a part of it, by wall clock and processor time.

    Args:
        name: name of the way.
        step_ms: the requested length of a step.
        rounds: the result of `turns` for each round.
        others: the part of the time that other threads take when nothing is started.
    """
    pairs = [pair for own in rounds for pair in own["pairs"]]
    threads = max(0.0, fmean(own["others"] for own in rounds) - others)
    found: dict[str, Any] = {"way": name, "asked_ms": step_ms, "pairs": len(pairs)}
    found |= {"step_ms": 1e3 * median(pair[2] for pair in pairs), "threads": threads}
    for clock, figure in enumerate(FIGURES):
        plain = median(pair[2 + clock] for pair in pairs)
        rests, half = trimmed([pair[clock] / pair[2 + clock] - 1 for pair in pairs])
        measured, half_of_measured = (one / plain for one in beyond(rounds, clock))
        mean, half = rests + measured + threads, math.hypot(half, half_of_measured)
        found[figure] = [mean, mean - half, mean + half]
        found[f"{figure}_of_measured"] = measured
    return found


def table(rows: list[dict[str, Any]], figure: str) -> str:
    """The rows as a Markdown table, a line per way and a column per step length."""
    lengths = list(dict.fromkeys(one["asked_ms"] for one in rows))
    steps = [median(one["step_ms"] for one in rows if one["asked_ms"] == ms) for ms in lengths]
    lines = [f"| added {FIGURES[figure]} to a step of | {' | '.join(f'{ms:.3g} ms' for ms in steps)} |"]
    lines.append(f"| --- |{' --- |' * len(lengths)}")
    for name in dict.fromkeys(one["way"] for one in rows):
        cells = []
        for ms in lengths:
            own = [one for one in rows if (one["way"], one["asked_ms"]) == (name, ms)]
            text = "{:+.1%} [{:+.1%}, {:+.1%}]".format(*own[0][figure]) if own else "–"
            cells.append(text.replace("%", " %"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def not_excluded(rows: list[dict[str, Any]], figure: str) -> str:
    """Names the ways of ours whose intervals reach 2 % or more, in one line."""
    known = "nothing", "NVTX ranges", PROFILER, TRACEML
    reach = [
        f"{one['way']} at {one['step_ms']:.3g} ms" for one in rows if one["way"] not in known and one[figure][2] >= MOST
    ]
    return f"Intervals that reach {MOST:.0%}: {', '.join(reach) or 'none'}.".replace("%", " %")


def memory(iterations: int) -> str:
    """Resident memory while a tiny model runs many iterations, each with measured phases or an event."""
    from stepscope.record.memory import resident_bytes

    job = Job("cpu", 4, 1)
    sizes = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        inline.start("auto", model=job.model, optimizer=job.optimizer, out=out)
        for number, batch in enumerate(inline.iterate([job.data] * iterations)):
            job.step(batch)
            if number % (iterations // 10) == iterations // 10 - 1:
                sizes.append((resident_bytes() or 0) / 2**20)
        inline.stop()
    return (
        f"{iterations:,} iterations in {time.perf_counter() - began:.0f} s: resident memory {sizes[1]:.1f} MiB after a fifth, "
        f"{sizes[-1]:.1f} MiB at the end"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15.0, help="for everything")
    parser.add_argument("--steps-ms", default=",".join(f"{ms:g}" for ms in STEPS_MS))
    parser.add_argument("--rounds", type=int, default=2, help="into which the time is divided")
    parser.add_argument("--block", type=float, default=0.05, metavar="SECONDS", help="of steps")
    parser.add_argument("--way", action="append", choices=ALL, help="only this; may be repeated")
    parser.add_argument("--device", choices=tuple(WIDTHS), default="cpu")
    parser.add_argument("--memory", type=int, metavar="ITERATIONS", help="measure this instead")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    if options.memory:
        print(memory(options.memory))
        return
    if options.worker:
        options.output.write_text(json.dumps(turns(*options.worker)))
        return
    lengths = [float(text) for text in options.steps_ms.split(",")]
    has_traceml = shutil.which("traceml", path=PATHS) is not None
    ways = ["nothing", *(options.way or ALL)]
    ways = [name for name in dict.fromkeys(ways) if has_traceml or name != TRACEML]
    loads = [os.getloadavg()[0]]
    specs = {length: spec_of(length, options.device) for length in lengths}
    found: dict[tuple[float, str], list[Any]] = {}
    shuffled = random.Random(0)  # noqa: S311 - an order, no secret
    seconds = options.minutes * 60 / options.rounds / len(lengths) / len(ways)
    for number in range(options.rounds):
        for length in lengths:
            for name in shuffled.sample(ways, len(ways)):
                told = (specs[length], length, options.block, seconds, number)
                found.setdefault((length, name), []).append(round_of(name, *told))
    loads.append(os.getloadavg()[0])
    rows = []
    for length in lengths:
        others = fmean(own["others"] for own in found[length, "nothing"])
        rows += [row(name, length, found[length, name], others) for name in ways]
    for figure in FIGURES:
        print(f"{table(rows, figure)}\n\n{not_excluded(rows, figure)}\n")
    print(
        f"{os.cpu_count()} cores, load {loads[0]:.1f} at the start and {loads[1]:.1f} at the end, torch "
        f"{torch.__version__}, {options.rounds} rounds, "
        f"{min(one['pairs'] for one in rows)} to {max(one['pairs'] for one in rows)} pairs of blocks"
    )
    if options.output:
        options.output.write_text(json.dumps({"loads": loads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
