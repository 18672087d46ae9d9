"""What it costs to read grows no faster than the bytes: a part of what `benchmarks/fuzz.py --growth` does at length."""

import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.registry import format_of

SCALES = (1 / 256, 1 / 64, 1 / 16)
SAMPLE = (
    "kineto: a key each", "kineto: holes of zeros inside strings", "speedscope: a frame each", "vtune: thousands of columns",
    "onednn: a shape each", "nsys: a device each", "snapshot: a frame each", "archive: one name for all",
)  # fmt: skip


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import hostile_growing
    from hostile_kinds import KINDS, Place

    def made(name, scale, folder):
        assert hostile_growing
        (kind,) = (kind for kind in KINDS if kind.name == name)
        folder.mkdir()
        return Path(kind.make(Place(folder, random.Random(1), scale)).source)  # noqa: S311 - no secret

    return made


def _work(file):
    """The calls of Python and C, and the peak bytes of Arrow, while a file is read."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = pa.total_allocated_bytes()
    peak = 0
    sys.setprofile(count)
    try:
        for member in members(file):
            known = format_of(member)
            for recording in known.recordings(member):
                tables = known.read(recording, None)
                peak = max(peak, pa.total_allocated_bytes() - before)
                del tables
    except SourceError:
        pass
    finally:
        sys.setprofile(None)
    return calls, peak


@pytest.mark.parametrize("name", SAMPLE)
def test_calls_and_memory_grow_no_faster_than_the_bytes(name, kinds, tmp_path):
    files = [kinds(name, scale, tmp_path / str(number)) for number, scale in enumerate(SCALES)]
    _work(files[0])  # imports and caches
    sizes = [file.stat().st_size for file in files]
    (small, small_peak), *_, (large, large_peak) = map(_work, files)
    ratio = sizes[-1] / sizes[0]
    assert large <= 1.5 * ratio * max(small, 2000)
    assert large_peak <= 1.5 * ratio * max(small_peak, 1 << 20)
