"""Commands do not wait for pandas; programs that use StepScope have it."""

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.cli.main import main

pytest.importorskip("pandas")

TRACE = """{"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
]}"""


def test_a_command_answers_without_importing_pandas(tmp_path: Path) -> None:
    trace = tmp_path / "one.json"
    trace.write_text(TRACE)
    code = (
        "import sys\n"
        "from stepscope.cli.main import main\n"
        "assert main() == 0\n"
        "print('pandas' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "operators", str(trace), "--no-cache", "--json"],
        capture_output=True,
        text=True,
    )
    assert '"aten::mm"' in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_in_somebodys_program_nothing_is_refused() -> None:
    finders = list(sys.meta_path)
    assert main(["questions"]) == 0
    assert sys.meta_path == finders
