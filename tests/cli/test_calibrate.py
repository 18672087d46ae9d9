import builtins
import itertools

import pytest

from stepscope.cli import calibrate_device
from stepscope.cli.calibrate import result_lines
from stepscope.cli.main import main
from stepscope.costs.calibration import Measured, known_devices
from stepscope.costs.hardware import builtin


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_best_run_is_the_limit_and_the_first_does_not_count(monkeypatch):
    took = iter([9.0, 2.0, 4.0, 8.0, 4.0])  # the warm-up is not timed
    clock = itertools.count()
    times = [0.0]

    def tick() -> float:
        if next(clock) % 2:
            times[0] += next(took)
        return times[0]

    monkeypatch.setattr(calibrate_device.time, "perf_counter", tick)
    assert calibrate_device.best_rate(lambda: None, 100.0, 0.0) == 50.0


def test_results_stand_beside_the_data_sheet():
    found = Measured("NVIDIA H100 80GB HBM3", 132, {}, {"bfloat16": 692.65e12}, 3.015e12, 57.6e9, "by hand")
    lines = list(result_lines(found, builtin().find(found.device, 132)))
    assert lines[0] == "NVIDIA H100 80GB HBM3"
    assert [line.split() for line in lines[1:]] == [
        ["matrix", "bfloat16", "692.6", "TFLOP/s", "70.0", "%", "of", "the", "data", "sheet"],
        ["memory", "3015", "GB/s", "90.0", "%", "of", "the", "data", "sheet"],
        ["host", "link", "57.60", "GB/s", "90.0", "%", "of", "the", "data", "sheet"],
    ]


def test_without_torch_the_command_says_what_to_do(monkeypatch, capsys):
    real = builtins.__import__

    def no_torch(name, *rest):
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    assert main(["calibrate"]) == 1
    assert "pip install torch" in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.parametrize("dry", [False, True])
def test_a_processor_is_measured_and_kept_unless_the_run_is_dry(monkeypatch, capsys, tmp_path, dry):
    monkeypatch.setattr(calibrate_device, "CPU_SIZE", 64)
    monkeypatch.setattr(calibrate_device, "CPU_BYTES", 1 << 20)
    assert main(["calibrate", "--device", "cpu", "--seconds", "0", *(["--dry-run"] if dry else [])]) == 0
    out = capsys.readouterr().out
    assert "vector float32" in out
    assert ("measured.toml" in out, list(tmp_path.iterdir()) == []) == (not dry, dry)
    if not dry:
        limits = known_devices("measured").find(calibrate_device.processor_name())
        assert limits is not None
        assert limits.peak("float32", "matrix") == limits.vector["float32"] > 0
        assert limits.memory_bytes_per_s


@pytest.mark.torch
def test_a_gpu_that_is_not_there_is_an_error(monkeypatch, capsys):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["calibrate", "--device", "cuda"]) == 2
    assert "--device cpu" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.torch
def test_a_gpu_is_measured_within_its_data_sheet():
    found = calibrate_device.measure("cuda", 0.2)
    known = builtin().find(found.device, found.sm_count)
    assert found.matrix["float16"] > 2 * found.vector["float32"] > 0
    if known is not None and known.memory_bytes_per_s is not None:
        assert 0.5 < found.memory_bytes_per_s / known.memory_bytes_per_s < 1.05
        assert 0.4 < found.matrix["float16"] / known.matrix["float16"] < 1.1
