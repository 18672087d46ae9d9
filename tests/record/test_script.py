"""Unmodified scripts and modules, recorded from outside."""

import gzip
import json
import os
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.processes import python

from stepscope.api.inline_profiles import parse_result
from stepscope.base.errors import UsageError
from stepscope.record import inline
from stepscope.record.plan import plan_from
from stepscope.record.script import run
from stepscope.record.traces.tracing import Tracer
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
assert "torch" not in sys.modules  # recording must not import it before the script does
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    data = DataLoader(TensorDataset(torch.randn(640, 8)), batch_size=4)
    micro = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for epoch in range(2):
        for number, (batch,) in enumerate(data, 1):
            loss = torch.nn.functional.mse_loss(model(batch), batch[:, :4])
            loss.backward()
            if number % micro == 0:
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
    print("loss", loss.item().hex(), sys.argv[1:], __name__)

if __name__ == "__main__":
    main()
"""

RECORDED = """
import json, sys
from stepscope.record import inline
from stepscope.record.plan import plan_from
from stepscope.record.script import run
from stepscope.record.traces.tracing import Tracer
how, out, plan, *command = sys.argv[1:]
def record():
    if how == "trace":
        return Tracer(out, name="job", active=2)
    return inline.new_session(plan_from(json.loads(plan)) if plan else None, out=out)
paths = run(command, record, module=how == "module")
print(*[path.name for path in paths])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints when nobody records it."""
    directory = tmp_path_factory.mktemp("alone")
    (directory / "job.py").write_text(SCRIPT)
    return _python("job.py", cwd=directory).strip()


def _python(*arguments: str, cwd: Path) -> str:
    done = python(*arguments, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _record(how: str, out: Path, plan: Any, *command: str) -> list[str]:
    given = json.dumps(plan) if plan else ""
    return _python("-c", RECORDED, how, str(out), given, *command, cwd=out.parent).splitlines()


def _record_here(script: str, tmp_path: Path, plan: Any = None, *arguments: str) -> list[Path]:
    """In this process, which has torch: for what does not depend on when that is imported."""
    path = tmp_path / "here.py"
    path.write_text(script)
    read = plan_from(plan, source="a test") if plan else None
    return run([str(path), *arguments], partial(inline.new_session, read, out=tmp_path / "out"))


def test_events_phases_and_the_same_loss(script: Path, alone: str, tmp_path: Path) -> None:
    plan = {
        "warmup": 2,
        "repetitions": 4,
        "unarmed_every": 3,
        "events": ["input_wait", "forward", "2.forward", "backward", "optimizer.step", "zero_grad"],
    }
    said, files = _record("inline", tmp_path / "out", plan, str(script))
    assert said == alone
    assert len(files.split()) == 2
    (profile,) = parse_result(tmp_path / "out")
    events = profile["timeline"]["device_0"]["stream_0"]
    # An iteration begins behind optimizer.step, so what cleans up after it comes first.
    assert [event["label"] for event in events] == [
        "zero_grad",
        "input_wait",
        "forward",
        "2.forward",
        "backward",
        "optimizer.step",
    ]
    assert all(len(event["samples"]) == 4 for event in events)
    summary = json.loads(next((tmp_path / "out").glob("*.phases.json")).read_text())
    # 320 steps: the first two only find the optimizer and begin, the last begins nothing new.
    assert summary["steps"] == 318
    assert len(summary["first_batch_ns"]) == 1  # the second epoch's
    assert summary["phases"]["input_wait"]["mean_ns"] > 0


def test_gradient_accumulation_is_one_iteration_for_several_batches(script: Path, tmp_path: Path) -> None:
    plan = {"warmup": 2, "repetitions": 3, "unarmed_every": 0, "events": ["forward", "backward"]}
    _record_here(script.read_text().replace("assert", "#"), tmp_path, plan, "4")
    (profile,) = parse_result(tmp_path / "out")
    events = profile["timeline"]["device_0"]["stream_0"]
    assert [(event["label"], event["occurrence"]) for event in events] == [
        (label, number) for number in range(4) for label in ("forward", "backward")
    ]
    summary = json.loads(next((tmp_path / "out").glob("*.phases.json")).read_text())
    assert summary["backwards"] == 4 * summary["optimizer_steps"]


def test_a_trace_of_an_unmodified_script(script: Path, alone: str, tmp_path: Path) -> None:
    said, files = _record("trace", tmp_path / "out", None, str(script))
    assert (said, files) == (alone, "job-0-of-1.json.gz")
    with gzip.open(tmp_path / "out" / files, "rt") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    # The first of the job's steps goes by unheard; it is step 0 all the same.
    assert names.count("ProfilerStep#3") == names.count("ProfilerStep#4") == 1
    assert names.count("nn.Module: 2") == 2


STEPS = """
import sys
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
number = 0
def step(optimizer):
    global number
    with torch.profiler.record_function(f"true step {number}"):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    number += 1
"""


def _recorded_steps(tmp_path: Path, loop: str, **options: Any) -> list[str]:
    """The steps of the trace, and the script's own names for what ran in them."""
    script = tmp_path / "steps.py"
    script.write_text(STEPS + loop)
    run([str(script)], lambda: Tracer(tmp_path / "out", name="job", **options))
    with gzip.open(tmp_path / "out" / "job-0-of-1.json.gz", "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "user_annotation"]
    begun = sorted((e["ts"], e["name"]) for e in events)
    return [name for _, name in begun if name.startswith(("ProfilerStep#", "true step"))]


@pytest.mark.parametrize(
    ("options", "first"), [({}, 3), ({"wait": 0, "warmup": 0}, 2), ({"wait": 0}, 3), ({"start_step": 1000}, 1003)]
)
def test_recorded_steps_have_the_jobs_own_numbers(options: dict[str, Any], first: int, tmp_path: Path) -> None:
    steps = _recorded_steps(tmp_path, "for _ in range(8): step(first)", active=2, **options)
    true = first - options.get("start_step", 0)
    assert steps == [
        f"ProfilerStep#{first}",
        f"true step {true}",
        f"ProfilerStep#{first + 1}",
        f"true step {true + 1}",
        # It begins before the recording ends, at the boundary.
        *steps[4:],
    ]
    assert steps[4:] in ([], [f"true step {true + 2}"])


def test_an_optimizer_that_takes_over_is_followed(tmp_path: Path) -> None:
    loop = """
for _ in range(2): step(first)
for _ in range(40): step(second)
"""
    steps = _recorded_steps(tmp_path, loop, active=1)
    assert steps[:2] == ["ProfilerStep#20", "true step 20"]


def test_the_critics_of_a_generator_do_not_make_steps(tmp_path: Path) -> None:
    loop = """
for _ in range(6):
    step(first)
    for _ in range(5): step(second)
"""
    steps = _recorded_steps(tmp_path, loop, active=1)
    assert [name for name in steps if "true" in name][:6] == [f"true step {n}" for n in range(13, 19)]


def test_a_script_that_changes_its_directory_does_not_move_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    loop = "for _ in range(8): step(first)"
    (tmp_path / "job.py").write_text(f"import os\nos.chdir('work')\n{STEPS}{loop}")
    monkeypatch.chdir(tmp_path)
    run(["job.py"], partial(inline.new_session, None, out=Path("out").absolute()))
    (file,) = (tmp_path / "out").iterdir()
    assert file.name.endswith(".phases.json")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_script_whose_optimizer_steps_once_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS + "step(first)")
    with pytest.warns(RecordingWarning, match="nothing was traced: .* none has stepped twice"):
        run([str(tmp_path / "steps.py")], lambda: Tracer(tmp_path / "out"))


def test_a_loader_that_starts_over_in_every_iteration_is_how_the_job_works(tmp_path: Path) -> None:
    loop = """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(30):
            batch = next(iter(DataLoader(torch.ones(8, 8), batch_size=4)))
            model(batch).sum().backward()
            optimizer.step()
    """
    plan = {"warmup": 2, "repetitions": 4, "events": ["input_wait", "forward"]}
    _record_here(textwrap.dedent(loop), tmp_path, plan)
    (profile,) = parse_result(tmp_path / "out")
    events = profile["timeline"]["device_0"]["stream_0"]
    assert [(event["label"], len(event["samples"])) for event in events] == [("input_wait", 4), ("forward", 4)]
    summary = json.loads(next((tmp_path / "out").glob("*.phases.json")).read_text())
    loaded = {name: summary["settings"][name] for name in ("num_workers", "prefetch_factor")}
    assert loaded == {"num_workers": 0, "prefetch_factor": None}
    assert summary["settings"]["persistent_workers"] is False
    assert summary["steps"] == 28  # of 30: the first is not heard, and the last begins nothing new


def test_a_module_is_run_as_python_runs_it(script: Path, tmp_path: Path) -> None:
    plan = {"warmup": 2, "repetitions": 2, "events": ["forward"]}
    said, _ = _record("module", tmp_path / "out", plan, "job", "2")
    assert said.endswith("['2'] __main__")


def test_a_script_without_torch_runs_and_torch_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import sys\nprint('torch' in sys.modules, sys.path[0], sys.argv)")
    said, files = _record("inline", tmp_path / "out", None, "plain.py", "--flag")
    assert said == f"False {tmp_path} ['plain.py', '--flag']"
    assert files == ""
    assert not (tmp_path / "out").exists()


def test_a_scripts_own_exit_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(5)")
    before = sys.argv[:], sys.path[:]
    with pytest.raises(SystemExit) as left:
        run([str(tmp_path / "leaves.py")], partial(inline.new_session, None, out=tmp_path))
    assert left.value.code == 5
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize("command", [[], ["nowhere.py"]])
def test_a_script_that_is_not_there_is_told(command: list[str]) -> None:
    with pytest.raises(UsageError):
        run(command, partial(inline.new_session, None))


def test_a_loop_that_says_its_iterations_itself_is_not_told_twice(tmp_path: Path) -> None:
    loop = """
        import torch
        from stepscope.record import inline
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in inline.iterate([torch.ones(2, 8)] * 30):
            model(batch).sum().backward()
            optimizer.step()
        inline.stop()
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    """
    (file,) = _record_here(textwrap.dedent(loop), tmp_path)
    assert file.name.endswith(".phases.json")
    summary = json.loads(next((tmp_path / "out").glob("*.phases.json")).read_text())
    assert summary["steps"] == 30


def test_a_session_that_the_script_starts_instead_ends_with_the_script(tmp_path: Path) -> None:
    loop = f"""
        import torch
        from stepscope.record import inline
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inline.start(out={str(tmp_path / "own")!r})
        for batch in inline.iterate([torch.ones(2, 8)] * 9):
            model(batch).sum().backward()
            optimizer.step()
    """
    assert _record_here(textwrap.dedent(loop), tmp_path) == []
    (file,) = (tmp_path / "own").iterdir()
    assert json.loads(file.read_text())["steps"] == 9
    assert inline.active() is None
