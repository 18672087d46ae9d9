"""The command line of each tool, and what it refuses."""

import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.base.captured_steps import StepRange
from stepscope.base.errors import UsageError
from stepscope.launch.line import capture_of, recorded_command, script_line, tool_line
from stepscope.launch.output import outcome
from stepscope.launch.tool import Request, Written
from stepscope.launch.tools import TOOLS

STEM = Path("/runs/rank3.node07")
STEPS = StepRange(3, 4)


def typed(name: str, command: str = "./app", **asked) -> str:
    """The line; signals of steps come from `stepscope record`, which runs the command."""
    tool, request = TOOLS[name], Request(STEM, **{"steps": STEPS, **asked})
    return tool_line(tool, name, request, command.split()).typed()


def test_nsys_traces_what_deep_learning_needs_and_leaves_the_command_alone() -> None:
    assert typed("nsys", version=(2024, 5)) == (
        "nsys profile --trace=cuda,nvtx,cublas,cudnn --sample=none --cpuctxsw=none --cuda-graph-trace=node "
        "--kill=none --wait=primary --output=/runs/rank3.node07 ./app"
    )


def test_an_old_nsys_gets_only_what_it_knows() -> None:
    assert typed("nsys", version=(2020, 3), capture="cuda-profiler", delay_s=60, duration_s=2.5) == (
        "nsys profile --trace=cuda,nvtx,cublas,cudnn --sample=none --kill=none --wait=primary "
        "--capture-range=cudaProfilerApi --stop-on-range-end=true --delay=60 --duration=2.5 "
        "--output=/runs/rank3.node07 ./app"
    )


def test_nsys_captures_an_nvtx_range_whose_name_is_no_registered_string() -> None:
    line = typed("nsys", version=(2022, 4, 2), capture="nvtx")
    assert (
        "--capture-range=nvtx --nvtx-capture=stepscope_capture --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0 "
        "--capture-range-end=stop" in line
    )


@pytest.mark.parametrize("name", ["nsys", "ncu", "nvprof"])
def test_a_percent_sign_in_a_folders_name_is_one(name: str) -> None:
    line = tool_line(TOOLS[name], name, Request(Path("/50%p/%q{HOME}/rank0.vm")), ["./app"])
    assert any("/50%%p/%%q{HOME}/rank0.vm" in word for word in line.words)


@pytest.mark.parametrize("given", [("-t", "osrt"), ("--trace=osrt",), ("-tosrt",)])
def test_an_option_of_the_users_replaces_ours(given: tuple[str, ...]) -> None:
    line = typed("nsys", options=given)
    assert "cublas" not in line
    assert f" {' '.join(given)} --output=" in line


def test_nvprof_takes_values_as_words_of_their_own() -> None:
    assert typed("nvprof", capture="cuda-profiler", options=("--metrics=all",)) == (
        "nvprof --profile-child-processes --profile-from-start off --metrics all "
        "--export-profile /runs/rank3.node07.%p.nvprof ./app"
    )


def test_ncu_leaves_nccl_out_and_ends_at_some_kernel() -> None:
    assert typed("ncu", set_name="roofline", capture="cuda-profiler") == (
        "ncu --target-processes=all --launch-count=200 '--kernel-name=regex:^(?!nccl).*' --set=roofline "
        "--profile-from-start=off --export=/runs/rank3.node07 ./app"
    )


def test_onednn_is_a_variable_under_all_its_names() -> None:
    assert typed("onednn") == "env ONEDNN_VERBOSE=1 DNNL_VERBOSE=1 MKLDNN_VERBOSE=1 ./app"


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("nsys", {"set_name": "full"}, "nsys has no --set"),
        ("ncu", {"delay_s": 1.0}, "ncu has no --delay"),
        ("ncu", {"set_name": "all"}, "ncu has no set all"),
        ("onednn", {"set_name": "3"}, "onednn has no set 3"),
        ("vtune", {"set_name": "gpu-hotspots"}, "vtune has no set gpu-hotspots"),
        ("vtune", {"duration_s": 10.0}, "vtune has no --duration"),
        ("aps", {"set_name": "io"}, "aps has no set io"),
        ("aps", {"delay_s": 1.0}, "aps has no --delay"),
        ("py-spy", {"set_name": "flamegraph"}, "py-spy has no set flamegraph"),
        ("py-spy", {"delay_s": 1.0}, "py-spy has no --delay"),
        ("perf", {"set_name": "top"}, "perf has no set top"),
        ("perf", {"set_name": "stat", "duration_s": 1.0}, "has no --duration"),
        ("perf", {"version": (5, 10), "duration_s": 1.0}, "has no --duration"),
        ("rocprofv3", {"set_name": "pc"}, "rocprofv3 has no set pc"),
        ("rocprofv3", {"capture": "roctx", "version": (0, 6)}, "before 1.0"),
        ("rocprofv3", {"capture": "roctx"}, "before 1.0"),
        ("nsys", {"kernels": ("f",)}, "nsys has no --kernels-from"),
        ("nsys", {"metrics": ("ipc",)}, "nsys has no --metrics"),
    ],
)
def test_what_a_tool_cannot_do_is_refused(name: str, asked: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        typed(name, **asked)


def recorded(name: str, *command: str, **asked) -> list[str]:
    """What runs in place of the command, without the Python that runs StepScope."""
    request = Request(STEM, **asked)
    return recorded_command(TOOLS[name], request, (sys.executable, *command), Path("/runs"))[1:]


def test_steps_that_matter_run_the_script_under_record() -> None:
    assert recorded("nsys", "-u", "-X", "dev", "train.py", "--lr=1", steps=StepRange(3, 4), capture="nvtx", nvtx=True) == [
        *("-u", "-X", "dev", "-m", "stepscope", "record", "--capture", "nvtx", "--steps", "3-4", "--nvtx"),
        *("--", "train.py", "--lr=1"),
    ]  # fmt: skip


def test_a_program_that_marks_its_steps_is_told_the_signal() -> None:
    line = typed("nsys", capture="cuda-profiler", steps=None)
    assert line.startswith("env STEPSCOPE_CAPTURE=cuda-profiler nsys profile ")
    assert "--capture-range=cudaProfilerApi" in line
    assert recorded("nsys", "train.py", capture="nvtx") == ["train.py"]


def test_a_module_runs_under_record_too() -> None:
    assert recorded("torch", "-m", "package.train", steps=StepRange(10, 12)) == [
        *("-m", "stepscope", "record", "--trace", "--wait=8", "--warmup=1", "--active=3", "--out", "/runs"),
        *("--", "-m", "package.train"),
    ]


def test_a_trace_starts_when_the_loop_was_found() -> None:
    assert "--wait=1 --warmup=0 --active=1 " in " ".join(recorded("torch", "a.py", steps=StepRange(2, 2)))
    assert "--wait=1 --warmup=1 --active=2 " in " ".join(recorded("torch", "a.py", steps=StepRange(3, 4)))
    with pytest.raises(UsageError, match="torch records from step 2 on"):
        recorded("torch", "a.py", steps=StepRange(1, 2))


@pytest.mark.torch
def test_the_steps_of_a_trace_are_those_that_were_asked(launch, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "for _ in range(8):\n"
        "    model(torch.rand(2, 2)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    with launch("--steps", "3-4", "--", sys.executable, str(script), tool="torch") as process:
        process.communicate(timeout=60)
    with stepscope.open(tmp_path / "out", cache=False) as trace:
        assert trace.steps(columns=["step"]).to_csv() == "step\n3\n4\n"


@pytest.mark.parametrize(
    "command", [("./a.out",), ("bash", "run.sh"), ("/usr/bin/env", "python", "a.py"), ("torchrun", "a.py")]
)
def test_what_is_no_python_script_cannot_be_run_under_record(command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="is not the Python that runs StepScope"):
        script_line(command, [])


@pytest.mark.parametrize("words", [("-c", "pass"), ("-",), (), ("-um", "train"), ("-i",)])
def test_a_python_without_a_script_cannot_either(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="starts no script and no module"):
        script_line((sys.executable, *words), [])


def test_without_a_driver_steps_are_marked_by_nvtx() -> None:
    assert capture_of(TOOLS["nsys"], None, has_nvidia=True) == "cuda-profiler"
    assert capture_of(TOOLS["nsys"], None, has_nvidia=False) == "nvtx"
    assert capture_of(TOOLS["nsys"], "cuda-profiler", has_nvidia=False) == "cuda-profiler"
    with pytest.raises(UsageError, match="is not started and stopped by nvtx"):
        capture_of(TOOLS["nvprof"], "nvtx", has_nvidia=True)
    with pytest.raises(UsageError, match="cannot be started and stopped by a command"):
        capture_of(TOOLS["onednn"], None, has_nvidia=True)


def test_files_of_one_stem_are_not_those_of_another(tmp_path: Path) -> None:
    kind = Written(("{stem}.nsys-rep", "{stem}.qdrep"), lambda _path, _tool: "")
    for name in ("rank1.a[b].nsys-rep", "rank1.ab.nsys-rep", "rank11.a[b].qdrep", "rank1.a[b].qdrep"):
        (tmp_path / name).touch()
    found = [path.name for path in kind.find(tmp_path / "rank1.a[b]")]
    assert found == ["rank1.a[b].nsys-rep", "rank1.a[b].qdrep"]


def test_steps_that_were_reached_without_a_kernel_are_not_said_to_be_missed(tmp_path: Path) -> None:
    """On a node without a device ncu records nothing of any step."""
    request = Request(tmp_path / "rank0", steps=StepRange(5, 5), capture="nvtx")
    _, (wrong,) = outcome(TOOLS["ncu"], "ncu", request, ended="", lasted_s=1.0)
    assert wrong.endswith(
        "step 5 was not reached, or its signal (nvtx) did not reach the tool, or no kernel ran that the filter "
        "lets through"
    )
