import pytest

from stepscope.base.errors import StepScopeError, UsageError
from stepscope.costs.calibration import (
    Measured,
    config_folder,
    known_devices,
    measured_path,
    measured_text,
    store_measured,
)
from stepscope.costs.hardware import parse_hardware

GPU = Measured(
    'A "new" GPU', 100, {"float32": 50e12}, {"float16": 800e12, "tf32": 400e12}, 3.2e12, 55e9, source="by hand"
)
CPU = Measured("Some CPU", None, {"float32": 0.5e12}, {}, 40e9, None, "by hand")


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_what_is_written_is_read_back():
    limits = parse_hardware(measured_text(GPU)).find('A "new" GPU', 100)
    assert limits.peak("float16", "matrix") == 800e12
    assert limits.peak("tf32", "matrix") == 400e12
    assert limits.peak("float32", "vector") == 50e12
    assert limits.memory_bytes_per_s == 3.2e12
    assert limits.host_bytes_per_s == 55e9


def test_measuring_again_replaces_the_device_and_keeps_others():
    assert store_measured(GPU) == measured_path()
    store_measured(CPU)
    store_measured(Measured("Some CPU", None, {"float32": 0.7e12}, {}, 40e9, None, "measured again"))
    found = known_devices("measured")
    assert [device.name for device in found.devices] == ["Some CPU (measured)", 'A "new" GPU (measured)']
    assert found.devices[0].vector["float32"] == 0.7e12


def test_measured_limits_that_nobody_measured_are_an_error():
    with pytest.raises(UsageError, match="no measured limits") as caught:
        known_devices("measured")
    assert "stepscope calibrate" in caught.value.hint


def test_a_file_of_the_users_own_comes_before_the_data_sheets():
    own = config_folder() / "hardware.toml"
    own.parent.mkdir()
    own.write_text('[[device]]\nname = "mine"\nmatch = ["h100 80gb hbm3"]\nmatrix = { float16 = 1 }\nsource = "me"\n')
    limits = known_devices("datasheet").find("NVIDIA H100 80GB HBM3")
    assert limits.name == "mine"
    assert known_devices("datasheet").find("NVIDIA B200") is not None


def test_a_damaged_file_is_not_overwritten():
    measured_path().parent.mkdir()
    measured_path().write_text("no toml [")
    with pytest.raises(UsageError, match="no TOML"):
        store_measured(CPU)
    assert measured_path().read_text() == "no toml ["


def test_a_folder_that_cannot_be_made_names_the_cure(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(StepScopeError, match="cannot be written") as caught:
        store_measured(CPU)
    assert "XDG_CONFIG_HOME" in caught.value.hint
