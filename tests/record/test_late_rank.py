"""Real ranks, one late within its backward, where phases alone cannot tell: it is named all the same."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.api.trace import open_trace

pytestmark = pytest.mark.torch

LATE = 1
LATE_S = 0.05
JOB = f"""
import os, sys, time
import torch
from torch import nn
from stepscope.record import inline

rank, port, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]

class LateGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep({LATE_S} * (rank == {LATE}))
        return gradient

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", rank=rank, world_size=2)


def main():
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inline.start(out=out, model=model, optimizer=optimizer)
    for _ in range(25):
        with inline.iteration():
            optimizer.zero_grad()
            LateGradient.apply(model(torch.ones(4, 8))).sum().backward()
            optimizer.step()

main()
inline.stop()  # the model, which timed its all-reduce, is gone
torch.distributed.destroy_process_group()
"""


SCRIPT = """
import os, time
import torch
from torch import nn

class LateGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.2 * (os.environ["RANK"] == "2"))
        return gradient

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    LateGradient.apply(model(torch.ones(4, 64))).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
"""


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def run_ranks(commands: list[list[str]], **environment: str) -> None:
    """Runs a process for each rank, which must all end well."""
    ranks = [
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, command in enumerate(commands)
    ]
    try:
        said = [process.communicate(timeout=180)[1] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0] * len(ranks), said


@pytest.mark.long
def test_a_trace_of_all_ranks_names_it_and_what_it_did(tmp_path: Path) -> None:
    """200 ms in one of four ranks' backward make every rank's step as long; the others wait in the all-reduce."""
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(SCRIPT)
    record = [sys.executable, "-m", "stepscope", "record", "--no-summary", "--active", "3", "-o", str(out)]
    run_ranks([[*record, "--", str(script)]] * 4, WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    with open_trace(out, cache=False) as trace:
        late, *others = trace.stragglers().rows()
        (finding,) = trace.findings(id="straggling-rank").rows()
    assert late["rank"] == finding["rank"] == 2
    assert late["skew_ns"] == pytest.approx(200e6, rel=0.25)
    assert late["host_ns"] > 0.8 * late["charged_ns"]
    assert "LateGradientBackward" in late["why"]
    assert max(abs(row["charged_ns"]) for row in others) < 0.1 * late["charged_ns"]


def test_a_rank_late_within_its_backward_is_named_by_its_short_all_reduce(tmp_path: Path) -> None:
    port, out = free_port(), tmp_path / "out"
    run_ranks([[sys.executable, "-c", JOB, str(rank), port, str(out)] for rank in range(2)])
    with open_trace(out, cache=False) as trace:
        rows = trace.phases().rows()
        late = trace.phases(by="verdict").rows()[0]
    backwards = [row["mean_ns"] for row in rows if row["phase"] == "backward"]
    assert len(backwards) == 2
    assert min(backwards) > 0.8 * max(backwards)
    assert (late["kind"], late["rank"], late["phase"]) == ("straggling-rank", LATE, "backward")
    assert 0.5 * LATE_S < late["skew_ns"] / 1e9 < 2 * LATE_S
