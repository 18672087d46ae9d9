"""A small training job in literal pieces, from which the tables of a recording are made."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]

V100 = {
    "name": "Tesla V100-SXM2-16GB", "kind": "cuda", "used": True, "sm_count": 80, "compute_major": 7,
    "compute_minor": 0, "max_threads_per_sm": 2048, "registers_per_sm": 65536, "warp_size": 32,
    "shared_memory_per_sm_bytes": 98304, "memory_bytes": 16_000,
}  # fmt: skip
A100 = {**V100, "name": "NVIDIA A100-SXM4-80GB", "sm_count": 108, "compute_major": 8}


class Job:
    """Steps that all do the same, one piece of work after another on one stream.

    Work is launched at the step's begin unless it is `late`: then the host launches it only when
    the device is about to need it. A step has 60 kernels of no kind besides, that take no time.
    """

    def __init__(self, steps: int = 2, step_ns: int = 1_000_000, device: Row | None = None) -> None:
        self.steps, self.step_ns, self.device = steps, step_ns, device
        self.work: list[Row] = [{"name": "filler", "dur_ns": 0, "gap_ns": 0} for _ in range(60)]
        self.host: list[Row] = []
        self.lengths: dict[int, int] = {}
        self.more: dict[str, list[Row]] = {}

    def kernel(self, name: str, dur_ns: int, *, count: int = 1, gap_ns: int = 0, **columns: Any) -> Job:
        """Work in every step: columns of device_event, and `operator`, `dims`, `types`, `late`."""
        self.work += [{"name": name, "dur_ns": dur_ns, "gap_ns": gap_ns, **columns}] * count
        return self

    def event(self, name: str, start_ns: int, dur_ns: int, **columns: Any) -> Job:
        """A host event in every step, so long after its begin."""
        self.host.append({"name": name, "start_ns": start_ns, "dur_ns": dur_ns, **columns})
        return self

    def rows(self) -> dict[str, list[Row]]:
        """The tables."""
        tables: dict[str, list[Row]] = {
            "step": [], "host_event": [], "device_event": [], "operator_input": [], **self.more
        }  # fmt: skip
        if self.device is not None:
            tables["device"] = [{"device": 0, **self.device}]
        inputs: dict[tuple[Any, Any], int] = {}
        number, begin = 0, 0
        for step in range(self.steps):
            length = self.lengths.get(step, self.step_ns)
            tables["step"].append({"step": step, "start_ns": begin, "end_ns": begin + length})
            for event in self.host:
                number += 1
                tables["host_event"].append(
                    {"kind": "operator", **event, "id": number, "step": step,
                     "start_ns": begin + event["start_ns"]}
                )  # fmt: skip
            cursor = begin
            for piece in self.work:
                row = dict(piece)
                operator, late = row.pop("operator", None), row.pop("late", False)
                dims, types = row.pop("dims", None), row.pop("types", None)
                cursor += row.pop("gap_ns")
                launched = cursor if late else begin
                input_id = None
                if dims is not None:
                    input_id = inputs.setdefault((json.dumps(dims), json.dumps(types)), len(inputs))
                if operator is not None:
                    number += 1
                    row["operator_id"] = number
                    tables["host_event"].append(
                        {"id": number, "name": operator, "start_ns": launched, "dur_ns": 0,
                         "input_id": input_id, "step": step}
                    )  # fmt: skip
                number += 1
                tables["host_event"].append(
                    {"id": number, "name": "cudaLaunchKernel", "kind": "runtime", "role": "launch",
                     "start_ns": launched, "dur_ns": 0, "step": step}
                )  # fmt: skip
                row = {"kind": "computation", **row, "launch_id": number}
                number += 1
                tables["device_event"].append({**row, "id": number, "start_ns": cursor, "step": step, "stream": 7})
                cursor += row["dur_ns"]
            begin += length
        tables["operator_input"] = [
            {"input_id": number, "dims": dims, "types": types} for (dims, types), number in inputs.items()
        ]
        return tables
