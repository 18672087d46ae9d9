"""A store of some steps answers as the complete one does of these steps."""

import json
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.base.errors import UsageError
from stepscope.questions import all_questions
from stepscope.store.build import import_source

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"

OF_THE_RECORDING = ("checks", "sources", "invariants", "inline", "phases")
"""Questions about the recording, or about what it has beside steps."""

THROUGH_EARLIER_STEPS = ("critical-path", "what-if", "memory")
"""Questions that follow what waited for what, or what was allocated, into the steps before, which a store of some
steps has not."""


def answers(source: Path, *, forms: bool = True, **narrowed: Any) -> dict[str, Any]:
    """The rows of every question, in every form, but for what a summary says of the recording."""
    found = {}
    with stepscope.open(source) as trace:
        for question in all_questions():
            if question.recordings != "one" or question.name in (*OF_THE_RECORDING, *THROUGH_EARLIER_STEPS):
                continue
            by = next((p for p in question.parameters if p.name == "by"), None)
            for form in (by.choices or (None,)) if by and forms else (None,):
                more = {} if form is None else {"by": form}
                rows = trace.ask(question.name, **narrowed, **more).rows()
                found[f"{question.name} {form}"] = [
                    # Sums of floating-point numbers depend on the order of their rows, and a command names the steps
                    # that it was asked of.
                    {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items() if k != "query"}
                    for row in rows
                    if question.name != "summary" or row["item"] not in ("duration", "events")
                ]
    return found


def event(category: str, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if category == "kernel" else {"pid": 1, "tid": 1}
    args = more.pop("args", {})
    if category == "kernel":
        args = {"device": 0, "stream": 7, **args}
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, **place, **times, "args": args} | more


def trace(first: int, rank: int = 0, steps: int = 5) -> dict[str, Any]:
    """Steps of 1 ms on the host, whose device work goes on into the next step's first half."""
    events = [event("python_function", "train.py(1): <module>", 0, steps * 1_000_000)]
    for step in range(steps):
        at = step * 1_000_000
        events += [
            event("user_annotation", f"ProfilerStep#{first + step}", at, at + 990_000),
            event("user_annotation", "enumerate(DataLoader)#_X.__next__", at + 10_000, at + 400_000),
            event("cpu_op", "aten::mm", at + 500_000, at + 900_000, args={"External id": step + 1}),
        ]
        for piece in range(3):
            number, call = 10 * step + piece + 1, at + 550_000 + 100_000 * piece
            ran = at + 1_000_000 + 120_000 * piece if piece else call + 20_000
            link = {"correlation": number, "External id": step + 1}
            events += [
                event("cuda_runtime", "cudaLaunchKernel", call, call + 10_000, args=link),
                event("kernel", "gemm", ran, ran + 90_000, args=link),
            ]
    described = {"traceEvents": events, "baseTimeNanoseconds": 0}
    return described | {"distributedInfo": {"rank": rank, "world_size": 2}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace(0)))
    return path


@pytest.mark.parametrize("steps", [(1, 2), (0, 4)])
def test_store_of_some_steps_answers_as_the_complete_one_does(file, tmp_path, steps):
    store = import_source(file, tmp_path / "store", steps=steps)
    # Of pieces of time, what lies between them is another's.
    forms = steps == tuple(range(steps[0], steps[-1] + 1))
    told = answers(store, forms=forms)
    assert len(told) > 30
    assert told == answers(file, forms=forms, step=steps)


def test_loader_of_the_next_step_is_not_missed_in_the_window_of_the_last_one_kept(file, tmp_path):
    with stepscope.open(import_source(file, tmp_path / "store", steps=[2])) as narrowed:
        (row,) = narrowed.ask("steps").rows()
    # From 2.33 ms to 3.33 ms: kernels from 2.57 to 2.66, 3.12 to 3.21 and 3.24 to 3.33; the loader of
    # step 2 until 2.4 ms and that of step 3 from 3.01 on.
    assert (row["start_ns"], row["total_ns"]) == (2_330_000, 1_000_000)
    assert row["dataloader_ns"] == 70_000 + 110_000 + 30_000


def test_events_of_other_steps_in_the_window_belong_to_no_step(file, tmp_path):
    with stepscope.open(import_source(file, tmp_path / "store", steps=[2])) as narrowed:
        assert narrowed.sql("SELECT DISTINCT step FROM host_event").rows() == [{"step": 2}]
        assert narrowed.step_numbers == (2,)
        outside = narrowed.store.sql("SELECT count(*) AS n FROM host_event WHERE step IS NULL")
        assert outside.to_pylist()[0]["n"] > 0


def test_rank_or_span_without_these_steps_is_no_obstacle(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name, first, rank in (("a", 0, 0), ("b", 20, 0), ("c", 20, 1)):
        (folder / f"{name}.json").write_text(json.dumps(trace(first, rank)))
    store = import_source(folder, tmp_path / "store", steps=[2, 3])
    with stepscope.open(store) as narrowed:
        rows = narrowed.ask("steps").rows()
    assert [(row["rank"], row["step"]) for row in rows] == [(0, 2), (0, 3)]
    with pytest.raises(UsageError, match="no step 7") as refused:
        import_source(folder, tmp_path / "other", steps=[7])
    assert refused.value.hint == "it has step 0-4, 20-24"
    assert not (tmp_path / "other").exists()


@pytest.mark.traces
@pytest.mark.slow
def test_resnet50_narrowed_answers_as_the_complete_recording_does(tmp_path):
    (file,) = (TRACES / "resnet50_v100").glob("*1623143089861*")
    store = import_source(file, tmp_path / "store", steps=[6, 7])
    told = answers(store, forms=False)
    assert told == answers(file, forms=False, step=[6, 7])
    (row,) = (row for row in told["steps None"] if row["step"] == 7)
    assert row["dataloader_ns"] == 61_257_000
