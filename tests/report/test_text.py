import io

import pytest
from tests.cli.conftest import Terminal

from stepscope.query.text_grid import Line
from stepscope.report.text import PIPED_WIDTH, print_lines, text_width

LINES = [Line("Which?", "title"), Line("[bold]k[/bold]  1"), Line("⚠ why", "warning")]


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (io.StringIO, {"TERM": "xterm"}, False),
        (Terminal, {"TERM": "xterm"}, True),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (io.StringIO, {"TERM": "dumb", "FORCE_COLOR": "0"}, False),
        (io.StringIO, {"TERM": "dumb", "FORCE_COLOR": ""}, False),
    ],
)
def test_colour_is_for_terminals_or_forced_into_a_log(monkeypatch, stream, environment, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    target = stream()
    print_lines(LINES, target)
    plain = "Which?\n[bold]k[/bold]  1\n⚠ why\n"
    assert ("\x1b[1mWhich?\x1b[0m" in target.getvalue()) == coloured
    assert (target.getvalue() == plain) != coloured
    assert "[bold]k[/bold]  1\n" in target.getvalue()


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
