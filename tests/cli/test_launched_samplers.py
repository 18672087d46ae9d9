"""`stepscope launch` with the real perf and py-spy, under mpiexec where that is installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import ran

import stepscope

BURN = """
import sys, time

def burn():
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        sum(range(1000))

burn()
print("burnt")
sys.exit(3)
"""
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def found(name: str, *tried: str) -> str:
    """The program, where it is installed and may do here what it is for; skips the test elsewhere."""
    path = shutil.which(name, path=PATH)
    if path is None:
        pytest.skip(f"{name} is not installed")
    done = ran(path, *tried)
    if done.returncode:
        pytest.skip(f"{name} may not record here: {done.stderr.strip()[-200:]}")
    return path


def launched(
    tmp_path: Path, *asked: str, ranks: int = 1, seconds: float = 0.8
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    """A program that burns time in each rank, under a tool; how it ended, and what was written."""
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    if ranks > 1 and mpiexec is None:
        pytest.skip("mpiexec is not installed")
    program = tmp_path / "burn.py"
    program.write_text(BURN.replace("SECONDS", str(seconds)))
    ours = [sys.executable, "-m", "stepscope", "launch", *asked, "-o", str(tmp_path / "out")]
    done = ran(
        *([mpiexec, "-n", str(ranks)] if ranks > 1 else ()),
        *ours,
        "--",
        sys.executable,
        str(program),
        env={**os.environ, **AS_ROOT, "PATH": PATH},
    )
    return done, sorted((tmp_path / "out").iterdir())


def test_perf_samples_each_rank(tmp_path: Path) -> None:
    perf = found("perf", "record", "-o", str(tmp_path / "tried"), "--", "true")
    done, files = launched(tmp_path, "--tool", "perf", ranks=2)
    assert (done.returncode, done.stdout.count("burnt")) == (3, 2), done.stderr
    assert [file.name.partition(".")[0] for file in files] == ["rank0", "rank1"]
    for file in files:
        assert file.name.endswith(".perf.data")
    # perf itself prints what StepScope reads of a recording.
    printed = ran(perf, "script", "-i", files[0], "-F", "comm,period", check=True)  # fmt: skip
    samples = [line.split() for line in printed.stdout.splitlines() if line.strip()]
    with stepscope.open(files[0], cache=False) as read:
        (sums,) = read.sql("SELECT sum(weight) AS n, sum(sampled_ns) AS ns FROM stack_sample").rows()
        threads = {row["thread_name"] for row in read.sql("SELECT thread_name FROM thread").rows()}
    assert (sums["n"], sums["ns"]) == (len(samples), sum(int(one[-1]) for one in samples))
    assert threads == {" ".join(one[:-1]) for one in samples}


def test_perf_counts_events(tmp_path: Path) -> None:
    found("perf", "stat", "-o", str(tmp_path / "tried"), "--", "true")
    done, (file,) = launched(tmp_path, "--tool", "perf", "--set", "stat")
    assert (done.returncode, done.stdout) == (3, "burnt\n"), done.stderr
    assert "task-clock" in file.read_text()


def py_spy(tmp_path: Path) -> None:
    tried = ("record", "-f", "raw", "-o", str(tmp_path / "tried"), "--")
    found("py-spy", *tried, sys.executable, "-c", "sum(range(10**7))")


def test_py_spy_samples_each_rank(tmp_path: Path) -> None:
    py_spy(tmp_path)
    done, files = launched(tmp_path, "--tool", "py-spy", ranks=2)
    assert (done.returncode, done.stdout.count("burnt")) == (3, 2), done.stderr
    assert [file.name.partition(".")[0] for file in files] == ["rank0", "rank1"]
    for file in files:
        assert file.name.endswith(".speedscope.json")
        frames = json.loads(file.read_text())["shared"]["frames"]
        assert "burn" in {frame["name"] for frame in frames}


def test_the_command_goes_on_when_py_spy_has_sampled_enough(tmp_path: Path) -> None:
    py_spy(tmp_path)
    asked = ("--tool", "py-spy", "--set", "raw", "--duration", "1")
    done, (file,) = launched(tmp_path, *asked, seconds=1.8)
    # py-spy speaks on stdout too.
    assert (done.returncode, "burnt\n" in done.stdout) == (3, True), done.stderr
    assert file.name.endswith(".raw.txt")
    assert "burn" in file.read_text()
