"""The words of traces of every era, and what they mean here.

This is the only place that knows them. A reader turns them into the columns `category`, `kind` and
`role` of the canonical tables, so that nothing after it matches a bare string. A word that is not
here stays as it is, with kind `other`, and is counted.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Literal

from stepscope.base.patterns import lazily
from stepscope.formats.communication import communicating

Side = Literal["host", "device"]

NAMELESS_RANGE = "(range without a name)"
"""The name of a range that has none."""


@dataclass(frozen=True, slots=True)
class Category:
    """What a category of events is: its current spelling, the side its rows are on, and their kind."""

    name: str
    side: Side
    kind: str


def _categories() -> dict[str, Category]:
    host: Side = "host"
    device: Side = "device"
    spelled: tuple[tuple[str, Side, str, tuple[str, ...]], ...] = (
        # current spelling, side, kind, spellings of other eras and backends
        ("cpu_op", host, "operator", ("operator", "hpu_op")),
        ("user_annotation", host, "annotation", ("nvtx", "user_scope")),
        ("python_function", host, "python", ("python",)),
        ("cuda_runtime", host, "runtime", ("runtime",)),
        ("cuda_driver", host, "runtime", ("driver",)),
        ("glow_runtime", host, "runtime", ()),
        ("mtia_runtime", host, "runtime", ()),
        ("xpu_runtime", host, "runtime", ()),
        ("xpu_driver", host, "runtime", ()),
        ("privateuse1_runtime", host, "runtime", ()),
        ("privateuse1_driver", host, "runtime", ()),
        ("gcu_runtime", host, "runtime", ()),
        ("overhead", host, "overhead", ()),
        ("collective_comm", host, "annotation", ()),
        ("trace", host, "other", ()),
        ("cpu_instant_event", host, "other", ()),
        ("kernel", device, "computation", ("concurrent_kernel", "gcu_kernel", "mtia_ccp_events")),
        ("gpu_memcpy", device, "copy", ("memcpy", "gcu_memcpy")),
        ("gpu_memset", device, "fill", ("memset", "gcu_memset")),
        ("gpu_user_annotation", device, "annotation", ("xpu_user_annotation",)),
        ("os_runtime", host, "other", ()),
        ("cudnn", host, "other", ()),
        ("openacc", host, "other", ()),
        ("openmp", host, "other", ()),
        ("cublas", host, "other", ()),
        ("mpi", host, "annotation", ()),
        ("cuda_graph", device, "computation", ()),
        ("um_page_fault", device, "other", ()),
        ("cuda_sync", device, "sync", ("xpu_sync",)),
        ("cuda_event", device, "sync", ()),
        ("cuda_profiler_range", device, "annotation", ()),
        ("xpu_scope_profiler", device, "annotation", ()),
        ("mtia_workloadd", device, "other", ()),
        ("mtia_insight", device, "other", ()),
    )
    table = {}
    for name, side, kind, others in spelled:
        for spelling in (name, *others):
            table[spelling] = Category(spelling if kind == "sync" else name, side, kind)
    return table


CATEGORIES = _categories()
"""Lower-cased category of any era → what it is."""

LAUNCH_FLOWS = frozenset({"ac2g", "async", "async_cpu_to_gpu", "cpu_to_cuda", "launch", "async_gpu"})
BACKWARD_FLOWS = frozenset({"fwdbwd", "forward_backward"})

METRIC_TOOLS = {"cuda_profiler_range": "CUPTI", "xpu_scope_profiler": "PTI"}
"""Categories whose events state hardware metrics of the kernel in their name, and the library that measures these."""

_LIMITS = ("warps", "registers", "shared memory", "blocks", "barriers")
"""What limits occupancy, in the order of the bits in cuda_occupancy.h (`cudaOccLimitingFactor`)."""

MEMORY_INSTANT = "[memory]"
OUT_OF_MEMORY_INSTANT = "[OutOfMemory]"
OUT_OF_MEMORY = "oom"
"""The word for it in `allocator_event.kind`, as in snapshots."""

EXPORTED_TRACKS = "stepscope"
"""Category of what `stepscope export` adds to a recording's events. It is computed from them, and not read again."""

EXPORTED_PART = "stepscope_part_of"
"""Name of the row in which an export says which thread a track belongs to whose events would cross others there."""

_LAUNCH = lazily(r"Launch(?:Cooperative)?Kernel|KernelLaunch|^runFunction|^cuLaunchGrid|^(?:cuda|hip)Launch(?:By\w+)?$")
_RUNTIME_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("graph_launch", lazily(r"GraphLaunch|^urEnqueueCommandBuffer|^urCommandBufferEnqueue")),
    ("capture_begin", lazily(r"StreamBeginCapture")),
    ("capture_end", lazily(r"StreamEndCapture")),
    ("launch", _LAUNCH),
    ("copy", lazily(r"Memcpy|^urEnqueue(?:USM)?Mem\w*Cop|^cuMemcpy")),
    ("fill", lazily(r"Memset|^urEnqueue(?:USM)?\w*Fill|^cuMemset")),
    ("synchronize", lazily(r"Synchronize|StreamWaitEvent|EventQuery|StreamQuery|^ur\w+(?:Finish|Wait)$")),
    (
        "allocate",
        lazily(r"Malloc|Free|HostAlloc|HostRegister|Mem(?:Alloc|Create|Map|Unmap|Release)|^urUSM\w+(?:Alloc|Free)"),
    ),
)

_STEP = lazily(r"^ProfilerStep\s*#\s*(\d{1,18})")
_DATALOADER = lazily(
    r"^enumerate\(Data(?:Loader|Pipe)\)#|DataLoader\w{0,60}\.__next__$|^dataloader:|^phase: input_wait$"
)
_OPTIMIZER = lazily(r"^Optimizer\.step#|^optimizer:step|^phase: optimizer$")
_ZERO_GRAD = lazily(r"^Optimizer\.zero_grad#|^optimizer:zero_grad")
AUTOGRAD_CALL = "autograd::engine::evaluate_function: "
"""Start of the name of autograd's range around each of its nodes; the node's name follows."""
_BACKWARD = lazily(r"^autograd::engine::evaluate_function: |^torch::autograd::|Backward\d*$|^CompiledFunctionBackward")
_COMMUNICATION_OP = lazily(
    r"^(?:nccl|rccl|gloo|mpi|ucc|hccl|xccl|oneccl|ccl):|^c10d::|^_?c10d_functional::|^hccl::|^record_param_comms"
    r"|^mccl:|^eccl:|^symm_mem::|^_C_custom_ar::|^(?:vllm|sglang|sgl_kernel)::\w*all_reduce"
)
_PHASE = lazily(r"^phase: (input_wait|forward|loss|backward|optimizer)$")
_COMPILED = lazily(r"^## Call CompiledFxGraph \w+ ##$|^Torch-Compiled Region: ")
_COLLECTION = "Python GC"
"""A garbage collection in torch's profiler (`record_python_gc_info`) and in training frameworks' NVTX ranges."""
_COMPILE = lazily(r" \(dynamo_timed\)$|^(?:dynamo|entire_frame_compile|backend_compile)$")
"""What torch.compile times of itself; the code that it generates runs under other names (`_COMPILED`)."""
_MODULE = lazily(r"^nn\.Module: (.+)$")
_COMPILED_MODULE = lazily(r"^GraphModule(?:Impl)?(?:_\d+)?$")
COMPILED_CODE = "(compiled code)"
"""Name of the code that torch.compile generates from modules. torch calls each piece GraphModule."""
_ZERO_GRAD_PYTHON = lazily(r"optimizer\.py\(\d+\): zero_grad$")
_FRAME = lazily(r"(?s)(?P<file>[^<].*?)(?:\(\d+\): .+|:\d+\Z)")
_LONGEST_FRAME = 4096
_INSTALLED = lazily(
    r"(?:^|/)(?:site|dist)-packages/|(?:^|/)lib(?:64)?/python\d[\d.]*/|/Python\d+/Lib/"
    r"|(?:^|/)torch/(?:_\w+|\w+\.py$|nn/|optim/|autograd/|utils/|distributed/|cuda/|amp/|ao/|func/"
    r"|fx/|jit/|profiler/|compiler/|export/|library|backends/|multiprocessing/)"
    r"|(?:^|/)stepscope/(?:api|cli|base|record)/|/bin/(?:stepscope|torchrun|accelerate)$"
)
_LIBRARIES = frozenset({"torch", "torchgen", "functorch", "triton", "apex", "pyprof", "pyprof2", "numpy", "click"})
"""Packages that are never the program's own code. torch removes the interpreter's path from file names, so that for
most packages no folder shows that they are installed."""

_FRAMEWORK = lazily(r"^(?=[^(]*\()(?:[^(]*/)?(?:lightning|pytorch_lightning|lightning_fabric|transformers|accelerate)/")
_RUNS_STEPS = lazily(
    r"(?:^|/)(?:(?:lightning/pytorch|pytorch_lightning)/(?:trainer/call\.py\(\d*\): _call_\w+_hooks?"
    r"|loops/[^(]{0,100}\(\d*\): (?:\w+\.)?(?:run|advance))"
    r"|transformers/trainer(?:_callback)?\.py\(\d*\): (?:\w+\.)?(?:_inner_training_loop|_run_epoch|call_event))$"
)
"""Frames in which frameworks run the parts of a step: loops, and what calls the hooks of callbacks and modules."""

_COPY_KIND = lazily(r"\b(HtoD|DtoH|DtoD|HtoH|PtoP|HtoA|AtoH|AtoA|AtoD|DtoA|M2D|D2M|D2D|H2D|D2H)\b")
_COPY_WORDS = (
    (lazily(r"hosttodevice", re.IGNORECASE), "HtoD"),
    (lazily(r"devicetohost", re.IGNORECASE), "DtoH"),
    (lazily(r"devicetodevice", re.IGNORECASE), "DtoD"),
    (lazily(r"hosttohost", re.IGNORECASE), "HtoH"),
)
_COPY_SHORT = {"M2D": "HtoD", "H2D": "HtoD", "D2M": "DtoH", "D2H": "DtoH", "D2D": "DtoD"}
_MEMORY_ENDS = lazily(r"\(\s*(?:(\w[\w ]{0,60}?)\s*->\s*)?(\w[\w ]*)")


def category(raw: str | None, pid: str | None = None) -> Category | None:
    """What a category means, or None if no era has used it.

    Args:
        raw: the category as the file spells it; None if an event has none.
        pid: the event's process id: the exporter of torch up to 1.8 wrote no categories, only the
            process names `CPU functions` and `CUDA functions`.
    """
    if raw is None or raw == "":
        if pid == "CPU functions":
            return CATEGORIES["cpu_op"]
        if pid == "CUDA functions":
            return CATEGORIES["kernel"]
        return None
    return CATEGORIES.get(raw.lower())


def step_number(name: str) -> int | None:
    """The number of the step that a range of this name marks: `ProfilerStep#12` → 12."""
    match = _STEP.match(name)
    return int(match.group(1)) if match else None


def module_name(name: str) -> str | None:
    """The module that a Python frame of this name calls: `nn.Module: Linear_3` → `Linear_3`."""
    match = _MODULE.match(name)
    return match.group(1) if match else None


def is_compiled_code(name: str) -> bool:
    """Whether a module of this name is a piece that torch.compile generated, and not a layer.

    >>> is_compiled_code("GraphModule_0"), is_compiled_code("Linear_0")
    (True, False)
    """
    return _COMPILED_MODULE.match(name) is not None


def phase_name(name: str) -> str | None:
    """The phase of a step that a range of this name marks; a loss counts as forward, as in the job's own timing."""
    match = _PHASE.match(name)
    return match and {"loss": "forward"}.get(match.group(1), match.group(1))


def lies_in_file(name: str) -> bool:
    """Whether a Python frame of this name has a file: `train.py(12): main`, and no built-in function."""
    return _FRAME.match(name[:_LONGEST_FRAME]) is not None


def is_program_frame(name: str) -> bool:
    """Whether a Python frame is the program's own code: not torch's, the standard library's, an
    installed package's that shows where it is installed, or the recorder's.

    >>> is_program_frame("models/bert.py(31): forward"), is_program_frame("threading.py(9): run")
    (True, False)
    """
    match = _FRAME.match(name[:_LONGEST_FRAME])
    if match is None:
        return False
    file = match["file"].replace("\\", "/")
    first = file.partition("/")[0].removesuffix(".py")
    return not (first in _LIBRARIES or first in sys.stdlib_module_names or _INSTALLED.search(file))


def runs_steps(name: str) -> bool:
    """Whether a Python frame is a framework's loop, or calls its hooks: there the framework runs parts of its steps.

    >>> runs_steps("lightning/pytorch/trainer/call.py(227): _call_callback_hooks"), runs_steps("train.py(9): main")
    (True, False)
    """
    return _RUNS_STEPS.search(name[:_LONGEST_FRAME]) is not None


def is_framework_frame(name: str) -> bool:
    """Whether a Python frame belongs to a framework that runs the program's steps.

    >>> is_framework_frame("lightning/pytorch/trainer/call.py(227): _call_callback_hooks")
    True
    """
    return _FRAMEWORK.search(name[:_LONGEST_FRAME]) is not None


def host_kind(kind: str, name: str) -> str:
    """The kind of a host event, given its category's: in torch up to 1.12 ranges were operators."""
    if kind == "operator" and (
        _STEP.match(name) or _DATALOADER.match(name) or _OPTIMIZER.match(name) or _ZERO_GRAD.match(name)
    ):
        return "annotation"
    return kind


def host_role(kind: str, name: str) -> str | None:
    """What a host event does in the step, if its name says so; see `host_event.role`."""
    if kind == "runtime":
        for role, pattern in _RUNTIME_ROLES:
            if pattern.search(name):
                return role
        return None
    if name == _COLLECTION and kind in ("python", "annotation"):
        return "garbage_collection"
    if kind == "python":
        if _MODULE.match(name):
            return "module"
        if _ZERO_GRAD_PYTHON.search(name):
            return "zero_grad"
        return "program" if is_program_frame(name) else None
    if kind not in ("operator", "annotation"):
        return None
    if _STEP.match(name):
        return "step"
    for role, pattern in (
        ("dataloader", _DATALOADER),
        ("optimizer", _OPTIMIZER),
        ("zero_grad", _ZERO_GRAD),
        ("communication", _COMMUNICATION_OP),
    ):
        if pattern.search(name):
            return role
    if _COMPILED.match(name):
        return "compiled"
    if _COMPILE.search(name):
        return "compile"
    if kind == "operator" and _BACKWARD.search(name):
        return "backward"
    return None


def device_kind(kind: str, name: str) -> str:
    """The kind of a device event, given its category's: kernels that communicate get their own."""
    if kind == "computation":
        exchange = communicating(name)
        if exchange is not None and not exchange.fused:
            return "communication"
        if _RUNTIME_COPY.match(name):
            return "copy"
        if _RUNTIME_FILL.match(name):
            return "fill"
        if _DEVICE_WAIT.match(name) or _DEVICE_MARK.match(name):
            return "sync"
    return kind


_DEVICE_WAIT = lazily(
    r"^(?:(?:event|notify|capture)_wait|mem_wait_value|Barrier|zeCommandListAppend(?:\w*Barrier|WaitOnEvents))"
    r"(?:_sqe)?(?:_\d+)?$",
    re.IGNORECASE,
)
_DEVICE_MARK = lazily(
    r"^(?:(?:event|notify|capture)_(?:record|reset)|mem_write_value|(?:Internal)?Marker"
    r"|zeCommandListAppend(?:SignalEvent|EventReset))(?:_sqe)?(?:_\d+)?$",
    re.IGNORECASE,
)
"""Work that is queued to order streams and computes nothing, if a recorder draws it like a kernel: MTIA's, Ascend's,
the markers of HIP's queues and Level Zero's."""
_RUNTIME_COPY = lazily(r"^(?:Memcpy|hipMemcpy|CopyHostToDevice|CopyDeviceTo|zeCommandListAppendMemoryCopy)")
_RUNTIME_FILL = lazily(r"^(?:Memset|hipMemset|FillBuffer|zeCommandListAppendMemoryFill)")


def occupancy_limit(stated: str) -> str | None:
    """What limits occupancy: names as the recorder writes them, or the bits of its library.

    >>> occupancy_limit("3"), occupancy_limit("shared memory")
    ('warps, registers', 'shared memory')
    """
    if not stated.isdecimal():
        return stated or None
    bits = int(stated[:9])
    return ", ".join(name for place, name in enumerate(_LIMITS) if bits >> place & 1) or None


def copy_kind(name: str) -> str:
    """The direction of a copy by its name: `Memcpy HtoD (Pinned -> Device)` → `HtoD`."""
    match = _COPY_KIND.search(name)
    if match:
        return _COPY_SHORT.get(match.group(1), match.group(1))
    squeezed = name.replace(" ", "").replace("_", "")
    for pattern, kind in _COPY_WORDS:
        if pattern.search(squeezed):
            return kind
    return "unknown"


def source_memory(name: str) -> str | None:
    """The memory that a copy reads, by its name; None if the name does not say.

    >>> source_memory("Memcpy HtoD (Pinned -> Device)")
    'pinned'
    """
    match = _MEMORY_ENDS.search(name)
    return match[1].lower() if match and match[1] else None


def destination_memory(name: str) -> str | None:
    """The memory that a copy or fill writes, by its name; None if the name does not say.

    >>> destination_memory("Memset (Device)")
    'device'
    """
    match = _MEMORY_ENDS.search(name)
    return match[2].strip().lower() if match else None


def memory_kind(name: str) -> str:
    """The host memory of a copy by its name: pinned, pageable, device (no host memory) or unknown."""
    ends = {source_memory(name), destination_memory(name)}
    for kind in ("pageable", "pinned"):
        if kind in ends:
            return kind
    return "device" if ends == {"device"} else "unknown"


_MAKERS = {
    "cuda": "NVIDIA GPU",
    "rocm": "AMD GPU",
    "xpu": "Intel GPU",
    "hpu": "Gaudi",
    "npu": "Ascend NPU",
    "mtia": "MTIA device",
}


def unknown_model(kind: str) -> str:
    """What to call a device of this kind whose name is not recorded.

    >>> unknown_model("rocm"), unknown_model("privateuse1")
    ('AMD GPU of unknown model', 'device of unknown model')
    """
    return f"{_MAKERS.get(kind, 'device')} of unknown model"


_WAIT_ROLES = {
    "Context Sync": "host for device",
    "Stream Sync": "host for stream",
    "Event Sync": "host for event",
    "Stream Wait Event": "stream for event",
}


def wait_role(kind: str, name: str) -> str | None:
    """Who waits for what in a wait that the recorder draws on the device.

    Args:
        kind: that of its category.
        name: CUPTI's, or one that other devices queue.

    >>> wait_role("sync", "Context Sync"), wait_role("computation", "event_wait")
    ('host for device', 'stream for event')
    """
    if kind == "computation" and _DEVICE_WAIT.match(name):
        return "stream for event"
    return _WAIT_ROLES.get(name) if kind == "sync" else None


_COUNTER_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, lazily(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("sm_active", r"SMs? Active\b|sm__cycles_active\."),
        ("sm_issue", r"SM Issue\b|sm__inst_executed_realtime\."),
        ("tensor_active", r"Tensor Active\b|sm__(?:pipe|inst_executed_pipe)_(?:tensor|shared)\w{0,60}\."),
        ("compute_active", r"GR Active\b|gr__cycles_active\."),
        ("compute_warps", r"Compute Warps in Flight\b|tpc__warps_active_shader_cs_realtime\."),
        ("dram_read", r"DRAM Read (?:Bandwidth|Throughput)|dram__read_throughput\."),
        ("dram_write", r"DRAM Write (?:Bandwidth|Throughput)|dram__write_throughput\."),
        ("pcie_receive", r"PCIe (?:RX|Read) (?:Throughput|Bandwidth)|pcie__read_bytes\."),
        ("pcie_send", r"PCIe (?:TX|Write) (?:Throughput|Bandwidth)|pcie__write_bytes\."),
        ("nvlink_receive", r"NVLink (?:RX\b|bytes received)|nvlrx__bytes\."),
        ("nvlink_send", r"NVLink (?:TX\b|bytes transmitted)|nvltx__bytes\."),
        ("clock", r"GPC Clock Frequency|gpc__cycles_elapsed\.avg\.per_second"),
        ("network_receive", r"(?:IB|Eth): Bytes received"),
        ("network_send", r"(?:IB|Eth): Bytes sent"),
    )
)
"""Metrics that are sampled over time, by their names in Nsight Systems and in CUPTI (PerfWorks)."""
_COUNTER_UNIT = lazily(r" \[([^\[\]]*)\]\Z|\.(pct)_of_peak_\w+\Z|\.(per_second)\Z")


def counter_kind(series: str) -> tuple[str | None, str | None]:
    """What a sampled metric measures and in what unit; None if its name does not say so.

    A series of the same metric in another unit (cycles, requests, GB/s) has no kind, so that values
    of one kind can be compared.

    >>> counter_kind("Tensor Active [Throughput %]"), counter_kind("GPC Clock Frequency [MHz]")
    (('tensor_active', '%'), ('clock', 'Hz'))
    """
    measured = next((kind for kind, name in _COUNTER_KINDS if name.match(series)), None)
    stated = _COUNTER_UNIT.search(series)
    word = next((word for word in stated.groups() if word is not None), "") if stated else None
    if measured in ("network_receive", "network_send"):
        return measured, None
    if measured == "clock" or "Clock Frequency" in series:
        return measured, "Hz"
    # Until 2022 Nsight's names had no units and, except for warps and clocks, meant shares.
    bare = word is None and measured not in (None, "compute_warps") and "__" not in series
    if bare or (word is not None and (word.endswith("%") or word == "pct")):
        return measured, "%"
    return None, None


DEVICE_TYPES = {
    0: "cpu",
    1: "cuda",
    2: "mkldnn",
    6: "hip",
    9: "xla",
    11: "mtia",
    12: "xpu",
    13: "mps",
    14: "meta",
    15: "hpu",
    20: "privateuse1",
}
"""c10's numbers of device types, as `[memory]` rows carry them (c10/core/DeviceType.h)."""
