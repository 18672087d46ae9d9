"""Runs the examples, plain and recorded in each mode: they must end, with the plain run's losses, and leave recordings.

Several run at once, because nothing is timed here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpu.in_turn import run_in_turn
from gpu.outcome import Outcome
from gpu.stages.kept import counted, keep
from gpu.stages.surroundings import DEVICE, ROOT, SCRATCH, STEPSCOPE, Ended, left, outcome_of, run

LIMIT_SECONDS = 100.0
"""Time limit of a run, after which it counts as hanging. On a cold machine most of it is compilation."""
LEAST_SECONDS = 12.0
"""With less time left no run is started."""
AT_ONCE = max(1, min(6, (os.cpu_count() or 2) // 2))
_BOUNDARIES = {"warmup": 5, "repetitions": 8, "events": ["forward", "backward", "optimizer.step"]}


@dataclass(frozen=True)
class Job:
    """A training.

    Args:
        name: its name in the summary.
        script: the example and its options.
        steps: enough steps for its plan.
        plan: what is measured inline: a file, or `seed`, which the script provides.
        long_steps: steps for a trace on demand, whose request takes seconds.
    """

    name: str
    script: tuple[str, ...]
    steps: int
    plan: str
    long_steps: int = 0

    def command(self, steps: int, *more: str) -> list[str]:
        path, *options = self.script
        return [*(path, *options, "--steps", str(steps)), *("--device", DEVICE, "--deterministic", *more)]


def _jobs(folder: Path) -> Iterator[Job]:
    boundaries = folder / "boundaries.json"
    boundaries.write_text(json.dumps(_BOUNDARIES), "utf-8")
    long = 4_000 if DEVICE == "cuda" else 900
    yield Job("gpt", ("examples/gpt.py",), 250, "examples/plans/gpt.json", long)
    yield Job("cnn", ("examples/cnn.py",), 400, "examples/plans/cnn.toml")
    small = () if DEVICE == "cuda" else ("--batch-size", "8")
    yield Job("dlrm", ("examples/dlrm.py", *small), 1_700, "seed")
    yield Job("gpt-compiled", ("examples/gpt.py", "--run", "compile"), 100, str(boundaries))
    if DEVICE == "cuda":
        yield Job("gpt-graphs", ("examples/gpt.py", "--run", "graphs"), 100, str(boundaries))


@dataclass(frozen=True)
class Run:
    """One run of a job in one mode; `options` are those of `stepscope record`, None for a plain run."""

    job: Job
    mode: str
    options: tuple[str, ...] | None
    steps: int
    out: Path
    worth: int = 0
    """Lower values run earlier."""
    more: tuple[str, ...] = ()
    """Further options of the script."""

    def command(self) -> list[str]:
        script = self.job.command(self.steps, *self.more)
        if self.options is None:
            return [sys.executable, *script]
        return [*STEPSCOPE, "record", *self.options, "-o", str(self.out), "--", *script]


def _modes(job: Job) -> dict[str, tuple[str, ...]]:
    modes = {} if job.plan == "seed" else {"inline": ("--inline", job.plan)}
    modes |= {
        "phases and trace": ("--active", "2"),
        "trace with stacks, memory, snapshot": (*("--trace", "--active", "2", "--stack", "--memory", "--snapshot"),),
        "phases": ("--phases",),
        "NVTX and captured steps": ("--nvtx", "--capture", "nvtx", "--steps", "8-10"),
    }
    if shutil.which("py-spy"):
        modes["sample"] = ("--sample", "--phases")
    return modes


def _runs(job: Job, folder: Path) -> Iterator[Run]:
    """Yields the runs of a job, the plain one first."""

    def at(mode: str) -> Path:
        return folder / f"{job.name}-{mode.split()[0]}"

    yield Run(job, "plain", None, job.steps, at("plain"))
    yield Run(job, "plain again", None, job.steps, at("again"), 1)
    for worth, (mode, options) in enumerate(_modes(job).items(), 2):
        yield Run(job, mode, options, job.steps, at(mode), worth)
    if job.plan == "seed":
        out = at("inline")
        more = ("--plan", job.plan, "--phases", "--out", str(out))
        yield Run(job, "inline", None, job.steps, out, 2, more)
    if job.long_steps:
        yield Run(job, "plain, long", None, job.long_steps, at("long"), 3)
        out = at("demand")
        yield Run(job, "on demand", ("--on-demand", str(out / "trigger")), job.long_steps, out, 3)


def _loss(printed: str) -> str | None:
    found = re.search(r"\d+ steps in [\d.]+ s, loss (\S+)", printed)
    return found[1] if found else None


def _triggered(one: Run) -> tuple[Ended, Ended]:
    """Runs a job that records on demand, and the command that asks it to."""
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(run, one.command(), LIMIT_SECONDS, cwd=ROOT)
        deadline = time.monotonic() + LIMIT_SECONDS / 2
        # The job creates the folder when it listens; the command waits for the answer.
        while not (one.out / "trigger").is_dir() and time.monotonic() < deadline:
            if running.done():
                break
            time.sleep(0.1)
        asked = run([*STEPSCOPE, "trigger", one.out / "trigger", "--steps", "2", "--lead", "1"], 45)
        return running.result(), asked


def _of(one: Run) -> tuple[Ended | None, Ended | None]:
    """How a run and its command ended; None for what was not run for lack of time."""
    if left() < LEAST_SECONDS:
        return None, None
    if one.mode == "on demand":
        return _triggered(one)
    return run(one.command(), LIMIT_SECONDS, cwd=ROOT), None


def _kept(one: Run) -> list[str]:
    """Keeps what a run recorded, if tests can use it."""
    name = f"{one.job.name}-{one.mode.split()[0].rstrip(',')}"
    files = [
        path
        for path in sorted(one.out.rglob("*"))
        if path.is_file() and "trigger" not in path.parts and not path.name.startswith(".")
    ]
    traces = [path for path in files if path.name.endswith(".json.gz") and ".capture" not in path.name]
    wanted = one.mode in ("trace with stacks, memory, snapshot", "inline", "sample")
    if not files or not (wanted or (traces and one.mode == "phases and trace")):
        return []
    command = " ".join(one.command()).replace(sys.executable, "python").replace(str(SCRATCH), "")
    return keep(name, files, command, counted(traces[0]) if len(traces) == 1 else None)


def main() -> int:
    found = outcome_of("jobs")
    folder = SCRATCH / "jobs"
    folder.mkdir()
    # A job's plain run compiles for all that follow; then each mode of all jobs precedes the next one, so that lack of
    # time affects all jobs equally.
    runs = [list(_runs(job, folder)) for job in _jobs(folder)]
    rows: list[dict[str, object]] = []
    for one, (ended, asked) in run_in_turn(runs, lambda one: one.worth, _of, AT_ONCE):
        rows.append(_row(one, ended))
        _compared(rows)
        found.figure("runs", rows)
        for line in _kept(one):
            found.note(line)
        if ended is not None and ended.code != 0:
            found.note(f"{one.job.name}, {one.mode}: {ended.last_line()}")
        if asked is not None:
            words = {} if asked.code == 0 else {"why": asked.last_line()}
            found.claim("a running job records when it is asked to", asked.code == 0, **words)
    _judged(found, rows)
    return 0


def _row(one: Run, ended: Ended | None) -> dict[str, object]:
    how = "not run" if ended is None else _how(ended)
    return {
        "job": one.job.name,
        "mode": one.mode,
        "steps": one.steps,
        "ended": how,
        "seconds": None if ended is None else ended.seconds,
        "loss": None if ended is None else _loss(ended.printed),
        "equal": None,
    }


def _how(ended: Ended) -> str:
    if ended.code is None:
        return "hung" if ended.hung else "no time left"
    return f"exit {ended.code}"


def _compared(rows: list[dict[str, object]]) -> None:
    """Whether each loss equals that of the plain run with as many steps, if there is one."""
    plain = {(row["job"], row["steps"]): row["loss"] for row in rows if row["mode"] in ("plain", "plain, long")}
    for row in rows:
        expected = plain.get((row["job"], row["steps"]))
        if expected and row["loss"] and row["mode"] not in ("plain", "plain, long"):
            row["equal"] = row["loss"] == expected


def _judged(found: Outcome, rows: list[dict[str, object]]) -> None:
    unfinished = ("not run", "no time left")
    ended = [row for row in rows if row["ended"] not in ("exit 0", *unfinished)]
    found.claim(
        "all runs end by themselves, and without an error",
        not ended,
        runs=len(rows),
        not_run=sum(row["ended"] in unfinished for row in rows),
        others=[f"{row['job']}, {row['mode']}: {row['ended']}" for row in ended],
    )
    for job in dict.fromkeys(row["job"] for row in rows):
        own = [row for row in rows if row["job"] == job]
        again = next((row["equal"] for row in own if row["mode"] == "plain again"), None)
        recorded = [row for row in own if not str(row["mode"]).startswith("plain")]
        different = [row["mode"] for row in recorded if row["equal"] is False]
        compared = sum(row["equal"] is not None for row in recorded)
        # If two plain runs differ, recorded ones cannot be judged.
        found.claim(
            f"{job}: recorded losses equal the plain run's, to the last bit",
            not different if again is True and compared else None,
            compared=compared,
            different=different,
            plain_runs_equal=again,
        )


if __name__ == "__main__":
    sys.exit(main())
