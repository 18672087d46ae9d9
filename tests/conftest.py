"""What decides whether a marked test can run here. The marks are described in pyproject.toml."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED_TRACES = ROOT.parent / "shared" / "traces"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu", action="store_true", help="also run the tests that need a CUDA device"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reasons = {
        "gpu": None if config.getoption("--gpu") else "needs a CUDA device: give --gpu",
        "traces": None if SHARED_TRACES.is_dir() else f"needs the traces in {SHARED_TRACES}",
        "torch": None if find_spec("torch") else "needs torch",
    }
    for item in items:
        for mark, reason in reasons.items():
            if reason is not None and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: compressed ones hold the time, and workers must agree."""
    return argname if isinstance(val, bytes | bytearray) else None


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of traces recorded by others; tests that use it carry the mark `traces`."""
    return SHARED_TRACES
