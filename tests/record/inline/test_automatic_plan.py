"""A recording without a plan: it watches some iterations, and then measures what they ran, the heaviest first."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.record.small_job import batches, make_model, spin, train, untouched

from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline
from stepscope.record.annotate import region
from stepscope.record.plan import Plan, as_plan

pytestmark = pytest.mark.torch


def _record(out: Path, steps: int, **plan: Any) -> dict[str, Any]:
    model = make_model()
    losses = train(make_model(), batches(steps))

    def inside(_: int) -> None:
        with region("slow"):
            spin(0.0005)

    inline.start(replace(as_plan("auto"), **plan), model=model, out=out)
    assert train(model, inline.iterate(batches(steps)), inside=inside) == losses
    inline.stop()
    assert untouched(model)
    (profile,) = parse_result(out)
    return profile


def _counts(profile: dict[str, Any]) -> dict[str, int]:
    events = profile["timeline"].get("device_0", {}).get("stream_0", [])
    return {event["label"]: len(event["samples"]) for event in events}


def test_it_measures_what_stepscope_plan_would_name(tmp_path: Path) -> None:
    profile = _record(tmp_path, 200)
    counts = _counts(profile)
    assert set(counts) == {
        "input_wait", "zero_grad", "forward", "0.forward", "1.forward", "2.forward", "slow",
        "backward", "0.backward", "2.backward", "optimizer.step",
    } | (set(counts) & {"1.backward"})  # fmt: skip
    assert min(counts.values()) >= 4
    assert max(counts.values()) - min(counts.values()) <= 8
    assert (profile["complete"], profile["mode"], profile["not_measured"]) == (True, "in_rounds", [])


def test_a_short_job_gets_a_little_of_what_takes_most(tmp_path: Path) -> None:
    profile = _record(tmp_path, 24)
    measured = {label for label, count in _counts(profile).items() if count}
    assert "slow" in measured
    assert not profile["complete"]
    assert {one["reason"] for one in profile["not_measured"]} == {"the recording ended before its turn"}


def test_it_ends_after_the_iterations_that_it_was_given(tmp_path: Path) -> None:
    profile = _record(tmp_path, 150, measured_iterations=100)
    assert profile["iterations_run"] <= 100
    counts = _counts(profile)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_it_ends_when_the_time_that_it_was_given_is_over(tmp_path: Path) -> None:
    profile = _record(tmp_path, 400, measured_seconds=0.15)
    assert profile["iterations_run"] < 400


def test_a_job_with_thousands_of_regions_is_measured_in_those_that_take_longest(tmp_path: Path) -> None:
    model = make_model()

    def inside(step: int) -> None:
        for number in range(2000):
            with region(f"in every step {number}"):
                pass
            with region(f"in step {step} {number}"):
                pass

    inline.start("auto", model=model, out=tmp_path)
    train(model, inline.iterate(batches(20)), inside=inside)
    assert inline._session is not None
    recorder = inline._session._recorder
    assert recorder is not None
    labels = [entry.label.text for entry in recorder.plan.entries]
    inline.stop()
    assert len(labels) == 256
    assert {"forward", "backward", "optimizer.step"} <= set(labels)


def test_a_plan_of_a_users_own_is_measured_in_rounds_too(tmp_path: Path) -> None:
    model = make_model()
    plan: dict[str, object] = {"mode": "in_rounds", "warmup": 1, "events": ["forward", "backward"]}
    assert isinstance(as_plan(plan), Plan)
    inline.start(plan, model=model, out=tmp_path)
    train(model, inline.iterate(batches(40)))
    inline.stop()
    (profile,) = parse_result(tmp_path)
    first, second = profile["timeline"]["device_0"]["stream_0"]
    assert [sample[0] for sample in first["samples"]][:2] < [sample[0] for sample in second["samples"]]
    assert first["samples"][2][0] > second["samples"][1][0]
