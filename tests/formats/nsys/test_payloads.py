"""What programs give with NVTX ranges: numbers, JSON, and structures, as NCCL's."""

import json
import struct

import pytest
from tests.formats.nsys.exports import PROCESS, Nsys, global_tid, host

import stepscope

NCCL, ALL_REDUCE, INIT, OPERATION = 1, 16777223, 16777218, 16777232
GIVEN = ("uint64Value", "doubleValue", "jsonText", "jsonTextId", "binaryData")
COMMUNICATOR, BYTES = 0xAB12, 4096


@pytest.fixture
def nsys(tmp_path):
    made = Nsys(tmp_path / "report.sqlite")
    # The layouts as Nsight Systems 2026.2 exported them from NCCL, twice: each process registers its own.
    for _ in range(2):
        for schema, kind, name, offset in (
            (INIT, 18, "NCCL communicator ID", None), (INIT, 5, "No. of ranks", 8),
            (ALL_REDUCE, 18, "NCCL communicator ID", None), (ALL_REDUCE, 22, "Message size [bytes]", 8),
            (ALL_REDUCE, OPERATION, "Reduction operation", 16),
        ):  # fmt: skip
            made.insert(
                "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL, schemaId=schema, type=kind, name=name, offset=offset
            )
    made.insert("NVTX_PAYLOAD_ENUM_ENTRIES", domainId=NCCL, enumId=OPERATION, name="Sum", value=0)
    return made


def given(nsys, start, end, name, domain=0, **values):
    return nsys.insert(
        "NVTX_EVENTS", start=start, end=end, eventType=59, category=None, text=None, textId=nsys.text(name),
        globalTid=global_tid(PROCESS), domainId=domain, **(dict.fromkeys(GIVEN) | values),
    )  # fmt: skip


def structure(schema, payload, domain=NCCL):
    header = struct.pack("<IIIIQQ", domain, 0, schema, 0, len(payload), 32 + len(payload))
    return header + payload


def all_reduce(size=BYTES):
    return structure(ALL_REDUCE, struct.pack("<QQi4x", COMMUNICATOR, size, 0))


def init(ranks):
    return structure(INIT, struct.pack("<Qi4x", COMMUNICATOR, ranks))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"uint64Value": 7}, {"payload": 7}), ({"doubleValue": 0.5}, {"payload": 0.5}),
        ({"jsonText": '{"tokens": 12}'}, {"payload": {"tokens": 12}}),
        ({"jsonText": "{broken"}, {"payload": "{broken"}), ({"binaryData": structure(1, b"12345678")}, None),
        ({"binaryData": all_reduce()[:-1]}, None), ({"binaryData": "no digits"}, None), ({}, None),
    ],
)  # fmt: skip
def test_what_is_given_with_a_range_is_an_argument(values, expected, nsys):
    tables = given(nsys, 0, 90, "work", **values).read()
    ((found,),) = host(tables, "other_args")
    assert (found and json.loads(found)) == expected


@pytest.mark.parametrize("spelled", [bytes, bytes.hex])
def test_structures_are_read_by_their_layout(spelled, nsys):
    tables = given(nsys, 0, 90, "ncclAllReduce", domain=NCCL, binaryData=spelled(all_reduce())).read()
    ((found,),) = host(tables, "other_args")
    assert json.loads(found) == {
        "NCCL communicator ID": COMMUNICATOR, "Message size [bytes]": BYTES, "Reduction operation": "Sum",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kernel", "size"),
    [
        ("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", BYTES),
        ("ncclAllGather", "ncclDevKernel_AllGather_RING_LL(x)", 4 * BYTES),
        ("ncclReduceScatter", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", 4 * BYTES),
        ("ncclSend", "ncclDevKernel_SendRecv(x)", BYTES),
    ],
)
def test_a_collective_has_the_size_and_communicator_that_nccl_gave(name, kernel, size, nsys):
    given(nsys, 0, 10, "ncclCommInitRank", NCCL, binaryData=init(4))
    given(nsys, 20, 90, name, NCCL, binaryData=all_reduce())
    nsys.launch(30, 5, kernel, 100, 150)
    assert collectives(nsys) == [(size, f"0x{COMMUNICATOR:x}", 4)]


def test_the_end_of_a_group_launches_what_one_call_in_it_asked_for(nsys):
    for at, sizes in ((0, [BYTES]), (1000, [BYTES, 512])):
        given(nsys, at, at + 10, "ncclGroupStart", NCCL)
        for place, size in enumerate(sizes):
            start = at + 20 + 10 * place
            given(nsys, start, start + 5, "ncclAllReduce", NCCL, binaryData=all_reduce(size))
        given(nsys, at + 50, at + 90, "ncclGroupEnd", NCCL)
        nsys.launch(at + 60, at + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 100, at + 150)
    assert collectives(nsys) == [(BYTES, f"0x{COMMUNICATOR:x}", None), (None, None, None)]


def collectives(nsys):
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT bytes, communicator, group_size FROM collective ORDER BY start_ns").rows()
    return [tuple(row.values()) for row in found]
