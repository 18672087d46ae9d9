import pytest
from tests.formats.nsys.exports import PROCESS, Nsys, global_tid, host

import stepscope

BACKWARD = 150
START_END = 60


def test_ranges_of_emit_nvtx_are_operators_with_shapes_and_numbers(nsys):
    tables = (
        nsys.range(0, 90, "aten::linear, op_id = 4, sizes = [[8, 4], [2, 4], [2]]")
        .range(10, 80, "aten::addmm, seq = 7, op_id = 5", registered=True)
        .range(20, 30, "c10d::allreduce_, op_id = 6")
        .read()
    )
    assert host(tables, "category", "kind", "role", "name", "sequence_number") == [
        ("cpu_op", "operator", None, "aten::linear", None),
        ("cpu_op", "operator", None, "aten::addmm", 7),
        ("cpu_op", "operator", "communication", "c10d::allreduce_", None),
    ]
    assert [row["dims"] for row in tables.operator_input.to_pylist()] == ["[[8, 4], [2, 4], [2]]"]


def test_a_launch_belongs_to_the_ranges_of_its_thread_and_process(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    for pid, operator in ((144, "aten::mm"), (145, "aten::relu")):
        nsys.range(0, 50, f"{operator}, op_id = 1", pid=pid, tid=pid)
        nsys.range(0, 50, "aten::zeros, op_id = 2", pid=pid, tid=999)
        nsys.launch(10, 5, "kernel", 60, 70, pid=pid)
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT rank, operator_name FROM device_event ORDER BY rank").rows()
    assert [tuple(row.values()) for row in found] == [(0, "aten::mm"), (1, "aten::relu")]


def test_forward_and_backward_are_told_by_autograds_numbers(nsys):
    nsys.range(0, 20, "aten::mm, seq = 7, op_id = 1").launch(5, 1, "gemm", 25, 35)
    node = "autograd::engine::evaluate_function: MmBackward0, seq = 7, op_id = 2"
    nsys.range(40, 90, node, tid=BACKWARD)
    nsys.range(50, 80, "aten::mm, op_id = 3", tid=BACKWARD)
    nsys.launch(60, 2, "gemm_nt", 95, 99, tid=BACKWARD)
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT name, direction FROM device_event ORDER BY start_ns").rows()
    assert [tuple(row.values()) for row in found] == [("gemm", "forward"), ("gemm_nt", "backward")]


def test_pyprof_markers_are_calls_with_their_arguments(nsys):
    call = (
        "{'mod': 'torch', 'op': 'mm', 'args': ["
        "{'name': '', 'type': 'tensor', 'shape': (8, 4), 'dtype': 'float32'}, "
        "{'name': '', 'type': 'tensor', 'shape': (4, 2), 'dtype': 'float32'}]}"
    )
    tables = nsys.range(0, 90, call).range(10, 80, "mm, seq = 7").read()
    assert host(tables, "kind", "name") == [("python", "torch.mm"), ("operator", "aten::mm")]
    assert [row["dims"] for row in tables.operator_input.to_pylist()] == ["[[8, 4], [4, 2]]"]


def test_ranges_of_the_program_are_annotations_steps_and_modules(nsys):
    nsys.range(0, 100, "ProfilerStep#3").range(5, 60, "nn.Module: layers.0")
    nsys.range(10, 50, "aten::mm, op_id = 1").launch(20, 1, "gemm", 65, 75)
    tables = nsys.read()
    assert host(tables, "kind", "role", "name")[:2] == [
        ("annotation", "step", "ProfilerStep#3"),
        ("annotation", None, "nn.Module: layers.0"),
    ]
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT step, path FROM device_event JOIN module USING (rank, span, module_id)").rows()
    assert [tuple(row.values()) for row in found] == [(3, "layers.0")]


def test_domains_and_categories_are_kept_and_start_end_ranges_too(nsys):
    thread = global_tid(PROCESS)
    common = {"end": None, "globalTid": thread, "textId": None, "rangeId": None}
    nsys.range(10, 20, "ncclAllReduce", domain=1).range(30, 40, "load", kind=START_END)
    for kind, text, category in ((75, "NCCL", None), (33, "group", 5)):
        nsys.insert("NVTX_EVENTS", start=1, eventType=kind, text=text, domainId=1, category=category, **common)
    nsys.insert("NVTX_EVENTS", start=25, eventType=34, text="mark", domainId=1, category=5, **common)
    tables = nsys.read()
    assert host(tables, "name", "start_ns", "dur_ns", "other_args") == [
        ("ncclAllReduce", 0, 10, '{"domain": "NCCL"}'),
        ("load", 20, 10, None),
    ]
    (mark,) = tables.instant.to_pylist()
    assert (mark["name"], mark["time_ns"], mark["tid"]) == ("mark", 15, "144")
    assert mark["args"] == '{"domain": "NCCL", "category": "group"}'


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3"])
def test_every_version_of_the_table_is_read_with_the_columns_that_it_has(nsys, table):
    nsys.insert(table, start=1, end=5, text="step", globalTid=global_tid(PROCESS))
    assert host(nsys.read(), "name", "dur_ns") == [("step", 4)]


def test_a_range_that_never_ended_ends_with_its_thread(nsys):
    nsys.range(0, None, "epoch").range(10, 70, "step").range(80, 20, "odd")
    tables = nsys.read()
    assert host(tables, "name", "start_ns", "dur_ns") == [("epoch", 0, 80), ("step", 10, 60), ("odd", 80, 0)]
    assert tables.report.damage == {"unfinished": 1, "negative_duration": 1}


def test_a_registered_name_that_is_missing_is_counted(nsys):
    nsys.insert("NVTX_EVENTS", start=1, end=5, textId=99, globalTid=global_tid(PROCESS))
    tables = nsys.read()
    assert host(tables, "name") == [("(range without a name)",)]
    assert tables.report.damage == {"missing_string": 1}
