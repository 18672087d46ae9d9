"""Processes of a job, each started by `stepscope launch`, and a stand-in for a profiler on their PATH."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.base.ranks import RANK_VARIABLES
from stepscope.cli.main import main

LAUNCHERS = ("OMPI_", "PMI", "PALS_", "MPI_", "SLURM_", "FLUX_", "JSM_", "MV2_", "ALPS_", "TORCHELASTIC")


def bare_environment() -> dict[str, str]:
    """Our environment without anything of a launcher."""
    return {
        name: text for name, text in os.environ.items() if name not in RANK_VARIABLES and not name.startswith(LAUNCHERS)
    }


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in for nsys."""
    folder = tmp_path_factory.mktemp("bin")
    tool = folder / "nsys"
    script = Path(__file__).with_name("stand_in.py")
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{script}" "$@"\n')
    tool.chmod(0o755)
    return folder


@pytest.fixture
def launch(stand_ins: Path, tmp_path: Path) -> Callable[..., Any]:
    """Starts `stepscope launch` in a folder of its own; gives the process, whose output is read as text."""

    @contextmanager
    def start(
        *words: str, tool: str = "nsys", started_by: str = 'exec "$@"', **variables: str
    ) -> Iterator[subprocess.Popen[str]]:
        environment = bare_environment() | {"STEPSCOPE_DEBUG": "1"} | variables
        environment["PATH"] = f"{stand_ins}{os.pathsep}{environment['PATH']}"
        process = subprocess.Popen(
            [
                *("sh", "-c", started_by, "sh", sys.executable, "-m", "stepscope"),
                *("launch", "--tool", tool, "-o", "out", *words),
            ],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    return start


@pytest.fixture
def run_launch(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """Runs `stepscope launch --tool nsys` in this process, for what runs no command."""

    def run(*words: str) -> SimpleNamespace:
        code = main(["launch", "--tool", "nsys", *words, "--", "true"])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run
