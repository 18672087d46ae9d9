import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import click
import duckdb
import pytest
from tests.processes import python

import stepscope
from stepscope.base.errors import StepScopeError
from stepscope.cli import main as command_line
from stepscope.query.declare import Group
from stepscope.questions import OURS, grouped, names


def test_the_version(run):
    assert run("--version").out == f"stepscope {stepscope.__version__}\n"


def test_without_a_command_it_helps(run):
    ran = run()
    assert ran.code == 0
    words = ran.out.replace(",", " ").split()
    assert {*names(), *command_line.COMMANDS} <= set(words)
    assert len(ran.out.splitlines()) <= 45
    assert run("-h").out == ran.out == run("--help").out


def test_help_fits_a_terminal(run):
    root = click.Context(command_line.commands, info_name="stepscope", terminal_width=80, max_content_width=80)
    for name in (None, *command_line.commands.list_commands(root)):
        command = command_line.commands if name is None else command_line.commands.get_command(root, name)
        context = root if name is None else click.Context(command, parent=root, info_name=name)
        wide = [line for line in command.get_help(context).splitlines() if len(line) > 80]
        assert wide == [], name


def test_every_question_of_ours_is_in_a_group():
    assert list(grouped()) == list(get_args(Group))
    assert [question.name for members in grouped().values() for question in members] == list(OURS)


def test_an_unknown_command_gets_the_nearest(run):
    ran = run("kernel")
    assert ran.code == 2
    assert "Did you mean kernels" in ran.err


def test_a_recording_in_place_of_a_command_gets_the_command_that_reads_it(run, tmp_path):
    trace = tmp_path / "my trace.json"
    trace.write_text("{}")
    ran = run(str(trace), "--json")
    assert ran.code == 2
    assert f"stepscope summary '{trace}' --json" in ran.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("stepscope ker", ["kernels"]),
        ("stepscope kernels --by ", ["name", "properties"]),
        ("stepscope kernels x -c name,total", ["name,total_ns"]),
        ("stepscope completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_a_shell_is_told_what_may_come_next(run, monkeypatch, words, offered):
    monkeypatch.setenv("_STEPSCOPE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert set(offered) <= {line.removeprefix("plain,") for line in run().out.splitlines()}


def test_what_is_missing_is_told_without_a_tab(run):
    """A tab would be shown as a character that cannot be printed."""
    ran = run("completion")
    assert ran.code == 2
    assert "    bash" in ran.err
    assert "\N{REPLACEMENT CHARACTER}" not in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(run, shell):
    ran = run("completion", shell)
    assert ran.code == 0
    assert "_STEPSCOPE_COMPLETE" in ran.out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_error_is_two_lines_and_its_exit_code(run, tmp_path, form):
    ran = run("kernels", str(tmp_path / "nowhere"), *form)
    assert ran.code == 1
    assert ran.out == ""
    first, second = ran.err.splitlines()
    assert re.fullmatch(r"stepscope: .*nowhere.* \[[a-z-]+\]", first)
    assert second.startswith("  ")


def failing(monkeypatch, error: BaseException) -> None:
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command_line, "_run", fail)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), r"[^\n]*a bug in StepScope[^\n]*KeyError[^\n]*\n[^\n]*STEPSCOPE_DEBUG=1[^\n]*\n"),
        (PermissionError(13, "Permission denied", "secret.json"), "stepscope: secret.json: Permission denied.*"),
        (MemoryError("Unable to allocate 37.3 GiB"), r"stepscope: memory ran out \[out-of-memory\]\n.*"),
        (duckdb.OutOfMemoryException("full"), r"stepscope: memory ran out \[out-of-memory\]\n.*"),
        (StepScopeError("one\ntwo", hint="three\n  four", slug="s"), r"stepscope: one two \[s\]\n  three four\n"),
    ],
)
def test_what_goes_wrong_is_told_without_a_traceback(run, monkeypatch, error, said):
    failing(monkeypatch, error)
    ran = run("kernels", "x")
    assert ran.code == 1
    assert re.fullmatch(said, ran.err, re.DOTALL)
    assert "Traceback" not in ran.err


def test_debugging_shows_the_traceback(run, monkeypatch):
    failing(monkeypatch, KeyError("x"))
    monkeypatch.setenv("STEPSCOPE_DEBUG", "1")
    with pytest.raises(KeyError):
        run("kernels", "x")


@pytest.mark.parametrize(
    "early",
    [
        # While click is imported, and while a dataclass is made: Python then ends by the signal.
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())",
        "import stepscope.cli.main as made\nmade._run = lambda _: exec('raise KeyboardInterrupt')",
    ],
)
def test_an_interruption_while_it_starts_is_one_line_and_130(early):
    text = f"import os, signal, sys\n{early}\nfrom stepscope.__main__ import main\nsys.exit(main())"
    done = python("-c", text)
    assert (done.returncode, done.stderr) == (130, "stepscope: interrupted\n")


def is_waiting(process):
    """Whether it stays within the system: Python does not hear of a signal that comes just before a read, until that
    ends, and a process also sleeps on its way there."""
    stat = Path(f"/proc/{process.pid}/stat")
    for _ in range(20):
        if stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "S":
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_no_temporary_folder(tmp_path, number):
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "summary", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        process.stdin.write(b"{")
        process.stdin.flush()
        end = time.monotonic() + 60
        while not (list(tmp_path.rglob("standard input")) and is_waiting(process)) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.stderr.read() == b"stepscope: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_names_that_are_not_utf8_are_read_and_stores_lie_elsewhere(run, tmp_path):
    trace = tmp_path / os.fsdecode(b"a\xff\x1b.json")
    trace.write_text('[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]')
    ran = run("sources", str(trace), "--json", "--no-cache")
    assert ran.code == 0
    assert "a\N{REPLACEMENT CHARACTER}" in json.loads(ran.out)["rows"][0]["path"]
    ran = run("import", str(trace), "-o", str(tmp_path / os.fsdecode(b"s\xff")))
    assert ran.code == 1
    assert "[name-not-utf8]" in ran.err


@pytest.mark.parametrize(
    ("redirected", "said"),
    [
        (">&-", "stepscope: the standard output is closed [system]"),
        (">&- 2>&-", ""),
        pytest.param(
            ">/dev/full",
            "No space left on device",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full"),
        ),
    ],
)
def test_a_stdout_that_takes_nothing_is_an_error_of_two_lines(store, redirected, said):
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "stepscope", "kernels", store]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == (2 if said else 0)


def test_a_reader_that_stops_reading_is_no_error(store):
    """As in `stepscope sql ... | head -1`, with more output than a pipe holds."""
    query = "SELECT range AS n, repeat('x', 100) AS x FROM range(20000)"
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "sql", store, query, "--csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = process.stdout.readline()
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert (first, complaints) == ("n,x\n", "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["sources", "STORE"], 0),
        (["kernels", "STORE", "--json"], 0),
        (["check", "STORE"], 0),
        (["schema"], 0),
        (["sql", "STORE", "SELECT 1"], 0),
        (["sql", "STORE", "SELECT nothing"], 2),
        (["sql", "STORE", "DROP TABLE step"], 2),
        (["kernels", "STORE", "--rank", "9"], 2),
        (["kernels", "STORE", "--columns", "x"], 2),
        (["kernels", "NOWHERE"], 1),
    ],
)
def test_a_process_leaves_nothing_on_stderr_but_its_own_words(spawn, store, arguments, code):
    """DuckDB's bindings complain at exit about connections that were left open."""
    ran = spawn(*[store if word == "STORE" else word for word in arguments])
    assert ran.code == code
    assert len(ran.err.splitlines()) == (0 if code == 0 else 2)


def test_a_terminal_without_unicode_gets_question_marks(spawn, store):
    ran = spawn("steps", store, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert ran.code == 0
    assert "Traceback" not in ran.err


def test_piped_output_has_the_width_of_columns(spawn, store):
    narrow = spawn("kernels", store, COLUMNS="60").out
    wide = spawn("kernels", store, COLUMNS="").out
    assert max(map(len, narrow.splitlines())) <= 60
    assert 60 < max(map(len, wide.splitlines())) <= 120
    assert "\x1b" not in wide


def test_answering_starts_nothing_it_does_not_need(spawn, store):
    """Start-up is what a person waits for when the store is there."""
    code = (
        "import sys\nfrom stepscope.cli.main import main\n"
        f"main(['sources', {store!r}, '--json'])\n"
        "sys.stderr.write(','.join(n for n in ('rich', 'pandas', 'torch', 'isal', 'fsspec', "
        "'stepscope.formats.registry', 'stepscope.store.build') if n in sys.modules))"
    )
    done = python("-c", code, check=True)
    assert done.stderr == ""
