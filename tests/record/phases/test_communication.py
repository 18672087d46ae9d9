"""What DDP says of its own all-reduce."""

from typing import Any

import pytest

from stepscope.record.inline.rank_files import ddp_timing

LOGGED = {
    "avg_backward_comm_time": 30,
    "avg_backward_compute_comm_overlap_time": 20,
    "avg_backward_compute_time": 40,
    "total_parameter_size_bytes": 400,
    "broadcast_buffers": 1,
}


class _Module:
    def __init__(self, buffers: int) -> None:
        self._buffers = [object()] * buffers

    def buffers(self) -> Any:
        return iter(self._buffers)


class DistributedDataParallel:
    def __init__(self, logged: dict[str, Any], buffers: int = 0) -> None:
        self._logged = logged
        self.module = _Module(buffers)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return self._logged


def test_communication_that_overlaps_is_not_exposed() -> None:
    assert ddp_timing(DistributedDataParallel(LOGGED)) == {
        "source": "DDP",
        "communication_ns": 30,
        "overlap_ns": 20,
        "exposed_ns": 10,
        "backward_ns": 50,
        "bytes": 400,
        "forward_waits": False,
    }


@pytest.mark.parametrize(("sent", "buffers", "waits"), [(1, 2, True), (0, 2, False), (None, 2, False), (1, 0, False)])
def test_ranks_meet_in_forward_where_buffers_are_sent(sent: int | None, buffers: int, waits: bool) -> None:
    timing = ddp_timing(DistributedDataParallel({**LOGGED, "broadcast_buffers": sent}, buffers))
    assert timing is not None
    assert timing["forward_waits"] is waits


@pytest.mark.parametrize("logged", [{}, {**LOGGED, "avg_backward_comm_time": 0}])
def test_what_was_not_timed_is_not_measured(logged: dict[str, Any]) -> None:
    assert ddp_timing(DistributedDataParallel(logged)) is None
    assert ddp_timing(object()) is None
