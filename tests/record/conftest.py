"""Every test of recording leaves the process as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepscope.record import annotate, inline


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    inline.stop()
    assert annotate._openers == ()
