"""Two real ranks, one late where phases alone cannot tell: the run's verdict names it all the same."""

from __future__ import annotations

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


def test_a_rank_late_within_its_backward_is_named_by_its_short_all_reduce(tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    out = tmp_path / "out"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", JOB, str(rank), port, str(out)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[1] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], said
    with open_trace(out, cache=False) as trace:
        rows = trace.phases().rows()
        late = trace.phases(by="verdict").rows()[0]
    backwards = [row["mean_ns"] for row in rows if row["phase"] == "backward"]
    assert len(backwards) == 2
    assert min(backwards) > 0.8 * max(backwards)
    assert (late["kind"], late["rank"], late["phase"]) == ("straggling-rank", LATE, "backward")
    assert 0.5 * LATE_S < late["late_ns"] / 1e9 < 2 * LATE_S
