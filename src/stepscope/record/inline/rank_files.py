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


def ddp_timing(model: Any) -> dict[str, Any] | None:
    """Mean all-reduce time of a backward, and the part of it without computation (ns), from DDP's own sampled timings.

    DDP times its first iterations and then one in a hundred, so in a short run these are means of slow steps: compare
    them with one another, not with times of other steps.

    Returns:
        `source`, `communication_ns`, `overlap_ns`, `exposed_ns`, `backward_ns` (from the backward's start to the end of
        its all-reduce), `bytes`, and `forward_waits`: whether ranks wait for each other in forward too, because rank
        0's buffers are broadcast there. None if the model is not DDP's or has not been timed.
    """
    logged = getattr(model, "_get_ddp_logging_data", None)
    if logged is None or type(model).__name__ != "DistributedDataParallel":
        return None
    try:
        data = logged()
        communication = int(data["avg_backward_comm_time"])
        overlap = int(data["avg_backward_compute_comm_overlap_time"])
        compute = int(data["avg_backward_compute_time"])
        buffers = bool(data.get("broadcast_buffers")) and any(True for _ in model.module.buffers())
    except Exception:
        # Differs between versions of torch; if it fails, nothing is measured.
        return None
    if communication <= 0:
        return None
    exposed = max(0, communication - overlap)
    return {
        "source": "DDP",
        "communication_ns": communication,
        "overlap_ns": overlap,
        "exposed_ns": exposed,
        "backward_ns": compute + exposed,
        "bytes": data.get("total_parameter_size_bytes"),
        "forward_waits": buffers,
    }
