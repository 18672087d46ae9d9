"""Identifies the recorded process, with a warning if two launchers give different ranks."""

from __future__ import annotations

from functools import cache

from stepscope.base.ranks import Process, this_process
from stepscope.record.trouble import warn_once


class Who:
    """This process as far as it is known: its process group may be created late, and be gone at the end."""

    def __init__(self) -> None:
        self._process: Process | None = None

    def process(self) -> Process:
        """This process; asked again until torch.distributed has set the rank."""
        if self._process is None or self._process.rule != "torch.distributed":
            self._process = this_process()
        return self._process

    def named(self) -> Process:
        """This process, for files named by its rank; warns once if launchers disagree."""
        process = self.process()
        if process.disagreement:
            _warn_of(process.disagreement, process.rank)
        return process


@cache
def _warn_of(disagreement: str, rank: int) -> None:
    warn_once(
        f"which rank this process is cannot be told: {disagreement}. It is recorded as rank {rank}, "
        "and training goes on; without the variables of a launcher that did not start it, or with "
        "torch.distributed, the rank is sure"
    )
