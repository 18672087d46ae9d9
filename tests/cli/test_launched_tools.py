"""`stepscope launch` with stand-ins for tools that cannot be installed here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.launch.stand_ins import APS, ROCPROFV3, VTUNE, stand_in


@pytest.mark.parametrize(
    ("name", "body", "environment", "ending"),
    [
        ("vtune", VTUNE, {}, ".vtune"),
        ("amplxe-cl", VTUNE, {}, ".vtune"),
        ("aps", APS, {}, ".aps"),
        ("rocprofv3", ROCPROFV3, {}, "_results.db"),
        ("rocprofv3", ROCPROFV3, {"OLD": "error"}, "_results.pftrace"),
    ],
)
def test_a_run_writes_what_is_expected(
    spawn, tmp_path: Path, name: str, body: str, environment: dict, ending: str
) -> None:
    stand_in(tmp_path / "bin", name, body)
    tool = "vtune" if name == "amplxe-cl" else name
    ran = spawn(
        *("launch", "--tool", tool, "-o", str(tmp_path / "out"), "--"),
        *("sh", "-c", "echo ran; exit 7"),
        PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        **environment,
    )
    assert (ran.code, ran.out, ran.err) == (7, "ran\n", "")
    (found,) = (path.name for path in (tmp_path / "out").iterdir())
    assert found.startswith("rank0.")
    assert found.endswith(ending)


def test_a_result_in_which_nothing_was_collected_is_reported(spawn, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "vtune", VTUNE)
    ran = spawn(
        *("launch", "--tool", "vtune", "-o", str(tmp_path / "out"), "--", "true"),
        PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        NOTHING="1",
    )
    assert ran.code == 0
    assert "is incomplete: nothing was collected" in ran.err
