"""Samples where in the program steps spend their time: the training thread's stack, some twenty times a second.

Phases leave a residual without a name: gradient clipping, `.item()`, logging, a checkpoint. A thread reads the stack
and the open phase at random moments and patches nothing. Only Python frames: a wait for the device is at its line.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from stepscope.record.budget import MAX_SHARE, OF_STACKS

if TYPE_CHECKING:
    from stepscope.record.phases.phases import Phases

_SECONDS = 0.05  # mean time between two samples; each wait is random, because steps are periodic
_MAX_SHARE = OF_STACKS * MAX_SHARE
"""Part of a processor: if sampling takes more than this part of the time, samples are further apart."""
_LEARNS = 8  # samples until their cost is known
_MAX_FRAMES = 64
_MAX_STACKS = 4096
_OUR_FOLDER = str(Path(__file__).parents[2]) + os.sep
_RUNS_SCRIPTS = "as_main.py"

Place = tuple[CodeType, int]


class StackSampler:
    """Samples the thread that creates it, in steps, until it is stopped."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._training = threading.get_ident()
        self._counts: Counter[tuple[str | None, tuple[Place, ...]]] = Counter()
        self._wakes = 0
        self._lost = 0
        # Not an event, because waiting for one takes longer than a sample.
        self._running = threading.Lock()
        self._began = time.monotonic()
        self._seconds = 0.0
        # Leaves the job's random numbers alone.
        self._random = random.Random(0)  # noqa: S311 - nothing is secret
        self._thread = threading.Thread(target=self._run, name="stepscope-stacks", daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        self._running.acquire()
        with suppress(RuntimeError):  # no more threads can be started: there are no samples
            self._thread.start()

    def stop(self) -> None:
        if self._running.locked():
            self._running.release()

    def document(self) -> dict[str, Any] | None:
        """The samples in the form of the phases file; None without samples. `functions` are [name, file, line]; a row
        of `stacks` is [phase or null, samples, indices of functions, the innermost first]. A sample stands for
        `interval_ns`.
        """
        counts = self._counts.copy()
        if not counts:
            return None
        places = dict.fromkeys(place for _, stack in counts for place in stack)
        number = {place: at for at, place in enumerate(places)}
        return {
            "interval_ns": round(self._seconds * 1e9 / self._wakes),
            "lost": self._lost,
            "functions": [
                [getattr(code, "co_qualname", code.co_name), _short(code.co_filename), line] for code, line in places
            ],
            "stacks": [
                [phase, samples, [number[place] for place in stack]] for (phase, stack), samples in counts.items()
            ],
        }

    def _run(self) -> None:
        seconds = _SECONDS
        while not self._running.acquire(timeout=seconds * (0.5 + self._random.random())):
            with suppress(Exception):
                self._sample()
            if self._wakes == _LEARNS:  # once, because samples stand for equal times
                seconds = max(_SECONDS, time.thread_time() / _LEARNS / _MAX_SHARE)

    def _sample(self) -> None:
        self._wakes += 1
        self._seconds = time.monotonic() - self._began
        in_step, phase = self._phases.where()
        frame = sys._current_frames().get(self._training) if in_step else None
        if frame is None:
            return
        key = phase, _stack(frame)
        if key not in self._counts and len(self._counts) >= _MAX_STACKS:
            self._lost += 1
            return
        self._counts[key] += 1


def _stack(frame: FrameType | None) -> tuple[Place, ...]:
    """The program's frames, the innermost first, without ours and those that run the script."""
    places: list[Place] = []
    while frame is not None and len(places) < _MAX_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_OUR_FOLDER):
            places.append((code, frame.f_lineno or 0))
        elif code.co_filename.endswith(_RUNS_SCRIPTS):
            break
        frame = frame.f_back
    return tuple(places)


def _short(file: str) -> str:
    """A file's name without the folder in which modules are found, as in torch.profiler."""
    folders = [folder for folder in sys.path if folder]
    with suppress(OSError):  # the job may have removed its directory
        folders.append(str(Path.cwd()))
    inside = [folder for folder in folders if file.startswith(folder.rstrip(os.sep) + os.sep)]
    return file[len(max(inside, key=len).rstrip(os.sep)) + 1 :] if inside else file
