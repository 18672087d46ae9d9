"""What NVIDIA's own tools say of a recording, where they are installed."""

import csv
import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "shared" / "traces"
NVPROF = TRACES / "nvprof" / "v100_language_model.sql.gz"
CLOVERLEAF = TRACES / "nsys" / "a100_cloverleaf.sqlite.gz"
H100 = TRACES / "nsys" / "h100_2gpu_before.sqlite.gz"


def unpacked(path: Path, folder: Path, name: str) -> Path:
    """A compressed recording as the vendor's tools want it: plain, and named as they expect."""
    (folder / name).write_bytes(gzip.decompress(path.read_bytes()))
    return folder / name


def nsys_stats(export: Path, report: str) -> list[dict[str, str]]:
    """A report of `nsys stats` on an export."""
    options = ("--report", report, "--format", "csv", "--quiet")
    return list(csv.DictReader(ran("nsys", "stats", *options, str(export)).splitlines()))


def plain(name: str) -> str:
    """A kernel's name where all tools spell it alike: not that of a C++ template or overload."""
    name = name.replace("[CUDA memcpy", "Memcpy").replace("[CUDA memset", "Memset").rstrip("]")
    return "C++" if re.search(r"[<(]|^_Z", name) else name


def ran(*command: str) -> str:
    """What a command prints; the test is skipped where it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout + done.stderr
