"""Wording of advice that depends on the recording: on the device, on whether the job trains, on the recorder.

Cures that the device or the recording has no use for are not named; PyTorch's means are named only to programs of
PyTorch.
"""

from __future__ import annotations

from stepscope.findings.facts import Facts


def joined(*cures: str) -> str:
    """Joins the available cures into one list."""
    return ", ".join(filter(None, cures))


def graphs(facts: Facts) -> str:
    """Names captured graphs as on the device; empty if PyTorch has none for it."""
    names = {"cuda": "CUDA graphs", "rocm": "HIP graphs", None: "CUDA or HIP graphs"}
    return names.get(facts.platform, "")


def compile_it(facts: Facts) -> str:
    """Names torch.compile, if something is not compiled yet; empty without PyTorch."""
    if not facts.in_pytorch:
        return ""
    return "torch.compile" + (" for what is not compiled yet" if facts.has_compiled else "")


def launch_less(facts: Facts) -> str:
    """Advice on fewer launches, as a sentence after the command that shows their cost."""
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
    """Names the device's units for matrix products."""
    return "matrix cores" if facts.platform == "rocm" else "tensor cores"


def processors(facts: Facts) -> str:
    """Names the processors on which the device runs blocks."""
    return "compute units" if facts.platform == "rocm" else "multiprocessors"


def show_the_host(facts: Facts) -> str:
    """How to record the host's activity next time."""
    how = "with_stack=True"
    if not facts.by_torch_profiler:
        how = "NVTX ranges (in PyTorch those of torch.autograd.profiler.emit_nvtx)"
    return f"Record {how} to see what the host does, then look at `stepscope idle`."


def device_tool(facts: Facts) -> str:
    """The vendor's command that shows a device's users and its link."""
    return "amd-smi" if facts.platform == "rocm" else "nvidia-smi"
