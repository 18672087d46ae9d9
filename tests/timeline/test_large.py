"""A recording with blocks in its store is drawn as one without: close by event for event, from afar in sums."""

import numpy as np
import pyarrow as pa
import pytest

from stepscope.store import drawn, write
from stepscope.store.manifest import write_store_file
from stepscope.store.open import Store
from stepscope.timeline.recording import Timeline
from stepscope.timeline.tiles import BINS

EVENTS = 3_000


def tables(seed):
    """Calls that overlap now and then on two threads, three deep, and work on two streams; a few of all last long."""
    rng = np.random.default_rng(seed)

    def times():
        length = rng.choice([0, 3, 40, 700, 90_000], EVENTS, p=[0.1, 0.4, 0.4, 0.098, 0.002])
        return {"start_ns": rng.integers(0, 200_000, EVENTS), "dur_ns": length}

    def words(some):
        return pa.array(rng.choice(some, EVENTS)).dictionary_encode()

    host = pa.table(
        {"id": np.arange(EVENTS), **times(), "thread": rng.integers(0, 2, EVENTS).astype(np.int32),
         "depth": rng.integers(0, 3, EVENTS).astype(np.int16), "self_ns": np.zeros(EVENTS, np.int64),
         "recursive": np.zeros(EVENTS, bool),
         "name": words(["aten::mm", "aten::add", "wait"]), "kind": words(["operator", "runtime"]),
         "category": words(["cpu_op"]), "role": words(["dataloader", "launch"])}
    )  # fmt: skip
    device = pa.table(
        {"id": np.arange(EVENTS, 2 * EVENTS), **times(), "device": np.zeros(EVENTS, np.int32),
         "stream": rng.integers(7, 9, EVENTS), "name": words(["gemm", "copy"]),
         "kind": words(["computation", "copy", "annotation"]), "category": words(["kernel"])}
    )  # fmt: skip
    thread = [{"thread": n, "pid": "1", "tid": str(n), "kind": "thread"} for n in range(2)]
    return {"host_event": host, "device_event": device, "thread": pa.Table.from_pylist(thread)}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same recording in a store with blocks and in one without; its second span has none in either."""
    opened = []
    for large in (1_000, 1 << 30):
        folder = tmp_path_factory.mktemp("store")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(drawn, "LARGE", large)
            patched.setattr(drawn, "EVENTS_OF_A_BIN", 8)
            patched.setattr(write, "ROW_GROUP", 256)
            rank = {"rank": pa.Table.from_pylist([{"resolution_ns": 1, "rank_rule": "single"}])}
            write.write_tables(folder, tables(1) | rank, rank=0, span=0)
            few = {name: rows.slice(0, 200) for name, rows in tables(2).items()}
            write.write_tables(folder, few, rank=0, span=1, shift_ns=300_000)
        write_store_file(folder, {"source": "made", "ranks": []})
        opened.append(Store.open(folder))
    yield [Timeline(store) for store in opened]
    for store in opened:
        store.close()


def shown(timeline, level, index):
    ids = [one.id for one in timeline.tracks.values()]
    drawn = timeline.tile(level, index, ids)
    told = {}
    for track, columns in drawn["tracks"].items():
        names = [drawn["names"][one] for one in columns["name"]]
        parts = [columns[one] for one in ("lane", "start", "end", "count", "busy", "kind", "id")]
        told[track] = sorted(zip(*parts, names, strict=True))
    return told


def test_only_the_large_recording_has_blocks(both):
    with both[0].scope() as scope:
        for table in ("host_block", "device_block"):
            assert scope.value(f"SELECT count(DISTINCT span) FROM {table}") == 1
            assert scope.value(f"SELECT sum(events) FROM {table}") == EVENTS
    with both[1].scope() as scope:
        assert (
            scope.value("SELECT count(*) FROM (FROM host_block SELECT span UNION FROM device_block SELECT span)") == 0
        )


def test_what_is_close_is_drawn_event_for_event(both):
    blocks, plain = both
    for level in (0, 3, 5):
        assert level <= blocks._loaded(0, "host").level
        for index in range(0, (500_000 >> level) // BINS + 1, 29):
            assert shown(blocks, level, index) == shown(plain, level, index)


@pytest.mark.parametrize("level", [10, 12, 15])
def test_what_is_far_adds_up(both, level):
    sums = []
    for timeline in both:
        assert level > timeline._loaded(0, "device").level
        found = {}
        for index in range((500_000 >> level) // BINS + 1):
            for track, rows in shown(timeline, level, index).items():
                for lane, start, end, count, busy, *_ in rows:
                    own = found.setdefault((track, lane), [0, 0])
                    assert end - start < 2 << level or count == 1
                    own[0] += count
                    own[1] += busy
        sums.append(found)
    assert sums[0] == sums[1]


def test_sums_search_and_places_are_the_same(both):
    blocks, plain = both
    ids = [one.id for one in plain.tracks.values()]
    for start, end in ((0, 500_000), (70_000, 70_500)):
        assert blocks.measure(start, end, ids) == plain.measure(start, end, ids)
    for number in (0, 17, -1):
        assert blocks.find("*m*", number=number) == plain.find("*m*", number=number)
    some = [0, 7, EVENTS + 5, 2 * EVENTS - 1, write.SPAN_IDS + 3]
    assert blocks.locate(0, some) == plain.locate(0, some)
    assert len(blocks.locate(0, some)) == len(some)
    assert blocks.count(0, 0, 500_000) == 2 * EVENTS + 400
