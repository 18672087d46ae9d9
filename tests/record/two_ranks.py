"""A script on two ranks over gloo, as torchrun starts them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.processes import ran

_TRIES = 3


def run_ranks(commands: list[list[str]], **environment: str) -> list[str]:
    """What processes print that are the ranks of one job, and must all end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **job, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, command in enumerate(commands)
    ]
    try:
        written = [process.communicate(timeout=180) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [process.returncode for process in ranks] == [0] * len(ranks), [err for _, err in written]
    return [out for out, _ in written]


def torchrun(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script on two ranks; again where a rank was aborted as it ended.

    Now and then torch 2.13 ends a process of gloo's with "terminate called without an active
    exception", also one that has nothing of ours in it.
    """
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc_per_node", "2", str(script), *arguments),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(_TRIES):
        done = ran(*command, timeout=240, env=environment)
        if "terminate called without an active exception" not in done.stderr:
            break
    return done
