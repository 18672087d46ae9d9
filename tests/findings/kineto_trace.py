"""A training job as torch.profiler writes it: literal Kineto events of one process and its device.

A test writes a step in the order in which the host runs it; the trace has times, correlation ids,
external ids and autograd numbers as a recording of torch 2 has them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Event = dict[str, Any]

V100 = {
    "id": 0, "name": "Tesla V100-SXM2-32GB", "totalGlobalMem": 34089730048, "computeMajor": 7,
    "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 98304, "numSms": 80,
    "sharedMemPerBlockOptin": 98304,
}  # fmt: skip
A100 = {
    **V100, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85174583296, "computeMajor": 8,
    "sharedMemPerMultiprocessor": 167936, "numSms": 108, "sharedMemPerBlockOptin": 166912,
}  # fmt: skip

HOST, MAIN, AUTOGRAD = 4711, 4711, 4790
_CALL, _LAUNCH = 4, 3
"""Microseconds that the host spends around what an operator does, and in launching."""


class Recorder:
    """Writes events down as the host comes to them; times are whole microseconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 1_000
        self.thread = MAIN
        self.ends: dict[int, int] = {}
        self._ids = 0
        self._numbers = 0
        self._open: list[int] = []
        self._replay: int | None = None

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def number(self) -> int:
        """The next number of autograd's."""
        self._numbers += 1
        return self._numbers

    def _event(self, category: str, name: str, start: int, **more: Any) -> Event:
        event = {"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": self.thread,
                 "ts": start, "dur": 0, "args": {}} | more  # fmt: skip
        self.events.append(event)
        return event

    @contextmanager
    def range(self, name: str, category: str = "user_annotation") -> Iterator[None]:
        """A range around what is written within."""
        event = self._event(category, name, self.now)
        event["args"]["External id"] = self._next()
        self.now += _CALL
        yield
        self.now += _CALL
        event["dur"] = self.now - event["ts"]

    @contextmanager
    def operator(
        self,
        name: str,
        dims: list[list[int]] | None = None,
        dtype: str = "c10::Half",
        *,
        number: int | None = None,
        forward_thread: int = 0,
    ) -> Iterator[None]:
        """An operator around what is written within; `number` is autograd's."""
        event = self._event("cpu_op", name, self.now)
        args = event["args"]
        args |= {"External id": self._next(), "Record function id": 0, "Ev Idx": len(self.events)}
        if number is not None:
            args |= {"Sequence number": number, "Fwd thread id": forward_thread}
        if dims is not None:
            args |= {"Input Dims": dims, "Input type": [dtype if of else "Scalar" for of in dims]}
            args["Concrete Inputs"] = ["" for _ in dims]
        self._open.append(args["External id"])
        self.now += _CALL
        yield
        self.now += _CALL
        self._open.pop()
        event["dur"] = self.now - event["ts"]

    def call(self, name: str, us: int = _LAUNCH, category: str = "cuda_runtime", **args: Any) -> None:
        """A call of the runtime."""
        event = self._event(category, name, self.now, dur=us)
        event["args"] = {"External id": self._open[-1] if self._open else 0, "cbid": 0, **args}
        self.now += us

    def kernel(
        self,
        name: str,
        us: int,
        *,
        stream: int = 7,
        after: int = -1,
        late: int = 0,
        launch: int = _LAUNCH,
        grid: tuple[int, int, int] = (2048, 1, 1),
        block: tuple[int, int, int] = (256, 1, 1),
        occupancy: int = 75,
        registers: int = 40,
        shared: int = 0,
        sms: int = 108,
        **more: Any,
    ) -> None:
        """A kernel that the innermost operator launches: it starts after what is before it on its stream
        and on the stream `after`, and `late` µs more; its launch call takes `launch` µs.
        """
        blocks = grid[0] * grid[1] * grid[2]
        warps = -(-block[0] * block[1] * block[2] // 32)
        args = {
            "queued": 0, "context": 1, "registers per thread": registers, "shared memory": shared,
            "blocks per SM": blocks / sms, "warps per SM": blocks * warps / sms,
            "grid": list(grid), "block": list(block), "est. achieved occupancy %": occupancy, **more,
        }  # fmt: skip
        self._work("kernel", name, us, "cudaLaunchKernel", stream, args, after, late, launch)

    def copy(self, name: str, us: int, size: int, *, stream: int = 7) -> None:
        """A copy that the innermost operator starts."""
        args = {"bytes": size, "memory bandwidth (GB/s)": size / us / 1e3}
        self._work("gpu_memcpy", name, us, "cudaMemcpyAsync", stream, args)

    @contextmanager
    def replay(self) -> Iterator[None]:
        """One `cudaGraphLaunch` that starts all kernels written within."""
        self._replay = self._next()
        self.call("cudaGraphLaunch", 30, correlation=self._replay)
        yield
        self._replay = None

    def _work(
        self,
        kind: str,
        name: str,
        us: int,
        call: str,
        stream: int,
        args: Event,
        after: int = -1,
        late: int = 0,
        launch: int = _LAUNCH,
    ) -> None:
        if self._replay is None:
            correlation = self._next()
            self.call(call, launch, correlation=correlation)
        else:
            correlation = self._replay
        start = max(self.now + 2, *(self.ends.get(of, 0) + 1 for of in (stream, after))) + late
        outer = {"External id": self._open[-1]} if self._open else {}
        args = {**outer, "device": 0, "stream": stream, "correlation": correlation, **args}
        self._event(kind, name, start, dur=us, pid=args["device"], tid=stream, args=args)
        self.ends[stream] = start + us

    def wait(self) -> None:
        """`loss.item()`: the host waits until the device has done all."""
        with self.operator("aten::item"), self.operator("aten::_local_scalar_dense"):
            self.copy("Memcpy DtoH (Device -> Pageable)", 1, 4)
            self.call("cudaStreamSynchronize", max(1, max(self.ends.values()) - self.now))

    @contextmanager
    def backward(self, node: str, number: int) -> Iterator[None]:
        """A node of the backward pass, on autograd's thread."""
        self.thread = AUTOGRAD
        name = f"autograd::engine::evaluate_function: {node}"
        with self.operator(name, number=number, forward_thread=1), self.operator(node, number=number, forward_thread=1):
            yield
        self.thread = MAIN

    def memory(self, allocated: int, reserved: int) -> None:
        """The allocator's report after a change."""
        args = {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": 512,
                "Addr": 140_000_000_000, "Device Id": 0, "Device Type": 1}  # fmt: skip
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": HOST,
             "tid": self.thread, "ts": self.now, "args": args}
        )  # fmt: skip


def training(
    step: Callable[[Recorder], None],
    *,
    steps: int = 3,
    devices: tuple[Event, ...] = (A100,),
    distributed: Event | None = None,
) -> Event:
    """The trace of some steps that all do the same."""
    recorder = Recorder()
    for number in range(steps):
        with recorder.range(f"ProfilerStep#{number + 4}"):
            step(recorder)
            recorder.wait()
    return {
        "schemaVersion": 1,
        "deviceProperties": [{**device, "id": place} for place, device in enumerate(devices)],
        **({} if distributed is None else {"distributedInfo": distributed}),
        "trace_id": "1B2C",
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": recorder.events,
        "traceName": "trace.json",
    }
