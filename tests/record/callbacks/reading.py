"""What a recorded trace has, in the order of time."""

import gzip
import json
from pathlib import Path
from typing import Any


def ranges(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    return sorted(
        (event for event in events if event.get("cat") == "user_annotation"),
        key=lambda event: (float(event["ts"]), -float(event["dur"])),
    )


def micro_steps_by_step(path: Path) -> dict[str, int]:
    """How many micro-steps lie within each step."""
    steps = [one for one in ranges(path) if one["name"].startswith("ProfilerStep#")]
    micro = [one for one in ranges(path) if one["name"] == "micro_step"]

    def within(step: dict[str, Any], inner: dict[str, Any]) -> bool:
        begins, ends = float(step["ts"]), float(step["ts"]) + float(step["dur"])
        return begins <= float(inner["ts"]) and float(inner["ts"]) + float(inner["dur"]) <= ends

    return {step["name"]: sum(within(step, one) for one in micro) for step in steps}


def module_ranges(path: Path) -> set[str]:
    return {one["name"] for one in ranges(path) if one["name"].startswith("nn.Module: ")}
