"""What keeps a tool from recording is found, with its cure, on nodes made of a few files."""

import os
from pathlib import Path

import pytest

from stepscope.base.ranks import process_from
from stepscope.launch import preflight
from stepscope.launch.preflight import Node, problems, version_of
from stepscope.launch.run import _chosen_here
from stepscope.launch.tool import Tool
from stepscope.launch.tools.ncu import NCU
from stepscope.launch.tools.vtune import VTUNE

NEEDS = frozenset({"gpu-counters", "perf-events", "temporary-space", "one-cupti", "ptrace", "ncu-lock"})
TOOL = Tool("tool", "records", "around", needs=NEEDS, oldest=(2020, 1))


@pytest.fixture
def node(tmp_path: Path):
    """A node where all is well, but for what `files` in /proc and the environment say."""

    def make(files: dict[str, str] | None = None, **variables: str) -> Node:
        well = {
            "driver/nvidia/version": "",
            "driver/nvidia/params": "RmProfilingAdminOnly: 0\n",
            "sys/kernel/perf_event_paranoid": "2\n",
        }
        for name, text in (well | (files or {})).items():
            path = tmp_path / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Node({"TMPDIR": str(tmp_path), **variables}, tmp_path / "proc")

    return make


def said(node: Node, folder: Path, *command: str, version=(2024, 1), tool=TOOL) -> list[str]:
    return [f"{one.severity}: {one.what}" for one in problems(tool, version, folder, command, node)]


def test_nothing_is_said_where_all_is_well(node, tmp_path) -> None:
    assert said(node(), tmp_path / "not" / "made") == []
    assert said(node(), tmp_path, version=()) == []


def test_counters_for_administrators_alone_are_a_failure_with_its_cure(node, tmp_path) -> None:
    closed = node({"driver/nvidia/params": "EnableMSI: 1\nRmProfilingAdminOnly: 1\n"})
    (found,) = problems(TOOL, (2024, 1), tmp_path, (), closed)
    assert (found.severity, "ERR_NVGPUCTRPERM" in found.what) == ("failure", True)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.cure
    assert said(Node(closed.environment, closed.proc, is_root=True), tmp_path) == []


def test_a_node_that_lets_nobody_sample_is_a_failure(node, tmp_path) -> None:
    assert said(node({"sys/kernel/perf_event_paranoid": "4\n"}), tmp_path) == [
        "failure: this node does not let users sample their own programs (kernel.perf_event_paranoid is 4)"
    ]


@pytest.mark.parametrize(
    ("need", "severity", "allowed_to_users", "allowed_to_root"),
    [("ptrace", "failure", 1, 2), ("ptrace-any", "warning", 0, 2)],
)
def test_processes_that_may_not_be_looked_into_are_named(
    node, tmp_path, need: str, severity: str, allowed_to_users: int, allowed_to_root: int
) -> None:
    tool = Tool("tool", "records", "around", needs=frozenset({need}))
    for scope in range(4):
        users = node({"sys/kernel/yama/ptrace_scope": f"{scope}\n"})
        root = Node(users.environment, users.proc, is_root=True)
        for one, allowed in ((users, allowed_to_users), (root, allowed_to_root)):
            found = said(one, tmp_path, tool=tool)
            assert [line.partition(":")[0] for line in found] == [severity] * (scope > allowed)
            assert all(f"kernel.yama.ptrace_scope is {scope}" in line for line in found)


def test_the_lock_that_another_user_of_ncu_has_left_is_a_failure(node, tmp_path, monkeypatch) -> None:
    lock = tmp_path / "nsight-compute-lock"
    lock.touch()
    assert said(node(), tmp_path) == []
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != lock and access(path, mode))
    assert said(node(), tmp_path) == [f"failure: {lock} is another user's, and ncu has to write it"]


def test_a_node_without_a_driver_records_no_cuda(node, tmp_path) -> None:
    bare = node()
    (bare.proc / "driver/nvidia/version").unlink()
    (bare.proc / "driver/nvidia/params").unlink()
    assert said(bare, tmp_path) == ["note: this node has no NVIDIA driver, so no CUDA activity is recorded"]


def test_a_tool_that_is_too_old_is_named_with_its_version(node, tmp_path) -> None:
    (found,) = said(node(), tmp_path, version=(2019, 5, 2))
    assert found.startswith("warning: tool 2019.5.2 is older than 2020.1")


@pytest.mark.parametrize("variable", ["NSYS_PROFILING_SESSION_ID", "KINETO_USE_DAEMON"])
def test_another_user_of_cupti_is_named(node, tmp_path, variable) -> None:
    (found,) = said(node(**{variable: "1"}), tmp_path)
    assert "CUDA lets one profiler record at a time" in found


def test_a_script_that_names_torchs_profiler_is_named(node, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text("# torch.profiler\nimport torch.cuda.profiler\n")
    assert said(node(), tmp_path, "python", str(script)) == []
    script.write_text("from torch.profiler import profile\n")
    (found,) = said(node(), tmp_path, "python", str(script))
    assert found.startswith(f"warning: {script} names torch.profiler, and CUDA lets one")


def test_folders_without_space_or_permission_are_named(node, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(preflight, "_free", lambda _: 5 << 20)
    missing = tmp_path / "gone"
    assert said(node(TMPDIR=str(missing)), tmp_path) == [
        f"warning: only 5 MiB are free in {tmp_path}",
        f"warning: the folder for temporary files, {missing}, does not exist",
    ]
    assert said(node(), tmp_path)[1].endswith("has only 5 MiB free")
    monkeypatch.setattr(preflight.os, "access", lambda *_: False)
    assert said(node(), tmp_path)[0] == f"failure: {tmp_path} cannot be written"


def test_a_version_is_what_the_tool_prints(tmp_path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 'Intel(R) Tool 2023.1.0 (build 2)'\n")
    tool.chmod(0o755)
    assert version_of(TOOL, str(tool)) == (2023, 1, 0)
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert version_of(TOOL, str(tool)) == ()
    assert version_of(TOOL, str(tmp_path / "none")) == ()


@pytest.mark.parametrize("set_name", ["uarch-exploration", "memory-access"])
def test_hardware_events_of_vtune_need_perf_or_its_driver(node, tmp_path, set_name) -> None:
    closed = node({"sys/kernel/perf_event_paranoid": "3\n"})
    (found,) = problems(VTUNE, (2025, 1), tmp_path, (), closed, set_name=set_name)
    assert found.severity == "warning"
    assert "perf_event_paranoid is 3" in found.what
    assert problems(VTUNE, (2025, 1), tmp_path, (), closed, set_name="hotspots") == []
    assert problems(VTUNE, (2025, 1), tmp_path, (), node(), set_name=set_name) == []
    with_driver = node({"sys/kernel/perf_event_paranoid": "3\n", "modules": "sep5 2859008 0\n"})
    assert problems(VTUNE, (2025, 1), tmp_path, (), with_driver, set_name=set_name) == []


def test_several_ranks_of_a_node_under_ncu_are_warned_of_once(node, tmp_path) -> None:
    (found,) = problems(NCU, (2024, 1), tmp_path, (), node(), together=4)
    assert found.what.startswith("4 processes of this node run under ncu, and ncu lets one at a time")
    assert problems(NCU, (2024, 1), tmp_path, (), node(), together=1) == []


@pytest.mark.parametrize(
    ("ranks", "rank", "expected"),
    [
        (None, 4, 4),  # the first of its node speaks for it
        (None, 5, 1),
        ("local:1,3", 5, 2),
        ("local:0", 4, 1),
        ("0-5", 4, 2),
    ],
)
def test_chosen_processes_of_a_node_are_counted_by_the_first(ranks, rank, expected) -> None:
    process = process_from(
        {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": "8",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % 4),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        }
    )
    assert _chosen_here(ranks, process) == expected
