"""Made recordings of each kind, as literal rows, with names that a page must not take for its own."""

from collections.abc import Callable
from typing import Any

HOSTILE = "</script><script>alert(1)</script>"
LONG = "long_" * 2_000


def launches(step: int, name: str, at: int, module: int) -> dict[str, Any]:
    """An operator of 40 µs."""
    start = 1_000_000 * step + at
    return {"id": 1000 * step + at // 1000, "name": name, "start_ns": start, "dur_ns": 40_000,
            "category": "cpu_op", "step": step, "module_id": module}  # fmt: skip


def training(ranks: int = 1) -> dict[str, Any]:
    """Three steps of hostile names on a device, in two modules, with forward and backward."""
    names = (HOSTILE, "aten::mm \"quoted\" 'too' <b>&amp;", "ops::\U0001f525émoji", LONG)
    hosts, devices, steps = [], [], []
    for rank in range(ranks):
        for step in (1, 2, 3):
            steps.append({"rank": rank, "step": step, "start_ns": 1_000_000 * step,
                          "end_ns": 1_000_000 * step + 900_000})  # fmt: skip
            for place, name in enumerate(names):
                at = 50_000 * place
                host = launches(step, name, at, place % 2 + 1)
                hosts.append({"rank": rank, **host})
                devices.append(
                    {"rank": rank, "step": step, "name": name, "kind": "computation",
                     "start_ns": host["start_ns"] + 60_000, "dur_ns": 30_000 + 1000 * place,
                     "operator_id": host["id"], "launch_id": host["id"],
                     "module_id": place % 2 + 1, "direction": ("forward", "backward")[place % 2]}
                )  # fmt: skip
    modules = [
        {"module_id": 0, "path": "net", "name": "net", "class": "Net", "depth": 0},
        {"module_id": 1, "path": "net.a", "name": "a", "class": HOSTILE, "depth": 1, "parent_id": 0},
        {"module_id": 2, "path": "net.b", "name": "b", "class": "B", "depth": 1, "parent_id": 0},
    ]  # fmt: skip
    return {
        "source": [
            {"rank": rank, "path": f"/home/ann/runs/rank{rank}.json", "events_read": 24}
            for rank in range(ranks)
        ],
        "rank": [{"rank": rank, "world_size": ranks, "host": "gpu-node7"} for rank in range(ranks)],
        "step": steps,
        "host_event": hosts,
        "device_event": devices,
        "module": [{"rank": rank, **module} for rank in range(ranks) for module in modules],
        "data_check": [
            {"check": "clock_skew", "severity": "warning", "count": 1, "affects": "clocks",
             "explanation": f"what was found in {HOSTILE}"}
        ],
    }  # fmt: skip


def on_cpu() -> dict[str, Any]:
    """A step on the host alone, of a recording that says nothing else of itself."""
    return {
        "step": [{"step": 1, "start_ns": 0, "end_ns": 1000}],
        "host_event": [{"id": 1, "name": "aten::add", "start_ns": 0, "dur_ns": 900, "step": 1}],
    }


def without_steps() -> dict[str, Any]:
    """Device work alone, and no step."""
    return {"device_event": [{"name": "k", "start_ns": 10 * n, "dur_ns": 5} for n in range(4)]}


def timed_by_itself() -> dict[str, Any]:
    """The phases of a job that nobody traced, and what its processes wrote meanwhile."""
    phases = {"step": 100.0, "forward": 40.0, "backward": 50.0, "residual": 10.0}
    written = {"track": "job's processes", "series": "written", "unit": "bytes/s"}
    return {
        "phase": [{"phase": name, "steps": 4, "mean_ns": ns} for name, ns in phases.items()],
        "counter": [{**written, "time_ns": 10 * n, "value": 2000.0} for n in range(3)],
    }


def allocating() -> dict[str, Any]:
    """Memory of a device: two allocations, of which one is given back, and a third."""

    def event(time: int, address: int, size: int, total: int) -> dict[str, Any]:
        return {"device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time,
                "address": address, "bytes": size, "total_allocated_bytes": total,
                "total_reserved_bytes": 500, "role": "forward"}  # fmt: skip

    events = (event(5, 1, 10, 110), event(60, 2, 20, 130), event(70, 1, -10, 120),
              event(80, 2, -20, 100), event(990, 3, 7, 107))  # fmt: skip
    return {"memory_event": list(events)}


def collectives() -> dict[str, Any]:
    """All-reduces of three sizes, with what each waited."""
    sizes = (400, 8_000, 64_000)
    kernels = [
        {"id": place, "kind": "communication", "name": "ncclDevKernel", "start_ns": 10_000 * place,
         "dur_ns": 4_000}
        for place in range(3)
    ]  # fmt: skip
    rows = [
        {"id": place, "start_ns": 10_000 * place, "end_ns": 10_000 * place + 4_000,
         "operation": "all_reduce", "group_size": 4, "dtype": "Float", "library": "nccl",
         "bytes": size, "match_id": place, "exposed_ns": 900, "wait_ns": 1_000, "transfer_ns": 3_000}
        for place, size in enumerate(sizes)
    ]  # fmt: skip
    return {"device_event": kernels, "collective": rows}


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "training": training,
    "ranks": lambda: training(ranks=4),
    "cpu": on_cpu,
    "no-steps": without_steps,
    "nothing": dict,
}
