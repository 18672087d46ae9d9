"""`stepscope plan`: from a script that is run for it, from a recording, and from a model."""

import json
import sys
import textwrap

import pytest
from tests.record.two_ranks import run_ranks

from stepscope.record.plan import read_plan

TRAINING = """
import atexit, os, sys
import torch
from stepscope import region

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(8, 16)
        self.fc2 = torch.nn.Linear(16, 1)

    def forward(self, x):
        with region("act"):
            h = torch.relu(self.fc1(x))
        return self.fc2(h)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.ones(8)

torch.set_num_threads(1)
micro, workers = (int(text) for text in (sys.argv[1:] or ("1", "0")))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
print("arguments", sys.argv[1:], __name__)
atexit.register(lambda: os.system("echo a child at exit"))
loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=workers)
for number, x in enumerate(loader, 1):
    model(x).square().mean().backward()
    if number % micro == 0:
        optimizer.step()
        optimizer.zero_grad()
    if number == 2_000:
        print("trained to the end")
        break
"""

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is in Python since 3.11")


@pytest.fixture
def job(tmp_path, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(TRAINING)
    return tmp_path


def _script(job, text):
    path = job / "script.py"
    path.write_text(text)
    return str(path)


def _labels(path):
    return [entry.text for entry in read_plan(path).entries]


STEP = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
def step():
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


@needs_toml
@pytest.mark.torch
def test_a_plan_of_a_script_is_what_it_runs_and_nothing_else_is_on_stdout(spawn, job):
    done = spawn("plan", "--repetitions", "7", "--", str(job / "train.py"), "1", "0")
    assert done.code == 0, done.err
    assert "arguments ['1', '0'] __main__" in done.err
    assert "a child at exit" in done.err
    assert "trained to the end" not in done.err
    (job / "plan.toml").write_text(done.out)
    plan = read_plan(job / "plan.toml")
    assert plan.repetitions == 7
    assert [entry.text for entry in plan.entries] == [
        "zero_grad",
        "input_wait",
        "forward",
        "act",
        "fc1.forward",
        "fc2.forward",
        "backward",
        "fc2.backward",
        "fc1.backward",
        "optimizer.step",
    ]
    assert all(" # " in line for line in done.out.splitlines() if line.startswith('    "'))
    assert '    # "fc1.forward.aten::addmm",' in done.out
    assert done.out.startswith("# ")
    assert f"stepscope record --inline PLAN.toml -- {job / 'train.py'} 1 0" in done.out


@pytest.mark.sweep(2)
@pytest.mark.torch
@pytest.mark.parametrize(("micro", "workers"), [(1, 0), (4, 2)])
def test_every_event_of_a_plan_is_measured_in_the_script_it_was_made_of(fork, job, micro, workers):
    script = (str(job / "train.py"), str(micro), str(workers))
    plan = str(job / "plan.json")
    done = fork("plan", "-o", plan, "--repetitions", "1", "--", *script)
    assert (done.code, done.out) == (0, ""), done.err
    planned = json.loads((job / "plan.json").read_text())["events"]
    assert len(planned) == 10
    out = str(job / "out")
    done = fork("record", "--no-summary", "--inline", plan, "-o", out, "--", *script)
    assert done.code == 0, done.err
    (path,) = (job / "out").glob("*.prof.json")
    profile = json.loads(path.read_text())
    assert profile["complete"] is True
    assert profile["not_measured"] == []
    events = profile["timeline"]["device_0"]["stream_0"]
    assert list(dict.fromkeys(event["label"] for event in events)) == planned
    assert all(event["samples"] for event in events)


@pytest.mark.long
@pytest.mark.torch
def test_the_commented_operators_can_be_measured_too(fork, job):
    plan = job / "plan.toml"
    script = str(job / "train.py")
    assert fork("plan", "--operators", "--repetitions", "1", "-o", str(plan), script).code == 0
    assert f"stepscope record --inline {plan} -- {script}\n" in plan.read_text()
    operators = [line.split('"')[1] for line in plan.read_text().splitlines() if line.startswith('    # "')]
    assert "fc1.forward.aten::addmm" in operators
    assert any("#" in operator for operator in operators)
    (job / "operators.json").write_text(json.dumps({"repetitions": 1, "events": operators}))
    recorded = fork(
        *("record", "--no-summary", "--inline", str(job / "operators.json")), *("-o", str(job / "out"), "--", script)
    )
    assert recorded.code == 0, recorded.err
    (path,) = (job / "out").glob("*.prof.json")
    profile = json.loads(path.read_text())
    assert (profile["complete"], profile["not_measured"]) == (True, [])


@pytest.mark.sweep(2)
@pytest.mark.torch
@pytest.mark.parametrize(
    "loop",
    [
        "while True: step()",
        # a script that lets nothing end it
        """
        while True:
            try:
                step()
            except BaseException:
                continue
        """,
        # and one that fails on its way out
        """
        try:
            while True: step()
        finally:
            raise RuntimeError("cannot save")
        """,
        """
        from stepscope.record import inline
        inline.start(model=model, optimizer=optimizer, out="unwanted")
        for batch in inline.iterate(iter(int, 1)):
            step()
        """,
        """
        from stepscope.record import inline
        while True:
            with inline.iteration():
                step()
        """,
    ],
)
def test_a_script_is_ended_with_code_0_however_its_loop_is_written(fork, job, monkeypatch, loop):
    monkeypatch.chdir(job)
    done = fork("plan", _script(job, STEP + textwrap.dedent(loop)))
    assert done.code == 0, done.err
    assert '    "forward",' in done.out
    assert '    "optimizer.step",' in done.out
    assert not (job / "unwanted").exists()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "slug", "says"),
    [
        ("print(5)", "no-iterations", "never imported torch"),
        ("import torch", "no-iterations", "no optimizer was seen to step"),
        (STEP + "for _ in range(5): step()", "no-iterations", "before an iteration"),
        (STEP + "for _ in range(3): step()\nraise ValueError('mine')", "script-failed", "mine"),
        ("import sys; sys.exit(3)", "script-failed", "exited with code 3"),
    ],
)
def test_a_script_that_gives_no_plan_is_told_why(fork, job, text, slug, says):
    done = fork("plan", _script(job, text))
    assert (done.code, done.out) == (1, "")
    assert f"[{slug}]" in done.err
    assert says in done.err
    assert "stepscope/" not in done.err  # no frames of ours


@pytest.mark.torch
def test_a_script_that_ends_early_gives_what_was_watched_until_then(fork, job):
    done = fork("plan", _script(job, STEP + "for _ in range(6): step()\nraise ValueError('mine')"))
    assert done.code == 0
    assert '    "forward",' in done.out
    assert "iterations; this run had 5.\n" in done.out
    assert "raised ValueError" in done.err
    assert "ended after 5 of the 15 iterations that a plan takes: its times are of 1 watched" in done.err
    assert "it names no operators" in done.err


@pytest.mark.torch
def test_a_forked_child_that_runs_on_writes_nothing(fork, job):
    text = STEP + (
        "import os, sys\n"
        "for number in range(60):\n"
        "    step()\n"
        "    if number == 4 and os.fork() == 0:\n"
        "        for _ in range(40): step()\n"
        "        break\n"
    )
    done = fork("plan", _script(job, text))
    assert done.code == 0, done.err
    assert done.out.count("events = [") == 1
    assert done.err.count("has been watched") == 1


@pytest.mark.long
@pytest.mark.torch
def test_a_module_is_run_and_only_the_heaviest_parts_of_it_are_named(fork, job, monkeypatch):
    monkeypatch.chdir(job)
    done = fork("plan", "--top", "1", "--iterations", "1", "--", "-m", "train", "1", "0")
    assert done.code == 0, done.err
    assert done.out.count('"fc1.') + done.out.count('"fc2.') > 0
    assert ('"fc1.' in done.out) != ('"fc2.' in done.out)
    assert "Of 2 modules these are the 1 heaviest" in done.out
    assert "-- -m train 1 0" in done.out


DISTRIBUTED = """
import os, sys
import torch
import torch.distributed as dist
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
print("rank", rank)
while True:
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.torch
def test_all_ranks_end_at_the_same_iteration_and_the_first_writes(job):
    (job / "ranks.py").write_text(DISTRIBUTED)
    command = [sys.executable, "-m", "stepscope", "plan", "--", str(job / "ranks.py")]
    first, second = run_ranks([[*command, str(job / "rendezvous")]] * 2)
    assert "rank 0 of 2" in first
    assert '    "collective.all_reduce",' in first
    assert '    "1.backward",' in first
    assert second == ""


@needs_toml
@pytest.mark.torch
def test_a_compiled_module_is_named_at_its_boundary(fork, job):
    text = """
import torch
torch.set_num_threads(1)
inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
model = torch.nn.Sequential(torch.compile(inner, backend="eager"), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
while True:
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""
    plan = job / "plan.toml"
    done = fork("plan", "-o", str(plan), _script(job, text))
    assert done.code == 0, done.err
    assert _labels(plan) == [
        "forward",
        "0.forward",
        "1.forward",
        "backward",
        "1.backward",
        "0.backward",
        "optimizer.step",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "slug"),
    [
        ((), 2, "no-model"),
        (("absent",), 2, "no-model"),
        (("absent.py:Model",), 2, "no-model"),
        (("no_such_module_of_ours:Model",), 2, "no-model"),
        (("json:absent",), 2, "no-model"),
        (("json:dumps",), 2, "no-model"),
        (("STORE",), 1, "no-modules"),
        (("-o", "no/such/plan.toml", "STORE"), 1, "no-modules"),
        (("absent.py",), 2, "no-script"),
        (("--", "absent", "argument"), 2, "no-script"),
        (("--", "-m"), 2, "no-script"),
        (("-o", "no/such/plan.toml", "SCRIPT"), 1, "cannot-write"),
    ],
)
def test_what_gives_no_plan_is_said_in_two_lines_and_runs_no_script(run, store, job, arguments, code, slug):
    names = {"STORE": store, "SCRIPT": _script(job, "raise ValueError('it ran')")}
    done = run("plan", *(names.get(part, part) for part in arguments))
    assert (done.code, done.out) == (code, "")
    assert f"[{slug}]" in done.err
    assert done.err.count("\n") == 2


def test_a_scripts_own_option_in_the_wrong_place_is_told_the_right_one(run):
    done = run("plan", "train.py", "--epochs", "1")
    assert done.code == 2
    assert "'--epochs'" in done.err
    assert "stepscope plan -- train.py" in done.err


@needs_toml
@pytest.mark.torch
def test_a_plan_of_a_model_names_its_modules_and_can_be_read(run, tmp_path):
    script = tmp_path / "net.py"
    script.write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\n"
    )
    plan = tmp_path / "plan.toml"
    assert run("plan", f"{script}:Net", "-o", str(plan)).code == 0
    assert _labels(plan)[4:8] == ["body.forward", "body.backward", "body.0.forward", "body.0.backward"]
