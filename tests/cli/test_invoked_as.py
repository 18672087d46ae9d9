"""Hints can be pasted into the terminal."""

from pathlib import Path

import pytest

from stepscope.cli.terminal.invoked_as import invoked_as


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the command in it, in the current directory and not on the PATH."""
    place = tmp_path / ".venv" / "bin"
    place.mkdir(parents=True)
    (place / "stepscope").write_text("#!/bin/sh\n")
    (place / "stepscope").chmod(0o755)
    (tmp_path / "other").mkdir()
    monkeypatch.setattr("sys.executable", str(place / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path)
    return place


def test_a_command_that_is_not_on_the_path_has_its_own(environment: Path) -> None:
    assert invoked_as() == ".venv/bin/stepscope"


@pytest.mark.parametrize("where", ["other", ".venv/bin"])
def test_where_the_shell_would_not_find_it_is_the_whole_path(
    where: str, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / where)
    assert invoked_as() == str(environment / "stepscope")


def test_on_the_path_it_is_its_name(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(environment))
    assert invoked_as() == "stepscope"


def test_another_one_on_the_path_is_exclude_current(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "stepscope").write_text("#!/bin/sh\n")
    (tmp_path / "other" / "stepscope").chmod(0o755)
    assert invoked_as() == ".venv/bin/stepscope"


def test_without_a_command_it_is_the_module(environment: Path) -> None:
    (environment / "stepscope").unlink()
    assert invoked_as() == ".venv/bin/python -m stepscope"
