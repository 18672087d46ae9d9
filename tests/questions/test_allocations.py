"""Each allocation, with its lifetime."""

from tests.literal import literal_store

from stepscope.api.trace import Trace
from stepscope.query.event_filter import EventFilter
from stepscope.questions import find


def event(time, address, size, **more):
    return {
        "device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time, "address": address,
        "bytes": size, "total_allocated_bytes": None, **more,
    }  # fmt: skip


ROWS = {
    "memory_event": [
        event(10, 1, 40, operator_name="aten::mm", role="forward", stack_id=0),
        event(20, 2, 60, operator_name="aten::add", role="forward"),
        event(30, 1, -40),
        event(40, 3, -30),
        event(50, 4, 5, role="backward"),
        event(60, 2, -60),
    ],
    "call_stack": [{"stack_id": 0, "frames": "net.py(3): forward"}],
    "step": [
        {"step": 7, "rule": "ProfilerStep", "complete": True, "host_start_ns": 0, "host_end_ns": 35},
        {"step": 8, "rule": "ProfilerStep", "complete": True, "host_start_ns": 35, "host_end_ns": 99},
    ],
}


def test_each_allocation_has_its_lifetime_and_what_made_it(diff):
    diff(
        "memory",
        ROWS,
        """
        bytes,alloc_ns,free_ns,lifetime_ns,category,operator,alloc_step,free_step,stack
        60,20,60,40,activations,aten::add,7,8,
        40,10,30,20,temporaries,aten::mm,7,7,net.py(3): forward
        30,,40,,unknown,,,8,
        5,50,,,unknown,,8,,
        """,
        by="allocation",
    )


def test_what_is_alive_at_a_moment_at_the_peak_or_in_a_stretch(diff):
    diff("memory", ROWS, "bytes\n60\n30", at_ns=35, by="allocation")
    diff("memory", ROWS, "bytes\n60\n40\n30", at_peak=True, by="allocation")
    diff("memory", ROWS, "bytes\n60\n5", part=EventFilter(window=(45, 99)), by="allocation")
    diff("memory", ROWS, "bytes\n60\n30\n5", steps=[8], by="allocation")


def test_a_report_may_pick_what_is_alive_at_a_moment():
    (moment,) = (one for one in find("memory").parameters if one.name == "at_ns")
    since, until = moment.picks
    with literal_store(ROWS) as store:
        trace = Trace(store)
        for at in (5, 10, 30, 35, 55, 60):
            lasting = [
                row
                for row in trace.memory(by="allocation").to_dict()["rows"]
                if (row[since] or 0) <= at and (row[until] is None or at < row[until])
            ]
            assert trace.memory(by="allocation", at_ns=at).to_dict()["rows"] == lasting, at


def test_those_of_an_operator_or_a_category(diff):
    diff("memory", ROWS, "bytes\n60", operator="aten::add", by="allocation")
    diff("memory", ROWS, "bytes\n30\n5", category="unknown", by="allocation")
