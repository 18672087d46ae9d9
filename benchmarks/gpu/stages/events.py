"""Compares inline events with torch.profiler's kernels of the same regions, and checks what measuring changes.

An event of a region with several kernels includes the gaps between them, so it is compared with the time from the first
kernel's start to the last one's end; the sum of the kernels is shown beside it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function

from gpu.stages.kernel_times import DeviceTime, profiled, region_times, synchronizations
from gpu.stages.surroundings import DEVICE, outcome_of
from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline
from stepscope.record.annotate import region
from stepscope.record.on_demand.listener import on_demand

WIDTH, ROWS = (4096, 8192) if DEVICE == "cuda" else (128, 512)
REPETITIONS = 20 if DEVICE == "cuda" else 4
ALLOWED_RATIO, ALLOWED_NS = 0.02, 5_000
MODULES = ("0", "1", "2", "3", "4")
EVENTS = (*(f"{name}.forward" for name in MODULES), "forward", "backward", "optimizer.step", "scaled")
"""Modules from 3 ms down to tens of µs, a region, and the phases of a step."""


class Training:
    """Layers of different sizes, and a region as short as a kernel."""

    def __init__(self, width: int = WIDTH, rows: int = ROWS) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(width, width),
            nn.GELU(),
            nn.LayerNorm(width),
            nn.Linear(width, width // 4),
            nn.ReLU(),
            nn.Linear(width // 4, width),
        ).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)
        self.data = torch.randn(rows, width, device=DEVICE)

    def steps(self, batches: Iterable[Any], mark: Callable[[str], Any] = lambda _: nullcontext()) -> None:
        for batch in batches:
            self.optimizer.zero_grad()
            with mark("forward"):
                y = self.model(batch)
            with region("scaled"), mark("scaled"):
                y = y * 0.5
            loss = y.square().mean()
            with mark("backward"):
                loss.backward()
            with mark("optimizer.step"):
                self.optimizer.step()

    def batches(self, count: int) -> Iterator[torch.Tensor]:
        return (self.data for _ in range(count))


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


@contextmanager
def marked_modules(model: nn.Module) -> Iterator[None]:
    """Adds a range of the profiler around each direct submodule."""
    opened: list[Any] = []

    def before(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _arguments: Any) -> None:
            opened.append(record_function(f"{name}.forward"))
            opened[-1].__enter__()

        return hook

    def after(_module: nn.Module, _arguments: Any, _result: Any) -> None:
        opened.pop().__exit__(None, None, None)

    hooks = []
    for name, module in model.named_children():
        hooks += [module.register_forward_pre_hook(before(name)), module.register_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def kernels_of(job: Training, folder: Path, steps: int = 12) -> dict[str, DeviceTime]:
    """The device time of each region according to torch.profiler."""
    with marked_modules(job.model):
        job.steps(job.batches(3), record_function)
        events = profiled(lambda: job.steps(job.batches(steps), record_function), folder / "kernels.json")
    return region_times(events, set(EVENTS))


def medians_of(out: Path) -> dict[str, float]:
    """The median of each event in the only profile of a folder (ns)."""
    (profile,) = parse_result(out)
    return {
        event["label"]: float(event["statistics"]["median_ns"])
        for streams in profile["timeline"].values()
        for events in streams.values()
        for event in events
    }


def measured(job: Training, out: Path, mode: str) -> tuple[dict[str, float], float]:
    """Medians of the events, and the time of a loop's step (ns), from idle device to idle device."""
    plan = {"warmup": 3, "repetitions": REPETITIONS, "mode": mode, "events": list(EVENTS)}
    steps = int((REPETITIONS + 2) * 1.25 * (len(EVENTS) if mode == "one_at_a_time" else 1)) + 12
    inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=False)
    took = timed(job, inline.iterate(job.batches(steps)), steps)
    inline.stop()
    return medians_of(out), took


def timed(job: Training, batches: Iterable[Any], steps: int) -> float:
    wait()
    began = time.perf_counter_ns()
    job.steps(batches)
    wait()
    return (time.perf_counter_ns() - began) / steps


def compare_with_kernels(found: Any, folder: Path) -> None:
    """Compares event by event, and all events at once with one at a time."""
    job = Training()
    job.steps(job.batches(5))
    before = kernels_of(job, folder)
    plain = [timed(job, job.batches(30), 30)]
    alone, step_alone = measured(job, folder / "alone", "one_at_a_time")
    together, step_together = measured(job, folder / "together", "one_shot")
    plain.append(timed(job, job.batches(30), 30))
    after = kernels_of(job, folder)
    rows = []
    for name in EVENTS:
        if name not in alone or name not in before or name not in after:
            found.note(f"{name}: not measured by both")
            continue
        span = (before[name].span_ns + after[name].span_ns) / 2
        off = alone[name] - span
        rows.append(
            {
                "event": name,
                "inline_us": alone[name] / 1e3,
                "kernels_span_us": span / 1e3,
                "kernels_sum_us": (before[name].kernels_ns + after[name].kernels_ns) / 2e3,
                "kernels": before[name].kernels,
                "off_us": off / 1e3,
                "off_ratio": off / span,
                "profiler_drift_ratio": after[name].span_ns / before[name].span_ns - 1,
                "all_at_once_us": together.get(name, float("nan")) / 1e3,
                "within": abs(off) <= max(ALLOWED_RATIO * span, ALLOWED_NS),
            }
        )
    found.figure("events", rows)
    found.claim(
        "inline events are within 2 % or 5 us of the kernels' time by torch.profiler",
        all(row["within"] for row in rows) if rows and DEVICE == "cuda" else None,
        compared=len(rows),
        outside=[row["event"] for row in rows if not row["within"]],
    )
    step = median(plain)
    found.figure(
        "step, one event at a time against all at once",
        [
            {"way": "plain", "step_us": step / 1e3, "of_plain": 1.0},
            {"way": "one at a time", "step_us": step_alone / 1e3, "of_plain": step_alone / step},
            {"way": "all at once", "step_us": step_together / 1e3, "of_plain": step_together / step},
        ],
    )


def count_synchronizations(found: Any, folder: Path) -> None:
    """Checks whether recording makes the host or a stream wait within steps."""
    job = Training(256, 256)
    job.steps(job.batches(5))
    number = iter(range(100))

    def waits(batches: Callable[[int], Iterable[Any]]) -> dict[str, int]:
        file = folder / f"syncs{next(number)}.json"
        return synchronizations(profiled(lambda: job.steps(batches(40)), file, syncs=True))

    without = waits(job.batches)
    rows: dict[str, dict[str, int]] = {"plain": without}
    measured_events = 0
    for name, plan in (
        ("phases", None),
        ("one event at a time", {"warmup": 1, "repetitions": 3, "events": list(EVENTS[:4])}),
        ("all at once", {"warmup": 1, "repetitions": 5, "mode": "one_shot", "events": list(EVENTS)}),
    ):
        out = folder / f"syncs-{name.split()[0]}"
        inline.start(plan, model=job.model, optimizer=job.optimizer, out=out, phases=plan is None)
        rows[name] = waits(lambda count: inline.iterate(job.batches(count)))
        inline.stop()
        if plan is not None:
            measured_events += len(medians_of(out))
    with tempfile.TemporaryDirectory() as asked, on_demand(asked, model=job.model) as listener:
        rows["on demand, waiting"] = waits(lambda count: listener.iterate(job.batches(count)))
    found.figure("synchronizations in 40 steps", [{"way": name, **row} for name, row in rows.items()])
    more = [name for name, row in rows.items() if row != without]
    found.claim(
        "recording adds no synchronisation to steps",
        not more if DEVICE == "cuda" and measured_events else None,
        different=more,
        events_measured=measured_events,
    )


def in_graphs(found: Any, folder: Path) -> None:
    """Compares regions of a captured graph, at its replays, with the kernels of the same replays."""
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4))).cuda()
    data = torch.randn(4096, 2048, device="cuda")

    def forward() -> Any:
        with region("front"):
            front = model[:1](data)
        with region("back"):
            return model[1:](front)

    def capture() -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            forward()
        return graph

    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            forward()
        torch.cuda.current_stream().wait_stream(side)
        graph = capture()
        plain = capture()
        plan = {"warmup": 2, "repetitions": 10, "events": ["front", "back"]}
        inline.start(plan, model=model, out=folder / "graph", phases=False)
        for _ in range(60):
            with inline.iteration():
                if inline.recapture():
                    graph = capture()
                graph.replay()
        wait()
        inline.stop()
        replays = 10

        def replay() -> None:
            for _ in range(replays):
                plain.replay()

        replay()
        events = [e for e in profiled(replay, folder / "replays.json") if e.get("cat") == "kernel"]
    events_ns = medians_of(folder / "graph")
    each = len(events) // replays
    # With four equal layers, the first quarter of a replay's kernels belongs to the front.
    quarter = each // 4
    spans: dict[str, list[float]] = {"front": [], "back": []}
    for first in range(0, each * replays, each):
        own = events[first : first + each]
        for name, part in (("front", own[:quarter]), ("back", own[quarter:])):
            if part:
                spans[name].append(1e3 * (part[-1]["ts"] + part[-1]["dur"] - part[0]["ts"]))
    rows = []
    for name, values in spans.items():
        if not values or name not in events_ns:
            found.note(f"graphs: {name} was not measured by both")
            continue
        span, event = median(values), events_ns[name]
        rows.append(
            {
                "region": name,
                "inline_us": event / 1e3,
                "kernels_span_us": span / 1e3,
                "kernels": len(events) / replays,
                "within": abs(event - span) <= max(ALLOWED_RATIO * span, ALLOWED_NS),
            }
        )
    found.figure("regions of a graph, at its replays", rows)
    found.claim(
        "events in replayed graphs are within 2 % or 5 us of the replays' kernels",
        all(row["within"] for row in rows) and len(rows) == len(spans),
    )


def on_side_streams(found: Any, folder: Path) -> None:
    """Checks a region whose work runs on another stream."""
    model = nn.Linear(4096, 4096).cuda()
    data = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()

    def steps(batches: Iterable[Any], mark: Callable[[str], Any] = lambda _: nullcontext()) -> None:
        with torch.no_grad():
            for batch in batches:
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side), region("aside"), mark("aside"):
                    y = model(batch)
                torch.cuda.current_stream().wait_stream(side)
                y.record_stream(torch.cuda.current_stream())

    plan = {"warmup": 2, "repetitions": REPETITIONS, "events": ["aside"]}
    inline.start(plan, model=model, out=folder / "side", phases=False)
    steps(inline.iterate(data for _ in range(60)))
    wait()
    inline.stop()
    profile_ = profiled(lambda: steps((data for _ in range(12)), record_function), folder / "side.json")
    kernels = region_times(profile_, {"aside"})["aside"]
    (profile,) = parse_result(folder / "side")
    streams = {stream for device in profile["timeline"].values() for stream in device}
    event = medians_of(folder / "side").get("aside")
    found.claim(
        "an event on a side stream is on that stream, and as long as its kernels",
        event is not None
        and abs(event - kernels.span_ns) <= max(ALLOWED_RATIO * kernels.span_ns, ALLOWED_NS)
        and streams == {f"stream_{side.stream_id}"},
        inline_us=None if event is None else event / 1e3,
        kernels_us=kernels.span_ns / 1e3,
        streams=sorted(streams),
    )


def main() -> int:
    found = outcome_of("events")
    parts: list[Callable[[Any, Path], None]] = [compare_with_kernels, count_synchronizations]
    if DEVICE == "cuda":
        parts += [in_graphs, on_side_streams]
    else:
        found.note("graphs and side streams need a GPU")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            try:
                part(found, Path(folder))
            except Exception as error:
                inline.stop()
                failed += 1
                found.note(f"{part.__name__} failed: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
