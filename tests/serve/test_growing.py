"""Recordings whose files grow while a server answers from them."""

import threading
from contextlib import ExitStack

import pytest
from tests.browser.recordings import training
from tests.serve.conftest import opened

from stepscope.base.errors import SourceError
from stepscope.serve.growing import Growing


@pytest.fixture
def follows(tmp_path):
    """Recordings of a file that says how many ranks there are, and what writes it and looks again."""
    file = tmp_path / "phases"
    file.write_text("1")

    def reopen(stack: ExitStack):
        if not file.read_text().isdigit():
            raise SourceError("half a file", hint="", slug="not-a-recording")
        shown = opened(training(len(file.read_text())))
        stack.callback(shown[0].trace.close)
        return shown

    growing = Growing(opened(training()), [file], reopen)

    def look(text: str) -> dict[str, object]:
        file.write_text(text)
        growing.catch_up()
        return growing.look()

    yield growing, look
    growing.close()


def count_ranks(growing) -> int:
    with growing.now() as shown:
        return len(shown["1"].trace.ask("rank-overview"))


def test_a_file_that_grew_is_opened_again(follows):
    growing, look = follows
    assert growing.look() == {"version": 0, "problem": None}
    assert count_ranks(growing) == 1
    assert look("22") == {"version": 1, "problem": None}
    assert count_ranks(growing) == 2
    growing.catch_up()
    assert growing.look() == {"version": 1, "problem": None}


def test_what_cannot_be_opened_leaves_the_recording_as_it_was(follows):
    growing, look = follows
    assert look("half a line") == {"version": 0, "problem": "half a file"}
    assert count_ranks(growing) == 1
    assert look("22") == {"version": 1, "problem": None}


def test_a_recording_stays_open_while_somebody_reads_it(follows):
    growing, look = follows
    look("22")
    with growing.now() as held:
        look("1")
        assert len(held["1"].trace.ask("rank-overview")) == 2
    with pytest.raises(Exception, match="closed"):
        held["1"].trace.ask("rank-overview")
    assert count_ranks(growing) == 1


def test_a_recording_keeps_its_id(tmp_path):
    file = tmp_path / "runs"
    file.write_text("")
    both = opened(training(), training(2))
    growing = Growing(both[1:], [file], lambda _: both)
    file.write_text("one more")
    growing.catch_up()
    with growing.now() as shown:
        assert {number: one.name for number, one in shown.items()} == {"1": "run 2", "2": "run 1"}


def test_looking_follows_the_files_in_a_thread(follows, monkeypatch):
    growing, _ = follows
    looked = threading.Event()
    monkeypatch.setattr(growing, "catch_up", looked.set)
    monkeypatch.setattr(growing, "_look_again", 0)
    growing.look()
    assert looked.wait(10)
