"""Which rank a process is, by what launchers leave in the environment."""

from __future__ import annotations

import os

import pytest

from stepscope.floor.ranks import Process, chosen, is_alive, process_from

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
SLURM = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}


def test_nothing_set_is_rank_0_of_1() -> None:
    process = process_from({})
    assert (process.rank, process.local_rank, process.world_size) == (0, None, 1)
    assert process.rule == "single"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, ("torchrun", 5, 1, 8)),
        (
            {"PALS_RANKID": "4", "PALS_LOCAL_RANKID": "0", "PMI_RANK": "4", "PMI_SIZE": "8"},
            ("PALS", 4, 0, 8),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "PMIX_RANK": "2",
            },
            ("Open MPI", 2, 2, 4),
        ),
        ({"PMIX_RANK": "6", "PMIX_SIZE": "7"}, ("PMIx", 6, None, 7)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, ("PMI", 1, 1, 2)),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, ("MVAPICH", 1, None, 2)),
        ({"FLUX_TASK_RANK": "9", "FLUX_JOB_SIZE": "10"}, ("Flux", 9, None, 10)),
        (SLURM, ("Slurm", 3, 1, 16)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, ("RANK", 1, None, 2)),
    ],
)
def test_each_launcher_is_understood(
    environment: dict[str, str], expected: tuple[str, int, int | None, int]
) -> None:
    process = process_from(environment)
    assert (process.rule, process.rank, process.local_rank, process.world_size) == expected


def test_mpiexec_inside_an_sbatch_shell_is_not_slurms_rank_0() -> None:
    shell = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    process = process_from({**shell, "PMI_RANK": "3", "PMI_SIZE": "4"})
    assert (process.rank, process.rule) == (3, "PMI")


def test_torchrun_under_srun_is_torchruns() -> None:
    assert process_from({**SLURM, **TORCHRUN}).rule == "torchrun"


def test_a_bare_rank_comes_after_slurm() -> None:
    assert process_from({**SLURM, "RANK": "7"}).rank == 3


def test_a_world_is_never_smaller_than_its_ranks() -> None:
    assert process_from({"PMIX_RANK": "6"}).world_size == 7


def test_words_in_a_rank_variable_are_no_rank() -> None:
    assert process_from({"RANK": "zero"}).rule == "single"


@pytest.mark.parametrize(
    ("ranks", "yes"),
    [
        (None, True),
        ("all", True),
        ("3", True),
        ("0,3", True),
        ("2-4", True),
        ("0-2", False),
        ("local:1", True),
        ("local:0", False),
    ],
)
def test_ranks_are_chosen(ranks: str | None, yes: bool) -> None:
    process = Process(rank=3, local_rank=1, world_size=8, host="a", pid=1, rule="Slurm")
    assert chosen(ranks, process) is yes


def test_ranks_that_are_none_are_refused() -> None:
    process = Process(rank=0, local_rank=None, world_size=1, host="a", pid=1, rule="single")
    with pytest.raises(ValueError, match="first two"):
        chosen("first two", process)


def test_a_number_that_no_process_can_have_is_no_process() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(10**30)
