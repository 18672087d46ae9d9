"""A child that a job forks after a trace ends as it would have without us."""

import sys
from pathlib import Path

import pytest
from tests.processes import python

pytestmark = pytest.mark.torch

JOB = """
import os, sys, time
import torch
from stepscope import trace

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with trace(sys.argv[1], model=model, wait=0, warmup=1, active=1) as tracer:
    for _ in range(4):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        tracer.step()
child = os.fork()
if not child:
    print("the child is through", end="")
    sys.exit(3)
for _ in range(600):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    _, status = os.waitpid(child, 0)
print(";", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="on_exit is of glibc")
def test_a_child_that_is_forked_after_a_trace_ends_with_its_code(tmp_path: Path) -> None:
    """torch's profiler would have it wait for threads that it does not have."""
    done = python("-c", JOB, str(tmp_path))
    assert done.stdout == "the child is through; 3\n", done.stderr
    assert list(tmp_path.glob("*.json.gz"))
