"""Which process of the job this is, from torch.distributed or from what the launcher left behind.

Slurm comes late on purpose: inside an sbatch or salloc shell `SLURM_PROCID` is 0 for everybody, also
when mpiexec starts the ranks. A bare `RANK` comes last, because scripts export it for other reasons;
with `TORCHELASTIC_RUN_ID` beside it, it is torchrun's and comes first.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job; `rule` is how its rank was found."""

    rank: int
    local_rank: int | None
    world_size: int
    host: str
    pid: int
    rule: str

    def fields(self) -> dict[str, Any]:
        """Itself as the fields of a recorded file."""
        return {
            "host_name": self.host,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "pid": self.pid,
            "rank_rule": self.rule,
        }


@dataclass(frozen=True, slots=True)
class _Launcher:
    rule: str
    rank: str
    local_rank: tuple[str, ...]
    world_size: tuple[str, ...]
    needs: str | None = None


_LAUNCHERS = (
    _Launcher("torchrun", "RANK", ("LOCAL_RANK",), ("WORLD_SIZE",), needs="TORCHELASTIC_RUN_ID"),
    _Launcher("PALS", "PALS_RANKID", ("PALS_LOCAL_RANKID",), ("PALS_SIZE", "PMI_SIZE")),
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
    ),
    _Launcher("PMIx", "PMIX_RANK", (), ("PMIX_SIZE", "OMPI_COMM_WORLD_SIZE")),
    _Launcher("PMI", "PMI_RANK", ("PMI_LOCAL_RANK", "MPI_LOCALRANKID"), ("PMI_SIZE",)),
    _Launcher(
        "MVAPICH", "MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_SIZE",)
    ),
    _Launcher("Flux", "FLUX_TASK_RANK", ("FLUX_TASK_LOCAL_ID",), ("FLUX_JOB_SIZE",)),
    _Launcher("Slurm", "SLURM_PROCID", ("SLURM_LOCALID",), ("SLURM_NTASKS",)),
    _Launcher("RANK", "RANK", ("LOCAL_RANK",), ("WORLD_SIZE",)),
)

RANK_VARIABLES = frozenset(
    name
    for launcher in _LAUNCHERS
    for name in (launcher.rank, *launcher.local_rank, *launcher.world_size)
)
"""Variables in which launchers say which process this is."""


def _integer(environment: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = environment.get(name, "").strip()
        if text.isdigit():
            return int(text)
    return None


def host_name() -> str:
    """The node's name, with characters that a file name cannot hold replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()) or "localhost"


def is_alive(pid: int) -> bool:
    """Whether this host has such a process; the number may come from a file, and be no number of one."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def process_from(environment: Mapping[str, str]) -> Process:
    """The process as the launcher describes it; rank 0 of 1 when no launcher says anything.

    >>> process_from({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}).rank
    3
    """
    for launcher in _LAUNCHERS:
        rank = _integer(environment, launcher.rank)
        if rank is None or (launcher.needs and launcher.needs not in environment):
            continue
        return Process(
            rank=rank,
            local_rank=_integer(environment, *launcher.local_rank),
            world_size=max(_integer(environment, *launcher.world_size) or 1, rank + 1),
            host=host_name(),
            pid=os.getpid(),
            rule=launcher.rule,
        )
    return Process(0, None, 1, host_name(), os.getpid(), "single")


def this_process() -> Process:
    """This process, by torch.distributed where it is initialised, else by its environment.

    `torch.multiprocessing.spawn` leaves nothing in the environment, so ask late: after the job has
    set up its process group.
    """
    process = process_from(os.environ)
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return process
    return replace(
        process,
        rank=int(distributed.get_rank()),
        world_size=int(distributed.get_world_size()),
        rule="torch.distributed",
    )


def chosen(ranks: str | None, process: Process) -> bool:
    """Whether `process` is among `ranks`: `"all"`, `"0,8"`, `"0-3"`, `"local:0"`, or None for all.

    Raises:
        ValueError: the text is none of these.
    """
    if ranks is None or ranks.strip() in ("", "all"):
        return True
    text = ranks.strip()
    number: int | None = process.rank
    if text.startswith("local:"):
        text = text[len("local:") :]
        number = process.local_rank if process.local_rank is not None else process.rank
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f'ranks "{ranks}" are not like "0,8", "0-3", "local:0" or "all"')
        first = int(match[1])
        if number is not None and first <= number <= int(match[2] or first):
            return True
    return False
