"""What real launchers leave: which rank each process is, and which are chosen."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.processes import ran

FOUND = """
from stepscope.base.chosen_ranks import chosen
from stepscope.base.ranks import this_process
one = this_process()
asked = ("0", "local:0", "node:0+every:2", "local:1,2+0-1")
print(f"{one.rule}:{one.rank}/{one.world_size}:{one.local_rank}/{one.local_world_size}:{one.node}"
      f":{one.disagreement or [ranks for ranks in asked if chosen(ranks, one)]}\\n", end="")
"""
ALONE = ("OMPI_", "PMI", "PALS_", "MPI_", "SLURM_", "FLUX_", "JSM_", "MV2_", "RANK", "TORCHELASTIC_")


@pytest.mark.parametrize(
    ("command", "rule"), [(["mpiexec.openmpi", "--oversubscribe"], "Open MPI"), (["mpiexec.mpich"], "PMI")]
)
def test_four_ranks_on_one_node(command: list[str], rule: str, tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    script = tmp_path / "found.py"
    script.write_text(FOUND)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ALONE)}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = ran(*command, "-n", "4", sys.executable, str(script), env=environment | as_root, check=True)
    assert sorted(done.stdout.split("\n")) == [
        "", f"{rule}:0/4:0/4:0:['0', 'local:0', 'node:0+every:2']", f"{rule}:1/4:1/4:0:['local:1,2+0-1']",
        f"{rule}:2/4:2/4:0:['node:0+every:2']", f"{rule}:3/4:3/4:0:[]",
    ]  # fmt: skip
