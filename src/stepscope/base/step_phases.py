"""The phases of a training step: the words of recorders, files, tables and answers."""

from __future__ import annotations

RECORDED_PHASES = ("input_wait", "host_to_device", "forward", "backward", "optimizer")
"""The phases in the order of a step."""

PHASES = (*RECORDED_PHASES, "residual")
"""These, and what is left of a step: together they are the step."""

PHASE_OF_EVENT = {phase: phase for phase in RECORDED_PHASES} | {"optimizer.step": "optimizer"}
"""The phase that an event of a plan marks."""
