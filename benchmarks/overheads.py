"""What recording adds to steps of 1, 5, 20 and 100 ms, in every way and beside torch.profiler and TraceML, with intervals.

Each way runs in a process of its own, and so does the plain loop. They take turns: some steps of the plain loop, some of one
way, some of the plain loop, some of the next way, in a new order each time. Who has no turn is stopped, with its threads. A
block is short, so that what it is compared with, the mean of the plain ones before and behind it, ran within some tenths of a
second of it; the first steps of a block, which find the caches filled by another process, do not count. A way has run long enough
before its first turn to have settled: a recording has decided by then which steps it measures.

The processes are started anew in every round, because two processes that do the same differ by where their memory lies. The figure
of a round is the mean over its blocks of the ratio to the plain loop, less 1, without the tenth that is highest and the tenth that is
lowest; steps of more than three times the median count for neither. That of a way is the mean over rounds with Student's 95 %
interval. The same is said of the processor time of all threads, of which nothing is left out: it takes in what threads do beside
the loop, and scatters less than the clock on a machine that others use. The load at the start and at the end is written below.

    python benchmarks/overheads.py [--minutes 15] [--steps-ms 1,5,20,100] [--device cuda] [-o overheads.json]
    python benchmarks/overheads.py --memory 100000     # whether memory grows over so many fast iterations
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import nn

from stepscope.floor.statistics import student_t

LEAD_IN, LEAD_IN_SECONDS = 256, 1.0
"""Most steps, and most seconds, before the first that counts: 5 of warm-up, 32 that a recording judges by, and some more."""
LEAD_IN_OF_EVENTS, LEAD_IN_SECONDS_OF_EVENTS = 1024, 5.0
"""The same where events are measured; what `--inline` measures in turn has not all settled by then."""
BLOCK_MS, FEWEST, COLD_MS = 60.0, 2, 4.0
"""A block has steps for so long, so many at least, behind some that do not count."""
TURNS = 10
"""Blocks of each way in a round."""
LARGEST = 3.0
PATIENCE_SECONDS = 300
STEPS_MS = (1.0, 5.0, 20.0, 100.0)
LAYERS = 4
WIDTHS = {"cpu": (128, 512), "cuda": (512, 4096)}
"""Features of layers, of steps below 3 ms and of longer ones."""

Timed = tuple[float, float]
"""Seconds of a step by the wall clock and by the processor time of the whole process."""


class Job:
    """A training loop in a process of its own, which waits for its turns."""

    def __init__(self, pipe: Connection, device: str, width: int, batch: int, lead_in: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.pipe, self.device, self.lead_in = pipe, device, lead_in
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(batch, width, device=device)

    def loader(self) -> Iterator[torch.Tensor]:
        """Batches for the lead-in and then for each turn, whose marks are sent back."""
        for _ in range(self.lead_in):
            yield self.data
        self.pipe.send(os.getpid())
        while True:
            cold, steps = self.pipe.recv()
            for _ in range(cold):
                yield self.data
            marks = [self.now()]
            for number in range(1, steps + 1):
                yield self.data
                if self.device == "cpu" or number == steps:
                    marks.append(self.now())
            self.pipe.send(marks)

    def now(self) -> Timed:
        if self.device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()

    def run(self, batches: Any, after: Callable[[], object] = lambda: None) -> None:
        for batch in batches:
            self.step(batch)
            after()


def plain(job: Job) -> None:
    job.run(job.loader())


def off(job: Job) -> None:
    from stepscope.record import inline
    from stepscope.record.annotate import region

    def touched() -> None:
        with region("interaction"):
            pass

    job.run(inline.iterate(job.loader()), touched)


def inline_way(plan: Any, *, phases: bool) -> Callable[[Job], None]:
    """Phases, a plan, or both, as `inline.start` records them."""

    def record(job: Job) -> None:
        from stepscope.record import inline

        with tempfile.TemporaryDirectory() as out:
            inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=phases)
            job.run(inline.iterate(job.loader()))
            inline.stop()

    return record


def event(label: str) -> Callable[[Job], None]:
    """One event of a plan without end, and no phases: what measuring it costs."""
    return inline_way({"warmup": 1, "repetitions": 10**6, "events": [label]}, phases=False)


def listening(job: Job) -> None:
    from stepscope.record.on_demand.listener import on_demand

    with tempfile.TemporaryDirectory() as asked, on_demand(asked, model=job.model) as listener:
        job.run(listener.iterate(job.loader()))


@contextmanager
def captured(first: int, signal: Any, *, nvtx: bool) -> Iterator[Any]:
    from stepscope.floor.captured_steps import StepRange
    from stepscope.record.capture.steps import CapturedSteps

    with CapturedSteps(StepRange(first, 1 << 40), signal, nvtx=nvtx) as recording:
        yield recording


def waiting_for_steps(job: Job) -> None:
    """What starts and stops another profiler, in the steps that are not captured."""
    from stepscope.record.capture.signals import NvtxRange

    with captured(1 << 40, NvtxRange(), nvtx=False) as recording:
        job.run(recording.iterate(job.loader()))


def nvtx_ranges(job: Job) -> None:
    """Ranges of steps, phases, modules and operators, which no profiler takes."""
    with captured(3, None, nvtx=True) as recording:
        job.run(recording.iterate(job.loader()))


def torch_profiler(job: Job) -> None:
    """While it records; starting and stopping are outside the measured steps."""
    from torch.profiler import profile, supported_activities

    with profile(activities=supported_activities()) as profiler:
        job.run(job.loader(), profiler.step)


def traceml(job: Job) -> None:
    import traceml_ai

    traceml_ai.init(mode="auto")
    for batch in job.loader():
        with traceml_ai.trace_step(job.model):
            job.step(batch)


WAYS: dict[str, Callable[[Job], None]] = {
    "off": off,
    "phases": inline_way(None, phases=True),
    "--inline": inline_way("auto", phases=True),
    "a module's forward": event("2.forward"),
    "a module's backward": event("2.backward"),
    "an operator in backward": event("2.backward.aten::mm"),
    "on demand, waiting": listening,
    "capture, waiting": waiting_for_steps,
    "NVTX ranges": nvtx_ranges,
    "torch.profiler": torch_profiler,
}
TRACEML = "TraceML"
ALL = [*WAYS, TRACEML]
OF_EVENTS = ("--inline", "a module's forward", "a module's backward", "an operator in backward")
PATHS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


class Worker:
    """A process that runs one way, and stands still but for its turns.

    Args:
        way: its name; None for the plain loop.
        spec: the job's device, width and batch.
        step_ms: how long a step takes, about.
    """

    def __init__(self, way: str | None, spec: tuple[str, int, int], step_ms: float) -> None:
        most, seconds = LEAD_IN, LEAD_IN_SECONDS
        if way in OF_EVENTS:
            most, seconds = LEAD_IN_OF_EVENTS, LEAD_IN_SECONDS_OF_EVENTS
        lead_in = max(FEWEST, min(most, round(seconds * 1e3 / step_ms)))
        self._block = round(COLD_MS / step_ms), max(FEWEST, round(BLOCK_MS / step_ms))
        self._folder = tempfile.TemporaryDirectory()
        self._process: Any
        if way == TRACEML:
            with Listener(f"{self._folder.name}/socket") as listener:
                self._process = self._under_traceml([listener.address, *spec, lead_in])
                signal.alarm(PATIENCE_SECONDS)  # which ends a program that would wait for ever
                self._pipe = listener.accept()
                signal.alarm(0)
        else:
            # Forked: what torch keeps in memory lies where it lies in the others.
            forks = multiprocessing.get_context("fork")
            self._pipe, other = forks.Pipe()
            self._process = forks.Process(target=work, args=(way, other, *spec, lead_in))
            self._process.start()
            other.close()
        self._pid = self._pipe.recv()
        os.kill(self._pid, signal.SIGSTOP)

    def _under_traceml(self, told: list[Any]) -> subprocess.Popen[bytes]:
        program = shutil.which("traceml", path=PATHS)
        command = [str(program), "run", "--mode", "summary", "--logs-dir", self._folder.name]
        command += ["--run-name", "overheads", str(Path(__file__).resolve()), "--args"]
        return subprocess.Popen(
            [*command, "--traceml-worker", json.dumps(told)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # its launcher reports that a worker was ended
        )

    def block(self) -> Timed:
        """Runs a block; mean seconds of a step by the clock, without those that the machine held up, and of processors."""
        cold, steps = self._block
        os.kill(self._pid, signal.SIGCONT)
        self._pipe.send((cold, steps))
        marks = self._pipe.recv()
        os.kill(self._pid, signal.SIGSTOP)
        times = [b[0] - a[0] for a, b in pairwise(marks)]
        kept = [one for one in times if one <= LARGEST * median(times)]
        return fmean(kept) * len(times) / steps, (marks[-1][1] - marks[0][1]) / steps

    def end(self) -> None:
        """Ends it without a word: what it would write is not wanted."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._process.wait() if isinstance(
            self._process, subprocess.Popen
        ) else self._process.join()
        self._folder.cleanup()


def work(way: str | None, pipe: Connection, *spec: Any) -> None:
    """What a worker does."""
    warnings.simplefilter("ignore")
    ways = {None: plain, TRACEML: traceml, **WAYS}
    ways[way](Job(pipe, *spec))


def spec_of(step_ms: float, device: str) -> tuple[str, int, int]:
    """Device, width and batch of a job with steps of about this long."""
    width = WIDTHS[device][step_ms >= 3]
    batch, took_ms = 8, 0.0
    while took_ms <= step_ms / 2:  # from there on it grows with the batch
        batch *= 2
        worker = Worker(None, (device, width, batch), step_ms)
        took_ms = 1e3 * median(worker.block()[0] for _ in range(5))
        worker.end()
    return device, width, max(1, round(batch * step_ms / took_ms))


def measured(
    spec: tuple[str, int, int], step_ms: float, ways: list[str], seconds: float
) -> dict[str, list[list[list[float]]]]:
    """Way → for each round and each block in it: a step by the clock and of processors, and the same of the plain loop."""
    shuffled = random.Random(0)  # noqa: S311 - an order, no secret
    found: dict[str, list[list[list[float]]]] = {name: [] for name in ways}
    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until or rounds < 2:
        rounds += 1
        loop = Worker(None, spec, step_ms)
        workers = {name: Worker(name, spec, step_ms) for name in ways}
        for own in found.values():
            own.append([])
        before = loop.block()
        for _ in range(TURNS):
            for name in shuffled.sample(ways, len(ways)):
                own, behind = workers[name].block(), loop.block()
                found[name][-1].append([*own, *map(fmean, zip(before, behind, strict=True))])
                before = behind
        for worker in (loop, *workers.values()):
            worker.end()
    return found


def interval(rounds: list[float]) -> list[float]:
    """The mean over rounds and Student's 95 % interval."""
    half = student_t(len(rounds) - 1) * stdev(rounds) / len(rounds) ** 0.5
    return [fmean(rounds), fmean(rounds) - half, fmean(rounds) + half]


def without_ends(values: list[float]) -> float:
    """The mean without the tenth that is highest and the tenth that is lowest."""
    cut = len(values) // 10
    return fmean(sorted(values)[cut : len(values) - cut])


def row(name: str, step_ms: float, rounds: list[list[list[float]]]) -> dict[str, Any]:
    """What a way adds to a step: as a part of it by the clock and of the processor, and in µs of the processor."""

    def over(
        part: Callable[[list[float]], float], mean: Callable[[list[float]], float]
    ) -> list[float]:
        return interval([mean([part(block) for block in blocks]) for blocks in rounds])

    return {
        "way": name,
        "asked_ms": step_ms,
        "rounds": len(rounds),
        "step_ms": 1e3 * median(block[2] for blocks in rounds for block in blocks),
        "wall": over(lambda block: block[0] / block[2] - 1, without_ends),
        "processor": over(lambda block: block[1] / block[3] - 1, fmean),
        "added_us": over(lambda block: 1e6 * (block[1] - block[3]), fmean),
    }


def table(rows: list[dict[str, Any]], figure: str) -> str:
    """The rows as a table of Markdown, a line a way and a column a length of step."""
    lengths = list(dict.fromkeys(one["asked_ms"] for one in rows))
    steps = [median(one["step_ms"] for one in rows if one["asked_ms"] == ms) for ms in lengths]
    kind = {"wall": "by the clock", "processor": "of processor time"}[figure]
    lines = [f"| added {kind} to a step of | {' | '.join(f'{ms:.3g} ms' for ms in steps)} |"]
    lines.append(f"| --- |{' --- |' * len(lengths)}")
    for name in dict.fromkeys(one["way"] for one in rows):
        cells = []
        for ms in lengths:
            own = [one for one in rows if (one["way"], one["asked_ms"]) == (name, ms)]
            text = "{:+.1%} [{:+.1%}, {:+.1%}]".format(*own[0][figure]) if own else "–"
            cells.append(text.replace("%", " %"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def memory(iterations: int) -> str:
    """Resident memory while a tiny model runs many iterations, in each of which phases or an event are measured."""
    from stepscope.record import inline
    from stepscope.record.memory import resident_bytes

    job = Job(None, "cpu", 4, 1, 0)
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
    parser.add_argument("--way", action="append", choices=ALL, help="only this; may be repeated")
    parser.add_argument("--device", choices=tuple(WIDTHS), default="cpu")
    parser.add_argument("--memory", type=int, metavar="ITERATIONS", help="measure this instead")
    parser.add_argument("--traceml-worker", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    if options.memory:
        print(memory(options.memory))
        return
    if options.traceml_worker:
        address, *spec = options.traceml_worker
        work(TRACEML, Client(address), *spec)
        return
    lengths = [float(text) for text in options.steps_ms.split(",")]
    has_traceml = shutil.which("traceml", path=PATHS) is not None
    ways = [name for name in options.way or ALL if has_traceml or name != TRACEML]
    loads = [os.getloadavg()[0]]
    rows = []
    # Long steps are fewer in the same time.
    parts = [length**0.25 for length in lengths]
    for step_ms, part in zip(lengths, parts, strict=True):
        seconds = options.minutes * 60 * part / sum(parts)
        found = measured(spec_of(step_ms, options.device), step_ms, ways, seconds)
        rows += [row(name, step_ms, rounds) for name, rounds in found.items()]
    loads.append(os.getloadavg()[0])
    print(f"{table(rows, 'wall')}\n\n{table(rows, 'processor')}")
    print(
        f"\n{os.cpu_count()} cores, load {loads[0]:.1f} at the start and {loads[1]:.1f} at the end, torch "
        f"{torch.__version__}, {min(one['rounds'] for one in rows)} to {max(one['rounds'] for one in rows)} rounds "
        f"of {TURNS} blocks of each way"
    )
    if options.output:
        options.output.write_text(json.dumps({"loads": loads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
