from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.floor.complete_file import complete_output
from stepscope.floor.errors import StepScopeError


def test_what_breaks_off_leaves_the_file_before_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("before")

    def write(error: Exception | None) -> None:
        with complete_output(target) as unfinished:
            unfinished.write_text("after")
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError())
    with pytest.raises(StepScopeError, match=r"a\.txt: cannot be written \(No space left\)"):
        write(OSError(28, "No space left"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "before"
    write(None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "after"


def test_a_file_for_a_folder_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StepScopeError, match="cannot be written") as refused,
        complete_output(tmp_path / "file" / "a.txt", hint="elsewhere") as unfinished,
    ):
        unfinished.write_text("")
    assert (refused.value.slug, refused.value.hint) == ("cannot-write", "elsewhere")


def test_a_pipe_is_written_into_and_a_link_followed(tmp_path: Path) -> None:
    pipe, target, link = tmp_path / "pipe", tmp_path / "a.txt", tmp_path / "link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    link.symlink_to(target)
    for place in (pipe, link):
        with complete_output(place) as unfinished:
            unfinished.write_text("answer")
    assert os.read(reader, 16) == b"answer"
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert target.read_text() == "answer"
