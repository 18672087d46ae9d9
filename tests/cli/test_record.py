"""`stepscope record`: the script is what it would be alone, and what was recorded is shown."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.script import files
from stepscope.cli.terminal.streams import reporting

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

TRAINING = """
import sys
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(240, 8), torch.zeros(240, 1))
for x, y in torch.utils.data.DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
print("arguments", sys.argv[1:], __name__)
if "--leave" in sys.argv:
    sys.exit(int(sys.argv[-1]))
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "plan.toml").write_text('warmup = 3\nrepetitions = 3\nevents = ["forward", "backward"]\n')
    return tmp_path


def _recorded(run, job, *arguments):
    return run("record", "-o", str(job / "out"), *arguments)


def test_a_plan_that_a_script_is_too_short_for_is_said_to_be(fork, job):
    plan = job / "plan.toml"
    plan.write_text(plan.read_text().replace("repetitions = 3", "repetitions = 60"))
    done = _recorded(fork, job, "--inline", str(plan), "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert 'note: 59 iterations were too few for the plan: "backward" was not measured' in done.err


@pytest.mark.parametrize(
    ("text", "ways", "why"),
    [
        ("import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))", ("--inline",), "has no optimizer that steps"),
        ("", (), "the script did not import torch"),
    ],
)
def test_why_nothing_was_recorded_is_said(spawn, job, text, ways, why):
    (job / "plain.py").write_text(f"{text}\nprint('ran')")
    done = _recorded(spawn, job, *ways, "--", str(job / "plain.py"))
    assert (done.code, done.out) == (0, "ran\n")
    assert why in done.err
    assert "Ask more" not in done.err
    assert not list((job / "out").glob("*.json"))


def test_by_default_phases_are_timed_and_a_few_steps_traced(spawn, job):
    done = _recorded(spawn, job, "--active", "2", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    names = sorted(path.name for path in (job / "out").iterdir())
    assert names[0] == "train-0-of-1.json.gz"
    assert [name.split(".", 1)[1] for name in names[1:]] == ["0.phases.json"]
    (phases,) = (job / "out").glob("*.phases.json")
    counted = json.loads(phases.read_text())["counted_steps"]
    for words in ("Steps      2 (ProfilerStep", "Operators by"):
        assert words in done.out
    # A busy machine may hold one step up, and the longest is then in no mean.
    shown = re.search(r"on the host \((\d+) steps", done.out)
    assert shown is not None
    assert counted - 1 <= int(shown[1]) <= counted
    assert "\nNext: " in done.out  # whatever limits so short a step this time


def test_the_ranks_of_a_job_are_summarised_together(fork, job, monkeypatch):
    (job / "train.py").write_text(
        TRAINING + "import os, subprocess\n"
        "if os.environ['RANK'] == '0':\n"
        "    beside = [sys.executable, '-m', 'stepscope', 'record', '-o', sys.argv[1], '--active', '1']\n"
        "    environment = {**os.environ, 'RANK': '1'}\n"
        "    subprocess.run([*beside, '--', __file__, sys.argv[1]], env=environment, check=True)\n"
    )
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    script = str(job / "train.py")
    done = _recorded(fork, job, "--active", "1", "--", script, str(job / "out"))
    assert done.code == 0, done.err
    assert "ranks 0, 1, 4 recordings" in done.out
    assert "missing: 1" not in done.out
    assert "Mean step of the trace" in done.out
    assert "Phases of the mean step of the run" in done.out


def test_a_trace_alone_is_asked_for_by_name(fork, job):
    done = _recorded(fork, job, "--trace", "--active", "2", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert [path.name for path in (job / "out").iterdir()] == ["train-0-of-1.json.gz"]
    assert "Phases of" not in done.out


def test_a_plan_and_a_trace_of_one_run(fork, job):
    script = (str(job / "train.py"), "--epochs", "1")
    done = _recorded(fork, job, "--inline", str(job / "plan.toml"), "--trace", "--active", "2", "--", *script)
    assert done.code == 0, done.err
    assert "arguments ['--epochs', '1'] __main__" in done.out
    (profile,) = (job / "out").glob("*.0.prof.json")
    assert json.loads(profile.read_text())["complete"] is True
    assert f"wrote {profile}" in done.err
    assert "How long do the measured events of an iteration take" in done.out
    assert "Steps      2 (ProfilerStep" in done.out


def test_a_script_that_exits_keeps_its_code_and_its_recording(fork, job):
    done = _recorded(fork, job, "--phases", "--", str(job / "train.py"), "--leave", "7")
    assert done.code == 7
    assert "Which phase of the step takes the time" in done.out
    (phases,) = (job / "out").glob("*.phases.json")
    told = json.loads(phases.read_text())
    assert (told["ended"], told["script"]) == ({"exit_code": 7}, f"{job / 'train.py'} ARGS")


def test_a_script_that_raises_shows_its_own_traceback_alone(fork, job):
    script = job / "raises.py"
    train = TRAINING.replace("print(", "def inner():\n    raise ValueError('mine')\ninner()\nprint(")
    script.write_text(train)
    done = _recorded(fork, job, "--active", "99", "--", str(script))
    assert done.code == 1
    assert "ValueError: mine" in done.err
    assert f'File "{script}", line 14' in done.err
    assert "runpy" not in done.err
    assert "stepscope/cli" not in done.err
    assert "as_main" not in done.err
    (first, second) = sorted((job / "out").iterdir())
    told = json.loads(second.read_text() if second.suffix == ".json" else first.read_text())
    assert told["ended"] == {"exception": "ValueError"}
    assert "ended_early: ValueError ended the job" in done.out


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "closing", ["sys.stdout.close()", "sys.stdout = None", "sys.stdout.close(); sys.stderr.close()"]
)
def test_a_script_that_closes_its_streams_keeps_its_exit_code_and_its_recording(fork, job, closing):
    (job / "train.py").write_text(f"{TRAINING}\n{closing}\n")
    done = _recorded(fork, job, "--phases", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    (phases,) = (job / "out").glob("*.phases.json")
    # On stderr where that is all there is, and nowhere where nothing is.
    assert (f"wrote {phases}" in done.err) is ("stderr" not in closing)
    assert "bug" not in done.err


def test_a_report_that_may_open_no_file_does_not_fail_the_job(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    with reporting():
        raise OSError


@pytest.mark.parametrize(
    ("text", "errors", "redirected"),
    [
        # A name of a file that is no text: in a C locale its bytes, elsewhere an exception.
        ("print('a\\udce9')", "surrogateescape", ""),
        ("print('a\\udce9')", "strict", ""),
        ("print('lost')\nassert sys.stdout is None", "strict", ">&-"),
        ("sys.excepthook = lambda kind, *_: print('hook', kind.__name__)\nraise KeyError", "strict", ""),
        ("sys.excepthook = lambda *_: 1 / 0\nraise KeyError('mine')", "strict", ""),
        (
            "import atexit, os, signal, time\natexit.register(lambda: print('left', sys.argv))\n"
            "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)",
            "strict",
            "",
        ),
    ],
)
def test_a_script_prints_and_ends_as_it_does_alone(job, text, errors, redirected):
    (job / "plain.py").write_text(f"import sys\n{text}\n")
    environment = {**os.environ, "PYTHONIOENCODING": f"ascii:{errors}"}
    recorded, alone = (
        subprocess.run(
            ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, *words, "plain.py", "x"],
            cwd=job, capture_output=True, check=False, env=environment,
        )
        for words in (("-m", "stepscope", "record", "--no-summary", "-o", "out", "--"), ())
    )  # fmt: skip
    assert (recorded.returncode, recorded.stdout) == (alone.returncode, alone.stdout)
    if alone.returncode:  # after a good end we add a note
        first_and_last = [(done.stderr.splitlines()[:1], done.stderr.splitlines()[-1:]) for done in (recorded, alone)]
        assert first_and_last[0] == first_and_last[1]


def test_what_the_script_recorded_by_itself_is_said_to_be_elsewhere(fork, job):
    own = job / "own"
    (job / "train.py").write_text(
        f"import torch\nfrom stepscope import inline\ninline.start(out={str(own)!r})\n"
        + TRAINING.replace(
            "in torch.utils.data.DataLoader(data, batch_size=4)",
            "in inline.iterate(torch.utils.data.DataLoader(data, batch_size=4))",
        )
        + "\ninline.stop()\n"
    )
    done = _recorded(fork, job, "--phases", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert f"note: the script recorded by itself, into {own}" in done.err
    assert "nothing was recorded" not in done.err


@pytest.mark.sweep(2)
@pytest.mark.parametrize("way", [(), ("--phases",)])
def test_a_script_that_starts_a_recording_and_has_no_loop_of_ours_is_recorded_in_the_loop_that_is_found(fork, job, way):
    own = job / "own"
    (job / "train.py").write_text(
        f"import torch\nfrom stepscope import inline\ninline.start(out={str(own)!r})\n{TRAINING}"
    )
    done = _recorded(fork, job, *way, "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert f"recorded by itself, into {own}" in done.err
    (phases,) = own.glob("*.phases.json")
    # The first of 60 steps goes by unobserved, and after the last none is known to end.
    assert json.loads(phases.read_text())["steps"] == 58
    assert (job / "out" / "train-0-of-1.json.gz").exists() is not bool(way)


@pytest.mark.long
def test_a_script_with_a_trace_of_its_own_is_traced_after_it(fork, job):
    own = job / "own"
    loop = TRAINING.replace("torch.utils.data.DataLoader(data, batch_size=4)", "batches()")
    (job / "train.py").write_text(
        "import torch\nfrom stepscope import trace\n"
        "def batches():\n"
        f"    with trace({str(own)!r}, active=2) as tracer:\n"
        "        yield from tracer.iterate(torch.utils.data.DataLoader(data, batch_size=4))\n" + loop
    )
    done = _recorded(fork, job, "--trace", "--active", "2", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert f"note: the script also recorded by itself, into {own}" in done.err
    assert [path.name for path in own.iterdir()] == ["train-0-of-1.json.gz"]
    assert [path.name for path in (job / "out").iterdir()] == ["train-0-of-1.json.gz"]


def test_a_thread_that_outlives_the_script_is_recorded_to_its_end(spawn, job):
    """Python waits for such a thread; one of an executor that only waits for work holds nothing up."""
    (job / "late.py").write_text(
        "import threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "ThreadPoolExecutor(1).submit(int).result()\nimport torch\n"
        "def train():\n    time.sleep(0.2)\n" + textwrap.indent(TRAINING, "    ") + "\n"
        "threading.Thread(target=train).start()\nprint('script over')\n"
    )
    done = _recorded(spawn, job, "--", str(job / "late.py"))
    assert done.code == 0, done.err
    assert done.out.startswith("script over\narguments")
    assert "The script's threads ended after it. Ask: " in done.err
    (phases,) = (job / "out").glob("*.phases.json")
    assert json.loads(phases.read_text())["counted_steps"] > 10
    assert len(list((job / "out").glob("*.json.gz"))) == 1


def test_a_trace_is_ended_in_the_thread_of_its_steps(spawn, job):
    """torch ends the process with a crash where another thread stops it."""
    (job / "short.py").write_text(
        "import threading\nimport torch\ndef train():\n" + textwrap.indent(TRAINING, "    ") + "\n"
        "thread = threading.Thread(target=train)\nthread.start()\nthread.join()\n"
    )
    done = _recorded(spawn, job, "--trace", "--active", "500", "--", str(job / "short.py"))
    assert done.code == 0, done.err
    assert len(list((job / "out").glob("*.json.gz"))) == 1


@pytest.mark.parametrize(
    ("name", "text", "words", "code"),
    [
        ("open.py", "print('x'\n", "SyntaxError: '(' was never closed", 1),
        ("train.sh", "#!/bin/bash\npython train.py\n", "train.sh is no Python script", 2),
        ("python3", "", "leave it out, StepScope runs the script itself: -- train.py ARGS", 2),
    ],
)
def test_what_python_cannot_run_is_named_without_our_own_frames(fork, job, name, text, words, code):
    (job / name).write_text(text)
    done = _recorded(fork, job, "--", str(job / name), "train.py", "--secret")
    assert done.code == code
    assert words in done.err
    assert "as_main" not in done.err
    assert "secret" not in done.err


def test_a_second_run_in_the_same_folder_says_what_it_replaces_and_what_lies_there(fork, job):
    (job / "out").mkdir()
    for name in ("train-0-of-1.json.gz", "train-1-of-2.json.gz"):
        (job / "out" / name).write_text("")
        os.utime(job / "out" / name, (1000, 1000))
    done = _recorded(fork, job, "--active", "1", "--", str(job / "train.py"))
    assert done.code == 0
    assert f"wrote {job / 'out' / 'train-0-of-1.json.gz'}, in place of an earlier one" in done.err
    assert f"note: {job / 'out' / 'train-1-of-2.json.gz'} is of an earlier run" in done.err


def test_a_module_is_run_by_its_name(fork, job, monkeypatch):
    monkeypatch.chdir(job)
    done = _recorded(fork, job, "--no-summary", "--", "-m", "train", "-x")
    assert done.code == 0, done.err
    assert "arguments ['-x'] __main__" in done.out
    assert "Steps" not in done.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--trace", "--on-demand", "asked", "--", "train.py"), "[two-ways-to-record]"),
        (("--phases", "--stack", "--", "train.py"), "[two-ways-to-record]"),
        (("--nvtx", "--trace", "--", "train.py"), "[two-ways-to-record]"),
        (("--on-demand", "asked", "--stack", "--", "train.py"), "[two-ways-to-record]"),
        (("--phases",), "[no-script]"),
        (("--ranks", "1-", "--", "train.py"), "[bad-ranks]"),
        (("--", "absent.py"), "[no-script]"),
        (("--inline", "absent.toml", "--", "train.py"), "[bad-plan]"),
        (("--capture", "nvtx", "--", "train.py"), "--capture needs --steps"),
        (("--steps", "3", "--", "train.py"), "--steps needs --capture"),
        (("--capture", "nvtx", "--steps", "4-3", "--", "train.py"), 'steps "4-3" cannot be read'),
        (("--capture", "nvtx", "--steps", "3", "--phases", "--", "train.py"), "cannot be combined"),
        (("--capture", "nvtx", "--steps", "3", "--active", "2", "--", "train.py"), "--active cannot be given"),
        (("--phases", "--active", "2", "--", "train.py"), "--active cannot be given with --phases"),
    ],
)
def test_a_wrong_call_runs_nothing(run, job, monkeypatch, arguments, why):
    monkeypatch.chdir(job)
    done = run("record", *arguments)
    assert done.code == 2
    assert why in done.err
    assert "arguments" not in done.out
    assert not (job / "stepscope-out").exists()
    assert sys.argv[0] != "train.py"


ON_DEMAND = """
import sys, time
from pathlib import Path
import torch
from stepscope.record.on_demand.request import new_request, write_request

out, asked = Path(sys.argv[1]), Path(sys.argv[2])
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(1500):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if number == 10:
        write_request(asked, new_request(steps=1, at_step=250))
    if list(out.glob("*.gz")):
        break
"""


def test_a_script_that_knows_nothing_of_it_records_when_it_is_asked(fork, job):
    (job / "long.py").write_text(ON_DEMAND)
    arguments = [str(job / "long.py"), str(job / "out"), str(job / "asked")]
    done = _recorded(fork, job, "--on-demand", str(job / "asked"), "--", *arguments)
    assert done.code == 0, done.err
    (trace,) = (job / "out").glob("*.json.gz")
    assert trace.name == "long.step250-0-of-1.json.gz"
    assert f"wrote {trace}" in done.err


def test_a_script_that_nobody_asks_says_nothing(fork, job):
    asked = str(job / "asked")
    done = _recorded(fork, job, "--on-demand", asked, "--", str(job / "train.py"))
    assert (done.code, done.err) == (0, "")


def test_a_script_that_profiles_its_first_steps_is_traced_after_them(fork, job):
    loop = TRAINING.replace("torch.utils.data.DataLoader(data, batch_size=4)", "batches()")
    (job / "train.py").write_text(
        "import torch\nfrom torch.profiler import profile, schedule\n"
        "def batches():\n"
        "    with profile(schedule=schedule(wait=1, warmup=1, active=3, repeat=1)) as profiler:\n"
        "        for batch in torch.utils.data.DataLoader(data, batch_size=4):\n"
        "            yield batch\n"
        "            profiler.step()\n"
        "    print('own', sum(event.key.startswith('ProfilerStep') for event in profiler.events()))\n" + loop
    )
    done = _recorded(fork, job, "--trace", "--active", "2", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert "own 3\n" in done.out
    assert "RecordingWarning" not in done.err
    with stepscope.open(job / "out" / "train-0-of-1.json.gz") as trace:
        assert [row["step"] for row in trace.steps().rows()] == [7, 8]


def _ended_by(asked, job, *way, after):
    """How a job ends by a signal, which comes after so many of its steps, when it has slept for what follows there."""
    (job / "train.py").write_text(
        "import time, torch\n"
        "model = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(1, 100_000):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(2, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "    time.sleep(0.001)\n"
        f"    if step == {after}:\n"
        "        print('ready', flush=True)\n"
        f"        time.sleep({0.0 if '--phases' in way else 0.3})\n"
    )
    command = [sys.executable, "-m", "stepscope", "record", *way, "-o", str(job / "out")]
    process = subprocess.Popen([*command, "--", str(job / "train.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        if asked == signal.SIGKILL:
            deadline = time.monotonic() + 60
            while not list(job.glob("out/*.phases.json")) and time.monotonic() < deadline:
                time.sleep(0.05)
        process.send_signal(asked)
        assert process.wait(60) == -asked
    finally:
        process.kill()


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("asked", "ended"), [(signal.SIGKILL, None), (signal.SIGTERM, {"signal": "SIGTERM"})])
def test_a_job_that_a_signal_ends_leaves_what_was_measured(job, asked, ended):
    """As scancel and a preemption do; Python runs no exit handlers then."""
    _ended_by(asked, job, "--phases", after=30)
    (file,) = (job / "out").glob("*.phases.json")
    measured = json.loads(file.read_text())
    assert (measured["counted_steps"] >= (20 if ended else 1), measured["ended"]) == (True, ended)


def test_a_job_that_is_asked_to_end_within_the_traced_steps_leaves_their_trace(job):
    """Steps 3 to 7 are traced: two are complete, and the third is running."""
    _ended_by(signal.SIGTERM, job, "--trace", after=4)
    (file,) = (job / "out").glob("*.json.gz")
    with stepscope.open(file) as trace:
        assert trace.steps().rows()[0]["step"] == 3
        (ended,) = [row for row in trace.checks().rows() if row["check"] == "ended_early"]
    assert "SIGTERM" in ended["explanation"]


def test_files_that_cannot_go_where_they_should_are_together_and_named(fork, job):
    (job / "file").write_text("in the way")
    done = fork("record", "-o", str(job / "file"), "--active", "1", "--", str(job / "train.py"))
    assert done.code == 0, done.err
    assert "file is not a directory; what is recorded goes to a new directory" in done.err
    written = [Path(line.split()[1]) for line in done.err.splitlines() if line.startswith("wrote ")]
    (folder,) = {path.parent for path in written}
    assert len(written) == 2
    assert done.err.splitlines()[-1].endswith(f"QUESTION {folder}")


def test_what_to_ask_next_names_every_folder_that_has_a_file_of_the_run(tmp_path: Path) -> None:
    """A full disk takes the phases, and not the trace."""
    full, spare = tmp_path / "on a full disk", tmp_path / "spare"
    both = [full / "vm.0.phases.json", spare / "train-0-of-1.json.gz"]
    assert files._where(both) == f"'{full}' {spare}"
    assert files._where(both[1:]) == str(both[1])
    assert files._where(both[1:], single_rank=False) == str(spare)
