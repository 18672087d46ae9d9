"""Draws jobs in which nothing is wrong: what a device could do in a step, it does."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.simulated_job import Job


def draw_job(draw: random.Random, seed: int) -> Job:
    """A healthy job: kernels fill the step, the loader is ahead, collectives are short or hidden."""
    ranks = draw.choice((1, 1, 2, 4, 4, 8, 8, 16))
    kind = draw.choice(("eager", "eager", "eager", "compiled", "graph", "accumulation", "server", "tensor", "pipeline"))
    layers = draw.randrange(4, 9 if ranks > 4 else 13)
    gemm_ns = log_uniform(draw, 120_000, 800_000)
    job = Job(
        ranks=ranks,
        steps=draw.randrange(4, 9),
        layers=layers,
        seed=seed,
        jitter=draw.choice((0.005, 0.02, 0.06)),
        gemm_ns=gemm_ns,
        elementwise_ns=gemm_ns // draw.randrange(4, 12),
        optimizer_ns=gemm_ns // draw.randrange(3, 8),
        copy_ns=gemm_ns // 4,
        prefetched=0 if draw.random() < 0.15 else 2,
        operator_ns=min(draw.randrange(3_000, 14_000), gemm_ns // 14),
        launch_ns=draw.randrange(2_500, 7_000),
        latency_ns=draw.randrange(8_000, 25_000),
        attention=draw.choice(("", "fused")),
        attention_ns=gemm_ns // draw.randrange(1, 4),
        pageable=draw.random() < 0.3,
        sync_records=draw.random() < 0.8,
        nccl_args=draw.random() < 0.8,
    )
    if kind == "compiled":
        job = replace(job, compiled=True)
    elif kind == "graph":
        job = replace(job, cuda_graph=True, attention="")
    elif kind == "accumulation":
        job = replace(job, accumulation=draw.randrange(2, 5), layers=min(layers, 5))
    elif kind == "server":
        job = replace(job, ranks=1, training=False, layers=layers + 8)
    elif kind == "tensor" and ranks >= 4:
        job = replace(job, tensor_parallel=2)
    elif kind == "pipeline" and ranks >= 4:
        job = replace(job, pipeline_parallel=2, microbatches=draw.choice((4, 8)), layers=3)
    if job.ranks > 1:
        hosts = draw.choice((1, 2)) if job.ranks >= 4 else 1
        skew = draw.choice((0, 20_000, 400_000, 3_000_000))
        offsets = tuple(draw.randrange(-skew, skew + 1) for _ in range(hosts))
        share = draw.uniform(0.1, 0.6) * 2 * gemm_ns - job.latency_ns
        job = replace(job, hosts=hosts, clock_offset_ns=offsets, bytes_per_us=speed(job, share, hosts))
    return replace(job, input_ns=int(draw.uniform(0.1, 0.6) * compute_ns(job)))


def log_uniform(draw: random.Random, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def compute_ns(job: Job) -> int:
    """The time of a step's kernels, roughly."""
    passes = 3 if job.training else 1
    layer = passes * (job.gemm_ns + job.elementwise_ns) + (job.attention_ns * passes if job.attention else 0)
    rounds = job.microbatches if job.pipeline_parallel > 1 else job.accumulation
    return job.layers * (layer * rounds + (job.optimizer_ns if job.training else 0))


def speed(job: Job, transfer_ns: float, hosts: int) -> float:
    """Bytes per µs at which reducing a bucket takes this time."""
    return 2000 * job.bucket_bytes / max(transfer_ns, 5_000) * (4 if hosts > 1 else 1)
