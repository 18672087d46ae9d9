"""Numbers of an iteration: samples of its batch, and what the script says; never read from a device."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.record import annotate, inline
from stepscope.record.settings import settings
from stepscope.record.tensors import samples_in
from stepscope.record.traces.tracing import trace
from stepscope.record.trouble import RecordingWarning

from .small_job import batches, make_model, train

pytestmark = pytest.mark.torch


@pytest.fixture
def taken():
    """What a listener gets."""
    got: list[tuple[str, float]] = []

    def take(name: str, number: float) -> None:
        got.append((name, number))

    annotate.take_values(take)
    yield got
    annotate.stop_taking(take)


def test_a_number_of_the_host_is_taken_whatever_type_it_has(taken: list[Any]) -> None:
    import torch

    stepscope.value("tokens", 3)
    stepscope.value("tokens", torch.tensor(4))
    stepscope.value("loss", torch.tensor(0.5))
    assert taken == [("tokens", 3), ("tokens", 4), ("loss", 0.5)]


def test_a_number_on_a_device_is_not_read_and_that_is_said_once(taken: list[Any]) -> None:
    class OnDevice:
        device = type("Device", (), {"type": "cuda"})()

        def item(self) -> int:
            raise AssertionError("this would wait for the device")

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            stepscope.value("on a device", OnDevice())
    assert taken == []
    assert [one.category for one in said] == [RecordingWarning]
    assert "would make the job wait" in str(said[0].message)


@pytest.mark.parametrize("number", [float("nan"), "12", None, object()])
def test_what_is_no_number_never_reaches_the_job(number: object, taken: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stepscope.value(f"no number: {number!r}", number)
    assert taken == []


class _Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


NAMES: list[Any] = ["", "x" * 10**6, "a\nb", "a\0b", "\ud800", "\udc80", "</script>", 5, None, ["l"], _Hostile()]


@pytest.fixture
def few_are_said(monkeypatch: pytest.MonkeyPatch):
    """What is warned of, which is little and short."""
    monkeypatch.setattr(annotate, "_warned", set())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    assert len(said) <= annotate._MAX_WARNINGS
    assert all(len(str(one.message)) < 400 for one in said)


@pytest.mark.usefixtures("few_are_said")
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_numbers_and_names_of_any_kind_never_reach_the_job_nor_exceed_json(name: Any, taken: list[Any]) -> None:
    for number in (_Hostile(), float("inf"), 10**400, 10**5000, 1e308, True, [1]):
        stepscope.value(name, number)
    for number in range(3):
        stepscope.value(name, number)
    assert [number for _, number in taken] == ([] if isinstance(name, _Hostile) else [0, 1, 2])
    assert all(label and label.isprintable() and len(label) <= 1000 for label, _ in taken)


@pytest.mark.usefixtures("few_are_said", "taken")
def test_thousands_of_names_do_not_flood_the_jobs_output() -> None:
    for number in range(10_000):
        stepscope.value(f"no number {number}", None)


@pytest.mark.usefixtures("few_are_said")
def test_a_region_of_any_name_entered_and_left_in_any_way_is_never_felt(tmp_path: Path) -> None:
    model = make_model()

    def regions(_: int) -> None:
        for name in NAMES:
            with stepscope.region(name):
                pass
        first, second = stepscope.region("first"), stepscope.region("second")
        for one in (first, first, second):
            one.__enter__()
        for one in (first, first, second, second):
            one.__exit__(None, None, None)
        with pytest.raises(KeyError), stepscope.region("raises"):
            raise KeyError

    expected = train(make_model(), batches(8))
    inline.start({"warmup": 0, "repetitions": 1, "events": ["**"]}, model=model, out=tmp_path)
    with trace(tmp_path, wait=0, warmup=0, active=2) as tracer:
        losses = train(model, tracer.iterate(inline.iterate(batches(8))), inside=regions)
    inline.stop()
    assert losses == expected
    (recorded,) = tmp_path.glob("*.json.gz")
    names = [event.get("name") for event in json.loads(gzip.decompress(recorded.read_bytes()))["traceEvents"]]
    assert {"unnamed", "first", "second", "raises", "</script>"} <= {*names}


def test_samples_are_the_first_dimension_that_tensors_share() -> None:
    import torch

    x, y, offsets = torch.zeros(8, 3), torch.zeros(8), torch.zeros(11)
    assert samples_in((x, y)) == 8
    assert samples_in({"ids": x, "more": [{"mask": y}], "scalar": torch.tensor(1.0)}) == 8
    assert samples_in([x, offsets]) is None
    assert samples_in([x, offsets], torch.utils.data.DataLoader([0], batch_size=8)) == 8  # type: ignore[arg-type]
    assert samples_in([x, offsets], torch.utils.data.DataLoader([0], batch_size=4)) is None  # type: ignore[arg-type]
    assert samples_in(["text"] * 100_000) is None


def _record(out: Path, plan: dict[str, Any] | None) -> dict[str, Any]:
    model = make_model()
    inline.start(plan, model=model, out=out)
    train(
        model, inline.iterate(batches(60)), inside=lambda _: stepscope.value("tokens", 7)
    )  # twice in an iteration adds up
    inline.stop()
    return {path.name.split(".")[-2]: json.loads(path.read_text()) for path in out.iterdir()}


def test_phases_and_inline_measurements_keep_the_numbers_of_their_iterations(tmp_path: Path) -> None:
    files = _record(tmp_path, {"warmup": 1, "repetitions": 3, "unarmed_every": 2, "events": ["forward"]})
    batch = next(iter(batches(1)))
    phases, profile = files["phases"], files["prof"]
    steps = [row[0] for row in phases["step_samples"]]
    assert phases["values"]["tokens"] == [[step, 7] for step in steps]
    assert phases["values"]["samples"] == [[step, samples_in(batch)] for step in steps]
    numbers = [row[0] for row in profile["iterations"]]
    assert profile["values"]["tokens"] == [[number, 7] for number in numbers]
    for document in (phases, profile):
        assert document["settings"]["torch"]
        assert document["settings"]["cudnn.benchmark"] in (True, False)
        assert "num_workers" not in document["settings"]  # of a list there are none
    assert phases["settings"]["autocast"] == "off"


def test_the_throughput_of_what_was_recorded_is_answered(tmp_path: Path) -> None:
    _record(tmp_path, None)
    with stepscope.open(tmp_path, cache=False) as run:
        (samples, tokens) = run.throughput().rows()
        assert (samples["name"], tokens["name"]) == ("samples", "tokens")
        assert tokens["per_step"] == 7
        assert tokens["per_second"] == pytest.approx(7e9 / tokens["step_ns"])
        assert "Throughput: " in run.phases().note
        assert "tokens/s" in run.phases().note


@pytest.mark.parametrize("iterates", [True, False])
def test_a_trace_keeps_the_numbers_of_its_steps_and_the_settings_of_its_forward_and_loader(
    tmp_path: Path, iterates: bool
) -> None:
    import torch
    from torch.utils.data import DataLoader

    model = make_model()
    loader = DataLoader(batches(6), batch_size=None)  # type: ignore[arg-type]
    with trace(tmp_path, name="job", model=model, wait=1, warmup=1, active=2) as tracer:
        for batch in tracer.iterate(loader) if iterates else loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(batch)
            stepscope.value("tokens", 5)
            if not iterates:
                tracer.step()
    with gzip.open(tracer.written[0], "rt") as file:
        about = json.load(file)["stepscope"]
    assert about["values"]["tokens"] == [[2, 5], [3, 5]]
    assert about["values"]["samples"] == [[2, 5], [3, 5]]
    assert about["settings"]["autocast"] == "bfloat16"
    assert (about["settings"]["num_workers"], about["settings"]["prefetch_factor"]) == (0, None)
    with stepscope.open(tracer.written[0], cache=False) as recorded:
        assert [row["name"] for row in recorded.throughput().rows()] == ["samples", "tokens"]
        assert "tokens/s" in recorded.steps().note


def test_settings_keep_the_variables_that_bear_on_speed_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("TORCH_API_KEY", "secret")
    found = settings()
    assert found["environment"]["NCCL_ALGO"] == "Ring"
    assert "TORCH_API_KEY" not in found["environment"]
    assert "autocast" not in found  # outside of a forward nobody knows


def test_names_beyond_any_use_are_left_out_and_that_is_said_once(
    taken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotate, "_warned", set())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number in range(1000):
            stepscope.value(f"loss of step {number}", 1)
            stepscope.value("tokens", 2)
    (one,) = said
    assert "there are 256 names already" in str(one.message)
    assert len({name for name, _ in taken}) == 256
    assert taken.count(("tokens", 2)) == 1000
