"""Which process of the job this is, from torch.distributed or from the launcher's variables.

Slurm comes late on purpose: inside an sbatch or salloc shell `SLURM_PROCID` is 0 for every process, also when mpiexec
starts the ranks, and srun starts mpiexec's daemons on other nodes. A bare `RANK` comes last, because scripts export it
for other reasons; together with `TORCHELASTIC_RUN_ID` it is torchrun's and comes first.

Two launchers disagree if both started this process and give it different ranks, or worlds of different sizes. torchrun
is always started by any other launcher whose variables are set. srun is known to have started this very process if
`SLURM_TASK_PID` is its number, and otherwise disagrees with none.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepscope.base.quoting import one_line


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job.

    Args:
        rank, world_size: among all processes; without a known size, as many as the rank needs.
        local_rank: among the processes on its node; None if unknown.
        host, pid: where it runs.
        rule: how its rank was found.
        node: the node's number in the job, from 0; None if unknown.
        local_world_size: how many processes of the job run on its node; None if unknown.
        disagreement: in words, if two launchers state different ranks, or the only one states no number; else empty.
    """

    rank: int
    local_rank: int | None
    world_size: int
    host: str
    pid: int
    rule: str
    node: int | None = None
    local_world_size: int | None = None
    disagreement: str = ""

    def fields(self) -> dict[str, Any]:
        """The process as the fields of a recorded file."""
        return {
            "host_name": self.host,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "pid": self.pid,
            "rank_rule": self.rule,
            **({"rank_disagreement": self.disagreement} if self.disagreement else {}),
        }


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The variables in which a launcher identifies a process, separated by spaces; the first that is set counts.

    Args:
        rule: the launcher's name.
        tasks_per_node: has the number of processes on each node, as Slurm writes it.
        needs: without this variable the others are not the launcher's.
    """

    rule: str
    rank: str
    local_rank: str = ""
    world_size: str = ""
    local_world_size: str = ""
    node: str = ""
    tasks_per_node: str = ""
    needs: str | None = None

    def variables(self) -> list[str]:
        """The names of all its variables that identify a process."""
        numbers = (self.local_rank, self.world_size, self.local_world_size, self.node, self.tasks_per_node)
        return " ".join((self.rank, *numbers)).split()


_TORCHRUN = _Launcher(
    "torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", needs="TORCHELASTIC_RUN_ID"
)
_PALS = _Launcher("PALS", "PALS_RANKID", "PALS_LOCAL_RANKID", "PALS_SIZE PMI_SIZE", "PALS_LOCAL_SIZE", "PALS_NODEID")
_JSRUN, _OPEN_MPI, _MVAPICH = (
    _Launcher(rule, f"{prefix}RANK", f"{prefix}LOCAL_RANK", f"{prefix}SIZE", f"{prefix}LOCAL_SIZE")
    # OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node's number.
    for rule, prefix in (("jsrun", "JSM_NAMESPACE_"), ("Open MPI", "OMPI_COMM_WORLD_"), ("MVAPICH", "MV2_COMM_WORLD_"))
)
_PMI = _Launcher("PMI", "PMI_RANK", "PMI_LOCAL_RANK MPI_LOCALRANKID", "PMI_SIZE", "PMI_LOCAL_SIZE MPI_LOCALNRANKS")
_SLURM = _Launcher(
    "Slurm",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_STEP_NUM_TASKS SLURM_NTASKS",
    node="SLURM_NODEID",
    tasks_per_node="SLURM_STEP_TASKS_PER_NODE",
)
_BARE_RANK = _Launcher("RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
_LAUNCHERS = (
    _TORCHRUN,
    _PALS,
    _JSRUN,
    _OPEN_MPI,
    _Launcher("PMIx", "PMIX_RANK", world_size="PMIX_SIZE OMPI_COMM_WORLD_SIZE"),
    _PMI,
    _MVAPICH,
    _Launcher("ALPS", "ALPS_APP_PE"),
    _Launcher("Flux", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"),
    _SLURM,
    _BARE_RANK,
)

RANK_VARIABLES = frozenset(name for launcher in _LAUNCHERS for name in launcher.variables())
"""Variables in which launchers identify this process."""


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a launcher states about a process; None for what it does not."""

    launcher: _Launcher
    rank: int
    world_size: int | None
    local_rank: int | None
    local_world_size: int | None
    node: int | None

    def differs(self, other: _Identity) -> bool:
        """Whether the two cannot both be right."""
        sizes = {self.world_size, other.world_size} - {None}
        return self.rank != other.rank or len(sizes) > 1

    def words(self) -> str:
        size = "" if self.world_size is None else f" of {self.world_size}"
        return f"rank {self.rank}{size} by {self.launcher.rule}"


def _identity(launcher: _Launcher, environment: Mapping[str, str]) -> _Identity | None:
    rank = _integer(environment, launcher.rank)
    if rank is None or (launcher.needs and launcher.needs not in environment):
        return None
    node = _integer(environment, launcher.node)
    local_world_size = _integer(environment, launcher.local_world_size)
    if local_world_size is None and node is not None:
        local_world_size = _tasks_on(node, environment.get(launcher.tasks_per_node, ""))
    world_size, local_rank = (_integer(environment, names) for names in (launcher.world_size, launcher.local_rank))
    return _Identity(launcher, rank, world_size, local_rank, local_world_size, node)


def _tasks_on(node: int, tasks_per_node: str) -> int | None:
    """How many processes a node has, by Slurm's list: `2(x3),1` for three nodes with 2 and one with 1."""
    for part in tasks_per_node.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part.strip())
        if match is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return None


def _integer(environment: Mapping[str, str], names: str) -> int | None:
    for name in names.split():
        text = environment.get(name, "").strip()
        if re.fullmatch("[0-9]{1,9}", text):
            return int(text)
    return None


def _no_number(environment: Mapping[str, str]) -> str:
    """In words, a launcher's value for a rank that is not a number; empty if there is none."""
    for launcher in _LAUNCHERS:
        text = environment.get(launcher.rank, "").strip()
        if text and (launcher.needs is None or launcher.needs in environment):
            return f'{launcher.rank} is "{one_line(text[:40])}", which is no rank'
    return ""


def host_name() -> str:
    """The node's name, with characters that a file name cannot hold replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()) or "localhost"


def is_alive(pid: int) -> bool:
    """Whether this host has such a process; the number may come from a file, and be impossible."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def process_from(environment: Mapping[str, str]) -> Process:
    """The process as the launcher describes it; rank 0 of 1 if no launcher says anything.

    >>> process_from({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}).rank
    3
    """
    everything = [identity for launcher in _LAUNCHERS if (identity := _identity(launcher, environment)) is not None]
    if not everything:
        single = Process(0, 0, 1, host_name(), os.getpid(), "single", node=0, local_world_size=1)
        words = _no_number(environment)
        return (
            replace(single, local_rank=None, node=None, local_world_size=None, disagreement=words) if words else single
        )
    first, starters = everything[0], _starters(everything, environment)
    other = next((launcher for launcher in starters if first in starters and launcher.differs(first)), None)
    if other is not None:
        words = f"it is {first.words()}, but {other.words()}"
        return _process(first, first.world_size, disagreement=words)
    # What the first launcher omits, another that started the same process may state.
    agreed = starters if first in starters else [first]
    world_size = _first(launcher.world_size for launcher in agreed)
    local_rank = _first(launcher.local_rank for launcher in agreed)
    local_world_size = _first(launcher.local_world_size for launcher in agreed)
    node = _first(launcher.node for launcher in agreed)
    if world_size == 1:
        local_rank, local_world_size = 0, 1
    if world_size is not None and world_size == local_world_size:
        node = 0
    return _process(first, world_size, local_rank=local_rank, local_world_size=local_world_size, node=node)


def _process(identity: _Identity, world_size: int | None, *, local_rank: int | None = None, **fields: Any) -> Process:
    """The process that a launcher describes; `known` are further fields."""
    size = max(world_size or 1, identity.rank + 1)
    rule = identity.launcher.rule
    return Process(identity.rank, local_rank, size, host_name(), os.getpid(), rule, **fields)


def _first(numbers: Iterable[int | None]) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _starters(everything: list[_Identity], environment: Mapping[str, str]) -> list[_Identity]:
    """What those launchers say that are not known to have started another one."""
    if everything[0].launcher is _TORCHRUN:
        return everything[:1]
    others = [identity for identity in everything if identity.launcher not in (_SLURM, _BARE_RANK)]
    srun_started_it = _integer(environment, "SLURM_TASK_PID") == os.getpid()
    slurms = [
        identity
        for identity in everything
        if identity.launcher is _SLURM and (srun_started_it or _is_srun_with_pmi(identity, others, environment))
    ]
    return others + slurms


def _is_srun_with_pmi(slurm: _Identity, others: list[_Identity], environment: Mapping[str, str]) -> bool:
    """Whether srun has also set the others' variables (with its PMI plug-ins), seen from a shell in between.

    All state the same rank of the same size, and none of them is mpiexec, which states the local rank.
    """
    return "SLURM_STEP_NUM_TASKS" in environment and not any(
        slurm.differs(other) or other.local_rank is not None for other in others
    )


def this_process() -> Process:
    """This process, by torch.distributed if it is initialised, else by its environment.

    `torch.multiprocessing.spawn` leaves nothing in the environment, so ask late: after the job has
    set up its process group.
    """
    process = process_from(os.environ)
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return process
    return in_process_group(process, int(distributed.get_rank()), int(distributed.get_world_size()))


def in_process_group(process: Process, rank: int, world_size: int) -> Process:
    """The process with the rank that torch.distributed gives it.

    Its launcher's place on the node stays only if the launcher states the same rank of the same size: a process made
    by `torch.multiprocessing.spawn` has its parent's variables.
    """
    same = (rank, world_size) == (process.rank, process.world_size)
    if not same or process.disagreement:
        is_single = world_size == 1
        spawned = process.rule == "single" or process.disagreement
        process = replace(
            process,
            local_rank=0 if is_single else None,
            local_world_size=1 if is_single else None,
            node=0 if is_single else None if spawned else process.node,
            disagreement="",
        )
    return replace(process, rank=rank, world_size=world_size, rule="torch.distributed")
