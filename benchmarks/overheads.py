"""What recording adds to steps of 1, 5, 20 and 100 ms, in every way and beside torch.profiler and TraceML, with intervals.

A round runs a block of each way, in a new order each time, with one of the plain loop between any two of them; what a block
is compared with is the mean of the plain ones before and behind it. A block is as long as recording needs to settle: a
recording of phases has decided by then every how many-th step it times. What is compared is the mean time of a step, because what
falls on every eighth step is no part of a median; steps of more than three times the median are the machine's and count for
neither. The figure of a way is the median over rounds of the ratio to the plain loop, less 1, with the 95 % interval of that median by
the binomial distribution, which no round that the machine disturbed can stretch; the same of the difference in microseconds. The
load at the start and at the end is written beside the table.

    python benchmarks/overheads.py [--minutes 15] [--steps-ms 1,5,20,100] [--device cuda] [-o overheads.json]
    python benchmarks/overheads.py --memory 100000     # whether memory grows over so many fast iterations
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import comb
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import nn

SETTLED = 48
"""Steps after which a recording has decided how often it times one: 5 of warm-up, 32 that it judges by, some more."""
PLANNED = 12
"""Steps after which a plan is made: 3 of warm-up, 4 that are watched, one that is observed, and what follows them."""
WARM = 3
FEWEST = 8
LARGEST = 3.0
STEPS_MS = (1.0, 5.0, 20.0, 100.0)
LAYERS = 4
WIDTHS = {"cpu": (128, 512), "cuda": (512, 4096)}
"""Features of layers, of steps below 3 ms and of longer ones."""

Timed = tuple[float, float]
"""Seconds of a step by the wall clock and by the processor time of the whole process."""


class Job:
    """A plain training loop. On a device the clock waits for it, so that a block is timed as a whole."""

    def __init__(self, batch: int, width: int, steps: int, lead_in: int, device: str) -> None:
        torch.manual_seed(0)
        self.steps, self.lead_in, self.device = steps, lead_in, device
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(batch, width, device=device)

    def loader(self) -> Iterator[torch.Tensor]:
        for _ in range(self.lead_in + self.steps):
            yield self.data

    def now(self) -> Timed:
        if self.device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()

    def run(self, batches: Any, after: Callable[[], object] = lambda: None) -> list[Timed]:
        """Runs the loop; the time from one step's end to the next's, without the lead-in."""
        marks = []
        for number, batch in enumerate(batches, start=1):
            self.step(batch)
            after()
            ends = number in (self.lead_in, self.lead_in + self.steps)
            if ends or (self.device == "cpu" and number > self.lead_in):
                marks.append(self.now())
        parts = self.steps if self.device != "cpu" else 1
        return [((b[0] - a[0]) / parts, (b[1] - a[1]) / parts) for a, b in pairwise(marks)]


def plain(job: Job) -> list[Timed]:
    lead_in, job.lead_in = job.lead_in, WARM
    try:
        return job.run(job.loader())
    finally:
        job.lead_in = lead_in


def off(job: Job) -> list[Timed]:
    from stepscope.record import inline
    from stepscope.record.annotate import region

    def touched() -> None:
        with region("interaction"):
            pass

    return job.run(inline.iterate(job.loader()), touched)


def inline_way(plan: Any, *, phases: bool) -> Callable[[Job], list[Timed]]:
    """Phases, a plan, or both, as `inline.start` records them."""

    def record(job: Job) -> list[Timed]:
        from stepscope.record import inline

        with tempfile.TemporaryDirectory() as out:
            inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=phases)
            try:
                return job.run(inline.iterate(job.loader()))
            finally:
                inline.stop()

    return record


def event(label: str) -> Callable[[Job], list[Timed]]:
    """One event of a plan, armed in every iteration, without phases: what measuring it costs."""
    plan = {"warmup": 1, "repetitions": 10**6, "unarmed_every": 0, "events": [label]}
    return inline_way(plan, phases=False)


def listening(job: Job) -> list[Timed]:
    from stepscope.record.on_demand.listener import on_demand

    with tempfile.TemporaryDirectory() as asked, on_demand(asked, model=job.model) as listener:
        return job.run(listener.iterate(job.loader()))


@contextmanager
def captured(first: int, signal: Any, *, nvtx: bool) -> Iterator[Any]:
    from stepscope.floor.captured_steps import StepRange
    from stepscope.record.capture.steps import CapturedSteps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step was captured
        with CapturedSteps(StepRange(first, 1 << 40), signal, nvtx=nvtx) as recording:
            yield recording


def waiting_for_steps(job: Job) -> list[Timed]:
    """What starts and stops another profiler, in the steps that are not captured."""
    from stepscope.record.capture.signals import NvtxRange

    with captured(1 << 40, NvtxRange(), nvtx=False) as recording:
        return job.run(recording.iterate(job.loader()))


def nvtx_ranges(job: Job) -> list[Timed]:
    """Ranges of steps, phases, modules and operators, which no profiler takes."""
    with captured(WARM, None, nvtx=True) as recording:
        return job.run(recording.iterate(job.loader()))


def torch_profiler(job: Job) -> list[Timed]:
    """While it records; starting and stopping are outside the measured steps."""
    from torch.profiler import profile, supported_activities

    with profile(activities=supported_activities()) as profiler:
        return job.run(job.loader(), profiler.step)


def traceml(job: Job) -> list[Timed]:
    import traceml_ai

    step = job.step

    def traced(batch: torch.Tensor) -> None:
        with traceml_ai.trace_step(job.model):
            step(batch)

    job.step = traced  # type: ignore[method-assign]
    try:
        return job.run(job.loader())
    finally:
        job.step = step  # type: ignore[method-assign]


WAYS: dict[str, Callable[[Job], list[Timed]]] = {
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
ALL = [*WAYS, "TraceML"]


def job_of(step_ms: float, device: str, seconds: float) -> Job:
    """A job with steps of about this long, and so many of them in a block as take these seconds."""
    torch.set_num_threads(1)
    width = WIDTHS[device][step_ms >= 3]
    batch, took_ms = 8, 0.0
    while took_ms <= step_ms / 2:  # from there on it grows with the batch
        batch *= 2
        took_ms = 1e3 * median(one[0] for one in plain(Job(batch, width, 10, WARM, device)))
    # Timing costs less than it may in long steps, so that nothing has to settle.
    lead_in = SETTLED if step_ms < 10 else PLANNED
    steps = max(FEWEST, round(seconds * 1e3 / step_ms))
    return Job(max(1, round(batch * step_ms / took_ms)), width, steps, lead_in, device)


def mean_step(steps: list[Timed]) -> Timed:
    """Mean seconds of a step by the clock and of the processor, without those that the machine held up."""
    most = LARGEST * median(one[0] for one in steps)
    kept = [one for one in steps if one[0] <= most]
    return fmean(one[0] for one in kept), fmean(one[1] for one in kept)


def measured(
    job: Job, ways: dict[str, Callable[[Job], list[Timed]]], seconds: float
) -> dict[str, list[list[float]]]:
    """Way → for each round: seconds of a step by the clock and the processor, and the same of the plain loop beside it."""
    shuffled = random.Random(0)  # noqa: S311 - an order, no secret
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    until = time.monotonic() + seconds
    number = -1
    while time.monotonic() < until or number < 2:
        order = list(ways)
        shuffled.shuffle(order)
        before = mean_step(plain(job))
        for name in order:
            own = mean_step(ways[name](job))
            behind = mean_step(plain(job))
            if number >= 0:
                found[name].append([*own, *map(fmean, zip(before, behind, strict=True))])
            before = behind
        number += 1
    return found


def interval(values: list[float]) -> list[float]:
    """The median and its 95 % interval: values so far from both ends that fewer than 2.5 % of samples have it beyond."""
    ordered, n = sorted(values), len(values)
    below, place = 0.0, 0
    while place < n // 2 and below + comb(n, place) / 2**n <= 0.025:
        below += comb(n, place) / 2**n
        place += 1
    place = max(place - 1, 0)
    return [median(ordered), ordered[place], ordered[n - 1 - place]]


def row(name: str, step_ms: float, rounds: list[list[float]]) -> dict[str, Any]:
    """What a way adds to a step: as a part of it by the clock and of the processor, and in µs of the processor."""
    return {
        "way": name,
        "asked_ms": step_ms,
        "rounds": len(rounds),
        "step_ms": 1e3 * median(one[2] for one in rounds),
        "wall": interval([one[0] / one[2] - 1 for one in rounds]),
        "processor": interval([one[1] / one[3] - 1 for one in rounds]),
        "added_us": interval([1e6 * (one[1] - one[3]) for one in rounds]),
    }


def with_traceml(step_ms: float, seconds: float, device: str) -> list[dict[str, Any]]:
    """TraceML's loop in a process under `traceml run`, with blocks of the plain loop in it."""
    program = shutil.which("traceml", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [program, "run", "--mode", "summary", "--logs-dir", folder, "--run-name", "overheads"]  # fmt: skip
        command += [str(Path(__file__).resolve()), "--args", "--traceml-worker", str(found)]
        command += ["--steps-ms", str(step_ms), "--minutes", str(seconds / 60), "--device", device]
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=seconds + 300
        )
        if found.is_file():
            return [json.loads(found.read_text())]
        print(f"TraceML could not be measured: {(ended.stderr or ended.stdout)[-400:]}")
        return []


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table of Markdown, a line a way and a column a length of step."""
    lengths = list(dict.fromkeys(one["asked_ms"] for one in rows))
    steps = [median(one["step_ms"] for one in rows if one["asked_ms"] == ms) for ms in lengths]
    lines = [f"| added to a step of | {' | '.join(f'{ms:.3g} ms' for ms in steps)} |"]
    lines.append(f"| --- |{' --- |' * len(lengths)}")
    for name in dict.fromkeys(one["way"] for one in rows):
        cells = []
        for ms in lengths:
            own = [one for one in rows if (one["way"], one["asked_ms"]) == (name, ms)]
            text = "{:+.1%} [{:+.1%}, {:+.1%}]".format(*own[0]["wall"]) if own else "–"
            cells.append(text.replace("%", " %"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def memory(iterations: int) -> str:
    """Resident memory while a tiny model runs many iterations, in each of which phases or an event are measured."""
    from stepscope.record import inline
    from stepscope.record.memory import resident_bytes

    torch.set_num_threads(1)
    job = Job(1, 4, iterations, 0, "cpu")
    sizes = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        inline.start("auto", model=job.model, optimizer=job.optimizer, out=out)
        for number, batch in enumerate(inline.iterate(job.loader())):
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
    parser.add_argument("--block", type=float, default=0.5, metavar="SECONDS", help="measured part")
    parser.add_argument("--memory", type=int, metavar="ITERATIONS", help="measure this instead")
    parser.add_argument("--traceml-worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    warnings.simplefilter("ignore")
    if options.memory:
        print(memory(options.memory))
        return
    lengths = [float(text) for text in options.steps_ms.split(",")]
    if options.traceml_worker:
        import traceml_ai

        traceml_ai.init(mode="auto")
        job = job_of(lengths[0], options.device, options.block)
        found = measured(job, {"TraceML": traceml}, options.minutes * 60)
        options.traceml_worker.write_text(json.dumps(row("TraceML", lengths[0], found["TraceML"])))
        return
    loads = [os.getloadavg()[0]]
    asked = options.way or ALL
    chosen = {name: way for name, way in WAYS.items() if name in asked}
    each = options.minutes * 60 / len(lengths)
    rows = []
    for step_ms in lengths:
        job = job_of(step_ms, options.device, options.block)
        found = measured(job, chosen, each * len(chosen) / len(asked)) if chosen else {}
        rows += [row(name, step_ms, rounds) for name, rounds in found.items()]
        if "TraceML" in asked:
            rows += with_traceml(step_ms, each / len(asked), options.device)
    loads.append(os.getloadavg()[0])
    print(table(rows))
    print(
        f"\n{os.cpu_count()} cores, load {loads[0]:.1f} at the start and {loads[1]:.1f} at the end, torch "
        f"{torch.__version__}, {min(one['rounds'] for one in rows)} to {max(one['rounds'] for one in rows)} rounds"
    )
    if options.output:
        options.output.write_text(json.dumps({"loads": loads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
