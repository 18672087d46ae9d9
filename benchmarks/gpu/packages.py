"""Finds the packages that stages import: in this Python or in a folder of wheels; and names missing ones.

Nothing is installed into the present Python: wheels go to a separate folder on `PYTHONPATH`, and only those whose
package is missing or too old, so that the present torch keeps the packages it came with.

    python benchmarks/gpu/packages.py wheels --python-version 3.12 duckdb isal

downloads wheels on a machine that has a network, for one that has none.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WANTED_TOO = ("pytest>=8.2", "py-spy>=0.4")
"""Further packages for some stages, which do less without them."""
TORCH = "torch"
"""Never installed: the present one fits the driver."""
_GLIBC = (17, 24, 27, 28, 31, 34, 35, 39)


def requirements() -> list[str]:
    """StepScope's dependencies for this Python, from `pyproject.toml`."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (listed,) = re.findall(r"^dependencies = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    found = []
    for line in re.findall(r'^\s*"(.+?)"', listed, re.MULTILINE):
        named, _, condition = line.partition(";")
        bound = re.search(r"python_version < '3\.(\d+)'", condition)
        if bound is None or sys.version_info[1] < int(bound[1]):
            found.append(named.strip())
    return found


def missing(wanted: Sequence[str], path: Sequence[str] | None = None) -> list[str]:
    """The requirements that are not met.

    Args:
        wanted: names with their oldest version: `duckdb>=1.4`.
        path: folders to search instead of this Python's own.
    """
    return [one for one in wanted if not _is_there(one, path)]


def _is_there(requirement: str, path: Sequence[str] | None) -> bool:
    name, _, oldest = requirement.partition(">=")
    found = (
        importlib.metadata.distributions(name=name)
        if path is None
        else importlib.metadata.distributions(name=name, path=list(path))
    )
    versions = [_numbers(one.version) for one in found]
    return bool(versions) and max(versions) >= _numbers(oldest)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3])


def _name(text: str) -> str:
    """The package of a requirement or a wheel's file name, normalised as the index does."""
    return re.sub(r"[-_.]+", "-", re.split(r"-\d|>=|\.whl", text, maxsplit=1)[0]).lower()


def install(wheels: Path, site: Path) -> list[str]:
    """Installs from the wheels what this Python lacks, into a folder.

    Args:
        wheels: folder of wheels; may be absent.
        site: folder to install into.

    Returns:
        What could not be installed, one line each.
    """
    if not wheels.is_dir():
        return []
    lacking = {_name(one) for one in missing([*requirements(), *WANTED_TOO])}
    chosen = [
        wheel
        for wheel in sorted(wheels.glob("*.whl"))
        if _name(wheel.name) in lacking or not _is_there(_name(wheel.name), None)
    ]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    pip += ["--no-cache-dir", "--disable-pip-version-check", "--upgrade", "--target", str(site)]
    if not chosen or _done([*pip, *map(str, chosen)]) is None:
        return []
    failed = [(wheel, _done([*pip, str(wheel)])) for wheel in chosen]
    return [f"{wheel.name}: {words}" for wheel, words in failed if words is not None]


def _done(command: Sequence[str]) -> str | None:
    """None if a command succeeded, else its last line."""
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if ended.returncode == 0:
        return None
    return (ended.stderr.strip() or "it failed").splitlines()[-1]


def how_to_get(lacking: Sequence[str]) -> str:
    """The commands that install what is missing."""
    version = ".".join(map(str, sys.version_info[:2]))
    names = " ".join(one.partition(">=")[0] for one in lacking if one != TORCH)
    lines = []
    if TORCH in lacking:
        lines.append(f"Name the Python that has a torch for this GPU: make gpu PYTHON=...; {sys.executable} has none.")
    if names:
        lines += [
            f"On a machine with a network: make wheels WHEELS='{names}' WHEELS_FOR={version}",
            f"then copy the folder wheels/ to {ROOT} here, and run make gpu again.",
            f"Where this machine has one: {sys.executable} -m pip install {names}",
        ]
    return "\n".join(lines)


def download(names: Sequence[str], folder: Path, version: str, machine: str) -> int:
    """Downloads wheels with their dependencies, also for another Python; returns pip's exit code."""
    command = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--dest", str(folder)]
    command += ["--python-version", version, "--implementation", "cp"]
    for minor in reversed(_GLIBC):
        command += ["--platform", f"manylinux_2_{minor}_{machine}"]
    command += ["--platform", f"manylinux2014_{machine}", "--platform", f"manylinux1_{machine}"]
    return subprocess.run([*command, *names], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="packages (default: all that `make gpu` imports)")
    here = ".".join(map(str, sys.version_info[:2]))
    parser.add_argument("--python-version", default=here, help=f"of the machine with the GPU ({here})")
    parser.add_argument("--machine", default=platform.machine())
    asked = parser.parse_args()
    names = asked.names or [*requirements(), *WANTED_TOO]
    return download(names, asked.folder, asked.python_version, asked.machine)


if __name__ == "__main__":
    sys.exit(main())
