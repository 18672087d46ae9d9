"""Device limits: what the file says, which name finds which row, and what a wrong file is told."""

import pytest

from stepscope.base.errors import UsageError
from stepscope.costs.dtype import SIZES
from stepscope.costs.hardware import builtin, load_hardware, parse_hardware

FOUND = [
    ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2"),
    ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2"),
    ("Tesla V100-PCIE-16GB", "NVIDIA V100 PCIe"),
    ("Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe"),
    ("Tesla V100-DGXS-32GB", "NVIDIA V100 of a DGX Station"),
    ("Tesla T4", "NVIDIA T4"),
    ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 SXM 40 GB"),
    ("A100-SXM4-80GB", "NVIDIA A100 SXM 80 GB"),
    ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40 GB"),
    ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80 GB"),
    ("NVIDIA A100-PG509-200", "NVIDIA A100 SXM 40 GB"),
    ("NVIDIA A10", "NVIDIA A10"),
    ("NVIDIA A10G", "NVIDIA A10G"),
    ("NVIDIA A40", "NVIDIA A40"),
    ("NVIDIA RTX A6000", "NVIDIA RTX A6000"),
    ("NVIDIA L4", "NVIDIA L4"),
    ("NVIDIA L40", "NVIDIA L40"),
    ("NVIDIA GH200 480GB", "NVIDIA GH200 96 GB HBM3"),
    ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144 GB HBM3e"),
    ("NVIDIA L40S", "NVIDIA L40S"),
    ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
    ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
    ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090"),
    ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
    ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
    ("NVIDIA H100 NVL", "NVIDIA H100 NVL"),
    ("NVIDIA H200", "NVIDIA H200 SXM"),
    ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
    ("NVIDIA B200", "NVIDIA B200"),
    ("NVIDIA GB200", "NVIDIA GB200 (one of two GPUs)"),
    ("AMD Instinct MI210", "AMD Instinct MI210"),
    ("AMD Instinct MI250X/MI250", "AMD Instinct MI250X (one of two dies)"),
    ("AMD Instinct MI250", "AMD Instinct MI250 (one of two dies)"),
    ("AMD Instinct MI350X", "AMD Instinct MI350X"),
    ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
    ("AMD Instinct MI325X", "AMD Instinct MI325X"),
    ("AMD Instinct MI355X", "AMD Instinct MI355X"),
    ("Intel(R) Data Center GPU Max 1550", "Intel Data Center GPU Max 1550 (one of two stacks)"),
]
UNKNOWN = [
    "NVIDIA H20", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 2080", "Intel(R) Xeon(R) CPU", "", None,
]  # fmt: skip


@pytest.mark.parametrize(("reported", "row"), FOUND)
def test_a_device_is_found_by_the_name_its_driver_reports(reported, row) -> None:
    found = builtin().find(reported)
    assert found.name == row


@pytest.mark.parametrize("reported", UNKNOWN)
def test_an_unknown_device_has_no_peak(reported) -> None:
    assert builtin().find(reported) is None


def test_a_part_of_a_device_is_not_the_device() -> None:
    assert builtin().find("AMD Instinct MI300X", sm_count=304) is not None
    assert builtin().find("AMD Instinct MI300X", sm_count=38) is None  # one of eight partitions
    both = builtin().find("AMD Instinct MI250X/MI250", sm_count=104)  # the driver's name for either
    assert both.name == "AMD Instinct MI250 (one of two dies)"


def test_every_row_is_found_by_its_own_words_and_names_its_source() -> None:
    for device in builtin().devices:
        assert len(device.source) > 30
        for words in device.match if device.is_known else ():
            found = builtin().find(words)
            assert found.name == device.name
            assert found.generation == builtin().generation(words)
        if not device.is_known:
            assert {builtin().generation(words) for words in device.match} == {device.generation}
            continue
        assert device.memory_bytes_per_s is not None
        assert set(device.vector) | set(device.matrix) <= set(SIZES) | {"tf32"}


@pytest.mark.parametrize(
    ("device", "generation"),
    [
        ("Tesla V100-DGXS-32GB", "Volta"),
        ("Tesla T4", "Turing"),
        ("NVIDIA A10G", "Ampere"),
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Ampere"),
        ("NVIDIA GeForce RTX 3090", "Ampere"),
        ("NVIDIA GeForce RTX 3090 Ti", "Ampere"),
        ("NVIDIA RTX 2000 Ada Generation", "Ada"),
        ("NVIDIA L40S", "Ada"),
        ("NVIDIA H100 80GB HBM3", "Hopper"),
        ("NVIDIA H200", "Hopper"),
        ("NVIDIA B200", "Blackwell"),
        ("AMD Instinct MI300X", None),
        (None, None),
    ],
)
def test_generations_are_known_by_product_name(device, generation) -> None:
    assert builtin().generation(device) == generation


def test_tensor_cores_are_never_slower_than_what_they_replace() -> None:
    for device in builtin().devices:
        for dtype, peak in device.matrix.items():
            plain = device.vector.get("float32" if dtype == "tf32" else dtype, 0)
            assert peak >= plain * 0.99, (device.name, dtype)
        half = device.matrix.get("float16")
        narrow = device.matrix.get("float8_e4m3fn") or device.matrix.get("float8_e4m3fnuz")
        if half and narrow:
            assert narrow == pytest.approx(2 * half, rel=0.02), device.name


def test_peaks_are_dense() -> None:
    """The sheets of the H100 quote 1979 and 3958 TFLOP/s, with sparsity."""
    device = builtin().find("NVIDIA H100 80GB HBM3")
    assert device.peak("bfloat16", "matrix") == 989_500_000_000_000
    assert device.peak("float8_e4m3fn", "matrix") == 1_979_000_000_000_000
    assert device.memory_bytes_per_s == 3_350_000_000_000
    assert device.link_bytes_per_s == 450_000_000_000  # in one direction


@pytest.mark.parametrize(
    ("name", "units", "ghz", "vector", "matrix"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 1.98, {"float32": 256}, {}),
        ("NVIDIA B200", 148, 1.98, {"float32": 256, "float64": 128}, {}),
        (
            "AMD Instinct MI355X", 256, 2.4, {"float64": 128, "float32": 256},
            {"float64": 128, "float16": 4096, "float8_e4m3fn": 8192, "float4_e2m1fn_x2": 16384},
        ),
        (
            "Intel(R) Data Center GPU Max 1550", 64, 1.6, {"float64": 256, "float16": 512},
            {"tf32": 2048, "bfloat16": 4096, "int8": 8192},
        ),
    ],
)  # fmt: skip
def test_peaks_are_units_times_operations_a_clock_times_clock(name, units, ghz, vector, matrix) -> None:
    found = builtin().find(name)
    for peaks, operations in ((found.vector, vector), (found.matrix, matrix)):
        for dtype, per_clock in operations.items():
            assert peaks[dtype] == pytest.approx(units * per_clock * ghz * 1e9, rel=0.015)


def test_a_type_the_matrix_units_do_not_take_runs_on_the_others() -> None:
    device = builtin().find("Tesla V100-SXM2-16GB")
    assert device.peak("float32", "matrix") == device.peak("float32", "vector") == 15_700_000_000_000
    assert device.peak("float16", "matrix") == 125_000_000_000_000
    assert device.peak("bfloat16", "matrix") is None
    assert device.peak(None, "matrix") is None


OWN = """
[[device]]
name = "ours"
match = ["H100 80GB HBM3"]
matrix = { bfloat16 = 700.0 }
memory_gb_per_s = 2900
source = "measured"
"""


def test_a_row_of_the_users_comes_first(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    found = load_hardware(path)
    assert found.find("NVIDIA H100 80GB HBM3").name == "ours"
    assert found.find("NVIDIA B200").name == "NVIDIA B200"
    assert load_hardware().find("NVIDIA H100 80GB HBM3").name == "NVIDIA H100 SXM"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[device", "no TOML"),
        ("devices = 3", "unknown entries: devices"),
        ("device = 3", "not a list of tables"),
        ('[[device]]\nname = "x"', "needs a name and a source"),
        (OWN.replace('match = ["H100 80GB HBM3"]', "match = []"), "at least one name"),
        (OWN.replace("700.0", '"fast"'), "is not a positive number"),
        (OWN.replace("700.0", "-1"), "is not a positive number"),
        (OWN.replace("bfloat16", "bf16"), "unknown element type 'bf16'"),
        (OWN.replace("memory_gb", "memory_tb"), "unknown entries: memory_tb_per_s"),
        (OWN.replace("2900", "true"), "is not a positive number"),
        (OWN + "sm_count = 1.5\n", "not a positive integer"),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong(text, said) -> None:
    with pytest.raises(UsageError) as raised:
        parse_hardware(text)
    assert said in raised.value.message
    assert raised.value.slug == "hardware-file"


def test_a_missing_file_is_told(tmp_path) -> None:
    with pytest.raises(UsageError) as raised:
        load_hardware(tmp_path / "none.toml")
    assert "cannot be read" in raised.value.message
