"""Commands wait neither for pandas nor for threads of linear algebra; programs that use StepScope have both."""

import os
import sys
from pathlib import Path

import pytest
from tests.processes import python

from stepscope.cli.main import main

pytest.importorskip("pandas")

TRACE = """{"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
]}"""


def test_a_command_answers_without_pandas_and_further_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "one.json"
    trace.write_text(TRACE)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    code = (
        "import os, sys\n"
        "from stepscope.cli.main import main\n"
        "assert main() == 0\n"
        "print('pandas' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])\n"
    )
    done = python("-c", code, "operators", str(trace), "--no-cache", "--json")
    assert '"aten::mm"' in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "False 1"


def test_in_somebodys_program_nothing_is_refused() -> None:
    before = list(sys.meta_path), dict(os.environ)
    assert main(["questions"]) == 0
    assert (sys.meta_path, os.environ) == before
