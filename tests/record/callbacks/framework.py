"""The frameworks that a file of tests needs: skipped where one is absent, but never in CI."""

import importlib
import os
from importlib.util import find_spec

import pytest


def need(name: str) -> None:
    """Skips the test that calls this when `name` cannot be imported; in CI that is an error.

    Without torch every test of recording is skipped, and these are too.
    """
    if os.environ.get("CI") and find_spec("torch") is not None:
        importlib.import_module(name)
    else:
        pytest.importorskip(name, exc_type=ImportError)
