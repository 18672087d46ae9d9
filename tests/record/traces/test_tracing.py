"""Traces of a few steps: which steps, which file, and that the job does not notice."""

import gzip
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.base.ranks import Process
from stepscope.record.annotate import region, traced, value
from stepscope.record.on_demand.listener import on_demand
from stepscope.record.traces.file import AFTER_LAST_STEP
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.traces.tracing import Tracer, trace
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch


def _read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        content: dict[str, Any] = json.load(file)
    return content


def _ranges(content: dict[str, Any]) -> list[str]:
    return [event["name"] for event in content["traceEvents"] if event.get("cat") == "user_annotation"]


def _steps(content: dict[str, Any]) -> list[str]:
    return [name for name in _ranges(content) if name.startswith("ProfilerStep#")]


def _trace(out: Path, steps: int = 8, model: Any = None, **options: Any) -> list[Path]:
    model = model or make_model()
    with trace(out, name="job", model=model, **options) as tracer:
        train(model, tracer.iterate(batches(steps)))
    assert untouched(model)
    return tracer.written


def test_the_active_steps_are_in_the_file_under_their_numbers(tmp_path: Path) -> None:
    (path,) = _trace(tmp_path, wait=1, warmup=1, active=2)
    assert path.name == "job-0-of-1.json.gz"
    content = _read(path)
    assert _steps(content) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert content["stepscope"]["rank"] == 0
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_resumed_run_keeps_its_true_step_numbers(tmp_path: Path) -> None:
    (path,) = _trace(tmp_path, active=1, start_step=1000)
    assert _steps(_read(path)) == ["ProfilerStep#1002"]


def test_several_cycles_write_several_files(tmp_path: Path) -> None:
    paths = _trace(tmp_path, steps=12, wait=0, warmup=1, active=2, repeat=3)
    assert sorted(path.name for path in paths) == [
        "job.step1-0-of-1.json.gz",
        "job.step4-0-of-1.json.gz",
        "job.step7-0-of-1.json.gz",
    ]
    assert sorted(step for path in paths for step in _steps(_read(path))) == [
        f"ProfilerStep#{number}" for number in (1, 2, 4, 5, 7, 8)
    ]


def test_modules_have_their_paths_in_the_trace(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module("stem", torch.nn.Linear(8, 8))
    model.add_module("layers", torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(8, 4)))
    (path,) = _trace(tmp_path, active=1, model=model)
    content = _read(path)
    assert [name for name in _ranges(content) if name.startswith("nn.Module: ")] == [
        "nn.Module: Sequential",
        "nn.Module: stem",
        "nn.Module: layers",
        "nn.Module: layers.0",
        "nn.Module: layers.1",
    ]
    assert content["stepscope"]["modules"]["layers.1"] == "Linear"


def test_a_wrapped_model_is_named_by_its_own_class_and_its_parts_by_their_own_paths() -> None:
    import torch

    class Net(torch.nn.Sequential):
        pass

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = Net(torch.nn.Linear(8, 4))

    for model in (Net(torch.nn.Linear(8, 4)), torch.nn.DataParallel(Wrapped())):
        classes = ModuleRanges(model).classes()
        assert {path: name.rsplit(".", 1)[-1] for path, name in classes.items()} == {"": "Net", "0": "Linear"}


def test_a_range_of_the_model_is_not_taken_for_a_part_with_that_name(tmp_path: Path) -> None:
    import torch

    class head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x)

    (path,) = _trace(tmp_path, active=1, model=head())
    names = [name for name in _ranges(_read(path)) if name.startswith("nn.Module: ")]
    assert names == ["nn.Module: (head)", "nn.Module: head"]


def test_the_model_is_found_when_it_is_not_given(tmp_path: Path) -> None:
    model = make_model()
    tracer = Tracer(tmp_path, name="job", active=1)
    tracer.start()
    train(model, tracer.iterate(batches(6)))
    (path,) = tracer.stop()
    assert "nn.Module: 2" in _ranges(_read(path))
    assert untouched(model)


def test_finding_the_model_does_not_have_it_compiled_again(tmp_path: Path) -> None:
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = torch.compile(make_model(), backend="aot_eager", fullgraph=True)
    tracer = Tracer(tmp_path, name="job", active=1)
    tracer.start()
    train(model, tracer.iterate(batches(6)))
    (path,) = tracer.stop()
    assert counters["stats"]["unique_graphs"] == 1
    assert any(name.startswith("nn.Module: ") for name in _ranges(_read(path)))


def test_regions_and_traced_functions_are_ranges_while_a_trace_runs(tmp_path: Path) -> None:
    @traced
    def interact(x: int) -> int:
        with region("inner"):
            return x

    model = make_model()
    with trace(tmp_path, name="job", model=model, active=1) as tracer:
        train(model, tracer.iterate(batches(5)), inside=lambda number: interact(number) and None)
    ranges = _ranges(_read(tracer.written[0]))
    assert ranges.count("inner") == 1
    assert ranges.count(interact.__qualname__) == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_scripted_module_has_no_range_and_the_others_do(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.jit.script(torch.nn.Linear(8, 4)), torch.nn.ReLU())
    with trace(tmp_path, name="job", model=model, active=1) as tracer:
        train(model, tracer.iterate(batches(5)))
    ranges = _ranges(_read(tracer.written[0]))
    assert "nn.Module: 1" in ranges
    assert "nn.Module: 0" not in ranges


def test_modules_that_a_checkpoint_runs_again_are_within_the_backward(tmp_path: Path) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
            self.twice = self.inner[0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.twice(checkpoint(self.inner, x, use_reentrant=False))

    def made() -> Checkpointed:
        torch.manual_seed(0)
        return Checkpointed()

    expected = train(made(), batches(5))
    model = made()
    with trace(tmp_path, name="job", model=model, active=1) as tracer:
        assert train(model, tracer.iterate(batches(5))) == expected
    ranges = _ranges(_read(tracer.written[0]))
    assert ranges.count("nn.Module: inner") == 2  # forward, and again in the backward
    assert ranges.count("nn.Module: inner.0") == 3  # and the shared module's second call
    assert untouched(model)


def test_only_chosen_ranks_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert _trace(tmp_path / "no", ranks="0") == []
    (path,) = _trace(tmp_path / "yes", ranks="0,3", active=1)
    assert path.name == "job-3-of-8.json.gz"


def test_a_rank_that_the_process_group_tells_late_is_the_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Process(1, None, 2, "node", os.getpid(), "torch.distributed")
    nothing = Process(0, None, 1, "node", os.getpid(), "single")
    answers = iter([nothing, known])
    # Known from the second question on, and unknown again when the group has been destroyed.
    monkeypatch.setattr("stepscope.record.output.this_process", lambda: next(answers, nothing))
    (path,) = _trace(tmp_path, active=1, ranks="0-1")
    assert path.name == "job-1-of-2.json.gz"
    answers = iter([nothing, known])
    assert _trace(tmp_path / "none", active=1, ranks="0") == []


def test_a_job_that_changes_its_directory_does_not_move_its_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    model = make_model()
    with trace("traces", name="job", model=model, active=1) as tracer:
        monkeypatch.chdir(tmp_path / "elsewhere")
        train(model, tracer.iterate(batches(5)))
    assert tracer.written == [tmp_path / "traces" / "job-0-of-1.json.gz"]


def test_a_job_whose_directory_was_removed_makes_recordings_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert trace("traces").out == on_demand("trigger").out.with_name("traces") == Path("traces")


def test_a_snapshot_of_memory_without_cuda_is_told_and_the_trace_is_kept(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is CUDA")
    with pytest.warns(RecordingWarning, match="no memory snapshot: .* CUDA") as caught:
        (path,) = _trace(tmp_path, active=1, memory_snapshot=True)
    assert len(caught) == 1
    assert len(_steps(_read(path))) == 1


def test_a_snapshot_that_fails_costs_neither_the_trace_nor_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    recorded: list[Any] = []

    def record(enabled: Any, **_bounds: Any) -> None:
        recorded.append(enabled)

    monkeypatch.setattr("torch.cuda.memory._record_memory_history", record)

    def fails(_path: str) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", fails)
    with pytest.warns(RecordingWarning, match="no memory snapshot: RuntimeError: injected"):
        (path,) = _trace(tmp_path, active=1, memory_snapshot=True)
    assert len(_steps(_read(path))) == 1
    assert recorded == ["all", None]


def test_losses_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    expected = train(make_model(), batches(8))
    model = make_model()
    with trace(tmp_path, model=model, memory=True, stack=True, active=2) as tracer:
        assert train(model, tracer.iterate(batches(8))) == expected


def test_a_dispatch_mode_of_the_jobs_sees_no_operator_of_ours(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: Counter[str] = Counter()

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen[func._schema.name] += 1
            return func(*args, **(kwargs or {}))

    def inside(number: int) -> None:
        with region("part"):
            value("number", torch.tensor(float(number)))

    def run(loader: Iterable[Any]) -> Counter[str]:
        seen.clear()
        with Mode():
            train(model, loader, inside=inside)
        return seen.copy()

    import torch

    model = make_model()
    expected = run(batches(6))
    with trace(tmp_path, name="job", model=model, active=2) as tracer:
        assert run(tracer.iterate(batches(6))) == expected
    content = _read(tracer.written[0])
    assert {"nn.Module: 0", "part", "ProfilerStep#2"} <= set(_ranges(content))
    assert content["stepscope"]["values"]["number"] == [[2, 2.0], [3, 3.0]]


def test_a_loop_that_ends_early_leaves_the_steps_it_had(tmp_path: Path) -> None:
    (path,) = _trace(tmp_path, steps=4, active=5)
    content = _read(path)
    # What runs behind the last step is in the trace, but it is no step.
    assert _steps(content) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert _ranges(content)[-1] == AFTER_LAST_STEP


@pytest.mark.parametrize(("steps", "said"), [(0, "after 0 steps"), (1, "after 1 step,"), (2, "within step 2")])
def test_a_loop_that_ends_before_a_step_is_recorded_says_so(steps: int, said: str, tmp_path: Path) -> None:
    with pytest.warns(RecordingWarning, match=f"(nothing was traced|no trace): the job (was over|ended) {said}"):
        assert _trace(tmp_path, steps=steps) == []


def test_a_trace_that_is_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.record.traces.profiling.resident_bytes", lambda: 0)
    with pytest.warns(RecordingWarning, match="is not written: .* max_mb"):
        assert _trace(tmp_path, active=1, max_mb=0) == []
    assert list(tmp_path.iterdir()) == []


def test_recording_ends_early_when_it_has_taken_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([10, 20, 5000, 9000, 9000, 9000])
    monkeypatch.setattr("stepscope.record.traces.profiling.resident_bytes", lambda: next(sizes) * (1 << 20))
    with pytest.warns(RecordingWarning, match="ends after 2 of 5 steps"):
        (path,) = _trace(tmp_path, steps=12, active=5)
    assert len(_steps(_read(path))) == 2


def test_a_profiler_of_the_jobs_own_is_left_alone(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    expected = train(make_model(), batches(6))
    model = make_model()
    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        tracer = Tracer(tmp_path, model=model, active=1)
        tracer.start()
        with pytest.warns(RecordingWarning, match="the trace stopped") as caught:
            assert train(model, tracer.iterate(batches(6))) == expected
        tracer.stop()
    assert len(caught) == 1
    assert any(event.key == "aten::addmm" for event in theirs.key_averages())
    assert untouched(model)


@pytest.mark.parametrize("first", [1, 2, 4])
def test_a_profiler_that_the_job_starts_during_a_trace_gets_its_events(first: int, tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile, schedule

    expected = train(make_model(), batches(12))
    model = make_model()
    events: list[str] = []
    theirs = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=first, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda ready: events.extend(event.name for event in ready.events()),
    )
    tracer = trace(tmp_path, name="job", model=model, active=3)
    tracer.start()
    with theirs, pytest.warns(RecordingWarning, match="a profiler of its own") as caught:
        got = train(model, tracer.iterate(batches(12)), inside=lambda _: theirs.step())
    written = tracer.stop()
    assert got == expected
    assert len(caught) == 1
    assert events.count("aten::addmm") == 4  # two layers in each of two steps
    # Ours keeps the whole steps that it had: none where theirs came in the first one or before.
    kept = [step for path in written for step in _steps(_read(path))]
    # As a set: in older torches theirs names its steps in our trace too.
    assert set(kept) == ({"ProfilerStep#2"} if first == 4 else set())
    assert untouched(model)


def test_a_profiler_that_was_warming_up_before_a_trace_is_left_alone(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    model = make_model()
    theirs = profile(activities=[ProfilerActivity.CPU])
    theirs.prepare_trace()
    tracer = trace(tmp_path, name="job", model=model, wait=0, warmup=1, active=9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracer.start()  # refused here already by older torches
        theirs.start_trace()
    train(model, tracer.iterate(batches(2)))
    theirs.stop_trace()
    tracer.stop()
    (said,) = (one for one in caught if one.category is RecordingWarning)
    assert "a profiler of its own" in str(said.message)
    assert sum(event.name == "aten::addmm" for event in theirs.events()) == 4


def test_of_two_traces_at_once_the_second_comes_after_the_first(tmp_path: Path) -> None:
    model = make_model()
    second = trace(tmp_path, name="second", model=model, active=1)
    with trace(tmp_path, name="first", model=model, active=4) as first:
        second.start()
        train(model, first.iterate(second.iterate(batches(12))))
    first_steps, second_steps = (_steps(_read(path)) for path in first.written + second.stop())
    assert (len(first_steps), len(second_steps)) == (4, 1)
    assert int(second_steps[0].split("#")[1]) > int(first_steps[-1].split("#")[1])


def test_a_trace_that_another_leaves_no_steps_for_is_told_so(tmp_path: Path) -> None:
    second = trace(tmp_path, name="second", active=1)
    with trace(tmp_path, name="first", active=9) as first:
        second.start()
        train(make_model(), first.iterate(second.iterate(batches(5))))
        with pytest.warns(RecordingWarning, match="until the job was nearly over another trace"):
            assert second.stop() == []


def test_nsight_systems_in_the_same_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    with pytest.warns(RecordingWarning, match="Nsight Systems already records"):
        assert _trace(tmp_path) == []


def test_a_trace_whose_ranges_cannot_be_taken_out_leaves_no_profiler_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ModuleRanges.remove

    def broken(self: Any) -> None:
        original(self)
        raise RuntimeError("injected")

    with monkeypatch.context() as patched:
        patched.setattr("stepscope.record.traces.module_ranges.ModuleRanges.remove", broken)
        with pytest.warns(RecordingWarning, match="injected"):
            assert _trace(tmp_path, active=1) == []
    assert len(_trace(tmp_path, active=1)) == 1


def test_a_range_that_fails_ends_the_trace_and_keeps_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Breaking:
        calls = 0

        def __init__(self, name: str) -> None:
            Breaking.calls += 1
            if Breaking.calls == 12:
                raise RuntimeError("injected")
            self._range = torch.autograd.profiler.record_function(name)

        def __enter__(self) -> None:
            self._range.__enter__()

        def __exit__(self, *error: Any) -> None:
            self._range.__exit__(*error)

    expected = train(make_model(), batches(12))
    monkeypatch.setattr("torch.profiler.record_function", Breaking)
    model = make_model()
    tracer = trace(tmp_path, name="job", model=model, active=5)
    tracer.start()
    with pytest.warns(RecordingWarning, match="injected") as caught:
        assert train(model, tracer.iterate(batches(12))) == expected
    (path,) = tracer.stop()
    assert len(caught) == 1
    assert 2 <= len(_steps(_read(path))) < 5
    assert untouched(model)


def test_an_exception_in_the_job_is_the_jobs_and_the_trace_is_kept(tmp_path: Path) -> None:
    model = make_model()

    def fail(number: int) -> None:
        if number == 3:
            raise ValueError("the job's own")

    tracer = trace(tmp_path, name="job", model=model, active=5)

    def run() -> None:
        with tracer:
            train(model, tracer.iterate(batches(8)), inside=fail)

    with pytest.raises(ValueError, match="the job's own"):
        run()
    # The step that raised is no whole one.
    assert _steps(_read(tracer.written[0])) == ["ProfilerStep#2"]
    assert untouched(model)


@pytest.mark.parametrize("where", ["prepare_trace", "start_trace", "stop_trace"])
def test_another_subscriber_of_the_devices_tools_costs_one_warning(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    original = getattr(torch.profiler.profile, where)
    calls: list[Any] = []

    def refused(self: Any) -> None:
        calls.append(self)
        if where == "stop_trace" or len(calls) > 1:
            original(self)
        # A second start leaves a clean profiler behind: in older torches one that was prepared and
        # never started spoils every later one of the process.
        if len(calls) == 1:
            raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")

    expected = train(make_model(), batches(8))
    model = make_model()
    tracer = trace(tmp_path, model=model, active=2)
    with monkeypatch.context() as patched:
        patched.setattr(f"torch.profiler.profile.{where}", refused)
        tracer.start()
        with pytest.warns(RecordingWarning, match="MULTIPLE_SUBSCRIBERS") as caught:
            assert train(model, tracer.iterate(batches(8))) == expected
        assert tracer.stop() == []
    # torch may have something to say of its own when a profiler ends like this.
    assert sum(one.category is RecordingWarning for one in caught) == 1
    assert tracer.over
    assert untouched(model)
