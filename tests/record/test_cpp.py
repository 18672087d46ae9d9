"""Regions that C++ marks, through an operator that torch's dispatcher knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope.record import annotate
from stepscope.record.cpp import include_path

pytestmark = pytest.mark.torch


@pytest.fixture
def heard() -> Iterator[list[str]]:
    said: list[str] = []

    @contextmanager
    def opened(name: str) -> Iterator[None]:
        said.append(f"<{name}")
        yield
        said.append(f"{name}>")

    annotate.listen(opened)
    yield said
    annotate.stop_listening(opened)


def test_the_operator_starts_and_ends_regions(heard: list[str]) -> None:
    import torch

    mark = torch.ops.stepscope.mark
    mark("never started", False)
    for name in ("lookup", "lookup", "copy"):
        mark(name, True)
    for name in ("copy", "lookup", "lookup"):
        mark(name, False)
    assert heard == ["<lookup", "<lookup", "<copy", "copy>", "lookup>", "lookup>"]


def test_the_header_calls_this_operator_and_lets_nothing_out() -> None:
    header = Path(include_path(), "stepscope.h").read_text()
    assert 'findSchema({"stepscope::mark", ""})' in header
    assert "noexcept" in header
    assert "catch (...)" in header
    assert len(header.splitlines()) < 45
