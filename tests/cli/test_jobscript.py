"""`stepscope jobscript` as it is typed, and its script under a real Slurm."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.launch.other_stand_ins import VTUNE, stand_in
from tests.processes import ran
from tests.slurm_cluster import slurm, submitted, why_no_slurm


def test_options_of_launch_are_passed_on_as_they_were_typed(run) -> None:
    words = ("--nodes", "2", "--ranks-per-node", "4", "--steps", "3-5", "--nvtx", "--top", "2")
    tool = ("--tool", "nsys", "--ranks", "local:0+0-7", "--delay", "1.50")
    ran = run("jobscript", "slurm", *words, *tool, "--", "-t", "a b", "--", "python", "it's.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith(
        "srun \\\n"
        "  stepscope launch --tool nsys --ranks local:0+0-7 --top 2 --steps 3-5 --nvtx --delay 1.50 "
        '-o "$PROFILES" -- \\\n'
        "  -t 'a b' -- python \"it's.py\"\n"
    )


def test_what_is_missing_is_said_in_the_words_of_the_scheduler(run) -> None:
    words = ("jobscript", "pbs", "--preset", "polaris", "--tool", "nsys", "--", "./app")
    ran = run(*words)
    assert "#PBS -A YOUR_PROJECT\n" in ran.out
    assert ran.err == "no --account was given: qsub will refuse YOUR_PROJECT\n"
    assert run(*words[:6], "-A", "mine", "--", "./app").err == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("slurm", "--", "a"), "Missing option '--tool'"),
        (("slurm", "--tool", "nsys"), "no command was given"),
        (("slurm", "--tool", "nsys", "--ranks", "x", "--", "a"), 'ranks "x" cannot be read'),
        (("slurm", "--tool", "vtun", "--", "a"), "'vtun' is not one of"),
        (("lsf", "--tool", "nsys", "--", "a"), "'lsf' is not one of"),
        (("slurm", "--preset", "pbs", "--tool", "nsys", "--", "a"), "is for pbs, not for slurm"),
        (("slurm", "--preset", "nowhere", "--tool", "nsys", "--", "a"), "no preset 'nowhere'"),
        (("slurm", "--tool", "vtune", "--set", "hot", "--", "a"), "vtune has no set hot"),
        (("slurm", "--tool", "nsys", "--metrics", "ipc", "--", "a"), "nsys has no --metrics"),
        (("slurm", "-A", "a b", "--tool", "nsys", "--", "a"), "account 'a b' is not a word"),
    ],
)
def test_what_no_job_could_run_is_refused(run, words: tuple[str, ...], expected: str) -> None:
    ran = run("jobscript", *words)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_a_file_is_replaced_only_when_told_so(run, tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    words = ("jobscript", "slurm", "--tool", "nsys", "-o", str(file))
    assert run(*words, "--", "a").code == 0
    first = file.read_text()
    ran = run(*words, "--", "b")
    assert (ran.code, "[file-exists]" in ran.err) == (2, True)
    assert file.read_text() == first
    assert run(*words, "--force", "--", "b").code == 0
    assert file.read_text() != first
    assert run(*words[:-1], "/dev/null", "--", "b").code == 0


def test_the_page_shows_what_the_command_writes(run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "jobscripts.md").read_text(encoding="utf-8")
    typed = page.partition("```console\n$ stepscope ")[2].partition("\n")[0].split()
    shown = page.partition("```bash\n")[2].partition("```\n")[0].splitlines()
    ran = run(*typed).out.splitlines()
    # Here the second line says how the tests were started.
    assert shown[1] == f"# `stepscope {' '.join(typed)}` made this."
    assert [shown[0], *shown[2:]] == [ran[0], *ran[2:]]


@pytest.mark.skipif(why_no_slurm() != "", reason=why_no_slurm())
def test_the_script_runs_under_slurm(run, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "vtune", VTUNE)
    program = tmp_path / "train it.py"
    program.write_text(
        "import os, sys\n"
        "print('rank', os.environ['SLURM_PROCID'], os.environ['MASTER_ADDR'], *sys.argv[1:])\n"
        "sys.exit(7 if os.environ['SLURM_PROCID'] == '3' else 0)\n"
    )
    size = ("--nodes", "2", "--ranks-per-node", "2", "--gpus-per-node", "0", "--walltime", "1")
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}"
    setup = ("--setup", f"export PATH='{path}':$PATH", "--partition", "all")
    command = ("--tool", "vtune", "--ranks", "local:0", "--", sys.executable, str(program), "$5")
    assert run("jobscript", "slurm", *size, *setup, "-o", str(tmp_path / "job.sh"), *command).code == 0
    (tmp_path / "slurm").mkdir()
    with slurm(tmp_path / "slurm") as environment:
        code = submitted(tmp_path / "job.sh", {**environment, "PYTHONPATH": os.pathsep.join(sys.path)})
    out = (tmp_path / "job.sh.out").read_text()
    # What a rank ends with is what the job ends with, after all is finished.
    assert code == 7, out
    ranks = sorted(line for line in out.splitlines() if line.startswith("rank "))
    assert ranks == [f"rank {rank} n0 $5" for rank in range(4)]
    results = sorted(path for path in (tmp_path / "profiles").iterdir())
    assert [result.name.partition(".")[0] for result in results] == ["rank0", "rank2"]
    assert all((result / "sqlite-db").is_dir() for result in results)


APPTAINER = """
at = next(i for i, word in enumerate(words) if word.endswith(".sif"))
there = ["exec", "--nv", "--bind", os.getcwd(), "--pwd", os.getcwd(), "--bind", "/opt:/there:ro"]
if words[:at] != there:
    sys.exit(f"unexpected: {words[:at]}")
os.environ["INSIDE"] = words[at]
os.execvp(words[at + 1], words[at + 1:])
"""


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="mpiexec is not installed")
def test_the_script_for_pbs_runs_where_pbs_would_have_started_it(run, tmp_path: Path) -> None:
    """With the variables that PBS sets, and an apptainer that only looks at its options."""
    stand_in(tmp_path / "bin", "vtune", VTUNE)
    stand_in(tmp_path / "bin", "apptainer", APPTAINER)
    (tmp_path / "nodes").write_text("localhost\nlocalhost\n")
    size = ("--nodes", "1", "--ranks-per-node", "2", "--container", "image.sif")
    more = ("--bind", "/opt:/there:ro", "--profiles", "pro files", "--tmpdir", "temporary files")
    program = "import os; print(*(os.environ[n] for n in ('INSIDE', 'TMPDIR', 'MASTER_ADDR', 'MASTER_PORT')))"
    command = ("--tool", "vtune", "--ranks", "1", "--", sys.executable, "-c", program)
    assert run("jobscript", "pbs", *size, *more, "-o", str(tmp_path / "job.sh"), *command).code == 0
    variables = {
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PBS_O_WORKDIR": str(tmp_path),
        "PBS_NODEFILE": str(tmp_path / "nodes"),
        "PBS_JOBID": "1234567[8].server",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = ran("bash", str(tmp_path / "job.sh"), cwd="/", env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    said = f"image.sif {tmp_path}/temporary files localhost 24567\n"
    assert done.stdout.count(said) == 2
    (result,) = (tmp_path / "pro files").iterdir()
    assert result.name.startswith("rank1.")
    assert (result / "sqlite-db").is_dir()
