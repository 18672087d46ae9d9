"""The device time of each marked region, from torch.profiler's raw file without StepScope.

A region's kernels, copies and fills are those launched within it, on any thread, because backward launches from its own
threads. On a CPU a region is as long as its range on the host.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from gpu.stages.surroundings import DEVICE

_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_CALLS = {"cuda_runtime", "cuda_driver"}


@dataclass(frozen=True)
class DeviceTime:
    """Medians over a region's calls (ns).

    Args:
        span_ns: from the start of its first kernel to the end of its last.
        kernels_ns: sum of its kernels' durations.
        kernels: number of its kernels.
        calls: number of the region's calls.
    """

    span_ns: float
    kernels_ns: float
    kernels: float
    calls: int


def profiled(steps: Callable[[], object], file: Path, *, syncs: bool = False) -> list[dict[str, Any]]:
    """Runs steps under torch.profiler; returns the complete events of its file by time.

    Args:
        steps: runs the steps; it should leave the device busy and not wait for it.
        file: path of the trace.
        syncs: whether CUPTI records synchronisations.
    """
    activities = [ProfilerActivity.CPU]
    options: dict[str, Any] = {}
    if DEVICE == "cuda":
        activities.append(ProfilerActivity.CUDA)
        if syncs:
            from torch._C._profiler import _ExperimentalConfig

            options["experimental_config"] = _ExperimentalConfig(enable_cuda_sync_events=True)
    with profile(activities=activities, **options) as profiler:
        steps()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(file))
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    return sorted((one for one in events if one.get("ph") == "X"), key=lambda one: one["ts"])


def region_times(events: list[dict[str, Any]], names: set[str]) -> dict[str, DeviceTime]:
    """The device time of each region marked with `record_function`.

    Args:
        events: complete events of the file, by time.
        names: names of the regions.
    """
    ranges = [one for one in events if one.get("cat") == "user_annotation" and one["name"] in names]
    if DEVICE == "cpu":
        found: dict[str, list[tuple[float, float, int]]] = {}
        for one in ranges:
            found.setdefault(one["name"], []).append((1e3 * one["dur"], 1e3 * one["dur"], 0))
        return _medians(found)
    by_call: dict[int, list[dict[str, Any]]] = {}
    for one in events:
        if one.get("cat") in _ON_DEVICE:
            by_call.setdefault(one["args"].get("correlation", -1), []).append(one)
    calls = [one for one in events if one.get("cat") in _CALLS]
    moments = [one["ts"] for one in calls]
    found = {}
    for one in ranges:
        first = bisect_left(moments, one["ts"])
        last = bisect_right(moments, one["ts"] + one["dur"])
        work = [w for call in calls[first:last] for w in by_call.get(call["args"].get("correlation"), ())]
        if work:
            start = min(w["ts"] for w in work)
            end = max(w["ts"] + w["dur"] for w in work)
            total = sum(w["dur"] for w in work)
            found.setdefault(one["name"], []).append((1e3 * (end - start), 1e3 * total, len(work)))
    return _medians(found)


def _medians(found: dict[str, list[tuple[float, float, int]]]) -> dict[str, DeviceTime]:
    return {
        name: DeviceTime(*(median(column) for column in zip(*rows, strict=True)), len(rows))
        for name, rows in found.items()
    }


def synchronizations(events: list[dict[str, Any]]) -> dict[str, int]:
    """Waits of the host and of streams: CUPTI's records, and calls identified by name."""
    waits: Counter[str] = Counter()
    for one in events:
        if one.get("cat") == "cuda_sync":
            waits[f"CUPTI: {one['name']}"] += 1
        elif one.get("cat") in _CALLS and "Synchronize" in one["name"]:
            waits[one["name"]] += 1
    return dict(waits)
