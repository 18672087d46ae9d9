"""What recording costs a training loop with a step of about 20 ms on one CPU core.

In one process, blocks of a few steps of every way to record follow each other in a new order each
round, so that whatever else the machine does falls on all of them. TraceML, where it is installed, has
the same loop in a process of its own, with blocks outside of its steps to compare with. Then 100,000
fast iterations show whether memory grows. With `--device cuda` the model is on the GPU, and a block is
timed as a whole, from an idle device to an idle device.

    python benchmarks/record_overhead.py [--rounds 16] [--no-memory] [--device cuda] [-o overhead.json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

LEAD_IN = 6
STEPS = 12
TINY_STEPS = 100
WIDTHS = {"cpu": 512, "cuda": 4096}
TINY_WIDTH = 16
LAYERS = 4
EVENTS = (
    "forward",
    "backward",
    "optimizer.step",
    "2.forward",
    "2.backward",
    "2.forward.aten::addmm",
)


Timed = tuple[float, float]
"""Seconds of a step by the wall clock and by the processor time of the whole process."""


class Job:
    """A plain training loop; `region` and `iterate` are given where the way to record has them."""

    def __init__(self, batch: int, width: int, steps: int = STEPS, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.steps = steps
        self.lead_in = LEAD_IN
        self.device = device
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(batch, width, device=device)

    def loader(self) -> Iterator[torch.Tensor]:
        for _ in range(self.lead_in + self.steps):
            yield self.data

    def timed_after(self, step: int) -> bool:
        """On a device only at both ends of a block, because the clock then waits for the device."""
        return self.device == "cpu" or step in (self.lead_in, self.lead_in + self.steps)

    def now(self) -> Timed:
        if self.device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def between(self, marks: list[Timed]) -> list[Timed]:
        """What a step took, from one mark to the next, without the lead-in."""
        if self.device != "cpu":
            (a, b), steps = marks, self.steps
            return [((b[0] - a[0]) / steps, (b[1] - a[1]) / steps)]
        return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks[self.lead_in - 1 :])]

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()


def timed_steps(job: Job, batches: Any, after: Callable[[], object] = lambda: None) -> list[Timed]:
    """Runs the loop; the time from one step's end to the next's, without the lead-in."""
    marks = []
    for number, batch in enumerate(batches, start=1):
        job.step(batch)
        after()
        if job.timed_after(number):
            marks.append(job.now())
    return job.between(marks)


def plain(job: Job, _round: int) -> list[Timed]:
    return timed_steps(job, job.loader())


def off(job: Job, _round: int) -> list[Timed]:
    from stepscope.record import inline
    from stepscope.record.annotate import region

    def touched() -> None:
        with region("interaction"):
            pass

    return timed_steps(job, inline.iterate(job.loader()), touched)


@contextmanager
def recording(plan: Any, job: Job, *, phases: bool) -> Iterator[None]:
    from stepscope.record import inline

    with tempfile.TemporaryDirectory() as out:
        inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=phases)
        try:
            yield
        finally:
            inline.stop()


def phases(job: Job, _round: int) -> list[Timed]:
    from stepscope.record import inline

    with recording(None, job, phases=True):
        return timed_steps(job, inline.iterate(job.loader()))


def inline_events(job: Job, number: int) -> list[Timed]:
    """One event a round, one round after the other."""
    from stepscope.record import inline

    plan = {"warmup": 1, "repetitions": 1000, "events": [EVENTS[number % len(EVENTS)]]}
    with recording(plan, job, phases=False):
        return timed_steps(job, inline.iterate(job.loader()))


def listening(job: Job, _round: int) -> list[Timed]:
    from stepscope.record.on_demand.listener import on_demand

    with (
        tempfile.TemporaryDirectory() as directory,
        on_demand(directory, model=job.model) as listener,
    ):
        return timed_steps(job, listener.iterate(job.loader()))


def waiting_for_steps(job: Job, _round: int) -> list[Timed]:
    """What starts and stops another profiler, in the steps that are not captured."""
    from stepscope.floor.captured_steps import StepRange
    from stepscope.record.capture.signals import NvtxRange
    from stepscope.record.capture.steps import CapturedSteps

    far = StepRange(1 << 40, 1 << 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step was captured
        with CapturedSteps(far, NvtxRange()) as recording:
            return timed_steps(job, recording.iterate(job.loader()))


def nvtx_ranges(job: Job, _round: int) -> list[Timed]:
    """Ranges of steps, phases, modules and operators, which no profiler takes."""
    from stepscope.floor.captured_steps import StepRange
    from stepscope.record.capture.steps import CapturedSteps

    with CapturedSteps(StepRange(LEAD_IN - 2, 1 << 40), None, nvtx=True) as recording:
        return timed_steps(job, recording.iterate(job.loader()))


def torch_profiler(job: Job, _round: int) -> list[Timed]:
    """While it records; starting and stopping are outside the measured steps."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if job.device != "cpu":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        return timed_steps(job, job.loader(), profiler.step)


def traceml(job: Job, _round: int) -> list[Timed]:
    import traceml_ai

    marks = []
    for number, batch in enumerate(job.loader(), start=1):
        with traceml_ai.trace_step(job.model):
            job.step(batch)
        if job.timed_after(number):
            marks.append(job.now())
    return job.between(marks)


WAYS: dict[str, Callable[[Job, int], list[Timed]]] = {
    "plain": plain,
    "off": off,
    "phases": phases,
    "inline": inline_events,
    "on demand, waiting": listening,
    "capture, waiting": waiting_for_steps,
    "NVTX ranges": nvtx_ranges,
    "torch.profiler": torch_profiler,
}


def measure(
    ways: dict[str, Callable[[Job, int], list[Timed]]], job: Job, rounds: int
) -> dict[str, list[Timed]]:
    """For each way the median step of each round: (wall, processor time)."""
    torch.set_num_threads(1)
    order = list(ways)
    shuffled = random.Random(0)  # noqa: S311 - an order, no secret
    medians: dict[str, list[Timed]] = {way: [] for way in ways}
    for number in range(-1, rounds):
        shuffled.shuffle(order)
        for way in order:
            steps = ways[way](job, number)
            if number >= 0:
                medians[way].append(
                    (statistics.median(s[0] for s in steps), statistics.median(s[1] for s in steps))
                )
    return medians


def both(
    ways: dict[str, Callable[[Job, int], list[Timed]]], batch: int, rounds: int, device: str
) -> list[dict[str, list[Timed]]]:
    """With a step of the size asked for, and with one of as many operators that do next to nothing."""
    large = Job(batch, WIDTHS[device], device=device)
    tiny = Job(1, TINY_WIDTH, TINY_STEPS, device)
    return [measure(ways, large, rounds), measure(ways, tiny, max(rounds, len(EVENTS)))]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The median and its 95 % interval, by resampling rounds."""
    again = random.Random(0)  # noqa: S311 - an order, no secret
    resampled = sorted(statistics.median(again.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), resampled[50], resampled[1949]


def batch_for(seconds: float, device: str) -> int:
    """A batch with which a step takes about this long."""
    torch.set_num_threads(1)
    batch = 256
    while True:
        job = Job(batch, WIDTHS[device], steps=10, device=device)
        wall, processor = zip(*plain(job, 0), strict=True)
        took = statistics.median(processor if device == "cpu" else wall)
        # Half the time or more is work: from there on it grows with the batch.
        if took > seconds / 2:
            return max(8, round(batch * seconds / took))
        batch *= 2


def with_traceml(batch: int, rounds: int, device: str) -> list[dict[str, list[Timed]]] | None:
    program = shutil.which("traceml", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "traceml.json"
        command = [program, "run", "--mode", "summary", "--logs-dir", folder]
        command += ["--run-name", "overhead", str(Path(__file__).resolve()), "--args"]
        command += ["--traceml-worker", str(found), "--batch", str(batch), "--rounds", str(rounds)]
        command += ["--device", device]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if not found.is_file():
            print(f"TraceML could not be measured: {(done.stderr or done.stdout)[-400:]}")
            return None
        return json.loads(found.read_text())


def memory(iterations: int) -> dict[str, Any]:
    """Resident memory while a tiny model runs many iterations, in each of which phases or an event are measured."""
    from stepscope.record import inline
    from stepscope.record.memory import resident_bytes

    torch.set_num_threads(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.ones(1, 4)
    sizes = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        inline.start("auto", model=model, optimizer=optimizer, out=out)
        for number, data in enumerate(inline.iterate(batch for _ in range(iterations))):
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()
            if number % (iterations // 10) == iterations // 10 - 1:
                sizes.append(resident_bytes() or 0)
        inline.stop()
    return {
        "iterations": iterations,
        "seconds": time.perf_counter() - began,
        "resident_bytes": sizes,
        "grown_bytes_since_a_fifth": sizes[-1] - sizes[1],
    }


def rows(medians: dict[str, list[Timed]]) -> list[dict[str, Any]]:
    table = []
    for way, steps in medians.items():
        row: dict[str, Any] = {
            "way": way,
            "step_ms": 1e3 * statistics.median(one[0] for one in steps),
        }
        for column, at in (("wall", 0), ("processor", 1)):
            row[f"{column}_ratio"] = interval(
                [one[at] / base[at] for one, base in zip(steps, medians["plain"], strict=True)]
            )
        table.append(row)
    return table


def tiny_rows(medians: dict[str, list[Timed]]) -> list[dict[str, Any]]:
    """What each way adds to a step that does next to nothing, in processor time (us)."""
    return [
        {
            "way": way,
            "added_us": interval(
                [
                    1e6 * (one[1] - base[1])
                    for one, base in zip(steps, medians["plain"], strict=True)
                ]
            ),
        }
        for way, steps in medians.items()
    ]


def shown(table: list[dict[str, Any]], tiny: list[dict[str, Any]]) -> None:
    print(
        f"{'':20}{'step':>9}   {'wall / plain':26}{'processor time / plain':26}added to a tiny step"
    )
    for row, small in zip(table, tiny, strict=True):
        figures = "   ".join(
            "{:.3f} [{:.3f}, {:.3f}]".format(*row[f"{column}_ratio"])
            for column in ("wall", "processor")
        )
        added = "{:7.1f} us [{:.1f}, {:.1f}]".format(*small["added_us"])
        print(f"{row['way']:20}{row['step_ms']:6.1f} ms   {figures}   {added}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--device", choices=tuple(WIDTHS), default="cpu")
    parser.add_argument("--iterations", type=int, default=100_000, help="for the memory")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traceml-worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.traceml_worker:
        import traceml_ai

        traceml_ai.init(mode="auto")
        ways = {"plain": plain, "TraceML": traceml}
        found = both(ways, options.batch, options.rounds, options.device)
        options.traceml_worker.write_text(json.dumps(found))
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    warnings.simplefilter("ignore", FutureWarning)
    batch = batch_for(options.step_ms / 1e3, options.device)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}, {options.rounds} rounds of {STEPS} steps\n")
    large, small = both(WAYS, batch, options.rounds, options.device)
    table, tiny = rows(large), tiny_rows(small)
    theirs = with_traceml(batch, options.rounds, options.device)
    if theirs is None:
        print("TraceML is not installed (pip install traceml-ai): left out")
    else:
        table += rows(theirs[0])[1:]
        tiny += tiny_rows(theirs[1])[1:]
    shown(table, tiny)
    result: dict[str, Any] = {"load": load, "batch": batch, "rounds": options.rounds, "ways": table}
    result["tiny"] = tiny
    if not options.no_memory:
        result["memory"] = memory(options.iterations)
        print(
            f"\n{options.iterations:,} iterations in {result['memory']['seconds']:.0f} s: resident "
            f"memory grew {result['memory']['grown_bytes_since_a_fifth'] / 2**20:+.2f} MiB after the "
            "first fifth"
        )
    if options.output:
        options.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
