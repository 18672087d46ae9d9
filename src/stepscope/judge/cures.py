"""Words of advice that hang on what was recorded: on the device, on whether the job trains, on the
recorder.

A cure that the device does not have, or that is for what the recording does not hold, is not named; PyTorch's
means are named to programs of PyTorch alone.
"""

from __future__ import annotations

from stepscope.judge.facts import Facts


def joined(*cures: str) -> str:
    """The cures that there are, as one list."""
    return ", ".join(filter(None, cures))


def graphs(facts: Facts) -> str:
    """Captured graphs by the name that they have on the device; empty where PyTorch has none for it."""
    names = {"cuda": "CUDA graphs", "rocm": "HIP graphs", None: "CUDA or HIP graphs"}
    return names.get(facts.platform, "")


def compile_it(facts: Facts) -> str:
    """torch.compile, for what it has not compiled yet; empty where there is no PyTorch."""
    if not facts.in_pytorch:
        return ""
    return "torch.compile" + (" for what is not compiled yet" if facts.has_compiled else "")


def launch_less(facts: Facts) -> str:
    """What makes fewer launches, as a sentence after the command that shows their cost."""
    captured = graphs(facts)
    if not facts.in_pytorch:
        cures = joined(captured, "kernels that do several steps in one", "more work in each")
        return f"`stepscope launches` for launch cost. Launch less: {cures}."
    mode = "mode='reduce-overhead'" if captured else ""
    cures = joined(
        f"torch.compile({mode})" + (f" or {captured} (torch.cuda.make_graphed_callables)" if captured else ""),
        "fused or foreach optimizers" if facts.loops_over_parameters else "",
        "a larger batch",
    )
    return f"`stepscope launches` for launch cost. Launch less: {cures}."


def narrow_types(facts: Facts) -> str:
    """How to compute in 16 bits on the device."""
    device = "cuda" if facts.platform in ("cuda", "rocm", None) else facts.platform
    what = "Train" if facts.trains else "Run"
    if facts.has_bfloat16:
        return f"{what} under torch.autocast(device_type='{device}', dtype=torch.bfloat16)."
    scaled = " with torch.amp.GradScaler" if facts.trains else ""
    return (
        f"{what} under torch.autocast(device_type='{device}', dtype=torch.float16){scaled}: this "
        "device's tensor cores have no bfloat16."
    )


def matrix_units(facts: Facts) -> str:
    """What the device calls its units for matrix products."""
    return "matrix cores" if facts.platform == "rocm" else "tensor cores"


def processors(facts: Facts) -> str:
    """What the device calls the processors that blocks run on."""
    return "compute units" if facts.platform == "rocm" else "multiprocessors"


def show_the_host(facts: Facts) -> str:
    """How to see in the next recording what the host does."""
    how = "with_stack=True"
    if not facts.by_torch_profiler:
        how = "NVTX ranges (in PyTorch those of torch.autograd.profiler.emit_nvtx)"
    return f"Record {how} to see what the host does, then look at `stepscope idle`."


def device_tool(facts: Facts) -> str:
    """The vendor's command that shows who uses a device, and its link."""
    return "amd-smi" if facts.platform == "rocm" else "nvidia-smi"
