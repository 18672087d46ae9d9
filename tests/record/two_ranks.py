"""A script on two ranks over gloo, as torchrun starts them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import ran

_TRIES = 3


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
