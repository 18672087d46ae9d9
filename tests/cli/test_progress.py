import io

import pytest
from tests.cli.conftest import Terminal

from stepscope.cli.terminal.progress import TerminalProgress, progress_on
from stepscope.store.progress import Progress


def test_a_pipe_hears_nothing():
    pipe = io.StringIO()
    with progress_on(pipe) as progress:
        progress.start("Reading a.json", total=10, unit="bytes")
        progress.advance(10)
    assert type(progress) is Progress
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(("total", "unit"), [(10, "bytes"), (None, "bytes"), (3, ""), (None, "")])
def test_a_terminal_shows_the_task(monkeypatch, total, unit):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with progress_on(terminal) as progress:
        progress.start("Reading [a].json", total=total, unit=unit)
        progress.advance(3)
    assert "Reading [a].json" in terminal.getvalue()


def test_a_terminal_without_a_task_shows_nothing():
    terminal = Terminal()
    with progress_on(terminal) as progress:
        progress.finish()
    assert terminal.getvalue() == ""


def test_an_interruption_gives_the_cursor_back(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    progress = TerminalProgress(terminal)

    def interrupted_task() -> None:
        with progress:
            progress.start("Reading", total=10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_task()
    shown = terminal.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    progress.advance(1)  # a late report of a thread must not draw again
    assert terminal.getvalue() == shown
