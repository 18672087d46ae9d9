"""What recording adds to steps of 1, 5, 20 and 100 ms, in every way and beside torch.profiler and TraceML, with intervals.

A round runs a block of each way and one of the plain loop before it, in a new order each time; a block is as long as
recording needs to settle: a recording of phases samples stacks and has decided by then every how many-th step it times. What
is compared is the mean time of a step, because what falls on every eighth step is no part of a median; steps of more than
three times the median are the machine's and count for neither. The figure of a way is the mean over rounds of the ratio of
both blocks, less 1, and Student's 95 % interval of it. The load at the start and at the end is written beside the table.

    python benchmarks/overheads.py [--minutes 15] [--steps-ms 1,5,20,100] [-o overheads.json]
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
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import record_overhead as ways
import torch
from record_overhead import Job, Timed

SETTLED = 48
"""Steps after which a recording has decided how often it times one: 5 of warm-up, 32 that it judges by, some more."""
PLANNED = 12
"""Steps after which a plan is made: 3 of warm-up, 4 that are watched, one that is observed, and what follows them."""
SECONDS = 0.5
"""Measured part of a block."""
FEWEST = 8
LARGEST = 3.0
STEPS_MS = (1.0, 5.0, 20.0, 100.0)

Way = Callable[[Job, int], list[Timed]]


def event(label: str) -> Way:
    """One event of a plan, armed in every iteration, without phases: what measuring it costs."""

    def record(job: Job, _round: int) -> list[Timed]:
        from stepscope.record import inline

        plan = {"warmup": 1, "repetitions": 10**6, "unarmed_every": 0, "events": [label]}
        with ways.recording(plan, job, phases=False):
            return ways.timed_steps(job, inline.iterate(job.loader()))

    return record


def own_plan(job: Job, _round: int) -> list[Timed]:
    """`--inline` without a plan, with phases: what a user of it pays."""
    from stepscope.record import inline

    with ways.recording("auto", job, phases=True):
        return ways.timed_steps(job, inline.iterate(job.loader()))


WAYS: dict[str, Way] = {
    "off": ways.off,
    "phases": ways.phases,
    "--inline": own_plan,
    "a module's forward": event("2.forward"),
    "a module's backward": event("2.backward"),
    "an operator in backward": event("2.backward.aten::mm"),
    "on demand, waiting": ways.listening,
    "torch.profiler": ways.torch_profiler,
}


def job_of(step_ms: float) -> Job:
    """A job with steps of about this long: the width is that of small layers for short ones."""
    torch.set_num_threads(1)
    width = 128 if step_ms < 3 else 512
    batch = 16
    while True:
        job = Job(batch, width, steps=10)
        took_ms = 1e3 * median(one[0] for one in ways.plain(job, 0))
        if took_ms > step_ms / 2:
            break
        batch *= 2
    batch = max(1, round(batch * step_ms / took_ms))
    job = Job(batch, width, steps=max(FEWEST, round(SECONDS * 1e3 / step_ms)))
    # Timing costs less than it may in long steps, so that nothing has to settle.
    job.lead_in = SETTLED if step_ms < 10 else PLANNED
    return job


def mean_step(steps: list[Timed]) -> tuple[float, float]:
    """Mean seconds of a step by the clock and of the processor, without those that the machine held up."""
    most = LARGEST * median(one[0] for one in steps)
    kept = [one for one in steps if one[0] <= most]
    return fmean(one[0] for one in kept), fmean(one[1] for one in kept)


def measured(job: Job, of: dict[str, Way], seconds: float) -> dict[str, list[list[float]]]:
    """Way → for each round: seconds of a step by the clock and the processor, and the same of the plain loop beside it."""
    shuffled = random.Random(0)  # noqa: S311 - an order, no secret
    found: dict[str, list[list[float]]] = {name: [] for name in of}
    until = time.monotonic() + seconds
    number = -1
    while time.monotonic() < until or number < 2:
        order = list(of)
        shuffled.shuffle(order)
        for name in order:
            plain_first = shuffled.random() < 0.5
            blocks = [ways.plain, of[name]] if plain_first else [of[name], ways.plain]
            both = [mean_step(block(job, max(number, 0))) for block in blocks]
            plain, own = both if plain_first else both[::-1]
            if number >= 0:
                found[name].append([*own, *plain])
        number += 1
    return found


def row(name: str, step_ms: float, rounds: list[list[float]]) -> dict[str, Any]:
    """What a way adds to a step, as a part of it: by the clock and of the processor, each with its interval."""
    from stepscope.floor.statistics import student_t

    told: dict[str, Any] = {"way": name, "asked_ms": step_ms, "rounds": len(rounds)}
    told["step_ms"] = 1e3 * median(one[2] for one in rounds)
    for key, at in (("wall", 0), ("processor", 1)):
        added = [one[at] / one[at + 2] - 1 for one in rounds]
        half = student_t(len(added) - 1) * stdev(added) / len(added) ** 0.5
        told[key] = [fmean(added), fmean(added) - half, fmean(added) + half]
    return told


def with_traceml(step_ms: float, seconds: float) -> list[dict[str, Any]]:
    """TraceML's loop in a process under `traceml run`, with blocks of the plain loop in it."""
    program = shutil.which("traceml", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [
            program,
            "run",
            "--mode",
            "summary",
            "--logs-dir",
            folder,
            "--run-name",
            "overheads",
        ]
        command += [str(Path(__file__).resolve()), "--args", "--traceml-worker", str(found)]
        command += ["--steps-ms", str(step_ms), "--minutes", str(seconds / 60)]
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
    lines = [f"| added to a step of | {' | '.join(f'{ms:g} ms' for ms in lengths)} |"]
    lines.append(f"| --- |{' --- |' * len(lengths)}")
    for name in dict.fromkeys(one["way"] for one in rows):
        cells = []
        for ms in lengths:
            own = [one for one in rows if (one["way"], one["asked_ms"]) == (name, ms)]
            cells.append(
                "{:+.1%} [{:+.1%}, {:+.1%}]".format(*own[0]["wall"]).replace("%", " %")
                if own
                else "–"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15.0, help="for everything")
    parser.add_argument("--steps-ms", default=",".join(f"{ms:g}" for ms in STEPS_MS))
    parser.add_argument("--ways", default=",".join([*WAYS, "TraceML"]), help="only these")
    parser.add_argument("--traceml-worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lengths = [float(text) for text in options.steps_ms.split(",")]
    if options.traceml_worker:
        import traceml_ai

        traceml_ai.init(mode="auto")
        found = measured(job_of(lengths[0]), {"TraceML": ways.traceml}, options.minutes * 60)
        options.traceml_worker.write_text(json.dumps(row("TraceML", lengths[0], found["TraceML"])))
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    warnings.simplefilter("ignore")
    loads = [os.getloadavg()[0]]
    asked = options.ways.split(",")
    chosen = {name: way for name, way in WAYS.items() if name in asked}
    shares = len(asked)
    each = options.minutes * 60 / len(lengths)
    rows = []
    for step_ms in lengths:
        found = measured(job_of(step_ms), chosen, each * len(chosen) / shares)
        rows += [row(name, step_ms, rounds) for name, rounds in found.items()]
        rows += with_traceml(step_ms, each / shares) if "TraceML" in asked else []
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
