"""Findings of what was measured of the host: primitives of oneDNN, processors, MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepscope

REFERENCE = "onednn_verbose,exec,cpu,matmul,ref:any,undef,src_f32::blocked:ab:f0,,,2x2:2x2,{}\n"
FAST = "onednn_verbose,exec,cpu,matmul,brgemm:avx2,undef,src_f32::blocked:ab:f0,,,4x4:4x4,{}\n"
REORDER = "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,4x4,{}\n"
APS = "| Summary information\n  Elapsed Time: 100.0 s\n  MPI Time: {} s  {}% of Elapsed Time\n"


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`findings(text)`: the rows of all rules about a file, by id."""
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))

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
        "takes 100.0 µs in 1 executions"
    )
    assert "reference-primitives" not in findings(FAST.format(0.91) + REFERENCE.format(0.09))


def test_reorders_that_take_a_fifth_are_found(findings: Any) -> None:
    found = findings(FAST.format(0.8) + REORDER.format(0.2))
    assert found["layout-reorders"]["value"] == pytest.approx(0.2)
    assert "layout-reorders" not in findings(FAST.format(0.9) + REORDER.format(0.1))


def test_what_such_a_recording_has_is_named_in_place_of_nothing(findings: Any) -> None:
    row = findings(FAST.format(1))["nothing-recorded"]
    assert row["title"].endswith(
        "no operator, device event or phase to judge by, but the primitives of oneDNN"
    )
    assert "stepscope onednn" in row["advice"]


def test_mpi_beyond_its_threshold_is_found(findings: Any) -> None:
    row = findings(APS.format(16, 16.0))["host-use"]
    assert (row["title"], row["value"]) == ("MPI takes 16.0 % of the elapsed time, by APS", 0.16)
    assert "host-use" not in findings(APS.format(15, 15.0))
