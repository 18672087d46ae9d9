"""A snapshot within a page of torch's memory_viz is the snapshot."""

import base64
import json
import pickle
from pathlib import Path

import pytest
from tests.memory_snapshots import training

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.cuda_snapshot import page
from stepscope.formats.registry import format_of

PICKLE = pickle.dumps(training().snapshot())
# As torch.cuda._memory_viz._format_viz writes it, padding of zeros included.
ENCODED = base64.b64encode(PICKLE + bytes(3 - len(PICKLE) % 3)).decode()
PAGE = f"""
<!DOCTYPE html>
<html>
<head>
</head>
<body>
<script type="module">
import {{add_local_files}} from "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js"
const local_files = {json.dumps([{"name": "snapshot.pickle", "base64": ENCODED}])}
add_local_files(local_files, 'Active Memory Timeline')
</script>
</body>
"""


@pytest.mark.parametrize("block", [1 << 20, 1001])
def test_its_events_are_those_of_the_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(page, "_BLOCK", block)
    monkeypatch.setattr(page, "_HEAD_BYTES", 500)
    read = []
    for name, content in (("step.html", PAGE.encode()), ("step.pickle", PICKLE)):
        (tmp_path / name).write_bytes(content)
        (member,) = members(tmp_path / name)
        known = format_of(member)
        assert known.name == "memory-snapshot"
        read.append(known.read(member, None))  # type: ignore[arg-type]
    for table in ("memory_event", "allocator_event", "memory_block", "call_stack"):
        assert getattr(read[0], table).equals(getattr(read[1], table)), table


@pytest.mark.parametrize("content", [PAGE[:2000], PAGE.replace(ENCODED[3000:3010], "<!-- cut >")])
def test_a_page_that_is_cut_or_damaged_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "step.html").write_text(content)
    (member,) = members(tmp_path / "step.html")
    with pytest.raises(SourceError) as refused:
        format_of(member).read(member, None)  # type: ignore[arg-type]
    assert refused.value.slug == "pickle-damaged"
