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


@pytest.mark.parametrize("where", ["other", ".venv/bin"])
def test_where_the_shell_would_not_find_it_is_the_whole_path(
    where: str, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / where)
    assert invoked_as() == str(environment / "stepscope")


@pytest.mark.parametrize(
    ("path", "command", "typed"),
    [
        ("other", None, ".venv/bin/stepscope"),
        (".venv/bin", None, "stepscope"),
        ("other", "other/stepscope", ".venv/bin/stepscope"),
    ],
)
def test_it_is_its_name_where_the_shell_finds_this_one(environment: Path, monkeypatch, path, command, typed) -> None:
    if command is not None:
        Path(command).write_text("#!/bin/sh\n")
        Path(command).chmod(0o755)
    monkeypatch.setenv("PATH", str(Path(path).absolute()))
    assert invoked_as() == typed


def test_without_a_command_it_is_the_module(environment: Path) -> None:
    (environment / "stepscope").unlink()
    assert invoked_as() == ".venv/bin/python -m stepscope"
