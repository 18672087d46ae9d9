"""Every test of recording leaves the process as it found it."""

import sys
from collections.abc import Callable, Iterator

import pytest

from stepscope.record import annotate, inline

from .fake_device import FakeDeviceClock


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    # What is compiled in one test is none of another's job.
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        compiler.counters.clear()
    yield
    inline.stop()
    assert annotate._openers == ()


@pytest.fixture(autouse=True)
def _every_step_is_timed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of tests are so short that few of them would be timed."""
    if "thins" not in request.keywords:
        monkeypatch.setattr("stepscope.record.budget.MAX_SHARE", 1e9)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeDeviceClock], None]:
    """Has models be on a device, which the given clock is the clock of."""

    def use(clock: FakeDeviceClock) -> None:
        for place in ("phases.listeners", "targets.find"):
            monkeypatch.setattr(f"stepscope.record.{place}.clock_for", lambda _: clock)

    return use
