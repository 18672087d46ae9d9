import json

import pytest

from stepscope.formats.container import members
from stepscope.formats.registry import format_of


@pytest.fixture
def read(tmp_path):
    """Writes a document (or bytes) under a name that says nothing, and reads it by its content."""

    def write_and_read(document, options=None):
        path = tmp_path / "unknown"
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        path.write_bytes(data)
        member = next(iter(members(path)))
        known = format_of(member)
        return known.name, known.read(member, options)

    return write_and_read
