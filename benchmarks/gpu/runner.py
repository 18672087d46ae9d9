"""Runs stages one after the other, each in processes of its own, until all are done or time is over.

A stage that fails, hangs or is killed costs its own time and nothing else; what it had found until then is
kept. Nothing of a stage is left running: its processes are known by a variable of their environment.
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
"""Variable that all processes of a stage have."""
LIMIT = "STEPSCOPE_GPU_SECONDS"
"""Variable that tells a stage how long it may take."""
LONGEST_LOG = 200_000
"""Bytes kept of what a stage printed: its end."""
LEAST_SECONDS = 15.0
"""With less left no stage is started."""
GRACE_SECONDS = 3.0
"""Between asking a stage's processes to end and ending them."""


@dataclass(frozen=True)
class Stage:
    """One thing to show.

    Args:
        name: of its files: `results/NAME.json`, `logs/NAME.log`.
        about: what it shows, in one line.
        seconds: it may take at most.
        needed: whether nothing else makes sense where it fails.
    """

    name: str
    about: str
    seconds: float
    needed: bool = False


@dataclass
class Ran:
    """How a stage went.

    Args:
        stage: its name.
        about: what it shows.
        outcome: `done`, `failed`, `stopped after ... s`, or why it was not run.
        seconds: it took; None where it was not run.
        found: its claims, figures and notes (`Outcome`).
        last_words: the last lines that it printed, where it did not end well.
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
    """Runs stages in their order.

    Args:
        stages: what to run, the most valuable first.
        command: what starts a stage.
        out: folder of `results` and `logs`.
        ends_at: moment of `time.monotonic` at which the last stage is stopped.
        environment: of the stages.
        after_each: called with all that ran so far, when a stage has ended.
        least: seconds that must be left for a stage to be started.

    Returns:
        One row a stage, those that were not run too.
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
    """Keeps the end of a log; its last lines."""
    text = log.read_bytes()
    if len(text) > LONGEST_LOG:
        text = text[-LONGEST_LOG:]
        log.write_bytes(text)
    return text.decode("utf-8", "replace").strip().splitlines()[-8:]


def end_marked(mark: str) -> None:
    """Ends what a stage left running, in whatever session it is: asked first, then killed."""
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
            return  # what a kill does not end waits in the kernel, and we do not wait for it
        time.sleep(0.02)


def _marked(mark: str) -> Iterator[int]:
    """Processes with the mark that have not ended."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
            except OSError:
                continue  # it has ended, or is another user's


def as_json(ran: Sequence[Ran]) -> list[dict[str, Any]]:
    """The rows for `summary.json`."""
    return [asdict(one) for one in ran]
