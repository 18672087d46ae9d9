"""`stepscope launch` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli.launch import show

LAUNCHER = {"PMI_RANK": "3", "PMI_SIZE": "8"}


@pytest.fixture
def rank3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LAUNCHER.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("rank3")
def test_dry_run_prints_what_this_process_would_run(run, tmp_path: Path) -> None:
    asked = ("launch", "--tool", "onednn", "-o", str(tmp_path), "--dry-run", "--ranks")
    assert run(*asked, "3", "--", "./a b", "-x").out == (
        "env ONEDNN_VERBOSE=1 DNNL_VERBOSE=1 MKLDNN_VERBOSE=1 './a b' -x\n"
    )
    assert run(*asked, "0", "--", "./a b", "-x").out == "'./a b' -x\n"


def test_the_line_of_a_dry_run_makes_the_folder_that_is_not_there(run, tmp_path: Path) -> None:
    asked = ("launch", "--tool", "perf", "--dry-run", "-o")
    there, none = str(tmp_path), str(tmp_path / "a b")
    assert "mkdir" not in run(*asked, there, "--", "./app").out
    assert run(*asked, none, "--", "./app").out.startswith(f"mkdir -p '{none}' && ")


@pytest.mark.usefixtures("rank3")
def test_options_of_the_tool_stand_between_two_dashes(run, tmp_path: Path) -> None:
    words = ("-o", str(tmp_path), "--dry-run", "--", "--gpu-metrics-device=0", "--", "./app", "--", "a")
    out = run("launch", "--tool", "nsys", *words).out
    assert " --gpu-metrics-device=0 --output=" in out
    assert out.endswith(" ./app -- a\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--tool", "nsys"), "no command was given"),
        (("--tool", "nsys", "--", "-t", "cuda"), "-t is in the place of the command"),
        (("--tool", "nsys", "--steps", "4-3", "--", "a"), 'steps "4-3" cannot be read'),
        (("--tool", "nsys", "--ranks", "x", "--", "a"), 'ranks "x" cannot be read'),
        (("--tool", "nsys", "--set", "full", "--", "a"), "nsys has no --set"),
        (("--tool", "torch", "--steps", "1-2", "--", "a"), "torch records from step 2 on"),
        (("--tool", "phases", "--steps", "3", "--", "a"), "phases measures every step"),
        (("--tool", "inline", "--steps", "3", "--", "a"), "inline measures every step"),
        (("--tool", "torch", "--nvtx", "--", "a"), "torch reads no NVTX ranges"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(run, words, expected) -> None:
    ran = run("launch", *words)
    assert ran.code == 2
    assert expected in ran.err


TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "ts": 1.0, "dur": 2.0, "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": {"stream": 7}}
    ],
}
ONEDNN = "onednn_verbose,exec,cpu,matmul,brgemm,undef,src_f32::blocked:ab:f0,,,2x3:3x4,0.5\n"


@pytest.mark.parametrize(
    ("name", "text", "question", "shown"),
    [
        ("rank8.json", json.dumps(TRACE), "summary", "gemm"),
        ("none", None, "summary", "no such file"),
        ("rank0.onednn.txt", ONEDNN, "onednn", "matmul"),
    ],
)
def test_what_a_tool_recorded_is_shown_by_the_question_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, question: str, shown: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    show([tmp_path / name], question)
    assert shown in "".join(capsys.readouterr())
