"""Faults that are injected into a callback's recording, whatever framework it runs in."""

from typing import Any

import pytest

FAULTS = (
    "traces.tracing.Tracer.start",
    "traces.tracing.Tracer.step",
    "inline.session.Session.start_iteration",
    "job.loop.LoopFinder.install",
    "on_demand.listener.OnDemand.step",
    "callbacks.recordings.region",
)


def break_it(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this part of the recorder raises."""

    def fails(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("injected")

    monkeypatch.setattr(f"stepscope.record.{where}", fails)
