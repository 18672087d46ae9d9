"""One rank of a job: runs the training loop and leaves its moments and events."""

import random
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from tests.simulated_job.job import Delay, Job
from tests.simulated_job.meetings import Group, Meetings
from tests.simulated_job.moments import Moments

MAIN, AUTOGRAD = 1, 2
COMPUTE = 7
GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel, std::array<char*, 2ul> >"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
TRITON = "triton_poi_fused_add_relu_0"
SMALL = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float>, std::array<char*, 3ul> >"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 64, 4> >"
FLASH_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64> >"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>"
HOST_TO_DEVICE, DEVICE_TO_HOST = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
_NCCL = {
    "all_reduce": ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "all_to_all": ("all_to_all", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "send_recv": ("", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
}  # fmt: skip


@dataclass(frozen=True)
class Event:
    category: str
    name: str
    pid: int
    tid: int
    start: int
    end: int
    args: str
    flow: int = 0
    """correlation whose arrow starts (a launch) or ends (a kernel) here"""


@dataclass(frozen=True)
class Work:
    """An operator of a layer with its kernel, and the kernels of its gradient, each of which takes as long."""

    operator: str
    kernel: str
    kind: str
    ns: int
    node: str
    gradients: int = 1
    gradient_kernel: str = ""
    args: str = ""


Tape = list[list[tuple[Work, int]]]
"""The operators of each layer, as autograd recorded them."""


def works(job: Job) -> list[Work]:
    """The operators of a layer, in the order of forward."""
    product = Work("aten::addmm", GEMM, "GEMM", job.gemm_ns, "AddmmBackward0", 2, GEMM)
    relu = Work(
        "aten::relu", TRITON if job.compiled else RELU, "elementwise", job.elementwise_ns, "ReluBackward0", 1, RELU
    )
    small = Work("aten::mul", SMALL, "elementwise", job.small_ns, "MulBackward0", 1, SMALL)
    ns, attention = job.attention_ns, []
    if job.attention == "fused":
        attention = [
            Work("aten::_flash_attention_forward", FLASH, "attention", ns, "FlashAttentionBackward0", 2, FLASH_BACKWARD)
        ]
    elif job.attention == "unfused":
        scores, types = "[16, 1024, 1024]", ', "Input type": ["c10::BFloat16", {}]'
        first, second = "[16, 1024, 64], [16, 64, 1024]", f"{scores}, [16, 1024, 64]"
        attention = [
            Work(
                "aten::bmm",
                GEMM,
                "attention",
                ns,
                "BmmBackward0",
                2,
                GEMM,
                f', "Input Dims": [{first}]' + types.format('"c10::BFloat16"'),
            ),
            Work(
                "aten::_softmax",
                SOFTMAX,
                "attention",
                ns,
                "SoftmaxBackward0",
                1,
                SOFTMAX.replace("forward", "backward"),
                f', "Input Dims": [{scores}, [], []]' + types.format('"Scalar", "Scalar"'),
            ),
            Work(
                "aten::bmm",
                GEMM,
                "attention",
                ns,
                "BmmBackward0",
                2,
                GEMM,
                f', "Input Dims": [{second}]' + types.format('"c10::BFloat16"'),
            ),
        ]
    return [product, *attention, relu, *[small] * job.small_operators]


class Process:
    """One rank: runs the training loop and leaves its moments and events."""

    def __init__(self, job: Job, rank: int, moments: Moments, start: int, meetings: Meetings) -> None:
        self.job, self.rank, self.moments, self.meetings = job, rank, moments, meetings
        self.draw = random.Random(f"{job.seed} {rank}")  # noqa: S311
        self.pid = 4000 + rank
        self.thread = MAIN
        self.at = {MAIN: start, AUTOGRAD: start}
        self.streams: dict[int, int] = {}
        self.held: dict[int, list[int]] = defaultdict(list)
        self.queue: dict[int, list[int]] = defaultdict(list)
        self.correlation, self.number = 1000, 0
        self.numbers = [0]
        self.events: list[Event] = []
        self.steps: list[tuple[int, int]] = []
        self.step = 0
        self.batches = [start]
        self.taken: list[int] = []
        self.loaded: set[str] = set()
        self.sequence = 0
        self.tapes: deque[Tape] = deque()

    # --- the host -------------------------------------------------------------------------------------------

    def varied(self, ns: float, kind: str = "") -> int:
        draw = self.draw.uniform(-1, 1)
        return round(ns * (1 + self.job.jitter * draw) * self.job.factors.get(kind, 1.0))

    def spend(self, ns: float, name: str, kind: str = "operator") -> None:
        self.at[self.thread] = self.moments.after(self.rank, (self.at[self.thread], self.varied(ns), kind, name))

    @contextmanager
    def call(self, name: str, category: str = "cpu_op", args: str = "") -> Iterator[None]:
        """An operator or range: half of its own time before what it calls, half after."""
        start = self.at[self.thread]
        self.number += 1
        self.numbers.append(self.number)
        own = self.job.operator_ns / 2 if category == "cpu_op" else 500
        self.spend(own, name)
        yield
        self.spend(own, name)
        stated = f'"External id": {self.numbers.pop()}{", " + args if args else ""}'
        self.events.append(Event(category, name, self.pid, self.thread, start, self.at[self.thread], stated))

    def runtime(self, name: str, ns: float, *more: tuple[int, int, str, str], kind: str) -> tuple[int, int]:
        """A call of CUDA's runtime; gives its moments."""
        self.correlation += 1
        start = self.at[self.thread]
        called = (start, self.varied(ns), kind, name)
        end = self.at[self.thread] = self.moments.after(self.rank, called, *more)
        args = f'"External id": {self.numbers[-1]}, "cbid": 211, "correlation": {self.correlation}'
        self.events.append(Event("cuda_runtime", name, self.pid, self.thread, start, end, args, self.correlation))
        return start, end

    # --- the device -----------------------------------------------------------------------------------------

    def launch(
        self, name: str, kind: str, ns: float, stream: int = COMPUTE, *, call: str = "cudaLaunchKernel",
        join: int | None = None, category: str = "kernel", args: str = "", lost: bool = False,
    ) -> None:  # fmt: skip
        """Launches a kernel or copy; with `join` it starts to transfer when all ranks have arrived there."""
        queue, limit = self.queue[stream], self.job.queue_limit
        full = [(queue[-limit], 0, "queue", call)] if len(queue) >= limit else []
        loads = 0 if name in self.loaded else self.job.first_use_ns
        self.loaded.add(name)
        _, called = self.runtime(call, self.job.launch_ns + loads, *full, kind="launch")
        delayed = (called, self.varied(self.job.launch_delay_ns), "launch_delay", call)
        start = self.begin(stream, delayed)
        queue.append(start)
        self.run(name, kind, ns, stream, start, join=join, category=category, args=args, lost=lost)

    def begin(self, stream: int, launched: tuple[int, int, str, str]) -> int:
        """The moment at which the next work of a stream starts."""
        order = [(self.streams[stream], self.job.kernel_gap_ns, "kernel_gap", "")] if stream in self.streams else []
        held = [(moment, 0, "wait", "") for moment in self.held.pop(stream, [])]
        return self.moments.after(self.rank, launched, *order, *held)

    def run(
        self, name: str, kind: str, ns: float, stream: int, start: int, *, join: int | None = None,
        category: str = "kernel", args: str = "", lost: bool = False,
    ) -> None:  # fmt: skip
        if join is None:
            end = self.moments.after(self.rank, (start, self.varied(ns, kind), kind, name))
        else:
            self.moments.before[join].append((start, 0, "arrival", name))
            end = self.moments.after(self.rank, (join, round(ns), kind, name))
        self.streams[stream] = end
        stated = (
            f'"External id": {self.numbers[-1]}, "queued": 0, "device": 0, "context": 1, "stream": {stream}, '
            f'"correlation": {self.correlation}' + (", " + args if args else "")
        )
        if category == "kernel":
            stated += ', "registers per thread": 96, "shared memory": 49152, "grid": [432, 1, 1], "block": [256, 1, 1]'
        if not lost:
            self.events.append(Event(category, name, 0, stream, start, end, stated, self.correlation))

    def wait_on_device(self, waiting: int, source: int) -> None:
        """Makes a stream wait for what another has been given until now."""
        self.runtime("cudaEventRecord", 900, kind="operator")
        recorded = self.correlation
        start, end = self.runtime("cudaStreamWaitEvent", 900, kind="operator")
        if source in self.streams:
            self.held[waiting].append(self.streams[source])
        self.waited("Stream Wait Event", waiting, start, end,
                    f'"wait_on_stream": {source}, "wait_on_cuda_event_record_corr_id": {recorded}, ')  # fmt: skip

    def synchronize(self, stream: int) -> None:
        """cudaStreamSynchronize: the host waits until the stream has nothing left."""
        tail = (self.streams[stream], 2_000, "synchronize", "cudaStreamSynchronize")
        start, end = self.runtime("cudaStreamSynchronize", 1_500, tail, kind="synchronize")
        self.waited("Stream Sync", stream, start, end)

    def synchronize_with(self, call: str) -> None:
        """A call that takes `allocates_ns` and waits for all streams."""
        tails = [(tail, 2_000, "synchronize", call) for tail in self.streams.values()]
        self.runtime(call, self.job.allocates_ns, *tails, kind="synchronize")

    def waited(self, kind: str, stream: int, start: int, end: int, on: str = "") -> None:
        if self.job.sync_records:
            args = (
                f'"External id": {self.numbers[-1]}, "cuda_sync_kind": "{kind}", {on}"stream": {stream}, '
                f'"correlation": {self.correlation}, "device": 0, "context": 1'
            )
            self.events.append(Event("cuda_sync", kind, 0, stream, start, end, args))

    def hand_on(self, description: str, source: int, destination: int) -> None:
        """Sends to the next stage of the pipeline, or receives from it."""
        group = self.meetings.groups[description, self.rank]
        if source == self.rank:
            named, peer = "send", f'"Dst Rank": {destination}'
        else:
            named, peer = "recv", f'"Src Rank": {source}'
        met = self.meetings.pair(group, source, destination)
        self.collective("send_recv", group, self.job.bucket_bytes // 8, met=met, named=named, more=f", {peer}")  # fmt: skip
        if destination == self.rank:
            self.wait_on_device(COMPUTE, met.stream)

    def collective(
        self, operation: str, group: Group, size: int, *, met: Group | None = None, named: str = "", more: str = ""
    ) -> None:  # fmt: skip
        """A collective of a group on a stream of its own, which waits for what was computed.

        `met` are those of the group that take part, `named` is what the call is called and `more` what it states beside
        the rest.
        """
        job = self.job
        name, kernel = _NCCL[operation]
        name, met = named or name, met or group
        sequence, join, ns = self.meetings.next(self.rank, operation, met, size)
        elements = size // 2
        args = ""
        if job.nccl_args:
            args = (
                f'"Collective name": "{name}", "Process Group Name": "{group.name}", "Process Group Description": '
                f'"{group.description}", "Process Group Ranks": "{list(group.ranks)}", "Group size": {len(group.ranks)}, '
                f'"dtype": "BFloat16", "In msg nelems": {elements}, "Out msg nelems": {elements}, "Rank": {self.rank}'
            )
            args += more + (f', "Seq": {sequence}' if job.sequence_numbers else "")
        with self.call(f"c10d::{name}_"), self.call("record_param_comms", args=args):
            self.wait_on_device(met.stream, COMPUTE)
            lost = (self.rank, group.name, sequence) in job.dropped
            self.launch(kernel, "transfer", ns, met.stream, call="cudaLaunchKernelExC", join=join, args=args, lost=lost)

    # --- the training step ----------------------------------------------------------------------------------

    def delay(self, phase: str) -> None:
        """What the host of this rank has to do beside the others' work."""
        for one in self.job.delays:
            if one.kernels is None and self.hit_by(one, phase) and phase != "input":
                start = self.at[self.thread]
                self.at[self.thread] = self.moments.after(self.rank, (start, one.ns, "operator", one.name))
                self.number += 1
                self.events.append(Event("cpu_op", one.name, self.pid, self.thread, start,
                                          self.at[self.thread], f'"External id": {self.number}'))  # fmt: skip

    def hit_by(self, delay: Delay, phase: str) -> bool:
        return delay.rank == self.rank and delay.phase == phase and delay.step in (None, self.step)

    def longer(self, kind: str, phase: str, kernels: int) -> int:
        """By how much each of the phase's kernels of a class takes longer on this rank."""
        late = (d.ns for d in self.job.delays if d.kernels == kind and self.hit_by(d, phase))
        return sum(late) // kernels

    def fetch(self) -> None:
        """Waits for the batch; the loader's worker is two batches ahead at most."""
        step, late = len(self.taken), sum(d.ns for d in self.job.delays if self.hit_by(d, "input"))
        room = [(self.taken[step - 2], 0, "wait", "loader")] if step >= 2 else []
        ns = 0 if step < self.job.prefetched else self.varied(self.job.input_ns) + late
        prepared = (self.batches[-1], ns, "input", "loader")
        self.batches.append(self.moments.after(self.rank, prepared, *room))
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        with self.call(loader, "user_annotation"):
            taking = (self.at[MAIN], self.varied(3_000), "operator", loader)
            self.at[MAIN] = self.moments.after(self.rank, taking, (self.batches[-1], 0, "wait", loader))
        self.taken.append(self.at[MAIN])

    def forward(self) -> None:
        job = self.job
        gemm, relu = (self.longer(kind, "forward", job.layers) for kind in ("GEMM", "elementwise"))
        if job.cuda_graph:
            return self.replay(gemm, relu)
        tape: Tape = []
        for layer in range(job.layers):
            with self.call(f"nn.Module: layers.{layer}", "user_annotation"), self.region():
                tape.append(self.layer(gemm, relu, delayed=layer == job.layers // 2))
                self.sum_of_shares()
            if job.reads_layers:
                self.read_back()
        self.tapes.append(tape)
        return None

    def stop(self) -> None:
        """Python stops: nothing that the recording has a name for."""
        job = self.job
        pauses = job.pause[1] if job.pause[0] == self.step else 0
        stalls = job.stall_ns if random.Random(f"{job.seed} {self.step}").randrange(job.ranks) == self.rank else 0  # noqa: S311
        if pauses + stalls:
            stopped = (self.at[MAIN], pauses + stalls, "stop", "Python")
            self.at[MAIN] = self.moments.after(self.rank, stopped)

    def region(self) -> AbstractContextManager[None]:
        return self.call("Torch-Compiled Region: 0/0") if self.job.compiled else nullcontext()

    def layer(self, gemm: int, relu: int, *, delayed: bool = False) -> list[tuple[Work, int]]:
        """The forward of a layer; gives its operators with the numbers that autograd gave them."""
        job, tape = self.job, []
        if job.allocates_ns:
            with self.call("aten::empty"):
                self.runtime("cudaMalloc", job.allocates_ns, kind="operator")
        for work in works(job):
            with self.call("aten::linear") if work.operator == "aten::addmm" else nullcontext():
                self.sequence += 1
                tape.append((work, self.sequence))
                with self.call(
                    work.operator, args=f'"Sequence number": {self.sequence}, "Fwd thread id": 0{work.args}'
                ):
                    self.launch(
                        work.kernel,
                        work.kind,
                        work.ns + {"aten::addmm": gemm, "aten::relu": relu}.get(work.operator, 0),
                    )
            if delayed and work.operator == "aten::addmm":
                self.delay("forward")
        return tape

    def read_back(self) -> None:
        """`.item()`: copies a number to the host and waits until all work before it is done."""
        with self.call("aten::item"), self.call("aten::_local_scalar_dense"):
            if self.job.pageable:
                self.copy_and_wait()
            else:
                self.copy(DEVICE_TO_HOST, 1_500)
            self.synchronize(COMPUTE)

    def replay(self, gemm: int, relu: int) -> None:
        """The same kernels from one launch of a graph."""
        self.delay("forward")
        _, called = self.runtime("cudaGraphLaunch", 3 * self.job.launch_ns, kind="launch")
        for node in range(2 * self.job.layers):
            named = (GEMM, "GEMM", self.job.gemm_ns + gemm) if node % 2 == 0 else (RELU, "elementwise", self.job.elementwise_ns + relu)  # fmt: skip
            start = self.begin(COMPUTE, (called, self.job.launch_delay_ns, "launch_delay", "cudaGraphLaunch"))
            self.run(*named, COMPUTE, start, args=f'"graph id": 1, "graph node id": {node}')

    def sum_of_shares(self) -> None:
        """What tensor parallelism sums after a layer; computing goes on when it is done."""
        group = self.meetings.groups["tensor", self.rank]
        if len(group.ranks) > 1:
            self.collective("all_reduce", group, self.job.bucket_bytes // 8)
            self.wait_on_device(COMPUTE, group.stream)

    def pipelined(self) -> None:
        """Forward and backward of each micro-batch, in the order of the schedule."""
        job = self.job
        held = job.ranks // job.pipeline_parallel
        before, after = self.rank - held, self.rank + held
        behind = job.pipeline_parallel - 1 - self.rank // held
        ahead = job.microbatches if job.schedule == "GPipe" else min(behind, job.microbatches)
        for _ in range(ahead):
            self.forward_of(before, after)
        for number in range(job.microbatches):
            if ahead + number < job.microbatches:
                self.forward_of(before, after)
            self.backward_of(number, before, after)

    def forward_of(self, before: int, after: int) -> None:
        if before >= 0:
            self.hand_on("pipeline", before, self.rank)
        self.forward()
        if after < self.job.ranks:
            self.hand_on("pipeline", self.rank, after)

    def backward_of(self, number: int, before: int, after: int) -> None:
        if after < self.job.ranks:
            self.hand_on("pipeline", after, self.rank)
        self.backward(reduces=number == self.job.microbatches - 1)
        if before >= 0:
            self.hand_on("pipeline", self.rank, before)

    def backward(self, *, reduces: bool = True) -> None:
        job, data = self.job, self.meetings.groups["data", self.rank]
        gemm = self.longer("GEMM", "backward", 2 * job.layers)
        relu = self.longer("elementwise", "backward", job.layers)
        woken = (self.at[MAIN], self.varied(8_000), "operator", "wakes a thread")
        self.at[AUTOGRAD] = self.moments.after(self.rank, (self.at[AUTOGRAD], 0, "wait", ""), woken)
        self.thread = AUTOGRAD
        tape = self.tapes.popleft() if self.tapes else [[(work, 0) for work in works(job)]] * job.layers
        for layer in reversed(range(job.layers)):
            if job.recomputes:
                with self.node("CheckpointFunctionBackward"):
                    self.layer(0, 0)
            for work, number in reversed(tape[layer]):
                with self.node(work.node, f'"Sequence number": {number}, "Fwd thread id": {MAIN}'):
                    if work.operator == "aten::addmm" and layer == job.layers // 2:
                        self.delay("backward")
                    longer = {"aten::addmm": gemm, "aten::relu": relu}.get(work.operator, 0)
                    for _ in range(work.gradients):
                        self.launch(work.gradient_kernel, work.kind, work.ns + longer)
                    if work.operator == "aten::addmm":
                        self.sum_of_shares()
            if reduces and len(data.ranks) > 1:
                self.collective("all_reduce", data, job.bucket_bytes)
        if reduces and len(data.ranks) > 1:
            self.wait_on_device(COMPUTE, data.stream)
        self.thread = MAIN
        done = (self.at[AUTOGRAD], self.varied(8_000), "operator", "wakes a thread")
        self.at[MAIN] = self.moments.after(self.rank, (self.at[MAIN], 0, "wait", ""), done)

    @contextmanager
    def node(self, name: str, args: str = "") -> Iterator[None]:
        """A node of autograd's graph."""
        with self.call(f"autograd::engine::evaluate_function: {name}", args=args), self.call(name, args=args):
            yield

    def optimizer(self) -> None:
        longer = self.longer("optimizer", "optimizer", self.job.layers)
        with self.call("Optimizer.step#AdamW.step", "user_annotation"):
            for layer in range(self.job.layers):
                with self.call("aten::_fused_adamw_"):
                    self.launch(ADAM, "optimizer", self.job.optimizer_ns + longer)
                if layer == self.job.layers // 2:
                    self.delay("optimizer")

    def one_step(self, step: int) -> None:
        self.step, start = step, self.at[MAIN]
        with self.call(f"ProfilerStep#{step}", "user_annotation"):
            self.fetch()
            self.stop()
            with self.call("aten::to"), self.call("aten::copy_"):
                if self.job.pinned:
                    self.copy(HOST_TO_DEVICE, self.job.copy_ns)
                else:
                    self.copy_and_wait(HOST_TO_DEVICE, 3 * self.job.copy_ns)
            if self.job.exchange:
                world = self.meetings.groups["world", self.rank]
                self.collective("all_to_all", world, self.job.bucket_bytes)
                self.wait_on_device(COMPUTE, world.stream)
            if self.job.pipeline_parallel > 1:
                self.pipelined()
            elif self.job.training:
                for number in range(1, self.job.accumulation + 1):
                    self.forward()
                    self.backward(reduces=number == self.job.accumulation)
            else:
                self.forward()
            if self.job.training:
                self.optimizer()
            if self.job.allocates_ns:
                self.synchronize_with("cudaFree")
            if self.job.synchronize:
                self.read_back()
        self.steps.append((start, self.at[MAIN]))

    def copy_and_wait(self, name: str = DEVICE_TO_HOST, ns: int = 1_500) -> None:
        """cudaMemcpyAsync from or into pageable memory: it returns when all is copied."""
        name, call = name.replace("Pinned", "Pageable"), "cudaMemcpyAsync"
        latency = self.varied(self.job.launch_ns + self.job.launch_delay_ns)
        start = self.begin(COMPUTE, (self.at[self.thread], latency, "synchronize", call))
        self.correlation += 1
        args = f'"bytes": {4 if ns == 1_500 else ns * 20 // 3}'
        self.run(name, "copy", ns, COMPUTE, start, category="gpu_memcpy", args=args)
        self.correlation -= 1
        self.runtime(call, 0, (self.streams[COMPUTE], 2_000, "synchronize", call), kind="launch")

    def copy(self, name: str, ns: int) -> None:
        args = f'"bytes": {ns * 20}, "memory bandwidth (GB/s)": 20.0'
        self.launch(name, "copy", ns, call="cudaMemcpyAsync", category="gpu_memcpy", args=args)
