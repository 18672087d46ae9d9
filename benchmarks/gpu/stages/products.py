"""Matrix products and attention in many shapes, each run once, for a profiler around them.

Run by the stage `counters`, once under torch.profiler (`--trace FILE`) and once under ncu, which counts only between
`cudaProfilerStart` and `cudaProfilerStop`. The kernels of both runs are the same, in the same order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

SIZES = {
    "cuda": ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 1024, 4096), (1000, 3000, 777)),
    "cpu": ((64, 64, 64), (100, 30, 77)),
}  # fmt: skip
HEADS = {"cuda": ((4, 16, 2048, 64), (2, 16, 4096, 128)), "cpu": ((1, 2, 64, 16),)}


def cases(device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields names, and functions that run the case once."""
    for m, n, k in SIZES[device]:
        for dtype in (torch.bfloat16, torch.float32):
            a = torch.randn(m, k, device=device, dtype=dtype)
            b = torch.randn(k, n, device=device, dtype=dtype)
            yield f"mm {m} x {n} x {k} {str(dtype)[6:]}", lambda a=a, b=b: torch.mm(a, b)
    for batch, heads, length, width in HEADS[device]:
        q, k_, v = (
            torch.randn(batch, heads, length, width, device=device, dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )
        for causal in (False, True):

            def attend(q: Any = q, k: Any = k_, v: Any = v, causal: bool = causal) -> None:
                y = scaled_dot_product_attention(q, k, v, is_causal=causal)
                y.backward(torch.ones_like(y))
                q.grad = k.grad = v.grad = None

            yield (f"attention {batch} x {heads} x {length} x {width}{' causal' if causal else ''}", attend)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=tuple(SIZES), default="cuda")
    parser.add_argument("--trace", type=Path)
    asked = parser.parse_args()
    torch.manual_seed(0)
    made = list(cases(asked.device))
    for _, run in made:
        run()
    if asked.trace is None:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for _, run in made:
            run()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        return
    activities = [ProfilerActivity.CPU]
    if asked.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, record_shapes=True) as profiler:
        for name, run in made:
            with torch.profiler.record_function(name):
                run()
        if asked.device == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(asked.trace))


if __name__ == "__main__":
    main()
