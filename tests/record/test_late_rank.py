"""Real ranks, one late within its backward, where phases alone cannot tell: it is named all the same."""

import sys
from pathlib import Path

import pytest
from tests.record.two_ranks import run_ranks

from stepscope.api.trace import open_trace

pytestmark = pytest.mark.torch

LATE = 1
LATE_S = 0.05
MODEL = """
import os, sys, time
import torch
from torch import nn
from stepscope.record import inline

class LateGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(LATE_S * (os.environ["RANK"] == LATE))
        return gradient

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
"""
JOB = f"""
LATE, LATE_S = "{LATE}", {LATE_S}
{MODEL}
def main():
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inline.start(out=sys.argv[1], model=model, optimizer=optimizer)
    for _ in range(25):
        with inline.iteration():
            optimizer.zero_grad()
            LateGradient.apply(model(torch.ones(4, 8))).sum().backward()
            optimizer.step()

main()
inline.stop()  # the model, which timed its all-reduce, is gone
torch.distributed.destroy_process_group()
"""
SCRIPT = f"""
LATE, LATE_S = "2", 0.2
{MODEL}
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    LateGradient.apply(model(torch.ones(4, 64))).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
"""


@pytest.mark.long
def test_a_trace_of_all_ranks_names_it_and_what_it_did(tmp_path: Path) -> None:
    """200 ms in one of four ranks' backward make every rank's step as long; the others wait in the all-reduce."""
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(SCRIPT)
    record = [sys.executable, "-m", "stepscope", "record", "--no-summary", "--active", "3", "-o", str(out)]
    run_ranks([[*record, "--", str(script)]] * 4)
    with open_trace(out, cache=False) as trace:
        late, *others = trace.stragglers().rows()
        (finding,) = trace.findings(id="straggling-rank").rows()
    assert late["rank"] == finding["rank"] == 2
    assert late["skew_ns"] == pytest.approx(200e6, rel=0.25)
    assert late["host_ns"] > 0.8 * late["charged_ns"]
    assert "LateGradientBackward" in late["why"]
    assert max(abs(row["charged_ns"]) for row in others) < 0.1 * late["charged_ns"]


def test_a_rank_late_within_its_backward_is_named_by_its_short_all_reduce(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_ranks([[sys.executable, "-c", JOB, str(out)]] * 2)
    with open_trace(out, cache=False) as trace:
        rows = trace.phases().rows()
        late = trace.phases(by="verdict").rows()[0]
    backwards = [row["mean_ns"] for row in rows if row["phase"] == "backward"]
    assert len(backwards) == 2
    assert min(backwards) > 0.8 * max(backwards)
    assert (late["kind"], late["rank"], late["phase"]) == ("straggling-rank", LATE, "backward")
    assert 0.5 * LATE_S < late["skew_ns"] / 1e9 < 2 * LATE_S
