import io

import pytest

from stepscope.query.text_grid import Line
from stepscope.report.text import PIPED_WIDTH, print_lines, text_width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LINES = [Line("Which?", "title"), Line("[bold]k[/bold]  1"), Line("⚠ why", "warning")]


def test_a_pipe_gets_plain_lines():
    pipe = io.StringIO()
    print_lines(LINES, pipe)
    assert pipe.getvalue() == "Which?\n[bold]k[/bold]  1\n⚠ why\n"


def test_a_terminal_gets_colour_and_the_same_words(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    print_lines(LINES, terminal)
    assert "\x1b[1mWhich?\x1b[0m" in terminal.getvalue()
    assert "[bold]k[/bold]  1\n" in terminal.getvalue()


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    print_lines(LINES, terminal)
    assert "\x1b" not in terminal.getvalue()


def test_a_dumb_terminal_gets_no_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    print_lines(LINES, terminal)
    assert terminal.getvalue() == "Which?\n[bold]k[/bold]  1\n⚠ why\n"


@pytest.mark.parametrize(("forced", "coloured"), [("1", True), ("0", False), ("", False)])
def test_colour_can_be_forced_into_a_log(monkeypatch, forced, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", forced)
    log = io.StringIO()
    print_lines(LINES, log)
    assert ("\x1b[1mWhich?\x1b[0m" in log.getvalue()) == coloured


def test_bars_are_coloured_and_the_shades_of_a_map_are_not(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    print_lines([Line("k  50.0 %  ██▌  7"), Line("0  ▓█", "map"), Line("step", "worse")], terminal)
    assert terminal.getvalue() == ("k  50.0 %  \x1b[36m██▌\x1b[0m  7\n0  ▓█\n\x1b[31mstep\x1b[0m\n")


@pytest.mark.parametrize(("columns", "width"), [("90", 90), ("", PIPED_WIDTH), ("x", PIPED_WIDTH), ("0", PIPED_WIDTH)])
def test_a_pipe_is_as_wide_as_columns_says(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert text_width(io.StringIO()) == width


def test_a_terminal_is_as_wide_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "77")
    assert text_width(Terminal()) == 77
