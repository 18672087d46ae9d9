"""Inline recording of a loop: one event at a time, with what it finds and leaves behind."""

import gzip
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline
from stepscope.record.annotate import NO_REGION, region, traced
from stepscope.record.inline.documents import ENDED_FIRST
from stepscope.record.inline.session import Session
from stepscope.record.plan import plan_from
from stepscope.record.traces.tracing import trace
from stepscope.record.trouble import RecordingWarning

from .fake_device import FakeDeviceClock
from .small_job import batches, events_in, make_model, spin, train, untouched

pytestmark = pytest.mark.torch


def _record(
    out: Path, events: list[str], steps: int = 200, inside: Any = lambda _: None, **plan: Any
) -> dict[str, Any]:
    model = make_model()
    options = {"warmup": 1, "repetitions": 4, "unarmed_every": 2, "events": events, **plan}
    inline.start(options, model=model, out=out)
    train(model, inline.iterate(batches(steps)), inside=inside)
    assert inline.done()
    inline.stop()
    assert untouched(model)
    (profile,) = parse_result(out)
    return profile


def test_off_is_nothing_at_all() -> None:
    loader = [1, 2, 3]
    assert inline.iterate(loader) is loader
    assert inline.iteration() is NO_REGION
    assert region("anything") is NO_REGION
    assert inline.stop() == []


def test_a_loop_of_ours_inside_another_ones_iteration_is_a_part_of_it(tmp_path: Path) -> None:
    model = make_model()
    inline.start(model=model, out=tmp_path)
    for batch in inline.iterate(batches(6)):
        for one in inline.iterate([batch]):
            with inline.iteration():
                train(model, [one])
    for _ in range(2):
        with inline.iteration():
            train(model, inline.iterate(batches(2)))
    (file,) = inline.stop()
    document = json.loads(file.read_text())
    assert document["steps"] == 8
    # Two batches in each of the last two iterations.
    samples = document["values"]["samples"]
    assert samples
    assert all(count == (5 if iteration <= 6 else 10) for iteration, count in samples)


def test_a_profile_has_hugectrs_fields_and_the_samples_beside_them(tmp_path: Path) -> None:
    profile = _record(tmp_path, ["forward", "0.forward", "backward", "optimizer.step"])
    assert profile["host_name"]
    assert profile["avg_iter_time_ms"] > 0
    assert list(profile["timeline"]) == ["device_0"]
    events = profile["timeline"]["device_0"]["stream_0"]
    assert [event["label"] for event in events] == ["forward", "0.forward", "backward", "optimizer.step"]
    assert [(event["start_index"], event["end_index"]) for event in events] == [(0, 3), (1, 2), (4, 5), (6, 7)]
    for event in events:
        assert len(event["samples"]) == event["statistics"]["n"] == 4
        assert event["avg_measured_time_ms"] == pytest.approx(event["statistics"]["mean_ns"] / 1e6)
        assert event["avg_iter_start_to_event_start_time_ms"] > 0
    assert profile["complete"] is True
    assert profile["overhead"]["pairs"] > 0


def test_only_one_event_is_measured_in_an_iteration(tmp_path: Path) -> None:
    profile = _record(tmp_path, ["forward", "0.forward", "backward"])
    events = profile["timeline"]["device_0"]["stream_0"]
    iterations = [sample[0] for event in events for sample in event["samples"]]
    assert len(iterations) == len(set(iterations)) == 12
    assert iterations == sorted(iterations)


def test_a_known_delay_is_measured_and_its_neighbour_does_not_move(tmp_path: Path) -> None:
    real: dict[str, dict[int, float]] = {"long": {}, "short": {}}

    def inside(number: int) -> None:
        with region("short"):
            real["short"][number] = spin(0.001)
        with region("long"):
            real["long"][number] = spin(0.008)

    profile = _record(tmp_path, ["short", "long"], inside=inside, repetitions=9, steps=40)
    for event in profile["timeline"]["device_0"]["stream_0"]:
        # A loaded machine takes the processor away now and then: the median of nine is robust.
        ratios = sorted(
            duration_ns / 1e9 / real[event["label"]][iteration] for iteration, duration_ns, *_ in event["samples"]
        )
        assert ratios[4] == pytest.approx(1.0, abs=0.05)


def test_a_dataset_that_sleeps_50_ms_shows_as_input_wait(tmp_path: Path) -> None:
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 14

        def __getitem__(self, index: int) -> Any:
            began = time.perf_counter_ns()
            time.sleep(0.05)
            slept.append(time.perf_counter_ns() - began)
            return batches(1)[0]

    slept: list[int] = []
    model = make_model()
    plan = {"warmup": 1, "repetitions": 9, "unarmed_every": 0, "events": ["input_wait"]}
    inline.start(plan, model=model, out=tmp_path)
    train(model, inline.iterate(DataLoader(Slow(), batch_size=None)))
    inline.stop()
    (event,) = events_in(tmp_path)
    # A busy machine sleeps longer than it was asked to.
    most = 1.1 * sorted(slept)[len(slept) // 2]
    assert 45e6 < event["statistics"]["median_ns"] < most
    phases = json.loads(next(tmp_path.glob("*.phases.json")).read_text())
    assert 45e6 < phases["phases"]["input_wait"]["statistics"]["median_ns"] < most
    with stepscope.open(tmp_path, cache=False) as recorded:
        assert recorded.ask("findings").rows()[0]["id"] == "input-bound"
    assert len(phases["first_batch_ns"]) == 1


def test_disjoint_events_do_not_add_up_to_more_than_the_iteration(tmp_path: Path) -> None:
    def inside(_: int) -> None:
        with region("busy"):
            spin(0.003)

    labels = ["input_wait", "zero_grad", "forward", "busy", "backward", "optimizer.step"]
    # All in the same iterations, so that whatever else the machine does is in both.
    profile = _record(tmp_path, labels, inside=inside, repetitions=7, mode="one_shot")
    events = profile["timeline"]["device_0"]["stream_0"]
    assert [event["label"] for event in events] == labels
    took_ns = {iteration: time_ns for iteration, armed, time_ns, *_ in profile["iterations"] if armed}
    spent_ns = dict.fromkeys(took_ns, 0)
    for event in events:
        for iteration, duration_ns, *_ in event["samples"]:
            spent_ns[iteration] += duration_ns
    assert len(took_ns) == 7
    assert all(3_000_000 < spent_ns[iteration] <= took_ns[iteration] for iteration in took_ns)


def test_order_and_offsets_agree_with_a_trace_of_the_same_loop(tmp_path: Path) -> None:
    def inside(_: int) -> None:
        with region("first"):
            spin(0.004)
        with region("second"):
            spin(0.002)
        with region("third"):
            spin(0.001)

    labels = ["first", "second", "third"]
    model = make_model()
    plan = {"mode": "one_shot", "repetitions": 12, "unarmed_every": 0, "events": labels, "warmup": 1}
    inline.start(plan, model=model, out=tmp_path, phases=False)
    with trace(tmp_path, name="job", model=model, wait=6, active=5) as tracer:
        # Both at once: a busy machine, which takes the processor away, does so from both.
        train(model, tracer.iterate(inline.iterate(batches(16))), inside=inside)
    inline.stop()
    events = events_in(tmp_path)
    assert [event["label"] for event in events] == labels
    recorded = {
        (iteration, event["label"]): (offset_ns, duration_ns)
        for event in events
        for iteration, duration_ns, offset_ns, _ in event["samples"]
    }
    with gzip.open(tracer.written[0], "rt") as file:
        found = [one for one in json.load(file)["traceEvents"] if one.get("ph") == "X"]
    steps = sorted((one["ts"], one["name"]) for one in found if "ProfilerStep" in one["name"])
    ranges = sorted((one["ts"], one["dur"], one["name"]) for one in found if one["name"] in labels)
    assert [name for _, _, name in ranges] == labels * len(steps)
    differences = []
    for number, (_, step) in enumerate(steps):
        iteration = int(step.rsplit("#", 1)[1])
        first_us, second_us, third_us = ranges[3 * number : 3 * number + 3]
        for before, after in ((first_us, second_us), (second_us, third_us)):
            gap_ns = (after[0] - before[0]) * 1000
            offsets = [recorded[iteration, one[2]][0] for one in (before, after)]
            differences.append((offsets[1] - offsets[0]) / gap_ns - 1)
            differences.append(recorded[iteration, before[2]][1] / (before[1] * 1000) - 1)
    assert len(differences) == 20
    assert sorted(map(abs, differences))[10] < 0.05


def test_every_occurrence_is_an_event_and_one_can_be_picked(tmp_path: Path) -> None:
    def inside(_: int) -> None:
        for _repeat in range(3):
            with region("thrice"), region("picked"):
                pass

    profile = _record(tmp_path, ["thrice", "picked#1"], inside=inside)
    events = profile["timeline"]["device_0"]["stream_0"]
    assert [(event["label"], event["occurrence"]) for event in events] == [
        ("thrice", 0),
        ("thrice", 1),
        ("picked", 1),
        ("thrice", 2),
    ]


def test_wildcards_become_the_events_that_exist(tmp_path: Path) -> None:
    profile = _record(tmp_path, ["*.forward", "2.forward.aten::*"], steps=400)
    labels = [event["label"] for event in profile["timeline"]["device_0"]["stream_0"]]
    assert labels == ["0.forward", "1.forward", "2.forward", "2.forward.aten::t", "2.forward.aten::addmm"]


def test_one_shot_measures_all_in_every_iteration(tmp_path: Path) -> None:
    profile = _record(tmp_path, ["forward", "backward"], mode="one_shot", repetitions=5)
    first, second = profile["timeline"]["device_0"]["stream_0"]
    assert [sample[0] for sample in first["samples"]] == [sample[0] for sample in second["samples"]]
    assert len(first["samples"]) == 5


def test_an_iteration_as_a_context(tmp_path: Path) -> None:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = {"warmup": 1, "repetitions": 3, "events": ["forward", "input_wait"]}

    def loop() -> None:
        for batch in batches(20):
            with inline.iteration():
                optimizer.zero_grad()
                model(batch).sum().backward()
                optimizer.step()

    inline.start(plan, model=model, out=tmp_path)
    with pytest.warns(RecordingWarning, match='"input_wait" is not measured'):
        loop()
    inline.stop()
    assert [event["label"] for event in events_in(tmp_path)] == ["forward"]
    phases = json.loads(next(tmp_path.glob("*.phases.json")).read_text())
    assert phases["phases"]["input_wait"] is None  # nobody listened: not measured is not 0


def test_model_and_optimizer_are_found_when_they_are_not_given(tmp_path: Path) -> None:
    model = make_model()
    plan = {"warmup": 1, "repetitions": 3, "events": ["2.forward", "zero_grad", "optimizer.step"]}
    inline.start(plan, out=tmp_path)
    train(model, inline.iterate(batches(40)))
    inline.stop()
    assert [event["label"] for event in events_in(tmp_path)] == ["zero_grad", "2.forward", "optimizer.step"]
    assert untouched(model)


def test_the_first_iteration_of_an_epoch_does_not_count(tmp_path: Path) -> None:
    model = make_model()
    inline.start({"warmup": 0, "repetitions": 3, "unarmed_every": 0, "events": ["forward"]}, model=model, out=tmp_path)
    for _epoch in range(6):
        train(model, inline.iterate(batches(3)))
    inline.stop()
    (event,) = events_in(tmp_path)
    assert all(sample[0] % 3 for sample in event["samples"])
    assert len(event["samples"]) == 3


@pytest.mark.parametrize("phases", [True, False])
def test_a_loop_ends_when_the_plan_says_so(tmp_path: Path, phases: bool) -> None:
    model = make_model()
    plan = {"warmup": 1, "repetitions": 2, "unarmed_every": 0, "events": ["forward"], "stop_when_done": True}
    inline.start(plan, model=model, out=tmp_path, phases=phases)
    # The epoch's first, two to warm up and find the optimizer, the observed one, one thrown away, two kept.
    assert len(train(model, inline.iterate(batches(100)))) == 7
    assert train(model, inline.iterate(batches(100))) == []


def test_all_ranks_end_after_the_same_number_of_iterations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    model = make_model()
    plan = {"warmup": 0, "repetitions": 1, "events": ["forward"], "stop_when_done": True}
    inline.start(plan, model=model, out=tmp_path)
    with pytest.warns(RecordingWarning, match="stop_when_done is ignored with several ranks"):
        assert len(train(model, inline.iterate(batches(30)))) == 30
    inline.start({**plan, "stop_after": 9}, model=model, out=tmp_path)
    assert len(train(model, inline.iterate(batches(30)))) == 9


def test_a_job_can_be_switched_on_from_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"warmup": 1, "repetitions": 2, "events": ["forward"]}')
    monkeypatch.setenv("STEPSCOPE_INLINE", str(plan))
    monkeypatch.setenv("STEPSCOPE_OUT", str(tmp_path / "out"))
    monkeypatch.setattr(inline, "_asked_environment", False)
    train(make_model(), inline.iterate(batches(20)))
    inline.stop()
    assert [event["label"] for event in events_in(tmp_path / "out")] == ["forward"]


def test_iterate_is_still_a_loader() -> None:
    class Loader(list[int]):
        batch_size = 4

    inline.start(None, model=make_model())
    loader: Any = inline.iterate(Loader([1, 2]))
    assert len(loader) == 2
    assert loader.batch_size == 4
    assert list(loader) == [1, 2]


def test_a_traced_function_is_a_region_of_its_name(tmp_path: Path) -> None:
    @traced
    def interact(x: int) -> int:
        return x + 1

    name = interact.__qualname__
    profile = _record(tmp_path, [name], inside=lambda number: interact(number) and None)
    assert profile["timeline"]["device_0"]["stream_0"][0]["label"] == name
    assert interact(1) == 2


def test_a_device_is_read_later_and_never_waited_for(
    tmp_path: Path, on_device: Callable[[FakeDeviceClock], None]
) -> None:
    ticks = iter(range(0, 10**9, 1000))
    clock = FakeDeviceClock(lambda: next(ticks))
    on_device(clock)
    model = make_model()
    plan = plan_from({"warmup": 1, "repetitions": 5, "unarmed_every": 0, "events": ["forward"]})
    session = Session(plan, model=model, out=tmp_path, phases=False)

    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, batch in enumerate(batches(30)):
        session.start_iteration()
        asked = clock.asked
        model(batch).sum().backward()
        optimizer.step()
        assert session.done or clock.asked == asked  # nothing is asked inside an iteration
        session.end_iteration()
        if number % 10 == 9:
            clock.finish()
    clock.finish()
    session.stop()
    (event,) = events_in(tmp_path)
    assert event["clock"] == "cuda"
    # The iteration's start, the event's start and its stop are three ticks of 1 µs.
    assert [sample[1:] for sample in event["samples"]] == [[1000, 1000, 1]] * 5
    (profile,) = parse_result(tmp_path)
    assert list(profile["timeline"]["device_0"]) == ["stream_7"]


def test_a_device_that_never_answers_loses_measurements_not_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_device: Callable[[FakeDeviceClock], None]
) -> None:
    monkeypatch.setattr("stepscope.record.inline.recorder._DRAIN_SECONDS", 0.01)
    clock = FakeDeviceClock()
    on_device(clock)
    model = make_model()
    plan = plan_from({"warmup": 1, "repetitions": 90, "unarmed_every": 0, "events": ["forward"]})
    session = Session(plan, model=model, out=tmp_path, phases=False)
    for batch in batches(100):
        session.start_iteration()
        model(batch)
        session.end_iteration()
    session.stop()
    (event,) = events_in(tmp_path)
    assert (event["samples"], event["lost"]) == ([], 90)
    assert clock.made < 64 * 3 + 10  # the ring is bounded


@pytest.mark.parametrize(
    ("steps", "unmeasured"), [(3, ["forward", "0.forward", "backward", "7.forward"]), (10, ["0.forward", "backward"])]
)
def test_what_a_job_was_too_short_for_is_named(tmp_path: Path, steps: int, unmeasured: list[str]) -> None:
    events = ["forward", "0.forward", "backward", "7.forward"]
    model = make_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no module 7
        plan = {"warmup": 3, "repetitions": 4, "events": events}
        inline.start(plan, model=model, out=tmp_path)
        train(model, inline.iterate(batches(steps)))
        inline.stop()
    (profile,) = parse_result(tmp_path)
    assert profile["complete"] is False
    ended = [one["label"] for one in profile["not_measured"] if one["reason"] == ENDED_FIRST]
    assert ended == unmeasured
    assert [one["line"] for one in profile["not_measured"]] == [None] * len(profile["not_measured"])


def test_what_is_measured_is_on_disk_before_the_plan_is_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_SAVE_SECONDS", "_SAVE_AFTER_SECONDS", "_SAVE_EVERY_SECONDS"):
        monkeypatch.setattr(f"stepscope.record.inline.session.{name}", 0.0)
    model = make_model()
    inline.start(
        {"warmup": 1, "repetitions": 500, "events": ["forward", "backward"]}, model=model, out=tmp_path, phases=False
    )
    deadline = time.monotonic() + 30
    for batch in inline.iterate(batches(10_000)):
        model(batch).sum().backward()
        if time.monotonic() > deadline:
            break
        if list(tmp_path.glob("*.prof.json")) and events_in(tmp_path)[0]["statistics"] is not None:
            break
    # As a job leaves it that is killed now.
    (profile,) = parse_result(tmp_path)
    assert profile["complete"] is False
    before = [event["statistics"] for event in events_in(tmp_path)]
    assert before[0]["n"] > 0
    inline.stop()
    assert events_in(tmp_path)[0]["statistics"]["n"] >= before[0]["n"]
