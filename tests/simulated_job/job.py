"""What is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Delay:
    """Work that one rank has and the others have not.

    On the host it is an operator `name` in the middle of the phase; on the device its kernels of the class `kernels`
    in that phase take `ns` longer in all.
    """

    rank: int
    ns: int
    phase: str = "backward"
    """input, forward, backward or optimizer"""
    step: int | None = None
    """None for every step"""
    kernels: str | None = None
    """GEMM, elementwise or optimizer; None for a delay of the host"""
    name: str = "aten::nonzero"


@dataclass(frozen=True)
class Job:
    """What is simulated. Times are nanoseconds; `jitter` is by how much any of them varies at most, as a ratio."""

    ranks: int = 2
    hosts: int = 1
    steps: int = 3
    layers: int = 3
    tensor_parallel: int = 1
    """neighbouring ranks that share a layer and sum its output in forward and backward"""
    pipeline_parallel: int = 1
    """stages, each of as many neighbouring ranks, that hand activations and gradients on"""
    microbatches: int = 1
    """that a step of a pipeline consists of"""
    schedule: str = "1F1B"
    """or GPipe: all forwards before the first backward"""
    exchange: bool = False
    """an all-to-all of all ranks before forward, as embeddings have it"""
    seed: int = 0
    jitter: float = 0.02
    input_ns: int = 300_000
    """time in which the loader's worker prepares a batch, two ahead at most"""
    prefetched: int = 0
    """batches that the loader has ready when the recording starts"""
    operator_ns: int = 12_000
    launch_ns: int = 4_000
    launch_delay_ns: int = 1_500
    kernel_gap_ns: int = 900
    gemm_ns: int = 150_000
    elementwise_ns: int = 12_000
    optimizer_ns: int = 40_000
    copy_ns: int = 80_000
    bucket_bytes: int = 4_000_000
    bytes_per_us: float = 40_000.0
    """of a collective within a host; between hosts a quarter of it"""
    latency_ns: int = 15_000
    """of a collective, beside its size"""
    factors: Mapping[str, float] = field(default_factory=dict)
    """class of kernels (GEMM, elementwise, optimizer, copy, transfer) to what its durations are multiplied by"""
    delays: tuple[Delay, ...] = ()
    synchronize: bool = True
    """each step ends with loss.item()"""
    pageable: bool = False
    """into memory that is not pinned: the call of the copy returns when all is copied"""
    queue_limit: int = 1024
    cuda_graph: bool = False
    """forward is replayed from a CUDA graph"""
    compiled: bool = False
    """layers run as regions of torch.compile, with kernels of Triton"""
    training: bool = True
    """without it a step is a batch that a server answers: no backward, no optimizer"""
    accumulation: int = 1
    """forwards and backwards of a step without pipeline, of which the last reduces gradients"""
    attention: str = ""
    """fused, or unfused: a product, a softmax and a product of `attention_ns` each, where the fused kernel takes it once"""
    attention_ns: int = 100_000
    small_operators: int = 0
    """further operators of a layer, each with a kernel of `small_ns`"""
    small_ns: int = 2_500
    recomputes: bool = False
    """backward runs each layer's forward again, as activation checkpoints do"""
    reads_layers: bool = False
    """`.item()` after each layer"""
    allocates_ns: int = 0
    """time of each cudaMalloc (one a layer) and of the step's cudaFree, which waits for the device"""
    pinned: bool = True
    """batches lie in pinned memory; from other memory the copy takes three times as long and its call blocks"""
    stall_ns: int = 0
    """in each step the Python of one rank, drawn anew, stops for so long"""
    pause: tuple[int, int] = (0, 0)
    """(step, ns): the Python of all ranks stops in this step"""
    first_use_ns: int = 0
    """time that the first launch of each kernel takes longer, as it loads the kernel"""
    clock_offset_ns: tuple[int, ...] = (0,)
    """by how much a host's clock is ahead, host by host, repeated as needed"""
    clock_drift_ppb: tuple[int, ...] = (0,)
    """by how much it runs faster, in parts per billion"""
    dropped: tuple[tuple[int, str, int], ...] = ()
    """(rank, group, sequence) of communication kernels that the recording lost"""
    nccl_args: bool = True
    """collectives state group, size and type"""
    sequence_numbers: bool = True
    """and their number within the group"""
    sync_records: bool = True
    """what waits on the device is recorded (`cuda_sync`)"""


def host_of(job: Job, rank: int) -> int:
    """The host that a rank runs on: ranks fill one host after the other."""
    return rank * job.hosts // job.ranks
