"""Whatever goes wrong in recording: one warning, the same losses bit for bit, and what was measured."""

import errno
import json
import os
import signal
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import python

from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline, output
from stepscope.record.inline.recorder import Recorder
from stepscope.record.phases.phases import Phases
from stepscope.record.targets.watch import ArmedWatch
from stepscope.record.trouble import RecordingWarning

from .small_job import batches, make_model, train, untouched

pytestmark = pytest.mark.torch

PLAN = {"warmup": 1, "repetitions": 3, "events": ["forward", "backward", "0.forward.aten::addmm"]}
STEPS = 30


def _losses_and_warnings(out: Path, plan: Any = None) -> tuple[list[float], list[str]]:
    model = make_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inline.start(PLAN if plan is None else plan, model=model, out=out)
        losses = train(model, inline.iterate(batches(STEPS)))
        inline.stop()
    assert untouched(model)
    return losses, [str(one.message) for one in caught if one.category is RecordingWarning]


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return train(make_model(), batches(STEPS))


def test_without_a_fault_there_is_no_warning(tmp_path: Path, expected: list[float]) -> None:
    assert _losses_and_warnings(tmp_path) == (expected, [])


def _fails(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("injected")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ArmedWatch, "open"),
        (ArmedWatch, "close"),
        (ArmedWatch, "end"),
        (Recorder, "start_iteration"),
        (Recorder, "end_iteration"),
        (Recorder, "_observed"),
        (Phases, "open"),
    ],
)
def test_an_exception_of_ours(
    owner: Any, name: str, tmp_path: Path, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, _fails)
    losses, said = _losses_and_warnings(tmp_path)
    assert losses == expected
    (message,) = said
    assert "RuntimeError: injected" in message


def test_what_was_measured_before_an_exception_is_kept(
    tmp_path: Path, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., Any] = Recorder.end_iteration
    calls = 0

    def end(self: Recorder, now_ns: int, values: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 9:
            _fails()
        return original(self, now_ns, values)

    monkeypatch.setattr(Recorder, "end_iteration", end)
    losses, said = _losses_and_warnings(tmp_path)
    assert losses == expected
    assert len(said) == 1
    (profile,) = parse_result(tmp_path)
    (first, *_) = profile["timeline"]["device_0"]["stream_0"]
    assert len(first["samples"]) == 3
    assert profile["complete"] is False


def test_a_directory_that_cannot_be_made(tmp_path: Path, expected: list[float]) -> None:
    (tmp_path / "file").write_text("")
    losses, (first, *said) = _losses_and_warnings(tmp_path / "file" / "out", {**PLAN, "repetitions": 2})
    assert losses == expected
    assert first.startswith(f"nothing can be written to {tmp_path / 'file' / 'out'}")
    assert all("could not be written to" in message for message in said)
    kept = [message.rsplit(" ", 1)[1] for message in said]
    assert kept
    assert all(Path(path).is_file() for path in kept)


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_disk_that_is_read_only_or_full(
    number: int, tmp_path: Path, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = output.write_complete

    def write(path: Path, fill: Any) -> None:
        if path.is_relative_to(tmp_path):
            raise OSError(number, os.strerror(number))
        original(path, fill)

    monkeypatch.setattr(output, "write_complete", write)
    model = make_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inline.start(PLAN, model=model, out=tmp_path, phases=False)
        assert train(model, inline.iterate(batches(STEPS))) == expected
        inline.stop()
    (warning,) = caught
    path = Path(str(warning.message).rsplit(" ", 1)[1])
    assert json.loads(path.read_text())["complete"] is True


def test_a_plan_that_names_what_does_not_exist(tmp_path: Path, expected: list[float]) -> None:
    plan = {**PLAN, "events": ["forward", "1.forwards", "9.backward", "collective.all_reduec"]}
    losses, said = _losses_and_warnings(tmp_path, plan)
    assert losses == expected
    (message,) = said
    assert '"9.backward" is not measured: the model has no module "9"' in message
    assert "did you mean all_reduce" in message
    (profile,) = parse_result(tmp_path)
    assert [event["label"] for event in profile["timeline"]["device_0"]["stream_0"]] == ["forward"]
    assert [one["label"] for one in profile["not_measured"]] == plan["events"][1:]


def test_a_plan_that_cannot_be_read(tmp_path: Path, expected: list[float]) -> None:
    (tmp_path / "plan.json").write_text('{"events": [')
    losses, said = _losses_and_warnings(tmp_path, tmp_path / "plan.json")
    assert losses == expected
    (message,) = said
    assert "plan.json, line 1: not JSON" in message


def test_a_model_whose_control_flow_changes(tmp_path: Path) -> None:
    import torch

    class Fickle(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.always = torch.nn.Linear(8, 4)
            self.sometimes = torch.nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            x = self.always(x)
            return self.sometimes(x) if self.calls < 6 or self.calls % 3 == 0 else x

    def fickle() -> Fickle:
        torch.manual_seed(0)
        return Fickle()

    expected = train(fickle(), batches(STEPS))
    model = fickle()
    plan = {
        "warmup": 1,
        "repetitions": 3,
        "unarmed_every": 0,
        "events": ["sometimes.forward", "sometimes.backward", "always.forward"],
    }
    inline.start(plan, model=model, out=tmp_path)
    assert train(model, inline.iterate(batches(STEPS))) == expected
    inline.stop()
    (profile,) = parse_result(tmp_path)
    events = {e["label"]: e for e in profile["timeline"]["device_0"]["stream_0"]}
    assert len(events["always.forward"]["samples"]) == 3
    assert events["sometimes.backward"]["missed"] > 0
    assert profile["complete"] is True


def test_an_iteration_that_raises_does_not_count_and_the_job_may_go_on(tmp_path: Path) -> None:
    model = make_model()
    plan = {"warmup": 1, "repetitions": 3, "unarmed_every": 0, "events": ["forward", "2.forward"]}
    inline.start(plan, model=model, out=tmp_path, phases=False)
    raised = 0
    left = batches(STEPS)
    while left:
        try:
            for number, batch in enumerate(inline.iterate(left[:10])):
                left = left[1:]
                if number == 4:
                    model(batch)
                    raise ValueError("out of memory")
                model(batch).sum().backward()
        except ValueError:
            raised += 1
    inline.stop()
    assert raised > 1
    assert untouched(model)
    (profile,) = parse_result(tmp_path)
    for event in profile["timeline"]["device_0"]["stream_0"]:
        assert len(event["samples"]) == 3
        # Every loop's first iteration is an epoch's first, and its fifth raised.
        assert all(sample[0] % 5 not in (0, 4) for sample in event["samples"])


def test_warnings_as_errors_do_not_reach_the_job(
    tmp_path: Path, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArmedWatch, "open", _fails)
    model = make_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inline.start(PLAN, model=model, out=tmp_path)
        assert train(model, inline.iterate(batches(STEPS))) == expected
        inline.stop()


def _run(code: str, *arguments: str, expect: int = 0) -> str:
    done = python("-c", textwrap.dedent(code), *arguments, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == expect, done.stderr
    return done.stdout


JOB = """
import os, sys, signal, torch
from stepscope.record import inline
torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
inline.start({"warmup": 1, "repetitions": 2, "events": ["forward"]}, model=model, out=sys.argv[1])
for number, batch in enumerate(inline.iterate([torch.ones(2, 8)] * 40)):
    model(batch).sum().backward()
    if number == 30:
        HOW
"""


@pytest.mark.parametrize(
    ("how", "code"), [pytest.param("break", 0, marks=pytest.mark.long), ("raise SystemExit(7)", 7)]
)
def test_a_job_that_does_not_stop_the_recording_leaves_its_files(how: str, code: int, tmp_path: Path) -> None:
    _run(JOB.replace("HOW", how), str(tmp_path), expect=code)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_killed_job_keeps_what_was_finished_and_nothing_half_written(tmp_path: Path) -> None:
    kill = "import time; time.sleep(0.5); os.kill(os.getpid(), signal.SIGKILL)"
    _run(JOB.replace("HOW", kill), str(tmp_path), expect=-signal.SIGKILL)
    (profile,) = parse_result(tmp_path)  # it was written when the plan was done
    assert profile["complete"] is True


@pytest.mark.long
def test_a_forked_worker_records_and_writes_nothing(tmp_path: Path) -> None:
    code = """
    import os, sys, torch
    from stepscope.record import inline
    from stepscope.record.annotate import region
    model = torch.nn.Linear(8, 4)
    plan = {"warmup": 0, "repetitions": 2, "events": ["forward", "part"]}
    inline.start(plan, model=model, out=sys.argv[1])
    for number, batch in enumerate(inline.iterate([torch.ones(2, 8)] * 20)):
        with region("part"):
            model(batch).sum().backward()
        if number in (1, 3, 5):
            child = os.fork()
            if child == 0:
                with region("part"):
                    model(batch)
                assert inline.active() is None
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
    inline.stop()
    """
    _run(code, str(tmp_path))
    assert len(list(tmp_path.glob("*.json"))) == 2
    (profile,) = parse_result(tmp_path)
    assert {e["occurrence"] for e in profile["timeline"]["device_0"]["stream_0"]} == {0}
