"""How a process ends is told where it knows it, and nothing is told where it only looks so."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.processes import python

from stepscope.record.job.exit_reason import closing_reason, exit_reason, handled_exception


@pytest.mark.parametrize(
    ("raised", "how"),
    [
        (ValueError("private"), {"exception": "ValueError"}),
        (KeyboardInterrupt(), {"exception": "KeyboardInterrupt"}),
        (SystemExit(7), {"exit_code": 7}),
        (SystemExit("words"), {"exit_code": 1}),
        (SystemExit(-1), {"exit_code": 255}),
        (SystemExit(256), {}),  # what the shell gets
        (SystemExit(), {}),
        (SystemExit(0), {}),
        (StopIteration(), {}),  # the end of a loop
    ],
)
def test_what_is_on_its_way_while_a_recording_is_closed_ends_it(raised: Any, how: Any) -> None:
    try:
        raise raised
    except BaseException:
        assert closing_reason() == how
    assert (closing_reason(), exit_reason()) == ({}, None)


def test_an_exception_from_which_steps_went_on_ends_nothing() -> None:
    """Training in an `except` block: another module in place of one that is missing, a smaller batch."""
    try:
        raise ImportError
    except ImportError:
        survived = handled_exception()
        assert closing_reason(survived) == {}
        try:
            raise ValueError
        except ValueError:
            assert closing_reason(survived) == {"exception": "ValueError"}


def test_an_error_that_python_printed_and_went_on_from_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a callback that C called."""
    try:
        raise ValueError
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert closing_reason() == {}


AT_EXIT = "import atexit, sys\nfrom stepscope.record.job.exit_reason import closing_reason\natexit.register(lambda: print(closing_reason()))\n"


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("def train(): raise KeyError\ntrain()", "{'exception': 'KeyError'}"),
        ("try: raise KeyError\nexcept KeyError: pass", "{}"),
        ("sys.ps1 = '>>> '\nraise KeyError", "{}"),  # typed: the session went on
    ],
)
def test_exit_handlers_know_what_nobody_caught(code: str, how: str) -> None:
    done = python("-c", AT_EXIT + code)
    assert done.stdout == f"{how}\n", done.stderr
