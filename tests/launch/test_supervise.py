"""A tool that fails in any way costs the job nothing: the command runs once, to its end, with its own exit code."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.launch.conftest import bare_environment
from tests.processes import python

COMMAND = ("--", "sh", "-c", "echo ran >> ran; sleep 0.6; exit 7")


def ended(launch, tmp_path: Path, how: str, *words: str, command=COMMAND) -> tuple[int, str]:
    """The exit code and the warnings; the command must have run once."""
    with launch(*words, *command, STAND_IN=how) as process:
        _, warnings = process.communicate(timeout=30)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert left_running(tmp_path) == []
    return process.returncode, warnings


def left_running(folder: Path) -> list[str]:
    """What still runs of what was started here, by its working folder."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize(
    ("how", "warning"),
    [
        ("works", None),
        ("has codes of its own", None),
        ("has sessions", None),
        ("starts the second time", "nsys ended with exit code 1 at its start, and is started again"),
        ("refuses", "runs unprofiled: nsys ended with exit code 2 before it started the command"),
        ("crashes", "nsys was ended by SIGKILL while the command runs, which goes on unprofiled"),
        ("leaves", "nsys ended with exit code 1 while the command runs, which goes on unprofiled"),
        ("writes nothing", "nsys wrote no rank0."),
        ("truncates", "is incomplete: nsys export"),
    ],
)
def test_the_command_ends_as_it_would_alone(launch, tmp_path, how, warning) -> None:
    code, warnings = ended(launch, tmp_path, how)
    assert code == 7
    ours = [line for line in warnings.splitlines() if line.startswith("stepscope launch: rank")]
    if warning is None:
        assert ours == []
    else:
        assert warning in warnings
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert list((tmp_path / "out").glob(".*")) == []


@pytest.mark.parametrize(
    ("how", "seconds", "warning"),
    [
        ("kills what it started", "30", ""),
        ("is daemons", "0.2", ""),
        ("hangs at the end", "0.2", "it did not end within 0.2 s of the command, and was ended"),
        ("works", "1e300", ""),
    ],
)
def test_what_a_tool_leaves_running_is_ended_and_not_the_command(launch, tmp_path, how, seconds, warning) -> None:
    code, warnings = ended(launch, tmp_path, how, "--wait", seconds)
    assert code == 7, warnings
    assert warning in warnings


@pytest.mark.parametrize("remove", ["rm -rf tmp", "rm -rf tmp/*"])
def test_a_command_that_removes_temporary_files_runs_once(launch, tmp_path, remove) -> None:
    (tmp_path / "tmp").mkdir()
    line = ("--", "sh", "-c", f"echo ran >> ran; {remove}; exit 7")
    with launch(*line, TMPDIR=str(tmp_path / "tmp")) as process:
        _, warnings = process.communicate(timeout=30)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert process.returncode == 7, warnings


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_temporary_files_that_fill_the_disk_do_not_cost_the_exit_code(launch, tmp_path) -> None:
    disk = tmp_path / "tmp"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("this container may not mount")
    try:
        line = ("--", "sh", "-c", "echo ran >> ran; cat /dev/zero > tmp/full; exit 7")
        with launch(*line, TMPDIR=str(disk)) as process:
            _, warnings = process.communicate(timeout=30)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert process.returncode == 7, warnings


@pytest.mark.parametrize("how", ["works", "writes nothing", "refuses"])
@pytest.mark.parametrize("words", [(), ("--stats",)])
def test_warnings_that_cannot_be_written_cost_nothing(launch, tmp_path, how, words) -> None:
    # The launcher of the test has its stderr in a pipe; a shell puts a full disk in its place.
    with launch(*words, *COMMAND, STAND_IN=how, started_by='exec "$@" 2> /dev/full > /dev/full') as process:
        process.communicate(timeout=30)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert process.returncode == 7


def test_a_working_folder_that_is_gone_does_not_cost_the_command(launch) -> None:
    gone = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    with launch("--", "sh", "-c", "exit 7", started_by=gone) as process:
        _, warnings = process.communicate(timeout=30)
    assert process.returncode == 7
    assert "rank 0 runs unprofiled: out: No such file or directory" in warnings


def test_an_empty_command_is_refused(launch) -> None:
    for words in (("--", ""), ("--", "-x", "--")):
        with launch(*words) as process:
            _, warnings = process.communicate(timeout=30)
        assert "no command was given" in warnings
        assert process.returncode == 2


@pytest.mark.parametrize("words", [("--wait", "inf"), ("--delay", "nan"), ("--delay", "inf"), ("--duration", "0")])
def test_what_is_no_time_is_refused_before_anything_runs(run_launch, words) -> None:
    assert run_launch(*words, "--print-rank").code == 2


def test_output_of_an_earlier_run_stays(launch, tmp_path) -> None:
    for _ in range(2):
        (tmp_path / "ran").unlink(missing_ok=True)
        ended(launch, tmp_path, "works", command=("--", "sh", "-c", "echo ran >> ran"))
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize(
    ("how", "what"), [("works", signal.SIGTERM), ("has sessions", signal.SIGINT), ("works", signal.SIGUSR1)]
)
def test_a_signal_to_the_job_reaches_the_command_once(launch, how, what) -> None:
    script = (
        "import signal, sys, time\n"
        "got = []\n"
        f"signal.signal({int(what)}, lambda *one: got.append(one[0]))\n"
        "print('ready', flush=True)\n"
        "while not got:\n"
        "    time.sleep(0.02)\n"
        "time.sleep(0.2)\n"
        "sys.exit(len(got))\n"
    )
    with launch("--", sys.executable, "-c", script, STAND_IN=how) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, what)
        process.communicate(timeout=20)
    assert process.returncode == 1


def test_a_signal_that_is_ignored_does_not_end_the_job(launch, tmp_path) -> None:
    # As nohup does; a shell's background jobs ignore SIGINT.
    ignoring = 'trap "" HUP; exec "$@"'
    line = ("--", "sh", "-c", "echo ran; read go; exit 7")
    with launch(*line, started_by=ignoring) as process:
        assert process.stdout.readline() == "ran\n"
        process.send_signal(signal.SIGHUP)
        _, warnings = process.communicate("go\n", timeout=20)
    assert process.returncode == 7
    assert "stepscope launch: wrote " in warnings
    with launch(*line, started_by=ignoring, STAND_IN="starts late") as process:
        while not list(tmp_path.glob("out/.*.launch")):
            os.sched_yield()
        process.send_signal(signal.SIGHUP)
        process.communicate("go\n", timeout=20)
    assert process.returncode == 7


def test_where_the_launcher_ignores_that_children_end_the_exit_code_is_known(launch, tmp_path) -> None:
    ignoring = 'trap "" CHLD; exec "$@"'
    for tool in ("nsys", "onednn"):
        with launch(*COMMAND, tool=tool, started_by=ignoring) as process:
            _, warnings = process.communicate(timeout=30)
        assert process.returncode == 7, warnings


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_do_not_cost_the_exit_code(launch, tmp_path, closed) -> None:
    with launch(*COMMAND, started_by=f'exec "$@" {closed}') as process:
        process.communicate(timeout=30)
    assert process.returncode == 7
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_the_job_ends_by_the_signal_that_ended_the_command(launch) -> None:
    with launch("--", "sh", "-c", "echo ready; exec sleep 30") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM


def test_the_command_ends_when_the_job_was_killed(launch, tmp_path) -> None:
    there = {"TMPDIR": str(tmp_path)}
    with launch("--", "sh", "-c", "echo ready; exec sleep 30", **there) as process:
        assert process.stdout.readline() == "ready\n"
        assert list(tmp_path.glob("stepscope-*"))
        process.kill()
        process.communicate(timeout=20)  # until nobody has its output open any more
    assert not list(tmp_path.glob("stepscope-*"))


def test_a_tool_that_hangs_before_the_command_can_be_told_to_end(launch, tmp_path) -> None:
    with launch("--", "sh", "-c", "echo ran >> ran", STAND_IN="hangs at the start") as process:
        while not list(tmp_path.glob("out/.*.launch")):
            os.sched_yield()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
    assert not (tmp_path / "ran").exists()


def test_a_tool_that_hangs_after_the_command_is_ended_by_the_second_signal(launch, tmp_path) -> None:
    with launch("--", "sh", "-c", "echo ran; exit 7", STAND_IN="hangs at the end") as process:
        assert process.stdout.readline() == "ran\n"
        while not any("stand_in" in line for line in left_running(tmp_path)) or any(
            "started.py" in line and "stand_in" not in line for line in left_running(tmp_path)
        ):
            os.sched_yield()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.3)
        _, warnings = process.communicate(timeout=20)
    assert process.returncode == 7
    assert "it had not written its files at a SIGINT, and was ended" in warnings


def test_the_commands_input_output_and_environment_are_its_own(launch) -> None:
    with launch("--", "sh", "-c", "cat; echo $MINE $LC_CTYPE; echo oh >&2", MINE="a", LC_ALL="C") as process:
        out, warnings = process.communicate("typed\n", timeout=20)
    assert out == "typed\na\n"
    assert warnings.startswith("oh\n")


def test_what_the_tool_prints_is_no_output_of_the_command(launch) -> None:
    with launch("--", "sh", "-c", "printf 'a\\0b'; echo oh >&2", STAND_IN="prints") as process:
        out, warnings = process.communicate(timeout=20)
    assert out == "a\0b"
    assert "Collecting data...\noh\n" in warnings
    assert "Generating report" in warnings


def test_folders_of_launchers_that_were_killed_are_removed(launch, tmp_path) -> None:
    there = tmp_path / "there"
    folders = [there / f"stepscope-launch-{name}" for name in ("killed", "lives", "young")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "status").touch()
    for folder in folders[:2]:
        os.utime(folder, (0, 0))
    with (folders[1] / "status").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with launch("--", "true", TMPDIR=str(there)) as process:
            process.communicate(timeout=20)
    assert sorted(there.iterdir()) == folders[1:]


@pytest.mark.parametrize(("name", "code"), [("./none", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_ends_as_in_a_shell(launch, name, code) -> None:
    with launch("--", name) as process:
        _, warnings = process.communicate(timeout=20)
    assert process.returncode == code
    assert warnings.startswith(f"stepscope launch: {name}: ")


def test_a_tool_that_does_not_start_the_command_is_given_up(stand_ins, tmp_path) -> None:
    impatient = (
        "import sys\n"
        "from stepscope.cli.main import main\n"
        "from stepscope.launch import supervise\n"
        "supervise.LONGEST_START_S = 0.3\n"
        "sys.exit(main())\n"
    )
    environment = bare_environment() | {"STAND_IN": "hangs at the start"}
    environment["PATH"] = f"{stand_ins}{os.pathsep}{environment['PATH']}"
    done = python("-c", impatient, "launch", "--tool", "nsys", *COMMAND, cwd=tmp_path, env=environment)
    assert done.returncode == 7
    assert "runs unprofiled: nsys did not start the command within 0.3 s" in done.stderr
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert left_running(tmp_path) == []
