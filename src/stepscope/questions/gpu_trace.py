"""`gpu-trace`: every single kernel, copy and fill, in order of time."""

from __future__ import annotations

from stepscope.analysis.kernels.traits import BLOCK, GRID
from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import Column, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK


@question(
    "gpu-trace",
    "Which kernels, copies and fills ran, one by one, with which launch shape?",
    (
        Column("rank", "int", "rank of the process", visible="varying"),
        Column("start_ns", "int", "start, since the start of the run", sums=True, moment=True),
        Column("dur_ns", "int", "duration", sums=True),
        Column("name", "text", "name of the kernel, copy or fill", kernels=True, sums=True),
        Column("kind", "text", "computation, communication, copy or fill", visible=False),
        Column("grid", "text", "blocks of the grid: x,y,z"),
        Column("block", "text", "threads of a block: x,y,z"),
        Column("registers_per_thread", "int", "registers of a thread"),
        Column("shared_memory_bytes", "int", "shared memory of a block"),
        Column("static_shared_memory_bytes", "int", "declared by the kernel", visible=False),
        Column("dynamic_shared_memory_bytes", "int", "requested by the launch", visible=False),
        Column("bytes", "int", "size of a copy or fill"),
        Column("bandwidth_bytes_per_s", "float", "size over duration"),
        Column("source_memory", "text", "memory that a copy reads", visible=False),
        Column("destination_memory", "text", "memory that a copy or fill writes", visible=False),
        Column("device", "int", "index of the device in its process", visible="varying"),
        Column("device_name", "text", "product name of the device", visible=False),
        Column("context", "int", "context id", visible=False),
        Column("stream", "int", "stream id; -1 when the recording names none", visible="varying"),
        Column("correlation", "int", "number shared with its launch call", visible=False),
        Column("operator", "text", "innermost operator that launched it", visible=False),
        Column("step", "int", "training step that launched it", visible=False),
    ),
    group="operators and kernels",
    rests_on=DEVICE_WORK,
    about="events",
    needs="device",
    fills="Record with nvprof, with nsys --trace=cuda, or with torch.profiler.ProfilerActivity.CUDA.",
)
def gpu_trace(scope: Scope) -> ArrowTable:
    """One row for each kernel, copy and fill of all requested ranks, by start. It is the table of `nvprof
    --print-gpu-trace` and `cuda_gpu_trace` of `nsys stats` (`gputrace` until 2022), with the operator and the step. A
    terminal shows the first rows; `--top`, `--sort dur_ns` and the filters choose others, and `--csv`, `--json` and
    `--parquet FILE` give all.

    Times count from the start of the run, that is from the first event of the rank that started first; nvprof counts
    from the first event on a device, Nsight Systems from the start of its session. The memory that a fill writes is in
    `destination_memory` (Nsight Systems has it as the source). nvprof and Nsight Systems record both parts of a
    kernel's shared memory, Kineto only the sum. nvprof's `GB/s` are 2³⁰ bytes.

    Values that were not recorded are empty. With `--window` an event that runs over an edge is cut there, and a copy's
    bytes are divided in proportion to time.
    """
    return scope.sql(
        f"""
        SELECT work.rank, start_ns, dur_ns, work.name, work.kind, {GRID}, {BLOCK}, registers_per_thread,
            shared_memory_bytes, shared_memory_bytes - dynamic_shared_memory_bytes AS static_shared_memory_bytes,
            dynamic_shared_memory_bytes, bytes, bytes * 1e9 / nullif(dur_ns, 0) AS bandwidth_bytes_per_s, source_memory,
            destination_memory, work.device, device.name AS device_name, context, stream, correlation,
            operator_name AS operator, step
        FROM (SELECT * FROM device_event WHERE {WORK}) AS work
        LEFT JOIN device ON (device.rank, device.device) = (work.rank, work.device)
        ORDER BY start_ns, work.rank, work.device, stream, id
        """
    )
