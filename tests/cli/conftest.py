"""A store on disk, and two ways to run the command over it."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.processes import python
from tests.store.conftest import write_directory

from stepscope.cli.main import main

ROWS = {
    "source": [{"rank": 0, "path": "a.json", "events_read": 4}, {"rank": 1, "path": "b.json"}],
    "step": [
        {"rank": rank, "step": step, "start_ns": 100 * step, "end_ns": 100 * step + 100}
        for rank in (0, 1)
        for step in (3, 4)
    ],
    "device_event": [
        {"rank": rank, "step": step, "name": name, "start_ns": 100 * step + at, "dur_ns": 10}
        for rank in (0, 1)
        for step in (3, 4)
        for at, name in ((0, "gemm"), (20, "add"))
    ],
}


class Terminal(io.StringIO):
    """A stream that is shown to a person."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> str:
    """Two ranks, two steps, two kernels in each."""
    return str(write_directory(tmp_path_factory.mktemp("cli") / "store", ROWS))


@pytest.fixture
def make_store(tmp_path) -> Callable[..., str]:
    """Writes literal rows to a store on disk; `more` is added to the two ranks' rows."""

    def make(rows=None, **more) -> str:
        return str(
            write_directory(
                tmp_path / f"store{len(list(tmp_path.iterdir()))}", {**ROWS, **more} if rows is None else rows
            )
        )

    return make


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., Ran]:
    """Runs the command in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("STEPSCOPE_DEBUG", raising=False)

    def run_here(*arguments: str) -> Ran:
        code = main(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run_here


@pytest.fixture
def spawn() -> Callable[..., Ran]:
    """Runs the command as a process of its own, as a shell does."""

    def run_apart(*arguments: str, **settings: str) -> Ran:
        done = python("-m", "stepscope", *arguments, env={**os.environ, "STEPSCOPE_DEBUG": "", **settings})
        return Ran(done.returncode, done.stdout, done.stderr)

    return run_apart


@pytest.fixture(scope="session")
def forking() -> Iterator[subprocess.Popen[str]]:
    """The process that commands with torch are forked from."""
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("forked_commands.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # CUDA that has begun cannot be used in a child; asked through NVML it does not begin.
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
    ) as process:
        yield process
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def fork(forking, tmp_path_factory) -> Callable[..., Ran]:
    """As `spawn`, for commands that run scripts with torch: a second or two sooner."""
    said = tmp_path_factory.mktemp("said")

    def run_forked(*arguments: str, **settings: str) -> Ran:
        command = {
            "arguments": arguments,
            "cwd": str(Path.cwd()),
            "environment": {**os.environ, "STEPSCOPE_DEBUG": "", **settings},
            "out": str(said / "out"),
            "err": str(said / "err"),
        }
        forking.stdin.write(json.dumps(command) + "\n")
        forking.stdin.flush()
        hangs = threading.Timer(120, os.killpg, (forking.pid, signal.SIGKILL))
        hangs.start()
        code = forking.stdout.readline()
        hangs.cancel()
        assert code, "the command did not end"
        return Ran(int(code), (said / "out").read_text(), (said / "err").read_text())

    return run_forked
