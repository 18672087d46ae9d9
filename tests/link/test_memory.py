"""Who asked for memory."""


def test_allocation_belongs_to_the_innermost_operator_of_its_thread(recording):
    outer = recording.operator("aten::linear", 0, 100)
    inner = recording.operator("aten::empty", 10, 20)
    recording.python("frame", 12, 18)
    recording.operator("aten::mul", 0, 100, thread=1)
    for thread, time in ((0, 15), (0, 50), (0, 100), (0, 101), (1, 15), (3, 15)):
        recording.memory_rows.append(
            {"time_ns": time, "thread": thread, "device_kind": "cuda", "device": 0, "bytes": 512}
        )
    recording.memory_rows.append({"time_ns": 15, "device_kind": "cpu", "bytes": -1})
    linked = recording.link()
    assert linked.column("memory_event", "operator_id") == [inner, outer, outer, None, 3, None, None]


def test_allocations_without_any_host_event_have_no_operator(recording):
    recording.memory_rows.append({"time_ns": 15, "thread": 0, "device_kind": "cpu", "bytes": 1})
    assert recording.link().column("memory_event", "operator_id") == [None]
