"""In CI no framework may be missing without anybody noticing."""

import pytest

from .framework import need

ABSENT = "a_framework_that_nobody_has"


def test_a_framework_that_is_absent_is_skipped_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=ABSENT):
        need(ABSENT)


@pytest.mark.torch
def test_a_framework_that_is_absent_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ModuleNotFoundError, match=ABSENT):
        need(ABSENT)
