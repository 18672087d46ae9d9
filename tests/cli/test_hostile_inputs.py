"""What lies about and what was made to harm: small inputs of each kind that benchmarks/fuzz.py makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import python

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"
PARTS = 2


@pytest.mark.sweep(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_each_kind_gets_an_answer_or_an_error_and_losses_are_counted(part):
    options = ["--quick", "--scale", "0.003", "--inputs", "15", "--part", f"{part}/{PARTS}"]
    ran = python(SCRIPT, *options, env={**os.environ, "STEPSCOPE_DEBUG": "0"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 failed" in ran.stdout.splitlines()[-1]


def test_forks_do_not_write_as_if_their_output_led_where_the_scripts_leads(tmp_path):
    options = ["--quick", "--scale", "0.003", "--inputs", "1", "--only", "output that nobody reads"]
    # A file can be sought, and the pipe of a fork cannot.
    with (tmp_path / "out").open("wb") as out:
        ran = subprocess.run([sys.executable, SCRIPT, *options], stdout=out, check=False)
    assert ran.returncode == 0, (tmp_path / "out").read_text()
