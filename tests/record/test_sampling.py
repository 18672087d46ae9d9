"""Samples of a script by py-spy: what they find, and that the script goes on whatever becomes of py-spy."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import ran

import stepscope
from stepscope.record import sampling
from stepscope.record.sampling import Sampling
from stepscope.record.trouble import RecordingWarning

HOT = """
import sys, time
def made_hot():
    total = 0
    for number in range(6_000_000):
        total += number
    return total
def cool():
    time.sleep(0.05)
made_hot()
cool()
sys.exit(7)
"""


def record(script: Path, out: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "stepscope", "record", *options, "-o", str(out), "--", str(script)]
    environment = os.environ | variables
    return ran(*words, env=environment)


def stand_in(folder: Path, script: str) -> str:
    """A PATH on which `py-spy` is a shell script."""
    program = folder / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def warned(do: Callable[[], object]) -> str:
    """The one warning of something that must warn once."""
    with pytest.warns(RecordingWarning) as found:
        do()
    (one,) = found
    return str(one.message)


def wait_for(file: Path) -> None:
    end = time.monotonic() + 20
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert file.exists()


def test_the_function_that_was_made_hot_is_the_hottest(tmp_path):
    if shutil.which("py-spy") is None and not (Path(sys.executable).parent / "py-spy").exists():
        pytest.skip("py-spy is not installed")
    script = tmp_path / "job.py"
    script.write_text(HOT)
    done = record(script, tmp_path / "out", "--sample")
    assert done.returncode == 7, done.stderr
    (samples,) = (tmp_path / "out").glob("*.speedscope.json")
    assert samples.name.endswith(".rank0.speedscope.json")
    with stepscope.open(tmp_path / "out") as trace:
        rows = trace.ask("hotspots").rows()
        page = {row["metric"]: row["value"] for row in trace.ask("host-metrics")}
    assert rows[0]["function"] == "made_hot"
    assert rows[0]["self_ratio"] > 0.5
    assert not any("as_main.py" in (row["file"] or "") for row in rows)
    assert page["user time"] + page["system time"] > 0.1


@pytest.mark.parametrize("options", [["--sample"], ["--sample", "--phases"]])
def test_without_py_spy_there_is_one_warning_and_the_script_runs(tmp_path, options, monkeypatch):
    script = tmp_path / "job.py"
    script.write_text("print('ran')\nraise SystemExit(3)")
    done = record(script, tmp_path / "out", *options, PATH=stand_in(tmp_path, "exit 1"))
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, "ran")
    assert done.stderr.count("RecordingWarning") == 1, done.stderr
    assert "note: no stacks, or not all, were sampled: py-spy ended early" in done.stdout + done.stderr


def test_py_spy_that_is_not_there_is_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_py_spy", lambda: None)
    taken = Sampling(tmp_path)
    assert "pip install py-spy" in warned(taken.start)
    written = taken.stop()
    assert [json.loads(file.read_text())["format"] for file in written] == ["stepscope.host"]


def test_py_spy_without_the_right_to_read_us_is_one_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", stand_in(tmp_path, "echo Error: Permission Denied >&2; exit 1"))
    monkeypatch.setattr(sampling, "_REFUSAL_SECONDS", 20)
    taken = Sampling(tmp_path / "out", host=False)
    assert "Permission Denied" in warned(taken.start)
    assert taken.stop() == []


def test_py_spy_that_is_killed_costs_its_samples_and_one_warning(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60"
    monkeypatch.setenv("PATH", stand_in(tmp_path, script))
    taken = Sampling(tmp_path / "out", host=False)
    taken.start()
    wait_for(pid)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert taken._process is not None
    taken._process.wait(20)
    assert "ended early" in warned(taken.stop)


def test_py_spy_that_does_not_end_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", stand_in(tmp_path, "trap '' INT; while :; do sleep 0.05; done"))
    monkeypatch.setattr(sampling, "_PATIENCE_SECONDS", 0.2)
    taken = Sampling(tmp_path / "out", host=False)
    taken.start()
    assert "did not end" in warned(taken.stop)


def test_samples_go_with_phases_alone(tmp_path):
    script = tmp_path / "job.py"
    script.write_text("")
    done = record(script, tmp_path / "out", "--sample", "--trace")
    assert done.returncode == 2
    assert "--sample and --trace cannot be combined" in done.stderr
