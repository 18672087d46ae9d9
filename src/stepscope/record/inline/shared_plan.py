"""Shares rank 0's plan among ranks that each have watched what they run, so that measurements can be compared.

Rank 0 writes its plan into the folder of the files, where a thread of each other rank looks for it; the job does not
wait. A rank uses its own plan if it does not find rank 0's in time, or does not run its events, as a pipeline stage.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Container
from contextlib import suppress

from stepscope.record.inline.rank_files import RankFiles
from stepscope.record.output import write_complete
from stepscope.record.trouble import warn_once

NAME = ".stepscope-plan.json"
"""Hidden, because it is not a recording."""
PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_MAX_BYTES = 1 << 22

Weights = dict[str, int]
"""The labels to measure, with their times (ns)."""


class SharedPlan:
    """The shared plan, for a rank that has made its own."""

    def __init__(self, files: RankFiles) -> None:
        self._files = files
        self._path = files.out / NAME
        self._looks_until: float | None = None
        self._received: Weights | None = None

    def start(self) -> None:
        """Starts looking; rank 0 first removes the plan of an earlier run."""
        if self._is_first():
            self._files.background.run(self._forget)

    def stop(self) -> None:
        if self._is_first():
            self._forget()

    def settled(self, local: Weights, all_labels: Container[str]) -> Weights | None:
        """The plan to measure by, given the rank's `local` one and all its labels; None while still looking."""
        if self._files.process().world_size == 1:
            return local
        if self._files.process().rank == 0:
            text = json.dumps(local).encode()
            self._files.background.run(lambda: write_complete(self._path, lambda file: file.write(text)))
            return local
        if self._looks_until is None:
            self._looks_until = time.monotonic() + PATIENCE_SECONDS
            looking = threading.Thread(target=self._look, args=(self._looks_until,), name="stepscope-plan", daemon=True)
            looking.start()
        shared = self._received
        if shared is not None:
            return shared if shared and all(label in all_labels for label in shared) else local
        if time.monotonic() < self._looks_until:
            return None
        warn_once(
            f"rank {self._files.process().rank} measures by a plan of its own: rank 0's was not in {self._files.out} "
            f"within {PATIENCE_SECONDS:.0f} s. What ranks measure may differ"
        )
        return local

    def _is_first(self) -> bool:
        process = self._files.process()
        return process.world_size > 1 and process.rank == 0

    def _forget(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _look(self, until: float) -> None:
        while time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            with suppress(OSError):
                # Listing a folder asks a network server for changes; opening a file that did not exist may not.
                if NAME in os.listdir(self._files.out):  # noqa: PTH208
                    with self._path.open("rb") as file:
                        self._received = _weights(file.read(_MAX_BYTES))
                    return


def _weights(text: bytes) -> Weights:
    """The plan in a file; empty if it has none."""
    with suppress(ValueError, RecursionError):
        loaded = json.loads(text)
        if isinstance(loaded, dict) and all(type(weight) is int for weight in loaded.values()):
            return loaded
    return {}
