"""A synthetic recording of three training steps, for people without a trace.

It has the form of torch.profiler's present output with `record_shapes`, `with_stack` and `with_modules`: Python frames
and `nn.Module` rows, operators with inputs, launches with their flows, kernels on a compute and a communication stream,
backward on its own thread with sequence numbers and `fwdbwd` flows, all-reduces with their arguments, waits for a data
loader. A simulated clock drives host and device; nothing is random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PID, MAIN, AUTOGRAD = 4242, 4242, 4300
COMPUTE, COMMUNICATION = 7, 20
LAYERS, HIDDEN, TOKENS = 12, 1024, 4096
STEPS = 3
EPOCH_NS = 1_760_000_000_000_000_000

DEVICE = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_094_825_984, "computeMajor": 8,
    "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108,
    "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip
GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Simulation:
    """A host with two threads and a device with two streams, and their events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 5_000_000_000  # ns since the file's base time
        self.free = {COMPUTE: self.now, COMMUNICATION: self.now}
        self.correlation = 1000
        self.record = 0
        self.python = 50_000
        self.frames: list[int] = [49_999]
        self.operator = 0
        self.sequence = 100
        self.forward_calls: list[tuple[str, int, int]] = []

    def add(
        self, category: str, name: str, tid: int, start: int, end: int, args: dict[str, Any], pid: int = PID
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start}
        self.events.append({**event, "dur": end - start, "args": args})

    @contextmanager
    def operator_call(
        self, name: str, tid: int = MAIN, *, category: str = "cpu_op", inputs: tuple[int, ...] = (), **args: Any
    ) -> Iterator[None]:
        self.now += 900
        start, outer = self.now, self.operator
        self.record += 1
        self.operator = number = self.record
        if inputs:
            args["Input Dims"] = [[TOKENS, width] for width in inputs]
            args["Input type"] = ["c10::BFloat16"] * len(inputs)
            args["Concrete Inputs"] = [""] * len(inputs)
            args["Input Strides"] = [[width, 1] for width in inputs]
        yield
        self.now += 700
        self.operator = outer
        self.add(
            category,
            name,
            tid,
            start,
            self.now,
            {"External id": number, "Record function id": 0, **args, "Ev Idx": number},
        )

    @contextmanager
    def frame(self, name: str, **args: Any) -> Iterator[None]:
        self.now += 400
        start = self.now
        self.python += 1
        number, parent = self.python, self.frames[-1]
        self.frames.append(number)
        yield
        self.frames.pop()
        self.now += 300
        self.record += 1
        named = {"Python parent id": parent, "Python id": number, **args, "Ev Idx": self.record}
        self.add("python_function", name, MAIN, start, self.now, named)

    def launch(self, name: str, duration: int, tid: int = MAIN, stream: int = COMPUTE, **args: Any) -> None:
        """A launch call on the host, its kernel, and the two ends of the arrow between them."""
        self.correlation += 1
        start = self.now + 200
        self.now = start + 4_100
        begin = max(self.free[stream], self.now + 1_500)
        self.free[stream] = begin + duration
        link = {"External id": self.operator, "correlation": self.correlation}
        self.add("cuda_runtime", "cudaLaunchKernel", tid, start, self.now, {"cbid": 211, **link})
        where = {"device": 0, "context": 1, "stream": stream}
        shape = {"registers per thread": 128, "shared memory": 49152, "blocks per SM": 4.74, "warps per SM": 37.93,
                 "grid": [512, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 25}  # fmt: skip
        self.add(
            "kernel", name, stream, begin, begin + duration, {**link, "queued": 0, **where, **shape, **args}, pid=0
        )
        self.arrow("ac2g", self.correlation, (PID, tid, start), (0, stream, begin))

    def copy(self, kind: str, size: int, duration: int) -> None:
        self.correlation += 1
        start = self.now + 200
        self.now = start + 5_200
        begin = max(self.free[COMPUTE], self.now + 1_500)
        self.free[COMPUTE] = begin + duration
        link = {"External id": self.operator, "correlation": self.correlation}
        self.add("cuda_runtime", "cudaMemcpyAsync", MAIN, start, self.now, {"cbid": 41, **link})
        args = {"device": 0, "context": 1, "stream": COMPUTE, "bytes": size, "memory bandwidth (GB/s)": size / duration}
        self.add("gpu_memcpy", kind, COMPUTE, begin, begin + duration, {**link, **args}, pid=0)
        self.arrow("ac2g", self.correlation, (PID, MAIN, start), (0, COMPUTE, begin))

    def arrow(self, category: str, number: int, tail: tuple[int, int, int], point: tuple[int, int, int]) -> None:
        for phase, (pid, tid, ts) in (("s", tail), ("f", point)):
            event = {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": ts, "cat": category, "name": category}
            self.events.append({**event, "bp": "e"} if phase == "f" else event)

    def forward_operator(self, name: str, backward: str, kernel: str, duration: int, widths: tuple[int, ...]) -> None:
        """An operator under autograd: its backward is linked to it by sequence number and by arrow."""
        self.sequence += 1
        self.forward_calls.append((backward, self.sequence, self.now + 900))
        with self.operator_call(name, inputs=widths, **{"Sequence number": self.sequence, "Fwd thread id": 0}):
            with self.operator_call(name + "_", inputs=widths):
                self.launch(kernel, duration)

    def module(self, name: str, number: int) -> Any:
        return self.frame(f"nn.Module: {name}_{number}", **{"Python module id": number})


def _layer(run: Simulation, layer: int) -> None:
    with run.module("Block", layer), run.frame("model.py(88): forward"):
        for norm in (0, 1):
            with (
                run.module("LayerNorm", 2 * layer + norm),
                run.frame("torch/nn/modules/normalization.py(217): forward"),
            ):
                run.forward_operator("aten::layer_norm", "NativeLayerNormBackward0", NORM, 21_000, (HIDDEN, HIDDEN))
            widths = (3 * HIDDEN, HIDDEN) if norm == 0 else (4 * HIDDEN, HIDDEN)
            for part, width in enumerate(widths):
                number = 4 * layer + 2 * norm + part
                with run.module("Linear", number), run.frame("torch/nn/modules/linear.py(134): forward"):
                    with run.operator_call("aten::linear", inputs=(HIDDEN, width)):
                        with run.operator_call("aten::t", inputs=(width,)):
                            run.now += 600
                        run.forward_operator("aten::addmm", "AddmmBackward0", GEMM, 40_000 + 9 * width, (HIDDEN, width))
                if part == 0:
                    with run.frame("torch/nn/functional.py(5893): scaled"):
                        run.forward_operator("aten::softmax", "SoftmaxBackward0", SOFTMAX, 31_000, (HIDDEN,))
            run.forward_operator("aten::add", "AddBackward0", ELEMENTWISE, 9_500, (HIDDEN, HIDDEN))


def _backward(run: Simulation) -> None:
    for count, (name, sequence, forward_ts) in enumerate(reversed(run.forward_calls)):
        numbers = {"Sequence number": sequence, "Fwd thread id": 1}
        run.arrow("fwdbwd", 100_000 + sequence, (PID, MAIN, forward_ts), (PID, AUTOGRAD, run.now + 900))
        with run.operator_call(f"autograd::engine::evaluate_function: {name}", AUTOGRAD, **numbers):
            with run.operator_call(name, AUTOGRAD, inputs=(HIDDEN,), **numbers):
                run.launch(GEMM if "Addmm" in name else ELEMENTWISE, 95_000 if "Addmm" in name else 14_000, AUTOGRAD)
        if count % 36 == 35:
            _all_reduce(run, 13_107_200)


def _all_reduce(run: Simulation, elements: int) -> None:
    message = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "default_pg",
        "dtype": "BFloat16", "In msg nelems": elements, "Out msg nelems": elements, "Group size": 8,
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Rank": 0,
    }  # fmt: skip
    with run.operator_call("c10d::allreduce_", AUTOGRAD), run.operator_call("record_param_comms", AUTOGRAD, **message):
        run.free[COMMUNICATION] = max(run.free[COMMUNICATION], run.free[COMPUTE])
        run.launch(ALL_REDUCE, 640_000, AUTOGRAD, COMMUNICATION, **message)


def _step(run: Simulation, step: int) -> None:
    run.forward_calls.clear()
    with run.operator_call(f"ProfilerStep#{step}", category="user_annotation"), run.frame("train.py(61): train_step"):
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        with (
            run.operator_call(loader, category="user_annotation"),
            run.frame("torch/utils/data/dataloader.py(736): __next__"),
        ):
            run.now += 350_000
        with run.operator_call("aten::to", inputs=(HIDDEN,)), run.operator_call("aten::copy_", inputs=(HIDDEN,)):
            run.copy("Memcpy HtoD (Pinned -> Device)", 2 * TOKENS * HIDDEN, 420_000)
        with run.module("Transformer", 0), run.frame("model.py(131): forward"):
            for layer in range(LAYERS):
                _layer(run, layer)
        _backward(run)
        with run.operator_call("Optimizer.step#AdamW.step", category="user_annotation"):
            run.free[COMPUTE] = max(run.free.values())
            for _ in range(LAYERS):
                with run.operator_call("aten::_fused_adamw_", inputs=(HIDDEN,) * 4):
                    run.launch(ADAM, 130_000)
        with run.operator_call("aten::item"), run.operator_call("aten::_local_scalar_dense"):
            run.copy("Memcpy DtoH (Device -> Pageable)", 4, 1_500)
            link = {"External id": run.operator, "correlation": run.correlation + 1}
            run.correlation += 1
            waited_from, run.now = run.now + 200, max(run.now + 900, *run.free.values())
            run.add("cuda_runtime", "cudaStreamSynchronize", MAIN, waited_from, run.now, {"cbid": 131, **link})


def builtin_trace() -> str:
    """The text of the recording."""
    run = Simulation()
    start = run.now
    for step in range(STEPS):
        _step(run, step)
    end = max(run.now, *run.free.values())
    names = [
        {"name": name, "ph": "M", "ts": start, "pid": pid, "tid": tid, "args": args}
        for name, pid, tid, args in (
            ("process_name", PID, 0, {"name": "python"}),
            ("process_labels", PID, 0, {"labels": "CPU"}),
            ("process_labels", 0, 0, {"labels": "GPU 0"}),
            ("thread_name", PID, MAIN, {"name": "thread 4242 (python)"}),
            ("thread_name", PID, AUTOGRAD, {"name": "pt_autograd_0"}),
            ("thread_name", 0, COMPUTE, {"name": "stream 7"}),
        )
    ]
    closing = [
        {"ph": "X", "cat": "Trace", "ts": start, "dur": end - start, "pid": "Spans", "tid": "PyTorch Profiler",
         "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
        {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": end},
    ]  # fmt: skip
    head = {
        "schemaVersion": 1, "deviceProperties": [DEVICE], "cuda_runtime_version": 12080, "record_shapes": 1,
        "with_stack": 1, "with_modules": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
        "displayTimeUnit": "ms", "baseTimeNanoseconds": EPOCH_NS,
    }  # fmt: skip
    events = ",\n".join(_text(event) for event in names + run.events + closing)
    return (
        f'{json.dumps(head, indent=2)[:-2]},\n  "traceEvents": [\n{events}\n  ],\n  "traceName": "builtin.json"\n}}\n'
    )


def _text(event: dict[str, Any]) -> str:
    """An event formatted as the recorder does, with times in microseconds and three decimals."""
    times = {key: f"{event[key] // 1000}.{event[key] % 1000:03d}" for key in ("ts", "dur") if key in event}
    args = event.get("args")
    plain = [f'"{key}": {json.dumps(value)}' for key, value in event.items() if key not in ("ts", "dur", "args")]
    lines = [", ".join(plain + [f'"{key}": {value}' for key, value in times.items()])]
    if args is not None:
        inner = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in args.items())
        lines.append(f'"args": {{\n      {inner}\n    }}')
    return "  {\n    " + ",\n    ".join(lines) + "\n  }"
