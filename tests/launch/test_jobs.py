"""Which processes of a job are profiled under each launcher, and how two that disagree are told."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.launch.conftest import bare_environment

from stepscope.launch.run import LaunchOptions, about_process, dry_line
from stepscope.launch.tool import Request
from stepscope.launch.tools import TOOLS

Variables = Callable[[int], dict[str, str]]
# Ranks 0 to 3, two on each of two nodes, as launchers describe them; tests/base/test_ranks.py has all of them.
LAUNCHERS: dict[str, Variables] = {
    "torchrun": lambda rank: {
        "RANK": f"{rank}",
        "LOCAL_RANK": f"{rank % 2}",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": f"{rank // 2}",
        "TORCHELASTIC_RUN_ID": "none",
    },
    "PALS": lambda rank: {
        "PALS_RANKID": f"{rank}",
        "PALS_LOCAL_RANKID": f"{rank % 2}",
        "PALS_LOCAL_SIZE": "2",
        "PALS_NODEID": f"{rank // 2}",
        "PMI_RANK": f"{rank}",
        "PMI_SIZE": "4",
        "PBS_JOBID": "12.polaris",
    },
    "ALPS": lambda rank: {"ALPS_APP_PE": f"{rank}"},
    "Slurm": lambda rank: {
        "SLURM_PROCID": f"{rank}",
        "SLURM_LOCALID": f"{rank % 2}",
        "SLURM_NTASKS": "4",
        "SLURM_NODEID": f"{rank // 2}",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "0",
    },
}
DISAGREEING = {"OMPI_COMM_WORLD_RANK": "1", "PMI_RANK": "0", "PMI_SIZE": "2"}


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Gives this process the environment of one of a job's."""

    def exec_command(variables: dict[str, str]) -> None:
        for name in os.environ.keys() - bare_environment().keys():
            monkeypatch.delenv(name)
        for name, text in variables.items():
            monkeypatch.setenv(name, text)

    return exec_command


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_right_ranks_are_profiled_into_files_of_their_own(launcher: str, as_rank) -> None:
    local = "0,2" if launcher == "ALPS" else "local:0"
    profiled = {}
    for rank in range(4):
        as_rank(LAUNCHERS[launcher](rank))
        line = dry_line(LaunchOptions(TOOLS["nvprof"], ("./app", "a b"), Request(Path("/out")), ranks=local))
        assert line.endswith("./app 'a b'")
        assert f"by {launcher}: " in about_process("all")
        if line != "./app 'a b'":
            profiled[rank] = line.split()[line.split().index("--export-profile") + 1]
    assert sorted(profiled) == [0, 2]
    assert len(set(profiled.values())) == 2
    assert all(f"/out/rank{rank}." in name for rank, name in profiled.items())


def test_print_rank_says_all_that_is_known(run_launch, as_rank) -> None:
    as_rank(LAUNCHERS["Slurm"](3))
    ran = run_launch("--print-rank", "--ranks", "local:0")
    assert ran.out.startswith("rank 3 of 4, local rank 1 of 2, node 1 on ")
    assert ran.out.endswith(", by Slurm: not profiled\n")


@pytest.mark.parametrize("flag", ["--print-rank", "--dry-run"])
def test_launchers_that_disagree_are_an_error_where_nothing_runs(run_launch, as_rank, flag) -> None:
    as_rank(DISAGREEING)
    ran = run_launch(flag, "--ranks", "0")
    assert ran.code == 2
    assert "it is rank 1 by Open MPI, but rank 0 of 2 by PMI" in ran.err


def test_launchers_that_disagree_do_not_keep_the_command_from_running(launch) -> None:
    disagreeing = {**DISAGREEING, "OMPI_COMM_WORLD_RANK": "0", "PMI_RANK": "1"}
    with launch("--ranks", "0", "--", "sh", "-c", "exit 7", **disagreeing) as process:
        _, warnings = process.communicate(timeout=20)
    assert process.returncode == 7
    (line,) = warnings.splitlines()
    assert "it is rank 0 by Open MPI, but rank 1 of 2 by PMI; the command runs unprofiled" in line


def test_a_rank_that_is_not_chosen_becomes_the_command(launch) -> None:
    asked = (
        "import os, signal; print(os.getpid(), os.getppid(), *sorted(signal.pthread_sigmask(0, []))); "
        "print(int(signal.getsignal(signal.SIGPIPE)))"
    )
    words = ("--ranks", "1", "--", sys.executable, "-c", asked + "; print(input()); exit(7)")
    with launch(*words, PMI_RANK="0", PMI_SIZE="2") as process:
        out, warnings = process.communicate("typed\n", timeout=20)
    assert out == f"{process.pid} {os.getpid()}\n1\ntyped\n"
    assert (process.returncode, warnings) == (7, "")


@pytest.mark.parametrize(
    ("size", "ranks", "has"), [("2", "2", "it has ranks 0 to 1"), ("2", "1,7", ""), ("2", "local:9", ""), ("", "3", "")]
)
def test_a_choice_that_names_no_rank_of_the_job_is_said_once(launch, size, ranks, has) -> None:
    """Where a size is not known, nothing is said of what it has."""
    said = {}
    for rank in ("0", "1"):
        job = {"PMI_RANK": rank, "PMI_LOCAL_RANK": rank} | ({"PMI_SIZE": size} if size else {})
        with launch("--ranks", ranks, "--", "true", **job) as process:
            said[rank] = process.communicate(timeout=30)[1]
    assert has in said["0"]
    assert ("names none of this job's ranks" in said["0"]) == bool(has)
    assert "names none" not in said["1"]


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (("-o", "taken"), "rank 0 runs unprofiled: "),
        (("-o", "/dev/null/out"), "rank 0 runs unprofiled: "),
        (("--steps", "3"), "with stepscope.capture()"),
    ],
)
def test_what_keeps_the_tool_from_starting_costs_the_job_one_warning(launch, tmp_path, words, warning) -> None:
    (tmp_path / "taken").touch()
    with launch(*words, "--", "sh", "-c", "exit 7") as process:
        _, warnings = process.communicate(timeout=20)
    assert process.returncode == 7
    assert warnings.startswith("stepscope launch: ")
    assert warning in warnings


def test_a_tool_that_is_missing_costs_the_job_one_warning(launch) -> None:
    with launch("--", "sh", "-c", "echo $$; exit 7", tool="rocprofv3") as process:
        out, warnings = process.communicate(timeout=20)
    assert out == f"{process.pid}\n"
    assert process.returncode == 7
    assert "rank 0 runs unprofiled: rocprofv3 is not on the PATH" in warnings


def test_a_node_without_room_for_temporary_files_uses_a_folder_below_the_output(launch, tmp_path) -> None:
    with launch("--", "sh", "-c", "echo $TMPDIR", TMPDIR="/nowhere") as process:
        out, warnings = process.communicate(timeout=20)
    assert out.startswith(f"{tmp_path}/out/.rank0.")
    assert "the folder for temporary files, /nowhere, does not exist" in warnings
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".nsys-rep"]


@pytest.mark.parametrize(("rank", "speaks"), [(0, False), (1, True), (3, False)])
def test_the_lowest_of_the_profiled_ranks_reports(launch, rank: int, speaks: bool) -> None:
    words = ("--ranks", "local:1", "--", "true")
    with launch(*words, **LAUNCHERS["Slurm"](rank)) as process:
        _, report = process.communicate(timeout=20)
    assert ("To read what all ranks wrote: " in report) == speaks, report


@pytest.mark.parametrize("ranks", ["0", "5"])
def test_a_script_that_does_not_say_what_runs_it_is_run_by_a_shell(launch, tmp_path, ranks) -> None:
    """As `execvp` does, by which launchers start programs."""
    script = tmp_path / "run"
    script.write_text('echo "$0" "$1"; exit 7')
    script.chmod(0o755)
    with launch("--ranks", ranks, "--", "./run", "a b") as process:
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (7, "./run a b\n")
