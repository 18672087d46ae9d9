"""What is in the package's own description, and that it holds together."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import stepscope

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    described: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return described


def test_the_license_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


def test_the_version_has_its_line_in_the_changelog() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert stepscope.__version__ in headings


def test_the_version_is_written_once(project: dict[str, Any]) -> None:
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/stepscope/__init__.py"


def test_torch_is_the_users_own(project: dict[str, Any]) -> None:
    """No way of installing StepScope may ask for a torch, or for another one than the user's."""
    extras = project["project"].get("optional-dependencies", {})
    wanted = [*project["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]
    names = {re.split(r"[<>=!~;\[ ]", one, maxsplit=1)[0].lower() for one in wanted}
    assert names
    assert {"torch", "torchvision", "torchaudio"} & names == set()


def test_dependencies_say_their_oldest_version_and_no_newest(project: dict[str, Any]) -> None:
    extras = project["project"].get("optional-dependencies", {})
    wanted = [*project["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]
    assert [one for one in wanted if ">=" not in one and not one.startswith("stepscope[")] == []
    assert [one for one in wanted if re.search(r"[<=~]=?\s*\d", one.replace(">=", ""))] == []


def test_constraints_bind_torch_alone() -> None:
    """Anything more would tie the Python versions that the tests can be run with."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert [line.split("==")[0] for line in pinned] == ["torch"]


def test_the_type_marker_is_packaged() -> None:
    assert (Path(stepscope.__file__).parent / "py.typed").is_file()


def test_the_makefile_has_the_targets_that_the_docs_name() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test", "check", "bench", "docs", "clean", "help"} <= set(targets)
    for page in ("README.md", "CONTRIBUTING.md"):
        named = re.findall(r"`make ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"))
        assert set(named) <= set(targets), page


def test_the_readme_has_no_link_that_ends_on_the_package_index() -> None:
    """There it is shown without the pages beside it: they are named, and only addresses are links."""
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert [target for target in targets if not target.startswith("https://")] == []


def test_pages_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"`(docs/[\w/.-]+)`", (ROOT / "README.md").read_text("utf-8")))
    assert named
    assert [page for page in named if not (ROOT / page).is_file()] == []
