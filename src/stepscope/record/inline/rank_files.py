"""Writes the files of one recorded process: in the background while it trains, immediately when it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stepscope.base.ranks import Process
from stepscope.record.hardware.sampler import HardwareSampler
from stepscope.record.inline.documents import file_name, inline_document, phases_document
from stepscope.record.inline.events import Measured
from stepscope.record.job.exit_reason import ExitReason
from stepscope.record.output import Background, Who, keep_json
from stepscope.record.phases.communication import ddp_timing
from stepscope.record.phases.phases import Phases
from stepscope.record.settings import settings
from stepscope.record.targets.copies import Copied
from stepscope.record.trouble import Guard, warn_once

_PATIENCE_SECONDS = 30.0


class RankFiles:
    """Writes the measurements of one process; `phases` then state how the job ended, and cover all steps."""

    def __init__(self, out: Path, guard: Guard, *, phases: bool = False) -> None:
        self.out = out
        self._phases = phases
        self.written: list[Path] = []
        self.ended: ExitReason | None = None
        """How the job ended; None while it is not known to have ended."""
        self.background = Background("stepscope-writer", guard)
        self._started_epoch_ns = time.time_ns()
        self._who = Who()
        self.hardware = HardwareSampler()
        self._ddp: dict[str, Any] | None = None
        self._settings: dict[str, Any] | None = None

    def process(self) -> Process:
        """This process; asked again until torch.distributed has set the rank."""
        return self._who.process()

    def settled(self) -> bool:
        """Waits for the background; returns False, with a warning, if it hangs, as further writes would."""
        settled = self.background.wait(_PATIENCE_SECONDS)
        if not settled:
            warn_once(
                f"{self.out} takes no file within {_PATIENCE_SECONDS:.0f} s: what was measured last is not written"
            )
        return settled

    def ask_settings(self, model: Any, *, in_forward: bool) -> None:
        """Asks torch for the job's settings, in the training thread; what was known in a forward stays."""
        if in_forward or self._settings is None:
            self._settings = settings(model, in_forward=in_forward)

    def write_inline(self, measured: Measured) -> None:
        """Writes the events of a plan, replacing an earlier file of this process."""
        process = self._who.named()
        summary = inline_document(
            measured,
            process,
            self._started_epoch_ns,
            settings=self._settings,
            # Nothing after the last measurement counts.
            ended={} if measured.done else self.ended,
        )
        if self._phases:
            del summary["ended"]
        self._keep(process, "prof", summary, "the inline profile")

    def ask_ddp(self, model: Any) -> None:
        """Asks a DDP model for its timings while it exists: it may be gone before the recording ends."""
        if model is not None:
            self._ddp = ddp_timing(model) or self._ddp

    def phases_document(
        self, phases: Phases, model: Any, copied: Copied | None, stacks: dict[str, Any] | None, *, samples: bool
    ) -> dict[str, Any]:
        """Makes the document of `write_phases`, while no step runs; without a model, DDP's timings are the last."""
        self.ask_ddp(model)
        return phases_document(
            phases,
            self.process(),
            self._started_epoch_ns,
            communication=self._ddp,
            copied=copied,
            stacks=stacks,
            settings=self._settings,
            samples=samples,
            ended=self.ended,
        )

    def write_phases(self, summary: dict[str, Any]) -> None:
        """Writes the phases and the usage of the host, replacing an earlier file of this process."""
        summary["host"] = self.hardware.figures()
        self._keep(self._who.named(), "phases", summary, "the summary of phases")

    def _keep(self, process: Process, kind: str, payload: dict[str, Any], what: str) -> None:
        # Replaces an earlier run's file, but not what another job in the same folder is writing now.
        path = keep_json(
            self.out,
            file_name(process, kind),
            payload,
            what=what,
            since_epoch_s=self._started_epoch_ns / 1e9,
            other_name=file_name(process, kind, by_pid=True),
        )
        if path is not None and path not in self.written:
            self.written.append(path)
