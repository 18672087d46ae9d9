"""Snapshots that refer to one value again and again: work and memory grow with their bytes, not with what they name."""

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.memory_snapshots import Allocator, member

from stepscope.base.errors import SourceError
from stepscope.formats.cuda_snapshot import reader

LONG = "adam" * 10_000
POOL = (7,) * 2000
BYTES_A_BYTE, AT_LEAST = 400, 6_000_000
"""Bytes of memory that a byte of a file may take, and of what a reader takes for nothing."""


def small(**changes: Any) -> dict[str, Any]:
    played = Allocator()
    played.reserve(0)
    played.take(0, 1000)
    return played.snapshot() | changes


def alloc(**values: Any) -> dict[str, Any]:
    return {"action": "alloc", "addr": 0, "size": 8, "time_us": 1, **values}


def segment(**values: Any) -> dict[str, Any]:
    block = {"address": 0, "size": 512, "requested_size": 8, "state": "active_allocated", "frames": []}
    return {"device": 0, "address": 0, "total_size": 512, "stream": 0, "blocks": [block], **values}


def frame(line: int) -> dict[str, Any]:
    return {"name": LONG, "filename": f"/a/{LONG}.py" if line < 0 else LONG, "line": line}


def stacks(count: int) -> list[dict[str, Any]]:
    frames = [frame(line) for line in range(40)]
    return [alloc(frames=[frames[(row * place) % 40] for place in range(1, 9)]) for row in range(count)]


@pytest.fixture(scope="module", autouse=True)
def modules_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    peak_of(tmp_path_factory.mktemp("first") / "a.pickle", pickle.dumps(small(external_annotations=[])))


def peak_of(path: Path, made: bytes) -> int:
    """The most memory that reading takes, of Python and of Arrow; a named error is an answer."""
    path.write_bytes(made)
    pool, before = pa.default_memory_pool(), pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        tables = reader.read(member(path))
        held = pool.bytes_allocated() - before
        del tables
    except SourceError:
        held = 0
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most + held


@pytest.mark.parametrize(
    "make",
    [
        lambda n: small(external_annotations=[{"name": LONG, "time_us": at} for at in range(n)]),
        lambda n: small(external_annotations=[{"name": LONG, "time_us": 1}] * n),
        lambda n: small(external_annotations=[{"stage": LONG, "time_us": at} for at in range(n)]),
        lambda n: small(allocator_settings={str(at): LONG for at in range(n)}),
        lambda n: small(allocator_settings={"in": {str(at): LONG for at in range(n)}}),
        lambda n: small(device_traces=[[alloc(frames=[frame(line)]) for line in range(n)]]),
        lambda n: small(device_traces=[stacks(n)]),
        lambda n: small(segments=[segment(segment_type=LONG) for _ in range(n)]),
        lambda n: small(segments=[segment(segment_type=LONG, blocks=[dict(segment()["blocks"][0]) for _ in range(n)])]),
        lambda n: small(segments=[segment(segment_pool_id=POOL) for _ in range(n)]),
        lambda n: small(segments=[segment(device=at) for at in range(n)]),
        lambda n: small(device_traces=[[]] * n),
    ],
    ids=["names", "one annotation", "stages", "settings", "settings below", "frames", "stacks", "types", "type of blocks",
         "pools", "devices", "lists of devices"],
)  # fmt: skip
def test_what_is_referred_to_again_takes_no_memory_again(tmp_path: Path, make: Callable[[int], dict[str, Any]]) -> None:
    for count in (50, 200, 800):
        made = pickle.dumps(make(count))
        assert peak_of(tmp_path / "a.pickle", made) < BYTES_A_BYTE * len(made) + AT_LEAST


def nested(depth: int = 22) -> Any:
    """A tuple of two of the tuple before: two to the power of the depth values, in a few bytes each."""
    value: Any = 1
    for _ in range(depth):
        value = (value, value)
    return value


@pytest.mark.parametrize(
    "changes",
    [
        {"allocator_settings": {"a": nested(), "b": {"c": nested()}}},
        {"external_annotations": [{"time_us": 1, "name": nested(), "stage": nested(), "device": nested()}]},
        {"external_annotations": [{"time_us": nested(), "name": "x"}]},
        *({"segments": [segment(**{name: nested()})]} for name in ("segment_pool_id", "device", "segment_type", "stream")),
        {"segments": [segment(blocks=[{"size": 8, "state": nested()}])]},
        *({"device_traces": [[alloc(**{name: nested()})]]} for name in ("action", "device_free", "addr", "user_metadata")),
        {"device_traces": [[alloc(frames=[nested()])]]},
        {"device_traces": nested()},
    ],
)  # fmt: skip
def test_values_nested_in_themselves_are_never_walked(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert peak_of(tmp_path / "a.pickle", pickle.dumps(small(**changes))) < AT_LEAST


def test_frames_nested_by_millions_are_one_error(tmp_path: Path) -> None:
    """Hashing such a tuple would take all of the interpreter's stack."""
    made = pickle.dumps(small(device_traces=[[alloc(frames=["HERE"])]]))
    place = pickle.dumps("HERE", 4)[11:-2]
    assert made.count(place) == 1
    (tmp_path / "a.pickle").write_bytes(made.replace(place, b"K\x01" + b"\x85" * 1_000_000).replace(made[2:11], b""))
    with pytest.raises(SourceError, match="corrupt"):
        reader.read(member(tmp_path / "a.pickle"))
