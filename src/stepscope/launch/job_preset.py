"""How jobs are submitted at a site: scheduler, header, launcher and container, in one TOML file per site."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from stepscope.base.errors import UsageError

SCHEDULERS = {"pbs": "qsub", "slurm": "sbatch"}
"""Schedulers, with the commands that submit a script."""

_FOLDER = "job_presets"

ERRORS = {
    "job-preset": (
        "A preset of `stepscope jobscript` is one that comes with StepScope, or a TOML file of your own. Its "
        "keys are listed in [Job scripts](jobscripts.md#a-preset-of-your-own)."
    )
}


@dataclass(frozen=True, slots=True)
class JobPreset:
    """How jobs are submitted at one site. Words in braces are filled in; an unknown one drops its line, or the part in
    brackets around it.

    Args:
        one_rank: starts one rank, for the check before the run.
        required: words without which the scheduler refuses the job, with their placeholders.
        walltime, queue, tmpdir: defaults; `tmpdir` is inside the folder of profiles.
        gpus_per_node: GPUs of a node; None means one per rank.
        cpus_per_node, cpus_per_rank: cores of a node, shared evenly by its ranks, or cores of each rank.
        setup: lines before everything else: modules, environments.
        container_setup: more such lines for jobs with a container image.
        before: lines between these and the run.
        container: runs a program in an image; quoted for bash.
        images: folder of images given by name alone, quoted for bash.
    """

    scheduler: str
    about: str
    directives: tuple[str, ...]
    launcher: tuple[str, ...]
    one_rank: str
    required: dict[str, str] = field(default_factory=dict)
    walltime: str | None = None
    queue: str | None = None
    tmpdir: str | None = None
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    cpus_per_rank: int | None = None
    setup: tuple[str, ...] = ()
    container_setup: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    container: str = "apptainer exec --nv"
    images: str | None = None


def preset_names(scheduler: str | None = None) -> tuple[str, ...]:
    """Names of the presets that come with StepScope, or of those for one scheduler."""
    folder = resources.files("stepscope.launch") / _FOLDER
    names = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    if scheduler is None:
        return tuple(names)
    return tuple(name for name in names if find_preset(name).scheduler == scheduler)


def find_preset(name: str) -> JobPreset:
    """Finds a preset by its name or by the path of a TOML file.

    Raises:
        UsageError: it does not exist, or its file is invalid.
    """
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _wrong(name, str(getattr(error, "strerror", None) or error)) from None
        return _read(text, name)
    ours = resources.files("stepscope.launch") / _FOLDER / f"{name}.toml"
    if name not in preset_names():
        raise UsageError(
            f"there is no preset {name!r}",
            hint=f"name one of {', '.join(preset_names())}, or a TOML file of your own",
            slug="job-preset",
        )
    return _read(ours.read_text(encoding="utf-8"), name)


def _read(text: str, where: str) -> JobPreset:
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        given = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise _wrong(where, str(error)) from None
    kinds = {preset_field.name: str(preset_field.type) for preset_field in fields(JobPreset)}
    read: dict[str, Any] = {}
    for key, value in given.items():
        if key not in kinds:
            raise _wrong(where, f"unknown key {key!r}")
        read[key] = _checked(value, kinds[key], f"{where}: {key}")
    if missing := [key for key in ("scheduler", "about", "directives", "launcher", "one_rank") if key not in read]:
        raise _wrong(where, f"{', '.join(missing)} missing")
    if read["scheduler"] not in SCHEDULERS:
        raise _wrong(where, f"scheduler is none of {', '.join(SCHEDULERS)}")
    return JobPreset(**read)


def _checked(value: Any, kind: str, where: str) -> Any:
    if kind.startswith("tuple"):
        if isinstance(value, list) and all(_is_line(item) for item in value):
            return tuple(value)
        raise _wrong(where, "is not a list of lines of text")
    if kind.startswith("dict"):
        if isinstance(value, dict) and all(_is_line(item) for item in value.values()):
            return value
        raise _wrong(where, "is not a table of texts")
    if kind.startswith("int"):
        if type(value) is int and value > 0:
            return value
        raise _wrong(where, "is not a number above 0")
    if not _is_line(value):
        raise _wrong(where, "is not a line of text")
    return value


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _wrong(where: str, why: str) -> UsageError:
    return UsageError(
        f"{where}: {why}", hint="correct the preset; docs/jobscripts.md lists its keys", slug="job-preset"
    )
