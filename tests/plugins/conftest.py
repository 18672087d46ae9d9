"""Packages with plug-ins, installed where only one test finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from tests.processes import python

from stepscope import questions
from stepscope.base import plugins
from stepscope.costs import hardware
from stepscope.costs import registry as operators
from stepscope.findings import rules
from stepscope.formats import registry as formats
from stepscope.launch import tools

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
CACHES = (
    plugins.installed,
    questions._added,
    formats._added,
    rules._added,
    operators._added,
    operators.model_of,
    operators.count_work,
    hardware._added,
    tools.all_tools,
    plugins.metadata_folders,
)
"""What is found is kept for the life of a process, which is longer than a test."""

_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def install(target: Path, project: Path) -> Path:
    """What pip makes of a project, without pip: its package, and metadata with the entry points."""
    declared = _toml.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    shutil.copytree(project / "src", target, dirs_exist_ok=True)
    return write_metadata(target, declared["name"], declared["version"], declared["entry-points"])


def write_metadata(target: Path, name: str, version: str, groups: dict[str, dict[str, str]]) -> Path:
    info = target / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


def _forget() -> None:
    for cache in CACHES:
        cache.cache_clear()
    plugins._reported.clear()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Puts a folder with packages on the path of this process, for one test."""

    # A test of `record` in this process may have come before.
    monkeypatch.setattr(plugins, "_runs_a_job", False)

    def use_folder(folder: Path) -> None:
        monkeypatch.syspath_prepend(folder)
        _forget()

    yield use_folder
    _forget()
    for name in list(sys.modules):
        if name.split(".")[0] in ("stepscope_example", "broken_example"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("example"), EXAMPLE)


@pytest.fixture
def broken(tmp_path: Path, use) -> Callable[..., Path]:
    """A package with one module, `broken_example`, and entry points that lead into it."""

    def write(source: str, *, version: str = "1.0", **entries: str) -> Path:
        target = tmp_path / "packages"
        target.mkdir(exist_ok=True)
        (target / "broken_example.py").write_text(source)
        groups = {f"stepscope.{kind}": {"it": f"broken_example:{value}"} for kind, value in entries.items()}
        write_metadata(target, "broken-example", version, groups)
        use(target)
        return target

    return write


@pytest.fixture
def spawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python as a process of its own, with packages on its path."""
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))

    def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        return python(*arguments, env={**os.environ, "PYTHONPATH": path, **settings})

    return run
