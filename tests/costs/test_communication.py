"""Bytes of collectives by the definitions of nccl-tests."""

import pytest

from stepscope.costs import collective, collective_name, work

MEBI = 1 << 20


@pytest.mark.parametrize(
    ("operation", "given", "got", "link"),
    [
        ("all_reduce", MEBI, MEBI, 4 * MEBI * 2 * 7 // 8),
        ("all_gather", MEBI, 8 * MEBI, 4 * 8 * MEBI * 7 // 8),
        ("reduce_scatter", 8 * MEBI, MEBI, 4 * 8 * MEBI * 7 // 8),
        ("all_to_all", MEBI, MEBI, 4 * MEBI * 7 // 8),
        ("broadcast", MEBI, MEBI, 4 * MEBI),
        ("reduce", MEBI, MEBI, 4 * MEBI),
        ("send_recv", MEBI, 0, 4 * MEBI),
    ],
)
def test_the_busiest_link_carries_the_bus_factor(operation, given, got, link) -> None:
    found = collective(operation, "float32", given, got, 8)
    assert (found.link_bytes, found.bytes_read, found.bytes_written) == (link, 4 * given, 4 * got)


def test_each_rank_adds_its_share() -> None:
    assert collective("all_reduce", "bfloat16", 800, 800, 8).flops == 700
    assert collective("all_gather", "bfloat16", 100, 800, 8).flops == 0
    assert collective("all_reduce", "int64", 800, 800, 8).flops == 0


def test_a_group_of_unknown_size_has_no_link_bytes() -> None:
    found = collective("all_reduce", "float32", 8, 8, None)
    assert (found.link_bytes, found.bytes) == (None, 64)
    assert found.notes == ("size of the group not recorded",)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("nccl:all_reduce", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("nccl:send 0->1", None),
        ("barrier", None),
    ],
)
def test_collectives_go_by_many_names(name, operation) -> None:
    assert collective_name(name) == operation


def test_an_operator_gives_its_output_first() -> None:
    found = work("c10d::_allgather_base_", "[[65536, 64], [8192, 64], []]", '["float", "float", ""]')
    assert (found.bytes_written, found.bytes_read) == (65536 * 64 * 4, 8192 * 64 * 4)
    assert found.formula == "communication.all_gather"
