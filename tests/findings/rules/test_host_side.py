"""Findings of what was measured of the host: primitives of oneDNN, processors, MPI."""

from pathlib import Path
from typing import Any

import pytest

import stepscope

REFERENCE = "onednn_verbose,exec,cpu,matmul,ref:any,undef,src_f32::blocked:ab:f0,,,2x2:2x2,{}\n"
FAST = "onednn_verbose,exec,cpu,matmul,brgemm:avx2,undef,src_f32::blocked:ab:f0,,,4x4:4x4,{}\n"
REORDER = "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,4x4,{}\n"
APS = "| Summary information\n  Elapsed Time: 100.0 s\n  MPI Time: {} s  {}% of Elapsed Time\n"


@pytest.fixture
def findings(tmp_path: Path) -> Any:
    """`findings(text)`: the rows of all rules about a file, by id."""

    def ask(text: str) -> dict[str, dict[str, Any]]:
        file = tmp_path / "log.txt"
        file.write_text(text)
        with stepscope.open(file) as recording:
            rows = recording.ask("findings").rows()
            for row in rows:
                if row["query"].startswith("SELECT"):
                    (again,) = recording.sql(row["query"]).rows()
                    assert next(iter(again.values())) == pytest.approx(row["value"])
        return {row["id"]: row for row in rows}

    return ask


def test_reference_implementations_that_take_a_tenth_are_found(findings: Any) -> None:
    row = findings(FAST.format(0.9) + REFERENCE.format(0.1))["reference-primitives"]
    assert row["value"] == pytest.approx(0.1)
    assert row["title"] == (
        "10.0 % of the time of oneDNN's primitives run as reference implementations, which are plain loops; the longest "
        "takes 100.0 µs in 1 execution"
    )
    assert "reference-primitives" not in findings(FAST.format(0.91) + REFERENCE.format(0.09))


def test_reorders_that_take_a_fifth_are_found(findings: Any) -> None:
    found = findings(FAST.format(0.8) + REORDER.format(0.2))
    assert found["layout-reorders"]["value"] == pytest.approx(0.2)
    assert "layout-reorders" not in findings(FAST.format(0.9) + REORDER.format(0.1))


def test_what_such_a_recording_has_is_named_in_place_of_nothing(findings: Any) -> None:
    row = findings(FAST.format(1))["nothing-recorded"]
    assert row["title"].endswith("no operator, device event or phase to judge by, but the primitives of oneDNN")
    assert "stepscope onednn" in row["advice"]


FLAGGED = """| Summary information
  Elapsed Time: 100.0 s
  Disk I/O Bound: 30.0 s  30.00% of Elapsed Time
| A large part of the time goes to disks.
  Serial Time: 2.0 s  2.00% of Elapsed Time
| Serial time can be reduced.
  GPU Occupancy: 72.47% of Peak Value
| The device is hardly occupied.
  Memory Stalls: 62.90% of Pipeline Slots
| The metric value can indicate stalls.
    Cache Stalls: 66.60% of Cycles
| A significant proportion of cycles.
  Vectorization: 30.22%
| Some of the individual values contributing to this average metric are
| statistical outliers.
"""


def test_what_aps_flags_is_found_once_and_outliers_are_no_judgement(tmp_path: Path) -> None:
    (tmp_path / "aps.txt").write_text(FLAGGED)
    with stepscope.open(tmp_path / "aps.txt", cache=False) as recording:
        found = [r for r in recording.ask("findings").rows() if r["id"] == "host-flagged"]
    assert [(row["title"], row["value"]) for row in found] == [
        ("APS flags Memory Stalls: 62.9 % of Pipeline Slots", 0.629),
        ("APS flags Disk I/O Bound: 30.0 % of Elapsed Time", 0.3),
    ]


def test_mpi_beyond_its_threshold_is_found(findings: Any) -> None:
    row = findings(APS.format(16, 16.0))["host-use"]
    assert (row["title"], row["value"]) == ("MPI takes 16.0 % of the elapsed time, by APS", 0.16)
    assert "`stepscope" not in row["advice"]  # a summary of APS has no ranks that could be asked who waits
    assert "host-use" not in findings(APS.format(15, 15.0))
