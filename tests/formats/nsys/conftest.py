"""An export of Nsight Systems to write rows into."""

from pathlib import Path

import pytest
from tests.formats.nsys.exports import Nsys


@pytest.fixture
def nsys(tmp_path: Path) -> Nsys:
    """An export without rows."""
    return Nsys(tmp_path / "report.sqlite")
