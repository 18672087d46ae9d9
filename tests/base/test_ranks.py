"""Which rank a process is, by what launchers leave in the environment."""

import os

import pytest

from stepscope.base.ranks import in_process_group, is_alive, process_from

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
SLURM = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}


def test_nothing_set_is_rank_0_of_1() -> None:
    process = process_from({})
    assert (process.rank, process.local_rank, process.world_size) == (0, 0, 1)
    assert (process.node, process.local_world_size) == (0, 1)
    assert process.rule == "single"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, ("torchrun", 5, 1, 8)),
        ({"PALS_RANKID": "4", "PALS_LOCAL_RANKID": "0", "PMI_RANK": "4", "PMI_SIZE": "8"}, ("PALS", 4, 0, 8)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4",
                "PMIX_RANK": "2",
            },
            ("Open MPI", 2, 2, 4),
        ),
        ({"PMIX_RANK": "6", "PMIX_SIZE": "7"}, ("PMIx", 6, None, 7)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, ("PMI", 1, 1, 2)),
        (
            {
                "JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_LOCAL_RANK": "1", "JSM_NAMESPACE_SIZE": "4",
                "JSM_NAMESPACE_LOCAL_SIZE": "2", "LSB_JOBID": "12",
            },
            ("jsrun", 3, 1, 4),
        ),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "0"},
            ("MVAPICH", 1, 0, 2),
        ),
        ({"FLUX_TASK_RANK": "9", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_SIZE": "10"}, ("Flux", 9, 1, 10)),
        (SLURM, ("Slurm", 3, 1, 16)), ({"RANK": "1", "WORLD_SIZE": "2"}, ("RANK", 1, None, 2)),
        ({"PMIX_RANK": "6"}, ("PMIx", 6, None, 7)),  # a world is never smaller than its ranks
        # mpiexec in an sbatch shell, torchrun under srun, and a bare RANK, which comes after Slurm
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "PMI_RANK": "3", "PMI_SIZE": "4"}, ("PMI", 3, None, 4)),
        ({**SLURM, **TORCHRUN}, ("torchrun", 5, 1, 8)), ({**SLURM, "RANK": "7"}, ("Slurm", 3, 1, 16)),
    ],
)  # fmt: skip
def test_each_launcher_is_understood(environment: dict[str, str], expected: tuple[str, int, int | None, int]) -> None:
    process = process_from(environment)
    assert (process.rule, process.rank, process.local_rank, process.world_size) == expected


@pytest.mark.parametrize("text", ["zero", "²", "٣", "-1", "9" * 20, "9" * 5000])
def test_what_no_launcher_writes_is_no_rank(text: str) -> None:
    assert process_from({"RANK": text}).rule == "single"


# What each launcher leaves: as seen with Open MPI 4.1, MPICH 4.0 and torchrun, else as their sources and users name it.
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_NODE_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_RANK": "5",
}  # fmt: skip
MPICH = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
PALS = {
    "PALS_RANKID": "5", "PALS_LOCAL_RANKID": "1", "PALS_LOCAL_SIZE": "4", "PALS_NODEID": "1", "PMI_RANK": "5",
    "PMI_SIZE": "8",
}  # fmt: skip
JSRUN = {
    "JSM_NAMESPACE_RANK": "5", "JSM_NAMESPACE_LOCAL_RANK": "1", "JSM_NAMESPACE_SIZE": "8",
    "JSM_NAMESPACE_LOCAL_SIZE": "4", "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "PMIX_RANK": "5",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "rule", "node", "on_node"),
    [
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}, "torchrun", 1, 4),
        (OPEN_MPI, "Open MPI", None, 4), (MPICH, "PMI", None, 4), (PALS, "PALS", 1, 4), (JSRUN, "jsrun", None, 4),
        (SRUN, "Slurm", 1, 4), ({**SRUN, "PMI_RANK": "5", "PMI_SIZE": "8"}, "PMI", 1, 4),
        ({**SRUN, "PMIX_RANK": "5"}, "PMIx", 1, 4),
    ],
)  # fmt: skip
def test_node_and_local_ranks_are_known_where_the_launcher_says_them(
    environment: dict[str, str], rule: str, node: int | None, on_node: int
) -> None:
    process = process_from(environment)
    assert (process.rule, process.rank, process.local_rank, process.world_size) == (rule, 5, 1, 8)
    assert (process.node, process.local_world_size) == (node, on_node)
    assert process.disagreement == ""


def test_where_all_ranks_are_on_one_node_it_is_node_0() -> None:
    process = process_from({**MPICH, "PMI_SIZE": "4", "PMI_RANK": "1"})
    assert (process.node, process.local_world_size) == (0, 4)


def test_alps_says_the_rank_and_nothing_else() -> None:
    process = process_from({"ALPS_APP_PE": "5"})
    assert (process.rule, process.rank, process.world_size) == ("ALPS", 5, 6)
    assert (process.local_rank, process.node, process.local_world_size) == (None, None, None)


def test_rank_0_of_a_world_of_unknown_size_has_no_known_place() -> None:
    process = process_from({"ALPS_APP_PE": "0"})
    assert (process.world_size, process.local_rank, process.node) == (1, None, None)


@pytest.mark.parametrize(
    ("node", "tasks", "on_node"),
    [
        ("0", "2(x3),1", 2), ("2", "2(x3),1", 2), ("3", "2(x3),1", 1), ("4", "2(x3),1", None), ("1", "2,x", None),
        ("0", "", None), ("0", "2(x3", None),
    ],
)  # fmt: skip
def test_slurms_tasks_per_node_are_read(node: str, tasks: str, on_node: int | None) -> None:
    environment = {**SLURM, "SLURM_NODEID": node, "SLURM_STEP_TASKS_PER_NODE": tasks}
    assert process_from(environment).local_world_size == on_node


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({**PALS, **OPEN_MPI, "OMPI_COMM_WORLD_RANK": "2"}, "it is rank 5 of 8 by PALS, but rank 2 of 8 by Open MPI"),
        ({"PMIX_RANK": "0", **MPICH}, "it is rank 0 by PMIx, but rank 5 of 8 by PMI"),
        # Rank 0 is as unsure as the others.
        (
            {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "4"},
            "it is rank 0 of 4 by PMI, but rank 0 of 2 by Flux",
        ),
        # srun started this very process, so that what mpiexec left is older.
        (
            {**OPEN_MPI, **SRUN, "SLURM_PROCID": "6", "SLURM_TASK_PID": str(os.getpid())},
            "it is rank 5 of 8 by Open MPI, but rank 6 of 8 by Slurm",
        ),
    ],
)
def test_launchers_that_disagree_are_both_named(environment: dict[str, str], words: str) -> None:
    process = process_from(environment)
    assert process.disagreement == words
    assert (process.local_rank, process.node, process.local_world_size) == (None, None, None)


@pytest.mark.parametrize("name", ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"])
def test_a_rank_that_is_no_number_is_not_passed_over(name: str) -> None:
    process = process_from({name: "x\x1b[1m"})
    assert (process.rank, process.rule) == (0, "single")
    assert process.disagreement == f'{name} is "x\N{REPLACEMENT CHARACTER}[1m", which is no rank'
    assert (process.local_rank, process.node, process.local_world_size) == (None, None, None)
    assert process.fields()["rank_disagreement"] == process.disagreement


def test_a_rank_that_is_no_number_is_nothing_beside_one_that_is() -> None:
    assert process_from({**MPICH, "SLURM_PROCID": "x"}).disagreement == ""
    assert process_from({"SLURM_PROCID": " "}).disagreement == ""


@pytest.mark.parametrize(
    "outer", [{**SRUN, "SLURM_PROCID": "1"}, {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "1"}, MPICH, PALS]
)
def test_torchrun_in_another_launcher_is_no_disagreement(outer: dict[str, str]) -> None:
    inside = {**outer, **TORCHRUN, "SLURM_TASK_PID": str(os.getpid())}
    process = process_from(inside)
    assert (process.rule, process.rank, process.disagreement) == ("torchrun", 5, "")


def test_the_daemons_that_srun_starts_for_mpiexec_are_no_disagreement() -> None:
    daemon = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1"}
    process = process_from({**daemon, "SLURM_TASK_PID": "1", **MPICH})
    assert (process.rule, process.rank, process.disagreement) == ("PMI", 5, "")
    assert process.node is None


def test_a_script_that_exports_rank_does_not_disagree() -> None:
    assert process_from({**MPICH, "RANK": "1", "WORLD_SIZE": "2"}).disagreement == ""


def test_a_spawned_process_does_not_have_its_parents_place() -> None:
    launched_once_per_node = process_from({**SRUN, "SLURM_PROCID": "1", "SLURM_LOCALID": "0"})
    process = in_process_group(launched_once_per_node, 11, 16)
    assert (process.rank, process.world_size, process.rule) == (11, 16, "torch.distributed")
    assert (process.local_rank, process.local_world_size, process.node) == (None, None, 1)
    alone = in_process_group(process_from({}), 1, 2)
    assert (alone.local_rank, alone.node) == (None, None)


def test_a_process_group_keeps_the_place_of_the_same_rank() -> None:
    process = in_process_group(process_from(PALS), 5, 8)
    assert (process.local_rank, process.node, process.local_world_size) == (1, 1, 4)


def test_a_process_group_settles_what_launchers_disagree_about() -> None:
    unsure = process_from({**PALS, **OPEN_MPI, "OMPI_COMM_WORLD_RANK": "2"})
    process = in_process_group(unsure, 5, 8)
    assert (process.disagreement, process.local_rank, process.node) == ("", None, None)
    assert in_process_group(unsure, 0, 1).local_rank == 0


def test_a_number_that_no_process_can_have_is_no_process() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(10**30)
