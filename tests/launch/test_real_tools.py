"""Real profilers under real launchers, two ranks; what they write is read back."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.launch.conftest import bare_environment
from tests.slurm_cluster import slurm, why_no_slurm

import stepscope
from stepscope.record.capture.nvtx import nvtx

LAUNCH = (sys.executable, "-m", "stepscope", "launch")
APP = (
    sys.executable,
    "-c",
    "from stepscope.record.capture.nvtx import nvtx\n"
    "try:\n"
    "    nvtx().push(b'work')\n"
    "    nvtx().pop()\n"
    "except OSError: pass\n"
    "print('done')",
)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def needed(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


def ran(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = bare_environment() | AS_ROOT | variables
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=90, check=False)


def assert_both_ranks_are_read_back(folder: Path) -> None:
    """Both reports are there; without a range in them there is nothing to read."""
    assert [path.name[:6] for path in sorted(folder.iterdir())] == ["rank0.", "rank1."]
    try:
        nvtx()
    except OSError:
        pytest.skip("without NVIDIA's library for NVTX ranges the reports are empty")
    with stepscope.open(folder, cache=False) as trace:
        columns = ["rank", "rank_rule", "tool"]
        assert trace.sources(columns=columns).to_csv().splitlines()[1:] == [
            "0,file name,Nsight Systems",
            "1,file name,Nsight Systems",
        ]


def test_the_output_of_the_command_is_its_own_byte_by_byte(tmp_path: Path) -> None:
    needed("nsys")
    words = [*LAUNCH, "--tool", "nsys", "-o", str(tmp_path / "out"), "--"]
    done = subprocess.run(
        [*words, "sh", "-c", r"printf '\000\377 half a line'; echo oh >&2"],
        env=bare_environment(),
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert done.stdout == b"\0\xff half a line"
    assert b"oh\n" in done.stderr
    assert b"Generat" in done.stderr


def test_two_ranks_of_mpiexec(tmp_path: Path) -> None:
    needed("nsys")
    needed("mpiexec")
    words = ["mpiexec", "-n", "2", *LAUNCH, "--tool", "nsys", "-o", str(tmp_path / "out")]
    done = ran([*words, "--", *APP])
    assert (done.returncode, done.stdout.count("done")) == (0, 2), done.stderr
    assert_both_ranks_are_read_back(tmp_path / "out")


@pytest.mark.skipif(bool(why_no_slurm()), reason=why_no_slurm())
def test_two_ranks_of_srun(tmp_path: Path) -> None:
    needed("nsys")
    out = tmp_path / "out"
    words = ["srun", "-n", "2", *LAUNCH, "--tool", "nsys", "-o", str(out)]
    with slurm(tmp_path) as environment:
        done = ran([*words, "--", *APP], **{n: environment[n] for n in ("PATH", "SLURM_CONF")})
    assert (done.returncode, done.stdout.count("done")) == (0, 2), done.stderr
    assert_both_ranks_are_read_back(out)


@pytest.mark.torch
def test_one_of_two_ranks_of_torchrun(tmp_path: Path) -> None:
    needed("nsys")
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--no-python"]
    words = ["--tool", "nsys", "--ranks", "1", "-o", str(tmp_path / "out"), "--", *APP]
    done = ran([*start, *LAUNCH, *words])
    assert (done.returncode, done.stdout.count("done")) == (0, 2), done.stderr
    (report,) = (tmp_path / "out").iterdir()
    assert report.name.startswith("rank1.")


@pytest.mark.parametrize("tool", ["ncu", "nvprof"])
def test_the_exit_code_is_the_commands_whatever_the_tools_is(tool: str, tmp_path: Path) -> None:
    needed(tool)
    words = [*LAUNCH, "--tool", tool, "-o", str(tmp_path / "out"), "--", "sh", "-c", "exit 5"]
    done = ran(words)
    assert done.returncode == 5
    if not Path("/proc/driver/nvidia").exists():
        assert f"stepscope launch: rank 0: {tool} wrote no rank0." in done.stderr


@pytest.mark.parametrize("what", [signal.SIGTERM, signal.SIGKILL])
def test_nsys_that_is_told_to_end_or_killed_leaves_the_command_running(what, tmp_path: Path) -> None:
    needed("nsys")
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\n"
        "print(os.getpid(), flush=True)\n"
        "while True: signal.pause()\n"
    )
    words = [*LAUNCH, "--tool", "nsys", "--wait", "20", "-o", str(tmp_path / "out")]
    with subprocess.Popen(
        [*words, "--", sys.executable, "-c", script],
        env=bare_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        command = int(next(line for line in process.stdout if line.strip().isdecimal()))
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        (nsys,) = (int(pid) for pid, parent, args in rows if int(parent) == process.pid and " profile " in args)
        os.kill(nsys, what)
        os.kill(command, signal.SIGUSR1)
        _, warnings = process.communicate(timeout=60)
    assert process.returncode == 7, warnings
