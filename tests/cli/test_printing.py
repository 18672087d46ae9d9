"""Nothing from a file, or from its name, steers the terminal that shows it."""

import csv
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.cli.conftest import Terminal

from stepscope.cli.main import main
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.cli.terminal.progress import TerminalProgress

EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202egpj.\u2066d\u200fe\u061cf"
STEERING = "\x1b\x07\x9b\u202e\u2066\u200f\u061c"


def on_terminal(*typed: str) -> tuple[int, str]:
    """The exit code, and what one terminal shows of stdout and stderr together, without colours."""
    terminal = Terminal()
    with redirect_stdout(terminal), redirect_stderr(terminal):
        code = main(typed)
    shown = terminal.getvalue()
    assert shown
    assert [f"{ord(letter):x}" for letter in STEERING if letter in shown] == []
    return code, shown


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def evil(tmp_path: Path) -> str:
    """The name of a recording whose every text steers."""
    at = {"pid": EVIL, "tid": EVIL, "ts": 1, "dur": 5}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": EVIL, "args": {"Input Dims": EVIL, EVIL: EVIL}, **at},
        {"ph": "X", "cat": "kernel", "name": EVIL, "args": {"device": 0, "stream": 7}, **at},
        {"ph": "X", "cat": EVIL, "name": EVIL, **at},
        {"ph": "M", "name": "process_name", "pid": EVIL, "args": {"name": EVIL}},
    ]
    described = {"deviceProperties": [{"id": 0, "name": EVIL}], "traceEvents": events}
    name = f"{EVIL}.json"
    (tmp_path / name).write_text(json.dumps(described))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).write_text(json.dumps(described))
    (tmp_path / "folder" / f"{EVIL}.txt").write_text("no recording")
    return name


@pytest.mark.parametrize(
    "asked",
    [
        ["summary"],
        ["kernels"],
        ["kernels", "--csv"],
        ["kernels", "--json"],
        ["kernels", "--spaces"],
        ["sources"],
        ["checks"],
        ["findings"],
        ["roofline", "--csv"],
    ],
    ids=" ".join,
)
def test_answers_on_a_terminal(asked: list[str], evil: str) -> None:
    assert on_terminal(asked[0], evil, *asked[1:])[0] == 0


@pytest.mark.parametrize(
    "typed",
    [
        ["summary", f"{EVIL}.absent"],
        ["summary", f"folder/{EVIL}.txt"],
        ["kernels", f"{EVIL}.json", "-c", EVIL],
        ["kernels", f"{EVIL}.json", "--step", EVIL],
        ["kernels", f"{EVIL}.json", f"--{EVIL}"],
        ["kernels", f"{EVIL}.json", "--parquet", f"absent/{EVIL}"],
        ["sql", f"{EVIL}.json", f'SELECT "{EVIL}"'],
        [EVIL],
        ["diff", f"{EVIL}.json", f"{EVIL}.absent"],
        ["import", f"{EVIL}.json", "-o", f"folder/{EVIL}.txt"],
        ["plan", f"{EVIL}:{EVIL}"],
    ],
    ids=lambda typed: typed[0][:8],
)
def test_errors_on_a_terminal(typed: list[str], evil: str) -> None:
    assert on_terminal(*typed)[0] in (1, 2)


def test_an_import_names_what_it_skipped_and_where_the_store_is(evil: str) -> None:
    code, shown = on_terminal("import", "folder", "-o", f"{EVIL}.store")
    assert code == 0
    assert "1 file was left out" in shown
    assert "ready" in shown
    code, shown = on_terminal("kernels", f"{EVIL}.store", "--parquet", f"{EVIL}.parquet")
    assert (code, "1 rows" in shown) == (0, True)


def test_files_and_pipes_get_the_data_exactly(evil: str) -> None:
    for option in ("--csv", "--json"):
        pipe = io.StringIO()
        with redirect_stdout(pipe):
            assert main(["kernels", evil, option, "-c", "name"]) == 0
        text = pipe.getvalue()
        if option == "--csv":
            assert list(csv.reader(io.StringIO(text, newline="")))[1] == [EVIL]
        else:
            assert json.loads(text)["rows"][0]["name"] == EVIL


def test_json_on_a_terminal_is_the_same_data(evil: str) -> None:
    assert json.loads(on_terminal("kernels", evil, "--json")[1])["rows"][0]["name"] == EVIL


def test_lines_stay_lines() -> None:
    terminal = Terminal()
    with redirect_stdout(terminal), redirect_stderr(terminal):
        print_out("a,b\n1,\u202e\n")
        print_err("one\n  two")
    assert terminal.getvalue() == "a,b\n1,\N{REPLACEMENT CHARACTER}\none\n  two\n"


def test_a_bar_is_named_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    with TerminalProgress(shown) as progress:
        progress.start(f"Reading {EVIL}", total=10)
    assert "\x1b]0" not in shown.getvalue()
    assert not set("\x07\x9b\u202e\u2066") & set(shown.getvalue())
