"""What is planted in a job, which findings name it, and how a job loses it again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.judged.jobs import compute_ns, speed
from tests.simulated_job import Delay, Job

Plant = Callable[[Job, random.Random, float], Job]
"""Plants a cause that costs about this part of the step's computation."""


@dataclass(frozen=True)
class Cause:
    """Something that can be wrong.

    Args:
        name: as the table of scores prints it.
        plant: puts it into a healthy job.
        named_by: rules of `findings` that name it. The cure of the first is the job without it.
        fits: whether a job can have it.
    """

    name: str
    plant: Plant
    named_by: tuple[str, ...]
    fits: Callable[[Job], bool] = lambda _job: True

    def cured(self, job: Job) -> Job:
        """The job without it."""
        return CURES[self.named_by[0]](job)


def _delay(phase: str, kernels: str | None = None) -> Plant:
    def plant(job: Job, draw: random.Random, share: float) -> Job:
        ns = int(share * compute_ns(job))
        if phase == "input":
            ns += compute_ns(job) - job.input_ns
        return replace(job, delays=(Delay(draw.randrange(job.ranks), ns, phase, kernels=kernels),))

    return plant


def _set(fields: Callable[[Job, float], dict[str, Any]]) -> Plant:
    """Plants by other fields of the job, which depend on it and the share."""
    return lambda job, _draw, share: replace(job, **fields(job, share))


def _reset(**fields: Any) -> Callable[[Job], Job]:
    return lambda job: replace(job, **fields)


def _many_small(job: Job, share: float) -> dict[str, Any]:
    host_ns = job.operator_ns + job.launch_ns
    return {"small_operators": 1 + int((0.4 + share) * compute_ns(job) / job.layers / host_ns / 3)}


def _read_back(job: Job, share: float) -> dict[str, Any]:
    """Hosts that just keep pace, until each layer makes them wait."""
    passes = 3 if job.training else 1
    layer_ns = compute_ns(job) / job.layers / (job.accumulation if job.training else 1) / passes
    return {"reads_layers": True, "operator_ns": int(min(0.2 + share, 0.8) * layer_ns / 5)}


def _slow_links(job: Job, share: float) -> dict[str, Any]:
    transfer_ns = 2 * job.gemm_ns + share * compute_ns(job) / job.layers * 2
    return {"bytes_per_us": speed(job, transfer_ns, job.hosts)}


def _pause(job: Job, draw: random.Random, share: float) -> Job:
    ns = int((0.3 + 2 * share) * compute_ns(job) * job.steps)
    return replace(job, pause=(draw.randrange(1, job.steps), ns))


def _fuse_attention(job: Job) -> Job:
    return replace(job, attention="fused") if job.attention else job


def _trains(job: Job) -> bool:
    return job.training and not job.cuda_graph


def _data_parallel(job: Job) -> bool:
    return job.ranks > 1 and job.tensor_parallel == 1 and job.pipeline_parallel == 1


CURES: dict[str, Callable[[Job], Job]] = {
    "input-bound": lambda job: replace(
        job, input_ns=1_000, delays=tuple(delay for delay in job.delays if delay.phase != "input")
    ),
    "straggling-rank": _reset(delays=()),
    "communication-bound": lambda job: replace(job, latency_ns=0, factors={**job.factors, "transfer": 0.0}),
    "synchronization": _reset(reads_layers=False),
    "host-bound": _reset(operator_ns=0, launch_ns=0, small_operators=0),
    "unfused-attention": _fuse_attention,
    "recomputation": _reset(recomputes=False),
    "pageable-copies": _reset(pinned=True),
    "copy-bound": _reset(pinned=True, copy_ns=1_000),
    "allocation-in-steps": _reset(allocates_ns=0),
    "single-gaps": _reset(pause=(0, 0), stall_ns=0),
    "unrecorded-work": _reset(pause=(0, 0), stall_ns=0),
    "cold-start": _reset(first_use_ns=0),
}
"""Rule of `findings` to the job without the loss that it names."""

CAUSES = (
    Cause("slow loader", _set(lambda job, share: {"input_ns": int((1 + share) * compute_ns(job))}), ("input-bound",)),
    Cause(
        "slow kernels of one rank",
        _delay("backward", "GEMM"),
        ("straggling-rank",),
        lambda job: _data_parallel(job) and job.training,
    ),
    Cause("slow host of one rank", _delay("forward"), ("straggling-rank",), _data_parallel),
    Cause("slow loader of one rank", _delay("input"), ("straggling-rank", "input-bound"), _data_parallel),
    Cause(
        "hosts that stall in turn",
        _set(lambda job, share: {"stall_ns": int((0.3 + share) * compute_ns(job))}),
        ("unrecorded-work", "single-gaps", "host-bound"),
        lambda job: job.ranks > 1,
    ),
    Cause("a value read after each layer", _set(_read_back), ("synchronization", "host-bound"), _trains),
    Cause(
        "many small kernels",
        _set(_many_small),
        ("host-bound", "small-kernels", "elementwise-chains"),
        lambda job: _trains(job) and job.gemm_ns < 250_000 and job.ranks <= 4,
    ),
    Cause(
        "unfused attention",
        _set(lambda job, share: {"attention": "unfused", "attention_ns": int((0.2 + share) * job.gemm_ns)}),
        ("unfused-attention",),
        lambda job: not job.cuda_graph,
    ),
    Cause(
        "exposed collectives",
        _set(_slow_links),
        ("communication-bound",),
        lambda job: job.training and _data_parallel(job),
    ),
    Cause(
        "pageable copies",
        _set(lambda job, share: {"pinned": False, "copy_ns": int((0.1 + share) * compute_ns(job) / 3)}),
        ("pageable-copies", "copy-bound"),
    ),
    Cause("recomputation", _set(lambda _job, _share: {"recomputes": True}), ("recomputation",), _trains),
    Cause("one long gap", _pause, ("single-gaps", "unrecorded-work", "uneven-steps")),
    Cause(
        "first use of kernels",
        _set(lambda job, share: {"first_use_ns": int((0.2 + share) * compute_ns(job) * job.steps)}),
        ("cold-start", "first-step"),
    ),
    Cause(
        "allocation in steps",
        _set(lambda job, share: {"allocates_ns": int((0.3 + share) * compute_ns(job) / job.layers)}),
        ("allocation-in-steps",),
        _trains,
    ),
)
