"""Reads how long DDP's all-reduce took from DDP's own sampled timings; installs nothing."""

from __future__ import annotations

from typing import Any


def ddp_timing(model: Any) -> dict[str, Any] | None:
    """Mean all-reduce time of a backward, and the part of it without computation (ns).

    DDP times its first iterations and then one in a hundred, so in a short run these are means of slow steps: compare
    them with one another, not with times of other steps.

    Returns:
        `source`, `communication_ns`, `overlap_ns`, `exposed_ns`, `backward_ns` (from the backward's start to the end of
        its all-reduce), `bytes`, and `forward_waits`: whether ranks wait for each other in forward too, because rank
        0's buffers are broadcast there. None if the model is not DDP's or has not been timed.
    """
    logged = getattr(model, "_get_ddp_logging_data", None)
    if logged is None or type(model).__name__ != "DistributedDataParallel":
        return None
    try:
        data = logged()
        communication = int(data["avg_backward_comm_time"])
        overlap = int(data["avg_backward_compute_comm_overlap_time"])
        compute = int(data["avg_backward_compute_time"])
        buffers = bool(data.get("broadcast_buffers")) and any(True for _ in model.module.buffers())
    except Exception:
        # Differs between versions of torch; if it fails, nothing is measured.
        return None
    if communication <= 0:
        return None
    exposed = max(0, communication - overlap)
    return {
        "source": "DDP",
        "communication_ns": communication,
        "overlap_ns": overlap,
        "exposed_ns": exposed,
        "backward_ns": compute + exposed,
        "bytes": data.get("total_parameter_size_bytes"),
        "forward_waits": buffers,
    }
