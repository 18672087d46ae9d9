"""Runs stages one after the other, each in its own processes, until all are done or time is over.

A stage that fails, hangs or is killed costs only its own time, and keeps its results so far. Nothing of a stage is left
running: a variable in their environment identifies its processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MARK = "STEPSCOPE_GPU_STAGE"
"""Variable in the environment of all processes of a stage."""
LIMIT = "STEPSCOPE_GPU_SECONDS"
"""Variable with a stage's time limit."""
LONGEST_LOG = 200_000
"""Bytes kept from the end of a stage's output."""
LEAST_SECONDS = 15.0
"""With less time left no stage is started."""
GRACE_SECONDS = 3.0
"""Time for a stage's processes to end before they are killed."""


@dataclass(frozen=True)
class Stage:
    """One verification.

    Args:
        name: name of its files: `results/NAME.json`, `logs/NAME.log`.
        about: what it verifies, in one line.
        seconds: its time limit.
        needed: whether nothing else makes sense if it fails.
    """

    name: str
    about: str
    seconds: float
    needed: bool = False


@dataclass
class Ran:
    """The result of a stage.

    Args:
        stage: its name.
        about: what it verifies.
        outcome: `done`, `failed`, `stopped after ... s`, or why it was not run.
        seconds: its duration; None if it was not run.
        found: its claims, figures and notes (`Outcome`).
        last_words: its last lines of output, if it did not end well.
    """

    stage: str
    about: str
    outcome: str
    seconds: float | None = None
    found: dict[str, Any] = field(default_factory=dict)
    last_words: list[str] = field(default_factory=list)


def run_stages(
    stages: Sequence[Stage],
    command: Callable[[Stage], Sequence[str]],
    out: Path,
    ends_at: float,
    environment: Mapping[str, str],
    after_each: Callable[[list[Ran]], None],
    least: float = LEAST_SECONDS,
) -> list[Ran]:
    """Runs stages in order.

    Args:
        stages: the stages, the most valuable first.
        command: the command that starts a stage.
        out: folder of `results` and `logs`.
        ends_at: time of `time.monotonic` at which the last stage is stopped.
        environment: environment of the stages.
        after_each: called with all results so far, when a stage has ended.
        least: seconds that must be left to start a stage.

    Returns:
        One row per stage, including those that were not run.
    """
    ran: list[Ran] = []
    lacking: str | None = None
    for stage in stages:
        left = ends_at - time.monotonic()
        if lacking is not None:
            ran.append(Ran(stage.name, stage.about, f"not run: {lacking}"))
        elif left < least:
            ran.append(Ran(stage.name, stage.about, "not run: no time left"))
        else:
            limit = min(stage.seconds, left)
            ran.append(_run(stage, command(stage), out, limit, environment))
            if stage.needed and ran[-1].outcome != "done":
                lacking = f"the stage {stage.name} did not succeed"
        after_each(ran)
    return ran


def _run(stage: Stage, command: Sequence[str], out: Path, limit: float, environment: Mapping[str, str]) -> Ran:
    log = out / "logs" / f"{stage.name}.log"
    mark = f"{stage.name}-{os.getpid()}"
    began = time.monotonic()
    with log.open("wb") as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**environment, MARK: mark, LIMIT: str(limit)},
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
            outcome = "done" if code == 0 else _failed(code)
        except subprocess.TimeoutExpired:
            outcome = f"stopped after {limit:.0f} s"
        finally:
            end_marked(mark)
            process.wait()
    words = _shortened(log)
    return Ran(
        stage.name,
        stage.about,
        outcome,
        round(time.monotonic() - began, 1),
        _found(out / "results" / f"{stage.name}.json"),
        [] if outcome == "done" else words,
    )


def _failed(code: int) -> str:
    if code < 0:
        return f"failed: ended by signal {-code}"
    return f"failed: exit code {code}"


def _found(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _shortened(log: Path) -> list[str]:
    """Keeps the end of a log; returns its last lines."""
    text = log.read_bytes()
    if len(text) > LONGEST_LOG:
        text = text[-LONGEST_LOG:]
        log.write_bytes(text)
    return text.decode("utf-8", "replace").strip().splitlines()[-8:]


def end_marked(mark: str) -> None:
    """Ends what a stage left running in any session: asks first, then kills."""
    deadline = time.monotonic() + GRACE_SECONDS
    asked: set[int] = set()
    while marked := list(_marked(mark)):
        late = time.monotonic() > deadline
        for pid in marked:
            if late or pid not in asked:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked.update(marked)
        if late and time.monotonic() > deadline + GRACE_SECONDS:
            return  # a process that survives a kill is stuck in the kernel; we do not wait for it
        time.sleep(0.02)


def _marked(mark: str) -> Iterator[int]:
    """Living processes with the mark."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
            except OSError:
                continue  # it has ended, or belongs to another user


def as_json(ran: Sequence[Ran]) -> list[dict[str, Any]]:
    """The rows for `summary.json`."""
    return [asdict(one) for one in ran]
