"""Memory snapshots become rows: events with running totals, blocks, stacks and what they say."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.memory_snapshots import BACKWARD, BUILDING, FORWARD, OPTIMIZER, START_US, Allocator, training

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.cuda_snapshot import reader
from stepscope.formats.registry import format_of
from stepscope.formats.tables import RankTables

Read = Callable[..., RankTables]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_it(snapshot: Any, protocol: int = 4) -> RankTables:
        path = tmp_path / "a.pickle"
        path.write_bytes(pickle.dumps(snapshot, protocol))
        (member,) = members(path)
        assert format_of(member).name == "memory-snapshot"
        return reader.read(member)

    return read_it


def column(table: Any, name: str) -> list[Any]:
    return table[name].to_pylist()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_each_allocation_and_release_has_what_was_held_after_it(read, protocol):
    played = Allocator()
    played.reserve(0, seen=False)
    played.take(0, 700, seen=False)
    played.take(1024, 100)
    played.free(0)
    played.reserve(1 << 20, 4096)
    played.out_of_memory(1 << 30, 12345)
    played.give_back(1 << 20)
    tables = read(played.snapshot(), protocol)
    events = tables.memory_event
    assert column(events, "bytes") == [100, -700]
    assert column(events, "total_allocated_bytes") == [800, 100]
    assert column(events, "total_reserved_bytes") == [1 << 20] * 2
    assert column(events, "time_ns") == [0, 10_000]
    assert tables.facts.start_epoch_ns == (START_US + 10) * 1000
    others = tables.allocator_event.to_pylist()
    assert [(one["kind"], one["bytes"], one["device_free_bytes"]) for one in others] == [
        ("segment_alloc", 4096, None), ("oom", 1 << 30, 12345), ("segment_free", 4096, None),
    ]  # fmt: skip
    assert [one["total_reserved_bytes"] for one in others] == [(1 << 20) + 4096] * 2 + [1 << 20]
    assert [one["total_allocated_bytes"] for one in others] == [100] * 3
    blocks = tables.memory_block.to_pylist()
    assert [(one["address"], one["bytes"], one["requested_bytes"], one["state"]) for one in blocks] == [
        (0, 1024, 0, "free"), (1024, 512, 100, "allocated"), (1536, (1 << 20) - 1536, 0, "free"),
    ]  # fmt: skip


def test_what_was_given_back_and_may_still_be_used_is_pending(read):
    played = Allocator()
    played.reserve(0, seen=False)
    played.take(0, 10)
    played.take(512, 20)
    played.free(0)
    played.events[0].pop()  # another stream has not finished with it
    played.out_of_memory(5, 1)
    (row,) = read(played.snapshot()).allocator_event.to_pylist()
    assert (row["total_allocated_bytes"], row["total_pending_bytes"]) == (20, 10)


def test_a_stack_tells_the_part_of_the_step_the_operator_and_the_programs_frames(read):
    played = Allocator()
    cpp = (
        ("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "a.cpp", 0),
        ("at::_ops::empty_strided::call(int)", "??", 0),
        ("at::_ops::sum_dim_IntList::call(at::Tensor const&)", "??", 0),
    )
    engine = (("torch::autograd::Engine::thread_main(std::shared_ptr<int>)", "??", 0),)
    for place, stack in enumerate((FORWARD, BACKWARD, OPTIMIZER, BUILDING, cpp + engine, cpp)):
        played.take(512 * place, 10, stack)
    tables = read(played.snapshot())
    events = tables.memory_event
    assert column(events, "role") == ["forward", "backward", "optimizer", "parameters", "backward", None]
    assert column(events, "operator_name") == [None] * 4 + ["aten::sum"] * 2
    texts = dict(zip(*(column(tables.call_stack, name) for name in ("stack_id", "frames")), strict=True))
    assert texts[column(events, "stack_id")[0]] == "/job/model.py(12): forward;/job/train.py(40): main"
    assert column(events, "stack_id")[1] is None
    assert texts[column(events, "stack_id")[5]] == ("at::_ops::empty_strided::call;at::_ops::sum_dim_IntList::call")


def test_stacks_that_were_not_recorded_are_no_backward(read):
    played = Allocator()
    played.take(0, 10, ())
    assert column(read(played.snapshot()).memory_event, "role") == [None]


def test_what_is_computed_again_in_the_backward_pass_is_backward(read):
    played = Allocator()
    checkpoint = ("unpack_hook", "/venv/site-packages/torch/utils/checkpoint.py", 1100)
    played.take(0, 10, (*FORWARD, checkpoint))
    assert column(read(played.snapshot()).memory_event, "role") == ["backward"]


def test_devices_are_kept_apart_and_annotations_are_moments(read):
    played = Allocator(devices=2)
    played.mark("ProfilerStep#3", "START")
    played.take(0, 10, device=1)
    played.take(0, 20, device=0)
    tables = read(played.snapshot())
    assert sorted(zip(*(column(tables.memory_event, n) for n in ("device", "bytes")), strict=True)) == [
        (0, 20), (1, 10),
    ]  # fmt: skip
    (mark,) = tables.instant.to_pylist()
    assert (mark["name"], mark["time_ns"], mark["args"]) == ("ProfilerStep#3", 0, '{"stage": "START", "device": 0}')
    assert column(tables.device, "device") == [0, 1]


def test_what_a_program_told_the_allocator_stays_with_the_allocation(read):
    played = Allocator()
    played.take(0, 10)
    played.take(512, 10)
    played.events[0][1]["user_metadata"] = "epoch 3"
    assert column(read(played.snapshot()).memory_event, "annotation") == [None, "epoch 3"]


def test_blocks_of_torch_2_0_tell_their_use_in_a_history(read):
    frames = [{"name": "forward", "filename": "/job/model.py", "line": 12}]
    snapshot = {
        "segments": [
            {
                "device": 0, "address": 4096, "total_size": 2048, "allocated_size": 512,
                "active_size": 512, "stream": 0, "segment_type": "small",
                "blocks": [
                    {
                        "size": 512, "state": "active_allocated",
                        "history": [{"addr": 4096, "real_size": 100, "frames": frames}],
                    },
                    {"size": 1536, "state": "inactive"},
                ],
            }
        ],
        "device_traces": [[{"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "frames": frames}]],
    }  # fmt: skip
    tables = read(snapshot)
    assert [(one["address"], one["requested_bytes"]) for one in tables.memory_block.to_pylist()] == [
        (4096, 100), (4608, None),
    ]  # fmt: skip
    assert tables.facts.start_epoch_ns is None
    assert tables.report.damage == {"no_moments": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda made: {"segments": [], "settings": 1}, "neither segments nor events"),
        (lambda made: made["device_traces"][0][0].update(size="many") or made, "snapshot"),
        (lambda made: made["device_traces"][0][0].update(addr=1 << 70) or made, "snapshot"),
        (lambda made: made["device_traces"][0][0].update(action=3) or made, "snapshot"),
        (lambda made: made["device_traces"][0][0].update(frames=["a"]) or made, "snapshot"),
        (lambda made: made["device_traces"][0][0].update(frames=[-7]) or made, "snapshot"),
        (lambda made: made["segments"][0].update(total_size="x") or made, "snapshot"),
        (lambda made: made["segments"][0]["blocks"][0].update(size=None) or made, "snapshot"),
        (lambda made: made.update(external_annotations=[{"time_us": "x", "name": 1}]) or made, None),
    ],
)
def test_values_of_other_types_are_one_error_or_left_out(read, change, why):
    snapshot = change(training(1).snapshot())
    if why is None:
        assert read(snapshot).memory_event.num_rows
        return
    with pytest.raises(SourceError, match=why):
        read(snapshot)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5000)), max_size=60), st.integers(0, 20))
@examples(40)
def test_totals_are_those_of_a_replay_whatever_the_oldest_events_were(tmp_path_factory, steps, lost):
    played = Allocator()
    held = 0
    wanted = []
    for place, size in steps:
        address = place * 8192
        if (0, address) in played.alive:
            held -= played.alive[0, address][0]
            played.free(address)
            wanted += [held] * 2
        else:
            held += size
            played.take(address, size)
            wanted.append(held)
    played.segments = {(0, place * 8192): 8192 for place in range(8)}
    del played.events[0][:lost]
    path = tmp_path_factory.mktemp("snapshot") / "a.pickle"
    path.write_bytes(pickle.dumps(played.snapshot()))
    (member,) = members(path)
    found = reader.read(member).memory_event
    kept = [
        total
        for event, total in zip(played.events[0], wanted[lost:], strict=True)
        if event["action"] != "free_completed"
    ]
    assert column(found, "total_allocated_bytes") == kept


@pytest.mark.traces
@pytest.mark.parametrize("name", ["lm_training", "lm_inference"])
def test_shared_snapshots_are_what_python_reads(shared_traces, name):
    import gzip

    path = shared_traces / "memory" / f"{name}.pickle.gz"
    (member,) = members(path)
    tables = reader.read(member)
    snapshot = pickle.loads(gzip.decompress(path.read_bytes()))  # noqa: S301 - a test's own file
    (events,) = snapshot["device_traces"]
    counted = [one for one in events if one["action"] != "free_completed"]
    signed = [one["size"] if one["action"] == "alloc" else -one["size"] for one in counted]
    assert column(tables.memory_event, "bytes") == signed
    assert column(tables.memory_event, "address") == [one["addr"] for one in counted]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert column(tables.memory_block, "bytes") == [one["size"] for one in blocks]
    # Read backwards, what is allocated at the end leads to every total.
    held = sum(one["requested_size"] for one in blocks if one["state"] == "active_allocated")
    totals = []
    for size in reversed(signed):
        totals.append(held)
        held -= size
    assert column(tables.memory_event, "total_allocated_bytes") == totals[::-1]
    assert set(column(tables.memory_event, "total_reserved_bytes")) == {
        sum(one["total_size"] for one in snapshot["segments"])
    }
