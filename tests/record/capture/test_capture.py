"""Another profiler is started and stopped around chosen steps, and the job is what it was."""

import os
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.processes import python

from stepscope.base.captured_steps import SIGNALS, StepRange, parse_steps
from stepscope.base.errors import UsageError
from stepscope.record.capture import nvtx, signals
from stepscope.record.capture.signals import Signal, signal_called
from stepscope.record.capture.steps import CapturedSteps
from stepscope.record.trouble import RecordingWarning

TRAINING = """
import os, sys, torch
def say(word):
    with open(os.environ["CALLS"], "a") as file:
        file.write(word + "\\n")
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    say(f"step {step}")
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).square().sum()
    loss.backward()
    optimizer.step()
    if step == 4 and "raise" in sys.argv:
        raise SystemExit(7)
print("loss", loss.item().hex())
"""

STAND_IN = """
#include <stdio.h>
#include <stdlib.h>
static int say(const char *word) {
    FILE *file = fopen(getenv("CALLS"), "a");
    fprintf(file, "%s\\n", word);
    fclose(file);
    return atoi(getenv("RETURNS") ? getenv("RETURNS") : "0");
}
int cudaProfilerStart(void) { return say("start"); }
int cudaProfilerStop(void) { return say("stop"); }
void __itt_resume(void) { say("start"); }
void __itt_pause(void) { say("stop"); }
int roctxProfilerResume(unsigned long thread) { return thread ? 1 : say("start"); }
int roctxProfilerPause(unsigned long thread) { return thread ? 1 : say("stop"); }
"""

LIBRARIES = {
    "cuda-profiler": "libcudart.so.12",
    "itt": "libittnotify_collector.so",
    "roctx": "librocprofiler-sdk-roctx.so.1",
}


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of libraries that write down when they are called."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, which makes the stand-ins")
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "stand_in.c").write_text(STAND_IN)
    made = folder / "made.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(made), str(folder / "stand_in.c")]
    subprocess.run(command, check=True)
    for name in LIBRARIES.values():
        shutil.copy(made, folder / name)
    (folder / "libcudart.so.13").symlink_to(LIBRARIES["cuda-profiler"])
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints when nothing captures it."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "train.py").write_text(TRAINING)
    return _run(folder, "train.py", "7")[1]


def _run(folder: Path, *arguments: str, code: int = 0, **environment: str) -> tuple[list[str], str, str]:
    """What was written down of a run, and its stdout and stderr."""
    calls = folder / "calls"
    calls.unlink(missing_ok=True)
    done = python(
        *arguments, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", "CALLS": str(calls), **environment}
    )
    assert done.returncode == code, done.stderr
    return calls.read_text().splitlines() if calls.exists() else [], done.stdout, done.stderr


def _captured(
    folder: Path, word: str, steps: str, *arguments: str, code: int = 0, **environment: str
) -> tuple[list[str], str, str]:
    (folder / "train.py").write_text(TRAINING)
    command = ["-m", "stepscope", "record", "--capture", word, "--steps", steps]
    return _run(folder, *command, "--", "train.py", *arguments, code=code, **environment)


@pytest.mark.sweep(3)
@pytest.mark.torch
@pytest.mark.parametrize("word", LIBRARIES)
def test_the_profiler_is_started_and_stopped_around_exactly_these_steps(
    word: str, stand_ins: Path, alone: str, tmp_path: Path
) -> None:
    where = {"LD_LIBRARY_PATH": str(stand_ins), "INTEL_LIBITTNOTIFY64": str(stand_ins / LIBRARIES["itt"])}
    calls, said, err = _captured(tmp_path, word, "3-4", "7", **where)
    assert calls == [*("step 0", "step 1", "step 2"), *("start", "step 3", "step 4", "stop"), *("step 5", "step 6")]
    assert not err
    assert said == alone


@pytest.mark.torch
def test_a_job_that_ends_within_the_steps_stops_the_profiler(stand_ins: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    where = {"LD_LIBRARY_PATH": str(stand_ins)}
    calls, _, err = _captured(tmp_path, "cuda-profiler", "3-90", "9", "raise", code=7, **where)
    assert calls[-4:] == ["start", "step 3", "step 4", "stop"]
    assert not err


class _Failing:
    def __init__(self, code: int) -> None:
        self._code = code

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: self._code


@pytest.mark.parametrize(
    ("word", "why"),
    [("cuda-profiler", "cudaProfilerStart returned CUDA error 5"), ("roctx", "roctxProfilerResume returned 5")],
)
def test_an_error_of_the_profiler_is_one_warning(word: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "load", lambda *_: _Failing(5))
    with pytest.warns(RecordingWarning, match=why) as warned:
        _drive(CapturedSteps(StepRange(2, 3), signal_called(word)))
    assert len(warned) == 1


@pytest.mark.parametrize("word", SIGNALS)
def test_without_its_library_there_is_one_warning_and_the_job_runs_on(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(stem: str, _names: object) -> None:
        raise OSError(f"{stem} is not on this machine")

    monkeypatch.setattr(signals, "load", load)
    monkeypatch.setattr(nvtx, "load", load)
    nvtx.nvtx.cache_clear()
    with pytest.warns(RecordingWarning, match="is not on this machine|where libraries are") as warned:
        _drive(CapturedSteps(StepRange(2, 3), signal_called(word)))
    assert len(warned) == 1


def _drive(recording: CapturedSteps) -> None:
    recording.start(lead_in=True)
    recording.add_missed(1)
    for _ in range(5):
        recording.start_iteration()
    recording.stop()


@pytest.mark.torch
def test_itt_without_a_collector_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    if os.environ.get("INTEL_LIBITTNOTIFY64"):
        pytest.skip("a collector watches the tests")
    with pytest.warns(RecordingWarning, match="no collector of ITT|has no ITT") as warned:
        _drive(CapturedSteps(StepRange(2, 3), signal_called("itt")))
    assert len(warned) == 1


def test_a_script_captures_itself(stand_ins: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        """
import sys, stepscope
with stepscope.capture():
    print("inside")
part = stepscope.capture()
part.start()
part.start()
assert "torch" not in sys.modules
"""
    )
    where = {"LD_LIBRARY_PATH": str(stand_ins)}
    assert _run(tmp_path, "own.py", STEPSCOPE_CAPTURE="cuda-profiler", **where)[0] == [
        *("start", "stop"),
        *("start", "stop"),  # the second at the end of the process
    ]
    assert _run(tmp_path, "own.py", **where)[0] == []
    calls, _, err = _run(tmp_path, "own.py", STEPSCOPE_CAPTURE="nothing", **where)
    assert not calls
    assert err.count("STEPSCOPE_CAPTURE is none of cuda-profiler, nvtx, itt, roctx") == 1
    _, said, err = _run(tmp_path, "own.py", STEPSCOPE_CAPTURE="itt")
    assert said == "inside\n"
    assert err.count("nothing more is captured: OSError: libtorch_cpu is not on this machine") == 1


def _heard() -> tuple[Signal, list[str]]:
    calls: list[str] = []
    return Signal(lambda: calls.append("start"), lambda: calls.append("stop")), calls


def test_steps_that_are_never_reached_are_one_warning() -> None:
    signal, calls = _heard()
    recording = CapturedSteps(StepRange(100, 102), signal)
    with pytest.warns(RecordingWarning, match="over in step 6, before steps 100-102"):
        _drive(recording)
    recording.stop()
    assert calls == []


def test_a_job_without_a_loop_captures_nothing() -> None:
    recording = CapturedSteps(StepRange(100, 102), _heard()[0])
    recording.start(lead_in=True)
    with pytest.warns(RecordingWarning, match="none has stepped twice"):
        recording.stop()


def test_a_resumed_run_counts_on() -> None:
    signal, calls = _heard()
    recording = CapturedSteps(StepRange(1002, 1002), signal, start_step=1000)
    recording.start(lead_in=True)
    recording.add_missed(1)
    recording.start_iteration()
    assert calls == ["start"]
    recording.start_iteration()
    assert calls == ["start", "stop"]
    assert recording.over


def test_the_step_that_goes_by_unobserved_is_not_captured_in_silence() -> None:
    signal, calls = _heard()
    recording = CapturedSteps(StepRange(1, 2), signal)
    with pytest.warns(RecordingWarning, match="step 1 will not be captured"):
        recording.start(lead_in=True)
    recording.add_missed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        recording.start_iteration()
    assert calls == ["start"]
    recording.stop()


def test_a_later_step_that_goes_by_unobserved_is_said_when_it_has() -> None:
    signal, calls = _heard()
    recording = CapturedSteps(StepRange(2, 3), signal)
    recording.start(lead_in=True)
    recording.add_missed(2)
    with pytest.warns(RecordingWarning, match="step 2 could not be captured"):
        recording.start_iteration()
    assert calls == ["start"]
    recording.stop()


@pytest.mark.parametrize("text", ["", "3,4", "5-3", "-3", "3-", "a", "1" * 16, "3--4"])
def test_steps_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        parse_steps(text)


def test_one_step_or_a_range() -> None:
    assert parse_steps("7") == StepRange(7, 7)
    assert parse_steps(" 100-102 ") == StepRange(100, 102)
