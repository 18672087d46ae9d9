"""Measures what this machine's GPU or CPU reaches with torch: products, vector arithmetic, copies.

Each limit is the best of several runs after a warm-up: what the device can do, not what it does on
average. torch is imported when the measuring starts, so that the command line works without it.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import StepScopeError, UsageError
from stepscope.costs.calibration import Measured

if TYPE_CHECKING:
    import torch

CPU_SIZE = 1536
CPU_BYTES = 1 << 28
"""Size of products and copies on a CPU: too large for its caches, small enough to be quick."""
_RUNS = 5
_FMA_STEPS = 4096
_FMA = """
template <typename T> T multiply_add(T x) {
    T a = x, b = x + T(1), c = x + T(2), d = x + T(3);
    for (int i = 0; i < %d; ++i) {
        a = a * x + b; b = b * x + c; c = c * x + d; d = d * x + a;
    }
    return a + b + c + d;
}
"""
"""Four independent chains, long enough that memory does not matter."""

ERRORS = {
    "no-torch": ("The demo and `stepscope calibrate` need torch, as recording does. Everything else works without it.")
}


def measure(device: str, seconds: float) -> Measured:
    """Measures a device's limits.

    Raises:
        StepScopeError: torch is not installed.
        UsageError: torch does not see such a device.
    """
    try:
        import torch
    except ImportError:
        raise StepScopeError(
            "there is no torch to measure with", hint="install it where you measure: pip install torch", slug="no-torch"
        ) from None
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "torch sees no GPU here",
            hint="measure on the machine that has it, or the processor with --device cpu",
            slug="no-device",
        )
    with torch.inference_mode():
        return _gpu(torch, seconds) if device == "cuda" else _cpu(torch, seconds)


def _source(torch: Any, how: str) -> str:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    return f"measured by stepscope calibrate on {today} with torch {torch.__version__}: {how}"


def best_rate(run: Callable[[], object], amount: float, seconds: float) -> float:
    """Returns the best rate of several runs.

    Args:
        amount: operations or bytes of one run.
        seconds: approximate time in all; at least a few runs are made.
    """
    run()
    best, spent, runs = float("inf"), 0.0, 0
    while spent < seconds or runs < _RUNS:
        started = time.perf_counter()
        run()
        took = time.perf_counter() - started
        best, spent, runs = min(best, took), spent + took, runs + 1
    return amount / best


def _product(torch: Any, device: str, dtype: torch.dtype, size: int) -> Callable[[], object]:
    a = torch.randn(size, size, device=device).to(dtype)
    b = torch.randn(size, size, device=device).to(dtype)
    out = torch.empty(size, size, device=device, dtype=dtype)

    def run() -> None:
        torch.mm(a, b, out=out)
        _wait(torch, device)

    return run


def _wait(torch: Any, device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _copy(torch: Any, source: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
    device = "cpu" if source.device.type == target.device.type == "cpu" else "cuda"

    def run() -> None:
        target.copy_(source, non_blocking=True)
        _wait(torch, device)

    return run


def _cpu(torch: Any, seconds: float) -> Measured:
    size = CPU_SIZE
    flops = 2.0 * size**3
    # On a CPU, products use the same units as other arithmetic, so they give its vector peak.
    vector = {
        name: best_rate(_product(torch, "cpu", getattr(torch, name), size), flops, seconds)
        for name in ("float32", "float64")
    }
    matrix = {}
    narrow = best_rate(_product(torch, "cpu", torch.bfloat16, size), flops, seconds)
    if narrow > vector["float32"]:
        matrix["bfloat16"] = narrow
    data = torch.zeros(CPU_BYTES, dtype=torch.uint8)
    moved = best_rate(_copy(torch, data, torch.zeros_like(data)), 2.0 * CPU_BYTES, seconds)
    return Measured(
        processor_name(),
        None,
        vector,
        matrix,
        moved,
        None,
        _source(torch, f"torch.mm of {size} x {size}, copies of {CPU_BYTES >> 20} MiB, the best of several"),
    )


def processor_name() -> str:
    """The processor's product name, as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "CPU"


def _gpu(torch: Any, seconds: float) -> Measured:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = 8192
    flops = 2.0 * size**3

    def products(dtype: torch.dtype) -> float:
        return best_rate(_product(torch, "cuda", dtype, size), flops, seconds)

    matrix = {"float16": products(torch.float16)}
    if torch.cuda.is_bf16_supported():
        matrix["bfloat16"] = products(torch.bfloat16)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        plain = products(torch.float32)
        torch.set_float32_matmul_precision("high")
        fast = products(torch.float32)
    finally:
        torch.set_float32_matmul_precision(before)
    if fast > 1.2 * plain:  # otherwise the device has no TF32 and both are the same kernel
        matrix["tf32"] = fast
    matrix["float64"] = best_rate(_product(torch, "cuda", torch.float64, size // 2), flops / 8, seconds)
    vector = {"float32": max(plain, _vector(torch, torch.float32, seconds))}
    if double := _vector(torch, torch.float64, seconds):
        vector["float64"] = double
    data = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    moved = best_rate(_copy(torch, data, torch.empty_like(data)), 2.0 * (1 << 30), seconds)
    host = torch.zeros(1 << 28, dtype=torch.uint8).pin_memory()
    part = data[: 1 << 28]
    link = min(
        best_rate(_copy(torch, host, part), float(1 << 28), seconds),
        best_rate(_copy(torch, part, host), float(1 << 28), seconds),
    )
    return Measured(
        str(properties.name),
        int(properties.multi_processor_count),
        vector,
        matrix,
        moved,
        link,
        _source(
            torch,
            f"torch.mm of {size} x {size}, chains of multiply-adds, copies of 1 GiB in its memory "
            "and of 256 MiB from and to pinned memory, the best of several",
        ),
    )


def _vector(torch: Any, dtype: torch.dtype, seconds: float) -> float:
    """Operations per second of multiply-adds on the vector units; 0 if torch cannot compile them."""
    try:
        chains = torch.cuda.jiterator._create_jit_fn(_FMA % _FMA_STEPS)
        x = torch.full((1 << 22,), 0.5, device="cuda", dtype=dtype)
        chains(x)
        torch.cuda.synchronize()
    except (RuntimeError, AttributeError):
        return 0.0

    def run() -> None:
        chains(x)
        torch.cuda.synchronize()

    return best_rate(run, 8.0 * _FMA_STEPS * (1 << 22), seconds)
