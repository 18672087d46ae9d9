"""The script of a batch job: what it asks the scheduler for, and how it starts the ranks."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stepscope.base.errors import UsageError
from stepscope.launch.job_preset import JobPreset, find_preset, preset_names
from stepscope.launch.jobscript import Job, jobscript, not_given

PLAIN = Job(2, 4, "nsys", ("--tool", "nsys", "--ranks", "local:0"), ("python", "train.py"))
ODD = Job(
    3,
    8,
    "vtune",
    ("--tool", "vtune", "--set", "uarch-exploration"),
    ("python", "a b.py", "it's", "$HOME", "`ls`", "do", "~/x", "a\nb", "“q”", "\udcff", "\\"),
    finalize=True,
    profiles="pro files/$(date)",
    account="abc@v100",
    queue="gpu_p2",
    walltime="1-00:00:00",
    gpus_per_node=0,
    cpus_per_rank=3,
    tmpdir="/scratch/x y",
    container="my image.sif",
    binds=("/a b:/c:ro", "$X"),
    directives=("--qos=dev",),
    setup=("export OMP_NUM_THREADS=3",),
    made_by=("stepscope", "jobscript", "a\nb\\"),
)


def lines(preset: str, job: Job) -> list[str]:
    return jobscript(find_preset(preset), job).splitlines()


def test_polaris() -> None:
    assert lines("polaris", PLAIN) == [
        "#!/bin/bash -l",
        "# Submit it with: qsub FILE",
        "#PBS -l select=2:system=polaris",
        "#PBS -l place=scatter",
        "#PBS -l filesystems=home:eagle",
        "#PBS -l walltime=0:30:00",
        "#PBS -A YOUR_PROJECT",
        "#PBS -q debug",
        "#PBS -j oe",
        "",
        "module use /soft/modulefiles",
        "module load conda",
        "conda activate base",
        "set -euo pipefail",
        'cd "$PBS_O_WORKDIR"',
        'MASTER_ADDR=$(head -n 1 "$PBS_NODEFILE")',
        "MASTER_PORT=$((20000 + ${PBS_JOBID%%[!0-9]*} % 10000))",
        "export MASTER_ADDR MASTER_PORT",
        "",
        'PROFILES="$PWD"/profiles',
        'export TMPDIR="$PROFILES"/tmp',
        'mkdir -p "$PROFILES" "$TMPDIR"',
        "",
        "# nsys must be found where the ranks run, and that takes seconds to see.",
        "mpiexec -n 1 --ppn 1 \\",
        '  stepscope doctor --tool nsys -o "$PROFILES"',
        "",
        "mpiexec -n 8 --ppn 4 --depth=8 --cpu-bind depth \\",
        '  --env TMPDIR="$TMPDIR" --line-buffer \\',
        '  stepscope launch --tool nsys --ranks local:0 -o "$PROFILES" -- \\',
        "  python train.py",
    ]


def test_slurm_asks_for_what_was_given_and_leaves_the_rest_to_the_cluster() -> None:
    header = [line for line in lines("slurm", PLAIN) if line.startswith("#SBATCH")]
    assert header == [
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --time=00:30:00",
        "#SBATCH --output=%x-%j.out",
    ]
    assert lines("slurm", PLAIN)[-3:-1] == [
        "srun \\",
        '  stepscope launch --tool nsys --ranks local:0 -o "$PROFILES" -- \\',
    ]


def test_jean_zay_in_a_container() -> None:
    found = lines("jean-zay", ODD)
    assert [line for line in found if line.startswith("#SBATCH")] == [
        "#SBATCH --nodes=3",
        "#SBATCH --ntasks-per-node=8",
        "#SBATCH --cpus-per-task=3",
        "#SBATCH --hint=nomultithread",
        "#SBATCH --time=1-00:00:00",
        "#SBATCH --account=abc@v100",
        "#SBATCH --partition=gpu_p2",
        "#SBATCH --output=%x-%j.out",
        "#SBATCH --qos=dev",
    ]
    assert "module load singularity" in found
    inside = (
        '  singularity exec --nv --bind "$PWD" --pwd "$PWD" --bind \'/a b:/c:ro\' --bind "\\$X" '
        "\"$SINGULARITY_ALLOWED_DIR\"/'my image.sif' \\"
    )
    # The check, the run and the finish are all where the tool is.
    assert [line.strip() for line in found].count(inside.strip()) == 3
    assert found[-1] == 'exit "$status"'
    assert found[-2] == '  stepscope launch --finalize "$PROFILES"'


def test_an_image_with_a_place_is_taken_from_there() -> None:
    job = Job(1, 1, "nsys", (), ("python", "train.py"), container="/images/a.sif")
    assert "SINGULARITY_ALLOWED_DIR" not in jobscript(find_preset("jean-zay"), job)


def test_words_that_a_scheduler_refuses_a_job_without_stand_there_until_they_are_given() -> None:
    missing = {name: not_given(find_preset(name), PLAIN) for name in preset_names()}
    assert missing == {
        "jean-zay": {"account": "YOUR_PROJECT@v100"},
        "pbs": {},
        "polaris": {"account": "YOUR_PROJECT"},
        "slurm": {},
    }
    assert not_given(find_preset("polaris"), ODD) == {}


@pytest.mark.parametrize(
    "wrong", [{"account": "a b"}, {"queue": "x\n#PBS -A y"}, {"walltime": "$(x)"}, {"directives": ("a\nb",)}]
)
def test_what_no_scheduler_reads_is_refused(wrong: dict[str, object]) -> None:
    job = Job(1, 1, "nsys", (), ("true",), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as raised:
        jobscript(find_preset("pbs"), job)
    assert raised.value.slug == "bad-jobscript"


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("job", [PLAIN, ODD], ids=["plain", "odd"])
def test_bash_and_shellcheck_have_nothing_to_say(preset: str, job: Job) -> None:
    script = os.fsencode(jobscript(find_preset(preset), job))
    programs = [["bash", "-n"]]
    if shutil.which("shellcheck"):
        programs.append(["shellcheck", "-"])
    for program in programs:
        done = subprocess.run(program, input=script, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# -- presets -----------------------------------------------------------------------------------------

OWN = """
scheduler = "slurm"
about = "ours"
directives = ["#SBATCH --nodes={nodes}", "#SBATCH --mem={memory}"]
launcher = ["srun[ --cpus-per-task={cpus_per_rank}][ -A {account}] -n {ranks}"]
one_rank = "srun -n 1"
"""


def test_a_preset_of_your_own(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(OWN)
    job = Job(2, 4, "nsys", (), ("true",), account="me")
    found = jobscript(find_preset(str(file)), job).splitlines()
    assert "#SBATCH --nodes=2" in found
    assert not any("mem" in line for line in found)
    assert "srun -A me -n 8 \\" in found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("about =", "abut ="), "unknown key 'abut'"),
        (('scheduler = "slurm"', 'scheduler = "lsf"'), "scheduler is none of pbs, slurm"),
        (('one_rank = "srun -n 1"', ""), "one_rank missing"),
        (('about = "ours"', "about = 1"), "about: is not a line of text"),
        (('about = "ours"', 'about = "a\\nb"'), "about: is not a line of text"),
        (("launcher = [", "launcher = [1, "), "launcher: is not a list of lines of text"),
        (("one_rank", "cpus_per_node = 0\none_rank"), "cpus_per_node: is not a number above 0"),
        (("one_rank", "required = 3\none_rank"), "required: is not a table of texts"),
        (("about", "about = "), "Invalid"),
    ],
)
def test_a_preset_that_cannot_be_used_says_why(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(OWN.replace(*change))
    with pytest.raises(UsageError) as raised:
        find_preset(str(file))
    assert raised.value.slug == "job-preset"
    assert words in raised.value.message


def test_a_preset_that_is_not_there(tmp_path: Path) -> None:
    for name in ("summit", "../slurm", str(tmp_path / "none.toml")):
        with pytest.raises(UsageError) as raised:
            find_preset(name)
        assert raised.value.slug == "job-preset"


def test_every_preset_has_its_place_in_the_list() -> None:
    assert preset_names("pbs") == ("pbs", "polaris")
    assert preset_names("slurm") == ("jean-zay", "slurm")


# -- the page ------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "jobscripts.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    return PAGE.partition(f"```{kind}\n")[2].partition("```\n")[0]


def test_the_page_shows_a_preset_that_works_and_names_every_key(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(block("toml"))
    found = jobscript(find_preset(str(tmp_path / "mine.toml")), PLAIN)
    assert "#SBATCH --gpus-per-node=8\n" in found
    assert "srun --cpus-per-task=24 \\\n" in found
    for key in JobPreset.__slots__:
        assert f"`{key}`" in PAGE, key
    for name in preset_names():
        assert f"| `{name}` |" in PAGE
