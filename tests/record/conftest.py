"""Every test of recording leaves the process as it found it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from stepscope.record import annotate, inline


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    # What is compiled in one test is none of another's job.
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        compiler.counters.clear()
    yield
    inline.stop()
    assert annotate._openers == ()
